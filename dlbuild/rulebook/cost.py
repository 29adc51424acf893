"""The work and the traffic of an instance, counted from its steps and its maps."""

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from dlbuild.ir.dtype import DTYPES
from dlbuild.rulebook.derive import loaded_operands, step_reads, used_by
from dlbuild.rulebook.index import Index
from dlbuild.rulebook.instance import Access, Condition, Fold, Instance, Loop, Nest, Operand
from dlbuild.rulebook.value import (
    STORED_TYPE,
    Binary,
    Call,
    Compare,
    Expr,
    Local,
    Logic,
    Read,
    Type,
    Unary,
    walk,
)

_COMPARE = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class Cost:
    """Work and traffic of one execution.

    macs: turns of folds `acc + a * b`. macs_of: the same by the element type that is multiplied.
    flops: operators of the expressions, two for each MAC among them.
    further_flops: operators outside the folds that are MACs.
    bytes_read, bytes_written: each element of the windows once.
    """

    macs: int
    macs_of: tuple[tuple[str, int], ...]
    flops: int
    further_flops: int
    bytes_read: int
    bytes_written: int


def cost(instance: Instance) -> Cost:
    """Count an instance's work. Of an opaque one its rule says it, or only its traffic is known."""
    macs_of: dict[str, int] = {}
    flops = further = 0
    if instance.macs:
        # Of a real and an integer matrix, the real one is quantised first.
        factors = [operand.dtype for operand in instance.operands[:2]]
        macs_of[min(factors, key=lambda dtype: DTYPES[dtype].bits)] = instance.macs
        flops = 2 * instance.macs
    for nest in instance.nests:
        points = prod(nest.extent[a] for a in nest.domain)
        for step in nest.steps:
            turns = points * iterations(step, nest)
            for fold in step.folds:
                operators = turns * operators_of(fold.each)
                flops += operators + points * operators_of(fold.start)
                dtype = multiplied(fold, nest, instance)
                if dtype is None:
                    further += operators + points * operators_of(fold.start)
                else:
                    macs_of[dtype] = macs_of.get(dtype, 0) + turns
            values = (*(le.value for le in step.lets), *(s.value for s in step.stores))
            others = turns * sum(operators_of(v) for v in values)
            flops += others
            further += others
    read, written = _traffic(instance)
    by_dtype = tuple(sorted(macs_of.items()))
    return Cost(sum(macs_of.values()), by_dtype, flops, further, read, written)


def operators_of(expr: Expr) -> int:
    """Return the operators in an expression; conversions and choices are not work."""
    return sum(isinstance(e, Binary | Unary | Compare | Logic | Call) for e in walk(expr))


def iterations(step: Loop, nest: Nest) -> int:
    """Return the turns of a step's loops for one point of the domain, rounded to the nearest.

    Conditions are counted, guards are not: padding is work by convention.
    """
    turns = prod(nest.extent[a] for a in step.over)
    part = 1.0
    for conditions in _independent(step.when):
        part *= _fraction(conditions, nest.extent)
    return round(turns * part)


def multiplied(fold: Fold, nest: Nest, instance: Instance) -> str | None:
    """Return the element type that a fold multiplies and adds up, None if it is no such fold."""
    match fold.each:
        case Binary("+", Local(name, _), Binary("*") as term, _) | Binary(
            "+", Binary("*") as term, Local(name, _), _
        ) if name == fold.name:
            reads = [e.access for e in walk(term) if isinstance(e, Read)]
            stored = [instance.operand(nest.access[r].operand).dtype for r in reads]
            return _multiplied_as(stored, term.type)
        case _:
            return None


def _multiplied_as(stored: Sequence[str], type_: Type) -> str:
    """Return the stored type of the first factor if the product is of its family."""
    computed = STORED_TYPE[type_]
    is_float = DTYPES[computed].kind == "float"
    alike = [d for d in stored if (DTYPES[d].kind == "float") == is_float]
    return alike[0] if alike else computed


def _independent(conditions: Iterable[Condition]) -> list[list[Condition]]:
    """Group the conditions that share an axis."""
    groups: list[tuple[set[str], list[Condition]]] = []
    for condition in conditions:
        axes = _condition_axes(condition)
        touching = [g for g in groups if g[0] & axes]
        for group in touching:
            groups.remove(group)
            axes |= group[0]
        groups.append((axes, [*(c for g in touching for c in g[1]), condition]))
    return [members for _, members in groups]


def _condition_axes(condition: Condition) -> set[str]:
    return {*condition.left.axes(), *condition.right.axes()}


_MOST_POINTS = 1 << 16


def _fraction(conditions: list[Condition], extent: Mapping[str, int]) -> float:
    """Return the part of the points at which all conditions hold; 1 if they are too many."""
    axes = sorted({a for c in conditions for a in _condition_axes(c)})
    points = prod(extent[a] for a in axes)
    if not 0 < points <= _MOST_POINTS:
        return 1.0
    met = 0
    for point in product(*(range(extent[a]) for a in axes)):
        box = {a: (at, at + 1) for a, at in zip(axes, point, strict=True)}
        met += all(_holds(c, box) for c in conditions)
    return met / points


def _holds(condition: Condition, box: Mapping[str, tuple[int, int]]) -> bool:
    left, right = condition.left.interval(box), condition.right.interval(box)
    return (
        left[0] != left[1]
        or right[0] != right[1]
        or bool(_COMPARE[condition.operator](left[0], right[0]))
    )


def _traffic(instance: Instance) -> tuple[int, int]:
    if not instance.nests:
        sizes = [(o.role == "output", _bytes(o, prod(o.shape))) for o in instance.operands]
        return sum(n for w, n in sizes if not w), sum(n for w, n in sizes if w)
    read = written = 0
    for nest in instance.nests:
        for operand in used_by(instance):
            reads = list(_read_windows(operand, nest))
            writes = list(_written_windows(operand, nest))
            read += _bytes(operand, _hull(reads, operand))
            written += _bytes(operand, _hull(writes, operand))
    return read, written


def _bytes(operand: Operand, count: int) -> int:
    return DTYPES[operand.dtype].size_bytes(count)


Window = tuple[tuple[int, int], ...]


def _read_windows(operand: Operand, nest: Nest) -> Iterator[tuple[tuple[int, ...], Window]]:
    box = {a: (0, n) for a, n in nest.extent.items()}
    for step in nest.steps:
        for name in step_reads(step):
            access = nest.access[name]
            if access.operand == operand.name:
                yield access.view, _window(access, box)
    if operand.name in loaded_operands(nest):
        yield operand.shape, tuple((0, n) for n in operand.shape)


def _written_windows(operand: Operand, nest: Nest) -> Iterator[tuple[tuple[int, ...], Window]]:
    box = {a: (0, n) for a, n in nest.extent.items()}
    for step in nest.steps:
        for store in step.stores:
            access = nest.access[store.access]
            if access.operand == operand.name:
                yield access.view, _window(access, box)


def _window(access: Access, box: Mapping[str, tuple[int, int]]) -> Window:
    return tuple(_clipped(i, n, box) for i, n in zip(access.index, access.view, strict=True))


def _clipped(index: Index, extent: int, box: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
    low, high = index.interval(box)
    return max(low, 0), min(high + 1, extent)


def _hull(windows: list[tuple[tuple[int, ...], Window]], operand: Operand) -> int:
    """Return the elements of the smallest window around all, the whole if the views differ."""
    if not windows:
        return 0
    if len({view for view, _ in windows}) > 1:
        return prod(operand.shape)
    boxes = [window for _, window in windows]
    return prod(
        max(0, max(b[axis][1] for b in boxes) - min(b[axis][0] for b in boxes))
        for axis in range(len(boxes[0]))
    )
