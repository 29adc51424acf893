"""The loop axes of a rule for one operator, and what its index maps may name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from dlbuild.base.yamlsrc import Scalar
from dlbuild.rulebook.bind import Binding, Unfit, fault_in, size
from dlbuild.rulebook.expr import evaluate, parse_map
from dlbuild.rulebook.index import Index
from dlbuild.rulebook.instance import Operand
from dlbuild.rulebook.pack import ExpressionError, TensorName, Term, flat, index, integer
from dlbuild.rulebook.rule import Axis


@dataclass(frozen=True)
class Loops:
    """A nest's axes.

    groups: the axes of each name of the rule, more than one for a pack.
    names: sizes and, for a member of a variadic tensor, J.
    scope: names, axes, packs of axes, tables and the inputs that a map may load from.
    operands: each operand under the name that the nest's accesses use for it.
    """

    domain: tuple[str, ...]
    reduce: tuple[str, ...]
    extent: Mapping[str, int]
    groups: Mapping[str, tuple[str, ...]]
    names: Mapping[str, Term]
    scope: Mapping[str, Term]
    operands: Mapping[str, Operand]

    @cached_property
    def box(self) -> Mapping[str, tuple[int, int]]:
        """The half-open range of each axis."""
        return {axis: (0, extent) for axis, extent in self.extent.items()}

    @cached_property
    def is_empty(self) -> bool:
        """Whether no point is ever computed."""
        return any(extent == 0 for extent in self.extent.values())


def loops_of(binding: Binding, member: int | None = None) -> Loops:
    """Return the loops of an operator, or of one member of its `for_each` tensor.

    Raises:
        Unfit: an extent is not a number for this operator.
    """
    rule = binding.rule
    names = dict(binding.names)
    operands = dict(binding.operands)
    if member is not None:
        names["J"] = member
        operands[rule.for_each] = operands[f"{rule.for_each}{member}"]
        names[f"shape_{rule.for_each}"] = operands[rule.for_each].shape
    extent: dict[str, int] = {}
    groups: dict[str, tuple[str, ...]] = {}
    axes: dict[str, Term] = {}
    domain = _axes(rule.domain_axes, names, extent, groups, axes)
    reduce = _axes(rule.reduce_axes, names, extent, groups, axes)
    loads = {
        name: TensorName(operand.name)
        for name, operand in operands.items()
        if operand.role == "input"
    }
    scope = {**names, **loads, **axes}
    return Loops(domain, reduce, extent, groups, names, scope, operands)


def _axes(
    specs: tuple[Axis, ...],
    names: Mapping[str, Term],
    extent: dict[str, int],
    groups: dict[str, tuple[str, ...]],
    axes: dict[str, Term],
) -> tuple[str, ...]:
    found: list[str] = []
    for spec in specs:
        extents = _extents(spec, names)
        if spec.is_pack:
            group = spec.members(len(extents))
            axes[spec.name] = tuple(Index.axis(axis) for axis in group)
        else:
            group = (spec.name,)
            axes[spec.name] = Index.axis(spec.name)
        groups[spec.name] = group
        extent.update(zip(group, extents, strict=True))
        found.extend(group)
    return tuple(found)


def _extents(spec: Axis, names: Mapping[str, Term]) -> tuple[int, ...]:
    term = size(spec.extent, names)
    try:
        if spec.is_pack:
            return tuple(integer(part) for part in flat(term))
        return (integer(term),)
    except ExpressionError as error:
        raise Unfit(fault_in(spec.extent, error)) from None


def index_list(text: Scalar, scope: Mapping[str, Term]) -> tuple[Index, ...]:
    """Return the index maps of a comma-separated list.

    Raises:
        Unfit: the list cannot be evaluated for this operator.
    """
    try:
        return tuple(index(part) for part in flat(evaluate(parse_map(text.text), scope)))
    except ExpressionError as error:
        raise Unfit(fault_in(text, error)) from None
