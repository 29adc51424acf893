"""All rules of the built-in folder and of packs, found by operator."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import cast

from dlbuild.base.spelling import suggestion
from dlbuild.base.yamlsrc import Table, file_text, read_documents, table, word
from dlbuild.ir.graph import Op
from dlbuild.rulebook.check import check_rule, check_steps
from dlbuild.rulebook.families import expand
from dlbuild.rulebook.names import Names
from dlbuild.rulebook.read import read_like, read_rule
from dlbuild.rulebook.rule import OpRule, TensorSpec
from dlbuild.rulebook.sound import SoundRules

ONNX_DOMAINS = frozenset(("", "ai.onnx"))
"""Two names of one domain."""


@dataclass(frozen=True)
class RuleBook:
    """Rules by domain and operator, in the order in which they are tried: packs first.

    folders: where they come from, the one searched first in front; templates lie there too.
    """

    rules: Mapping[tuple[str, str], tuple[OpRule, ...]]
    folders: tuple[Path, ...] = ()

    def rules_for(self, domain: str, kind: str) -> tuple[OpRule, ...]:
        """Return the rules of an operator, packs first; nothing if there is none."""
        return self.rules.get((_domain(domain), kind), ())

    def value_inputs(self, op: Op) -> frozenset[int]:
        """Return the positions of the inputs whose content is part of the structure."""
        return self._positions(op, "value")

    def all_zero_inputs(self, op: Op) -> frozenset[int]:
        """Return the positions of the inputs of which it matters whether they are all zero."""
        return self._positions(op, "all_zero")

    def narrow_inputs(self, op: Op) -> frozenset[int]:
        """Return the positions of the inputs of which it matters whether one is the least."""
        return self._positions(op, "narrow")

    def _positions(self, op: Op, key: str) -> frozenset[int]:
        return frozenset(
            position
            for rule in self.rules_for(op.domain, op.kind)
            for position, spec in _placed(rule.inputs, len(op.inputs))
            if getattr(spec, key)
        )

    def rule(self, name: str) -> OpRule:
        """Return the rule that an instance or kernel cites by name."""
        return next(r for rules in self.rules.values() for r in rules if r.name == name)

    def digest_of(self, rule: OpRule | str) -> str:
        """Return the SHA-256 of what a rule says."""
        return (self.rule(rule) if isinstance(rule, str) else rule).digest


def _placed(specs: Sequence[TensorSpec], count: int) -> Iterator[tuple[int, TensorSpec]]:
    for position, spec in enumerate(specs):
        if spec.is_variadic:
            for later in range(position, count):
                yield later, spec
        elif position < count:
            yield position, spec


Rules = MutableMapping[tuple[str, str], tuple[OpRule, ...]]


def load_rules(folders: Sequence[Path], trusted: Path | None = None) -> RuleBook:
    """Read `rules/ops/*.yaml` of each folder.

    Args:
        folders: the built-in folder, then packs; a later one is searched before those ahead of it.
        trusted: the first of them if its rules are known to be sound: they are not checked, and a
            file is read when its operators are asked for.

    Raises:
        UserError: a fault in a rule file, with its line; a rule that replaces or extends nothing.
    """
    found: dict[tuple[str, str], tuple[OpRule, ...]] = {}
    sound: Mapping[tuple[str, str], tuple[OpRule, ...]] = {}
    for number, folder in enumerate(folders):
        paths = sorted((folder / "rules" / "ops").glob("*.yaml"))
        texts = {path: file_text(path, path.as_posix()) for path in paths}
        if folder == trusted and not number:
            sound = SoundRules(texts, partial(_rules_of, pack="", folder=0, is_checked=False))
            continue
        ours: dict[tuple[str, str], list[OpRule]] = {}
        pack = folder.name if number else ""
        for path, text in texts.items():
            for rule in _rules_of(path, text, pack, number, is_checked=True):
                if pack:
                    _check_templates(rule, folders)
                ours.setdefault((rule.domain, rule.kind), []).append(rule)
        for key, rules in ours.items():
            found[key] = tuple(_joined(rules, found.get(key) or sound.get(key, ())))
    rules_ = ChainMap(found, cast("Rules", sound))  # only read
    return RuleBook(rules_, tuple(reversed(folders)))


def _check_templates(rule: OpRule, folders: Sequence[Path]) -> None:
    """Refuse a rule that names a template which is in none of these folders."""
    named = [("template", rule.template)]
    named += [("variants", variant.template or "") for variant in rule.variants]
    named += [("kernels", kernel.template) for kernel in rule.kernels]
    for key, name in named:
        node = rule.text.get(key)
        if node is None or not name:
            continue
        if not any((folder / "templates" / name).is_file() for folder in folders):
            raise node.error(
                f"there is no template '{name}'",
                fix=f"put it into templates/{name} beside the folder 'rules'",
            )


def _domain(name: str) -> str:
    return "" if name in ONNX_DOMAINS else name


def _rules_of(
    path: Path, text: str, pack: str, folder: int, *, is_checked: bool
) -> Iterator[OpRule]:
    file = f"{pack}/{path.name}" if pack else path.name
    numbers: dict[tuple[str, str], int] = {}
    for document in read_documents(text, path.as_posix()):
        skeleton: tuple[OpRule, Names] | None = None
        for member, is_like_others in expand(table(document, "a rule")):
            number = _number(member, numbers)
            if skeleton is not None and is_like_others:
                rule = read_like(skeleton[0], member, number)
                check_steps(rule, skeleton[1])
            else:
                rule = read_rule(member, file, folder, number)
                rule = replace(rule, domain=_domain(rule.domain))
                names = check_rule(rule) if is_checked and not rule.extends else None
                if names is not None and is_like_others:
                    skeleton = rule, names
            yield rule


def _number(member: Table, numbers: dict[tuple[str, str], int]) -> int:
    """Return which of its operator's rules in the file a document is."""
    domain, kind = member.get("domain_name"), member.require("op", "a rule")
    key = ("" if domain is None else word(domain, "domain_name"), word(kind, "op"))
    numbers[key] = numbers.get(key, 0) + 1
    return numbers[key]


def _joined(newer: Sequence[OpRule], older: Sequence[OpRule]) -> list[OpRule]:
    """Return a pack's rules of one operator in front of those before it."""
    rest = list(older)
    front: list[OpRule] = []
    for rule in newer:
        cited = rule.extends or rule.replaces
        if not cited:
            front.append(rule)
            continue
        key = "extends" if rule.extends else "replaces"
        at = next((j for j, old in enumerate(rest) if cited in {old.name, old.file}), None)
        if at is None:
            raise rule.text[key].error(
                f"'{cited}' has no rule for '{rule.kind}'",
                fix=suggestion(cited, [old.name for old in rest]),
            )
        if rule.replaces:
            del rest[at]
            front.append(rule)
        else:
            rest[at] = replace(
                rest[at],
                variants=(*rule.variants, *rest[at].variants),
                kernels=(*rule.kernels, *rest[at].kernels),
            )
            check_rule(rest[at])
    return front + rest
