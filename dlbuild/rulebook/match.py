"""One operator matched by the first rule and variant that fit, or the reasons why none does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from dlbuild.base.errors import UserError
from dlbuild.ir.graph import Graph, Op
from dlbuild.ir.target import Rounding
from dlbuild.rulebook.bind import Binding, Unfit, bind, conclude, holds, whole_number
from dlbuild.rulebook.handwritten import handwritten_of
from dlbuild.rulebook.instance import Instance, Operand
from dlbuild.rulebook.load import RuleBook
from dlbuild.rulebook.loops import loops_of
from dlbuild.rulebook.made import constants_of, kept_constants
from dlbuild.rulebook.nest import nest_of
from dlbuild.rulebook.pack import sizes_of
from dlbuild.rulebook.rule import OpRule, Variant


@dataclass(frozen=True)
class Wish:
    """What a build asks of the variants: the target's features, how integers are rounded.

    is_small: of the forms of a hand-written kernel that with the least code comes first.
    """

    features: frozenset[str] = frozenset()
    rounding: Rounding = "exact"
    is_small: bool = False


def match(op: Op, graph: Graph, book: RuleBook, wish: Wish | None = None) -> Instance:
    """Return the operator bound to the first rule and variant that fit it.

    Args:
        op: the operator.
        graph: its graph, for shapes, types, constants and facts.
        book: the rules.
        wish: which variants may be taken; none needed features and exact rounding by default.

    Raises:
        UserError: no rule fits, with each rule's reason; rules of two packs fit equally.
    """
    rules = book.rules_for(op.domain, op.kind)
    where = f"{graph.name}: node '{op.name}' ({op.kind})"
    if not rules:
        named = f"'{op.kind}'" + (f" of the domain '{op.domain}'" if op.domain else "")
        raise UserError(
            f"no rule computes the operator {named}",
            where=where,
            fix="add a pack with a rule for it under 'packs:'",
        )
    reasons: list[str] = []
    for number, rule in enumerate(rules):
        try:
            instance = _matched(rule, op, graph, wish or Wish())
        except Unfit as reason:
            reasons.append(f"{rule.where}: {reason}")
            continue
        _check_only_one(rule, rules[number + 1 :], op, graph, where)
        return instance
    raise UserError("no rule fits it", where=where, details=reasons)


def _check_only_one(
    chosen: OpRule, others: tuple[OpRule, ...], op: Op, graph: Graph, where: str
) -> None:
    for other in others:
        if other.folder == chosen.folder:
            continue
        try:
            conclude(bind(other, op, graph), other.lets)
        except Unfit:
            continue
        raise UserError(
            "two rules fit it equally",
            where=where,
            details=(chosen.where, other.where),
            fix=f"write 'replaces: {other.name}' in the first",
        )


def _matched(rule: OpRule, op: Op, graph: Graph, wish: Wish) -> Instance:
    bound = bind(rule, op, graph)
    base = bound.copy()
    conclude(base, rule.lets)
    for variant in rule.variants:
        if variant.rounding not in {"", wish.rounding} or not wish.features.issuperset(
            variant.features
        ):
            continue
        try:
            taken = _with_variant(bound, base, variant)
            if taken is not None:
                return _with_kernel(_instance(taken, variant.name), taken, wish)
        except Unfit:
            continue
    return _with_kernel(_instance(base, ""), base, wish)


def _with_kernel(instance: Instance, binding: Binding, wish: Wish) -> Instance:
    """Return the instance with the first hand-written kernel that fits it."""
    for kernel in binding.rule.kernels:
        if not wish.features.issuperset(kernel.features):
            continue
        try:
            found = handwritten_of(instance, binding, kernel, is_small=wish.is_small)
        except Unfit:
            continue
        if found is not None:
            return replace(instance, handwritten=found)
    return instance


def _with_variant(bound: Binding, base: Binding, variant: Variant) -> Binding | None:
    """Return the binding under a variant, None if its condition does not hold."""
    rule = base.rule
    taken = base
    if variant.lets:
        taken = bound.copy()
        conclude(taken, {**rule.lets, **variant.lets})
    if variant.when is not None and not holds(variant.when, taken.names):
        return None
    return replace(
        taken,
        rule=replace(
            rule,
            constants={**rule.constants, **variant.constants},
            steps=rule.steps if variant.steps is None else variant.steps,
            layout={**rule.layout, **variant.layout},
            template=variant.template or rule.template,
        ),
    )


def _instance(binding: Binding, variant: str) -> Instance:
    rule, op = binding.rule, binding.op
    members = range(binding.members[rule.for_each]) if rule.for_each else (None,)
    every = [loops_of(binding, member) for member in members] if rule.steps else []
    constants = constants_of(binding, every[0]) if every else {}
    nests = tuple(nest_of(binding, loops, constants) for loops in every)
    kept = kept_constants((name for nest in nests for name in nest.access), constants)
    return Instance(
        rule=rule.name,
        variant=variant,
        kind=op.kind,
        summary=rule.summary,
        source=rule.source,
        template=rule.template,
        ops=(op.name,),
        operands=tuple(_operands(binding, [c.operand for c in kept])),
        sizes=sizes_of(binding.names),
        nests=nests,
        made=tuple(c.made for c in kept),
        role=rule.role,
        macs=_macs(binding),
    )


def _macs(binding: Binding) -> int:
    """Return what a rule with a template of its own says that it multiplies and adds up."""
    return 0 if binding.rule.macs is None else whole_number(binding.rule.macs, binding.names)


def _operands(binding: Binding, constants: list[Operand]) -> Iterator[Operand]:
    """Yield inputs, made constants, outputs."""
    operands = [
        replace(operand, order=_order(binding, name, operand))
        for name, operand in binding.operands.items()
    ]
    yield from (operand for operand in operands if operand.role == "input")
    yield from constants
    yield from (operand for operand in operands if operand.role == "output")


def _order(binding: Binding, name: str, operand: Operand) -> tuple[int, ...]:
    """Return an operand's axes in the order that the rule's layout names them."""
    wanted = binding.rule.layout.get(name)
    pattern = binding.specs[name].shape
    if wanted is None or pattern is None:
        return ()
    spare = len(operand.shape) - len(pattern) + 1
    axes: dict[str, range] = {}
    at = 0
    for part in pattern:
        count = spare if part.endswith("...") else 1
        axes[part] = range(at, at + count)
        at += count
    return tuple(axis for part in wanted for axis in axes[part])
