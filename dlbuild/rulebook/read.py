"""One YAML document to one rule: every key known, every text of the right form."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from dlbuild.base.spelling import suggestion
from dlbuild.base.yamlsrc import Items, Node, Scalar, Table, flag, items, table, word
from dlbuild.ir.dtype import DTYPES
from dlbuild.rulebook.limits import DTYPE_SETS
from dlbuild.rulebook.read_kernels import kernels
from dlbuild.rulebook.read_parts import constants, expressions, fold, maps, optional, word_of
from dlbuild.rulebook.rule import (
    NEST_TEMPLATE,
    AttributeSpec,
    Axis,
    OpRule,
    Requirement,
    RunTimeSize,
    StepSpec,
    TableSpec,
    TensorSpec,
    Variant,
)
from dlbuild.rulebook.source import entries, expression, words

KEYS = (
    *("op", "domain_name", "since", "replaces", "extends", "summary", "source"),
    *("inputs", "outputs", "attributes", "run_time_size", "let", "require"),
    *("for_each", "domain"),
    *(
        "reduce",
        "spatial",
        "view",
        "tables",
        "read",
        "write",
        "outside",
        "constants",
        "steps",
        "chain",
    ),
    *("layout", "role", "template", "macs", "variants", "kernels"),
)
"""The keys of a rule in the order in which rules/ keeps them."""

_LATER = ("tile", "cost", "epilogue", "cycles", "includes", "names")
_VARIANT_KEYS = (
    *("name", "when", "target", "rounding"),
    *("let", "constants", "steps", "layout", "template"),
)
_EXTENSION_KEYS = ("op", "domain_name", "extends", "variants", "kernels")
_TENSOR_KEYS = ("shape", "dtype", "absent", "value", "all_zero", "narrow")
_CHOICES = "choices"
_STEP_WORDS = ("over", "when", "let", "fold")
_SINCE = re.compile(r"(\d+)(\.\.(\d+)?)?")
_SIZE_NAME = re.compile(r"[A-Z][A-Za-z0-9_]*")


def read_rule(document: Table, file: str, folder: int, number: int) -> OpRule:
    """Return the rule that a document states. number: which of its operator's in the file."""
    _check_keys(document, KEYS, "a rule")
    if "extends" in document:
        document.check_keys(_EXTENSION_KEYS, "a rule that extends another")
    get = document.get
    extends = word_of(get("extends"))
    for key in () if extends else ("summary", "outputs"):
        document.require(key, "a rule")
    return OpRule(
        kind=word(document.require("op", "a rule"), "op"),
        domain=word_of(get("domain_name")),
        since=_since(get("since")),
        file=file,
        folder=folder,
        number=number,
        replaces=word_of(get("replaces")),
        extends=extends,
        summary=word_of(get("summary")),
        source=word_of(get("source")),
        inputs=_tensors(get("inputs"), "inputs"),
        outputs=_tensors(get("outputs"), "outputs"),
        attributes=_attributes(get("attributes")),
        lets=expressions(get("let"), "let"),
        requires=_requires(get("require")),
        domain_axes=_axes(document, "domain"),
        reduce_axes=_axes(document, "reduce"),
        spatial=words(get("spatial"), "spatial"),
        views=expressions(get("view"), "view"),
        reads=maps(get("read"), "read"),
        writes=maps(get("write"), "write"),
        outside=expressions(get("outside"), "outside"),
        run_time=_run_time(get("run_time_size")),
        for_each=word_of(get("for_each")),
        tables=_tables(get("tables")),
        constants=constants(get("constants")),
        steps=_steps(get("steps")) or (),
        chain=optional(get("chain"), "chain"),
        layout=_layout(get("layout")),
        role=_role(get("role")),
        template=_template(get("template")) or NEST_TEMPLATE,
        macs=optional(get("macs"), "macs"),
        variants=_variants(get("variants")),
        kernels=kernels(get("kernels")),
        text=document,
    )


def read_like(rule: OpRule, document: Table, number: int) -> OpRule:
    """Return the rule of another member of a family that differs in its steps alone."""
    return replace(
        rule,
        kind=word(document.require("op", "a rule"), "op"),
        number=number,
        summary=word_of(document.get("summary")),
        steps=_steps(document.get("steps")) or (),
        variants=_variants(document.get("variants")),
        text=document,
    )


def _check_keys(node: Table, known: tuple[str, ...], owner: str) -> None:
    for key in _LATER:
        if key in node:
            raise node.keys[key].error(f"the key '{key}' is not supported yet")
    node.check_keys(known, owner)


def _since(node: Node | None) -> tuple[int, int | None]:
    if node is None:
        return 0, None
    found = _SINCE.fullmatch(word(node, "since"))
    if not found:
        raise node.error("since must be a range of opsets", fix="write 13, 13.. or 7..12")
    first, dots, last = found.groups()
    return int(first), (int(last) if last else None) if dots else None


def _tensors(node: Node | None, owner: str) -> tuple[TensorSpec, ...]:
    return tuple(_tensor(key, value) for key, value in entries(node, owner).items())


def _tensor(key: str, node: Node) -> TensorSpec:
    name, is_variadic = key.removesuffix("*"), key.endswith("*")
    if isinstance(node, Items):
        return TensorSpec(name, words(node, key), (), None, "", "", "", is_variadic, node)
    spec = table(node, f"the tensor '{key}'")
    spec.check_keys(_TENSOR_KEYS, f"the tensor '{key}'")
    shape = None if spec.get("shape") is None else words(spec["shape"], "shape")
    if shape is not None and sum(part.endswith("...") for part in shape) > 1:
        raise spec["shape"].error("a shape has at most one pack")
    return TensorSpec(
        name,
        shape,
        _dtypes(spec.get("dtype")),
        optional(spec.get("absent"), "absent"),
        _size_name(spec.get("value")),
        _size_name(spec.get("all_zero")),
        _size_name(spec.get("narrow")),
        is_variadic,
        node,
    )


def _size_name(node: Node | None) -> str:
    name = word_of(node)
    if node is not None and not _SIZE_NAME.fullmatch(name):
        raise node.error(f"'{name}' names a size, so it must begin with an upper case letter")
    return name


def _dtypes(node: Node | None) -> tuple[str, ...]:
    if node is None:
        return ()
    if isinstance(node, Scalar):
        if node.text in DTYPES or node.text in DTYPE_SETS or _SIZE_NAME.fullmatch(node.text):
            return (node.text,)
        known = (*DTYPES, *DTYPE_SETS)
        raise _unknown(node, f"there is no element type '{node.text}'", known)
    for item in items(node, "dtype"):
        if not isinstance(item, Scalar) or item.text not in (*DTYPES, *DTYPE_SETS):
            raise item.error("this is not an element type")
    return words(node, "dtype")


def _unknown(node: Node, what: str, known: tuple[str, ...]) -> Exception:
    name = node.text if isinstance(node, Scalar) else ""
    return node.error(what, fix=suggestion(name, known))


def _attributes(node: Node | None) -> Mapping[str, AttributeSpec]:
    return {key: _attribute(key, value) for key, value in entries(node, "attributes").items()}


def _attribute(key: str, node: Node) -> AttributeSpec:
    if isinstance(node, Scalar) and node.text == "ignore":
        return AttributeSpec((), None)
    entry = dict(node.values) if isinstance(node, Table) else {}
    choices = entry.pop(_CHOICES, None)
    if not isinstance(node, Table) or len(entry) != 1:
        raise node.error(f"the attribute '{key}' must be 'ignore' or one entry {{NAMES: default}}")
    ((names, default),) = entry.items()
    for name in names.split():
        if not _SIZE_NAME.fullmatch(name.removesuffix("...")):
            raise node.keys[names].error(
                f"'{name}' names a size, so it must begin with an upper case letter"
            )
    bound = tuple(name.removesuffix("...") for name in names.split())
    given = expression(default, f"the default of '{key}'")
    return AttributeSpec(bound, given, words(choices, f"the choices of '{key}'"))


def _requires(node: Node | None) -> tuple[Requirement, ...]:
    found = []
    for item in () if node is None else items(node, "require"):
        spec = table(item, "a requirement")
        spec.check_keys(("that", "because"), "a requirement")
        that = expression(spec.require("that", "a requirement"), "that")
        because = word(spec.require("because", "a requirement"), "because")
        found.append(Requirement(that, because))
    return tuple(found)


def _axes(document: Table, owner: str) -> tuple[Axis, ...]:
    spatial = words(document.get("spatial"), "spatial")
    axes = expressions(document.get(owner), owner)
    stems = {name: name.removesuffix("...") for name in axes}
    return tuple(
        Axis(stems[name], name.endswith("..."), extent, stems[name] in spatial)
        for name, extent in axes.items()
    )


def _tables(node: Node | None) -> Mapping[str, TableSpec]:
    return {key: _table(key, value) for key, value in entries(node, "tables").items()}


def _table(key: str, node: Node) -> TableSpec:
    spec = table(node, f"the table '{key}'")
    spec.check_keys(("for", "let", "value", "index"), f"the table '{key}'")
    loops = entries(spec.require("for", f"the table '{key}'"), "for")
    pairs = [(axis, word(extent, "an extent")) for axis, extent in loops.items()]
    if len(pairs) != len(("outer", "inner")):
        raise spec["for"].error(f"the table '{key}' needs two loops: an axis and its taps")
    value = expression(spec.require("value", f"the table '{key}'"), "value")
    index = spec.get("index")
    return TableSpec(
        pairs[0],
        pairs[1],
        expressions(spec.get("let"), "let"),
        value,
        index is not None and flag(index, "index"),
    )


def _steps(node: Node | None) -> tuple[StepSpec, ...] | None:
    return None if node is None else tuple(_step(item) for item in items(node, "steps"))


def _step(node: Node) -> StepSpec:
    spec = table(node, "a step")
    when = spec.get("when")
    conditions = tuple(when) if isinstance(when, Items) else () if when is None else (when,)
    return StepSpec(
        over=tuple(name.removesuffix("...") for name in words(spec.get("over"), "over")),
        when=tuple(expression(item, "when") for item in conditions),
        lets=expressions(spec.get("let"), "let"),
        folds={key: fold(key, value) for key, value in entries(spec.get("fold"), "fold").items()},
        stores={
            key: expression(value, f"the value of '{key}'")
            for key, value in spec.values.items()
            if key not in _STEP_WORDS
        },
        place=node,
    )


def _layout(node: Node | None) -> Mapping[str, tuple[str, ...]]:
    return {key: words(value, "an order") for key, value in entries(node, "layout").items()}


def _role(node: Node | None) -> Literal["", "copy", "cast", "pad"]:
    match word_of(node):
        case "" | "copy" | "cast" | "pad" as role:
            return role
        case other:
            assert node is not None
            raise _unknown(node, f"there is no role '{other}'", ("copy", "cast", "pad"))


def _run_time(node: Node | None) -> Mapping[str, RunTimeSize]:
    found = {}
    for name, value in entries(node, "run_time_size").items():
        owner = f"run_time_size of '{name}'"
        spec = table(value, owner)
        spec.check_keys(("most", "axis"), owner)
        most = expression(spec.require("most", owner), owner)
        found[name] = RunTimeSize(most, optional(spec.get("axis"), owner))
    return found


def _template(node: Node | None) -> str | None:
    if node is None or (isinstance(node, Scalar) and node.value is None):
        return None
    return word(node, "template")


def _variants(node: Node | None) -> tuple[Variant, ...]:
    found = tuple(_variant(item) for item in (() if node is None else items(node, "variants")))
    names = [variant.name for variant in found]
    for name in names:
        if names.count(name) > 1:
            assert node is not None
            raise node.error(f"two variants are called '{name}'")
    return found


def _variant(node: Node) -> Variant:
    spec = table(node, "a variant")
    _check_keys(spec, _VARIANT_KEYS, "a variant")
    return Variant(
        name=word(spec.require("name", "a variant"), "name"),
        when=optional(spec.get("when"), "when"),
        rounding=_rounding(spec.get("rounding")),
        features=words(spec.get("target"), "target"),
        lets=expressions(spec.get("let"), "let"),
        constants=constants(spec.get("constants")),
        steps=_steps(spec.get("steps")),
        layout=_layout(spec.get("layout")),
        template=_template(spec.get("template")),
    )


def _rounding(node: Node | None) -> Literal["", "exact", "fixed"]:
    match word_of(node):
        case "" | "exact" | "fixed" as rounding:
            return rounding
        case other:
            assert node is not None
            raise _unknown(node, f"there is no rounding '{other}'", ("exact", "fixed"))
