"""A nest made small before it is printed: dead values, unit axes and needless loops go."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from dlbuild.emit.itext import Place
from dlbuild.emit.liveness import live_steps, variables_of
from dlbuild.emit.ranges import Span, box_of
from dlbuild.rulebook.address import address, view_strides
from dlbuild.rulebook.derive import Orders, offset_accesses, step_values, told_axes
from dlbuild.rulebook.index import Atom, Bound, Folded, Index, Quotient, Remainder
from dlbuild.rulebook.instance import Access, Condition, Fold, Let, Loop, Nest, Operand, Store
from dlbuild.rulebook.interpret import used_accesses
from dlbuild.rulebook.substitution import Substitution
from dlbuild.rulebook.value import Binary, Call, Expr, Local, Offset, Read, walk


@dataclass(frozen=True)
class Lowered:
    """A nest as it is printed.

    domain, extent: the loops, outermost first. place: where each access is in memory.
    model_place: the same in the model's own order.
    span: the axes of the domain of which it runs over a part.
    blocks: the points of the domain that are computed together. unrolled: a loop of the fold whose
    turns are written out, or nothing.
    """

    domain: tuple[str, ...]
    extent: Mapping[str, int]
    access: Mapping[str, Access]
    place: Mapping[str, Place]
    model_place: Mapping[str, Index]
    steps: tuple[Loop, ...]
    tables: Mapping[str, tuple[float, ...]]
    given: Mapping[str, Bound]
    count: Mapping[str, str]
    span: Mapping[str, Span] = field(default_factory=dict)
    blocks: tuple[Block, ...] = ()
    unrolled: str = ""

    @property
    def box(self) -> dict[str, tuple[int, int]]:
        """The half-open range of all that its maps may name."""
        return box_of(self.extent, self.given, self.span)


@dataclass(frozen=True, slots=True)
class Block:
    """`size` points of an axis that are computed together.

    start: the variable that holds the first of them. is_vector: they are left to the compiler as
    a loop of its own, for it to compute in vectors; else each is written out.
    """

    axis: str
    size: int
    start: str = ""
    is_vector: bool = False


def lower(
    nest: Nest,
    operands: Mapping[str, Operand],
    orders: Orders,
    constants: frozenset[str],
    apart: frozenset[str] = frozenset(),
) -> Lowered:
    """Return the nest with the fewest loops, ordered by the strides of what it writes and reads.

    Args:
        nest: a nest of an instance.
        operands: the instance's operands by name.
        orders: as they lie in memory.
        constants: the operands that are in the weight table.
        apart: axes that are not made one with others.
    """
    steps = live_steps(nest.steps)
    used = dict.fromkeys(n for step in steps for n in mentioned(step, nest.access))
    access = {name: nest.access[name] for name in used if name in nest.access}
    whole = Lowered(
        domain=nest.domain,
        extent=nest.extent,
        access=access,
        place={n: _place(a, operands, orders) for n, a in access.items()},
        model_place={n: address(a, operands[a.operand]) for n, a in access.items()},
        steps=steps,
        tables=nest.tables,
        given=nest.given,
        count=nest.count,
    )
    proved = without_proved_guards(whole)
    return merged(_ordered(_without_unit_axes(proved), operands, constants), apart)


def mentioned(step: Loop, access: Mapping[str, Access]) -> Iterator[str]:
    """Yield each access that a step reads, writes or takes the offset of."""
    yield from used_accesses(step)
    for expr in step_values(step):
        for part in walk(expr):
            if isinstance(part, Read | Offset):
                yield part.access
                outside = access[part.access].outside
                if isinstance(outside, Expr):
                    yield from (p.access for p in walk(outside) if isinstance(p, Read))


def _place(access: Access, operands: Mapping[str, Operand], orders: Orders) -> Place:
    operand = operands[access.operand]
    order = orders.get(access.operand, ())
    pitch = view_strides(access.view, operand.shape, order)
    assert pitch is not None, f"{operand.name}: no strides for view {access.view} in {order}"
    parts = zip(access.index, pitch, strict=True)
    return Place(tuple(sorted(parts, key=lambda part: -part[1])))


def without_proved_guards(nest: Lowered) -> Lowered:
    """Return the nest without the guards that hold at all its points."""
    box = nest.box

    def is_open(index: Index, extent: int) -> bool:
        low, high = index.interval(box)
        return low < 0 or high >= extent

    access = {}
    for name, found in nest.access.items():
        guards = tuple(g for g in found.guards if is_open(g.index, g.extent))
        access[name] = replace(found, guards=guards, outside=found.outside if guards else None)
    return replace(nest, access=access)


@dataclass(frozen=True)
class _Simplification(Substitution):
    """A substitution that drops divisions whose result is the same over the whole box."""

    box: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def index(self, index: Index) -> Index:
        return simplified(super().index(index), self.box)


def simplified(index: Index, box: Mapping[str, tuple[int, int]]) -> Index:
    """Return the same map over `box` with fewer non-affine atoms."""
    if index.is_affine:
        return index
    total = Index((), index.constant)
    for atom, factor in index.terms:
        total = total + _simplified(atom, box) * factor
    return total


def _simplified(atom: Atom, box: Mapping[str, tuple[int, int]]) -> Index:
    match atom:
        case Quotient(of, by) | Remainder(of, by):
            inner = simplified(of, box)
            low, high = inner.interval(box)
            is_quotient = isinstance(atom, Quotient)
            if low // by == high // by:
                return Index.of(low // by) if is_quotient else inner - low // by * by
            return inner // by if is_quotient else inner % by
        case Folded(how, of, extent):
            inner = simplified(of, box)
            low, high = inner.interval(box)
            is_inside = low >= 0 and high < extent
            return inner if is_inside else Index.atom(Folded(how, inner, extent))
        case _:
            return Index.atom(atom)


def substituted(nest: Lowered, axes: Mapping[str, Index]) -> Lowered:
    """Return the nest with maps in the place of axes, which it loops over no longer."""
    extent = {a: e for a, e in nest.extent.items() if a not in axes}
    change = _Simplification(axes=axes, box=nest.box)

    def loop(step: Loop) -> Loop:
        return Loop(
            over=tuple(a for a in step.over if a not in axes),
            when=tuple(
                Condition(c.operator, change.index(c.left), change.index(c.right))
                for c in step.when
            ),
            lets=tuple(Let(v.name, change.expr(v.value), v.type) for v in step.lets),
            folds=tuple(
                Fold(f.name, change.expr(f.start), change.expr(f.each), f.type) for f in step.folds
            ),
            stores=tuple(Store(s.access, change.expr(s.value)) for s in step.stores),
        )

    return replace(
        nest,
        domain=tuple(a for a in nest.domain if a not in axes),
        extent=extent,
        span={a: s for a, s in nest.span.items() if a not in axes},
        access={n: change.access(a) for n, a in nest.access.items()},
        place={n: p.mapped(change.index) for n, p in nest.place.items()},
        model_place={n: change.index(i) for n, i in nest.model_place.items()},
        steps=tuple(loop(step) for step in nest.steps),
    )


def _without_unit_axes(nest: Lowered) -> Lowered:
    return substituted(nest, {a: Index() for a, e in nest.extent.items() if e == 1})


def _ordered(nest: Lowered, operands: Mapping[str, Operand], constants: frozenset[str]) -> Lowered:
    """Order the loops so that the innermost one takes the least step in memory."""
    written = [s.access for step in nest.steps for s in step.stores]
    domain = nest.domain
    if written:
        domain = _by_stride(nest.domain, nest.place[written[0]], nest.given)

    def loop(step: Loop) -> Loop:
        if step.stores:
            guide = step.stores[0].access if not step.folds else None
        elif all(is_commutative(f, step.folds) for f in step.folds):
            guide = _first_activation(step, nest, operands, constants)
        else:
            guide = None
        if guide is None:
            return step
        return replace(step, over=_by_stride(step.over, nest.place[guide], nest.given))

    return replace(nest, domain=domain, steps=tuple(loop(step) for step in nest.steps))


def _by_stride(axes: Sequence[str], place: Place, given: Mapping[str, Bound]) -> tuple[str, ...]:
    flat = Place(tuple((_unrolled(index, given), stride) for index, stride in place.parts)).flat
    entangled = set(flat.entangled_axes())
    if entangled & set(axes):
        return tuple(axes)
    return tuple(sorted(axes, key=lambda axis: -abs(flat.coefficient(axis))))


def _unrolled(index: Index, given: Mapping[str, Bound]) -> Index:
    """Return the map that a ring of rows, which depends on a given number, goes round with."""
    match index.terms:
        case ((Remainder(of, _), 1),) if any(axis in given for axis in of.axes()):
            return of
        case _:
            return index


def _first_activation(
    step: Loop, nest: Lowered, operands: Mapping[str, Operand], constants: frozenset[str]
) -> str | None:
    for name in used_accesses(step):
        operand = operands[nest.access[name].operand] if name in nest.access else None
        is_activation = operand is not None and operand.role == "input"
        if operand is not None and is_activation and operand.name not in constants:
            return name
    return None


def is_commutative(fold: Fold, folds: Sequence[Fold]) -> bool:
    """Tell whether the turns of a fold may come in any order: + * max min of its variable."""
    names = {f.name for f in folds}

    def is_free(expr: Expr) -> bool:
        return not any(isinstance(p, Local) and p.name in names for p in walk(expr))

    match fold.each:
        case Binary("+" | "*", Local(name, _), other, _):
            return name == fold.name and is_free(other)
        case Call("max" | "min", (Local(name, _), other), _):
            return name == fold.name and is_free(other)
        case _:
            return False


def merged(nest: Lowered, apart: frozenset[str] = frozenset()) -> Lowered:
    """Make one loop of neighbours that every address runs through without a gap."""
    while True:
        pair = next(_mergeable(nest, apart), None)
        if pair is None:
            return nest
        outer, inner = pair
        extent = nest.extent[outer] * nest.extent[inner]
        name = _joint_name(outer, inner, nest)
        nest = substituted(nest, {outer: Index()})
        nest = replace(nest, extent={**nest.extent, inner: extent})
        if name != inner:
            nest = renamed(nest, inner, name)


def renamed(nest: Lowered, old: str, new: str) -> Lowered:
    """Return the nest with another name for an axis."""
    span = {new if a == old else a: s for a, s in nest.span.items()}
    both = replace(nest, extent={**nest.extent, new: nest.extent[old]}, span=span)
    changed = substituted(both, {old: Index.axis(new)})
    swap = {old: new}
    steps = tuple(
        replace(step, over=tuple(swap.get(a, a) for a in before.over))
        for step, before in zip(changed.steps, nest.steps, strict=True)
    )
    return replace(
        changed,
        domain=tuple(swap.get(a, a) for a in nest.domain),
        extent={swap.get(a, a): e for a, e in nest.extent.items()},
        span=span,
        steps=steps,
    )


def _joint_name(outer: str, inner: str, nest: Lowered) -> str:
    """Return a name for two axes in one: o of o0 and o1, ohw of oh and ow, kwc of kw and c."""
    stems = [re.sub(r"\d+$", "", axis) for axis in (outer, inner)]
    shared = next(
        (n for n, (a, b) in enumerate(zip(*stems, strict=False)) if a != b), min(map(len, stems))
    )
    name = stems[0] + stems[1][shared:]
    taken = {*nest.extent, *nest.access} - {outer, inner}
    return inner if name in {*taken, *variables_of(nest.steps)} else name


def _mergeable(nest: Lowered, apart: frozenset[str]) -> Iterator[tuple[str, str]]:
    lists = [nest.domain, *(step.over for step in nest.steps)]
    pinned = {*_pinned(nest), *apart}
    flats = [place.flat for place in nest.place.values()]
    flats += [nest.model_place[access] for access in offset_accesses(nest.steps)]
    for axes in lists:
        for outer, inner in pairwise(axes):
            if {outer, inner} & pinned:
                continue
            is_together = all(
                (outer in other) == (inner in other)
                and (outer not in other or other.index(inner) == other.index(outer) + 1)
                for other in lists
            )
            count = nest.extent[inner]
            if is_together and all(
                f.coefficient(outer) == f.coefficient(inner) * count for f in flats
            ):
                yield outer, inner


def _pinned(nest: Lowered) -> Iterator[str]:
    """Yield the axes whose own value or number of turns matters."""
    yield from nest.count
    yield from nest.span
    yield from (block.axis for block in nest.blocks)
    if nest.unrolled:
        yield nest.unrolled
    for place in nest.place.values():
        yield from place.flat.entangled_axes()
    yield from told_axes(nest.access, nest.steps)
