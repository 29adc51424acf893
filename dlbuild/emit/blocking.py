"""Which outputs of a nest are computed together, so that what they share is loaded once.

A fold that is computed for a block of points of the domain loads each element once for all the
points that read it, and keeps the block's sums in registers. Only the nest decides: which axes
each access depends on, what is computed, how many registers there are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import product
from math import prod

from dlbuild.emit.lower import Block, Lowered, values_of
from dlbuild.ir.target import Registers
from dlbuild.rulebook.instance import Fold, Loop
from dlbuild.rulebook.value import Expr, Local, Lookup, Number, Offset, Position, Read, walk

SIZES = (2, 3, 4, 5, 6, 8)
"""Points of a block along one axis."""

VECTORS = (1, 2, 4)
"""Vector registers of a block along the axis that is computed in vectors."""

MOST_BLOCKED = 2
"""Axes of the domain that a block has more than one point of."""

REGION_PENALTY = 1.01
"""What each further copy of the code must spare at least."""


@dataclass(frozen=True)
class Work:
    """The folds of a nest, as far as blocks are concerned.

    by_value: accesses of one number that is in a register. moving: the axes of the domain that
    each other access depends on.
    """

    nest: Lowered
    by_value: Collection[str]
    moving: Mapping[str, frozenset[str]]

    @property
    def steps(self) -> tuple[Loop, ...]:
        """The steps that fold."""
        return tuple(step for step in self.nest.steps if step.folds)

    def deps(self, expr: Expr) -> frozenset[str]:
        """Return the axes of the domain on which a value depends."""
        found = [self.moving.get(p.access, frozenset()) for p in walk(expr) if isinstance(p, Read)]
        return frozenset().union(*found)


def work_of(nest: Lowered, by_value: Collection[str]) -> Work | None:
    """Return the folds of a nest that may be computed in blocks, None if it has none.

    First come steps that only fold, each of them on its own; then what is made of their results.
    """
    folding = [bool(step.folds) for step in nest.steps]
    count = sum(folding)
    if not count or not nest.domain or any(folding[count:]):
        return None
    if any(not _is_plain(step) for step in nest.steps[:count]):
        return None
    if any(step.over or step.when for step in nest.steps[count:]):
        return None
    moving = {
        name: frozenset(a for a in nest.domain if a in set(place.flat.axes()))
        for name, place in nest.place.items()
    }
    return Work(nest, by_value, moving)


def _is_plain(step: Loop) -> bool:
    if not step.over or step.lets or step.stores:
        return False
    return all(
        _is_own(part, fold)
        for fold in step.folds
        for value in (fold.start, fold.each)
        for part in walk(value)
    )


def _is_own(part: Expr, fold: Fold) -> bool:
    if isinstance(part, Local):
        return part.name == fold.name
    return not isinstance(part, Position | Offset | Lookup)


def blockable(work: Work) -> Iterator[str]:
    """Yield the axes that every address goes through in equal steps, and no condition tests."""
    nest = work.nest
    entangled = {a for place in nest.place.values() for a in place.flat.entangled_axes()}
    tested = {a for name in nest.access for a in guarded(nest, name)}
    for step in nest.steps:
        for condition in step.when:
            tested.update((*condition.left.axes(), *condition.right.axes()))
    for axis in nest.domain:
        is_gapped = axis in nest.span and nest.span[axis].skip != (0, 0)
        if axis not in entangled | tested and axis not in nest.count and not is_gapped:
            yield axis


def guarded(nest: Lowered, name: str) -> frozenset[str]:
    """Return the axes on which it depends whether the element of an access exists.

    An element that is skipped takes its whole turn with it; another one is read by itself, which
    is done for all points of a block at once.
    """
    access = nest.access[name]
    if not access.guards:
        return frozenset()
    axes = {axis for guard in access.guards for axis in guard.index.axes()}
    if access.outside != "skip":
        axes |= set(nest.place[name].flat.axes())
    return frozenset(axes)


def points(nest: Lowered, axis: str) -> int:
    """Return how many points of an axis a nest runs over."""
    span = nest.span.get(axis)
    return nest.extent[axis] if span is None else span.points


def choose(
    work: Work, axes: Sequence[str], registers: Registers
) -> tuple[tuple[Block, ...], float]:
    """Return the blocks that cost least, and what they spare; none if nothing is gained."""
    kinds = {fold.type for step in work.steps for fold in step.folds}
    if len(kinds) != 1 or not kinds <= {"f32", "i32"}:
        return (), 0.0
    lanes, room = 1, registers.integers
    if kinds == {"f32"}:
        lanes, room = registers.lanes, registers.floats
    vector = _vector_axis(work, axes) if lanes > 1 else None
    best: tuple[Block, ...] = ()
    before = least = _total(work, (), lanes)
    for blocks in _candidates(work, axes, vector, lanes):
        if _needed(work, blocks, lanes) > room:
            continue
        cost = _total(work, blocks, lanes)
        if cost < least or (cost == least and _longest(blocks) < _longest(best)):
            best, least = blocks, cost
    return best, before - least


def _longest(blocks: Sequence[Block]) -> int:
    return max((block.size for block in blocks), default=0)


def _candidates(
    work: Work, axes: Sequence[str], vector: str | None, lanes: int
) -> Iterator[tuple[Block, ...]]:
    choices: list[list[Block]] = []
    for axis in axes:
        count = points(work.nest, axis)
        sizes = [lanes * n for n in VECTORS] if axis == vector else SIZES
        made = [Block(axis, n, is_vector=axis == vector) for n in sizes if n <= count]
        choices.append([Block(axis, 1), *made])
    for blocks in product(*choices):
        longer = tuple(block for block in blocks if block.size > 1)
        if 0 < len(longer) <= MOST_BLOCKED:
            yield longer


def _vector_axis(work: Work, axes: Sequence[str]) -> str | None:
    """Return the axis along which all that folds read, and what is written, lies without gaps."""
    nest = work.nest
    reads = {p.access for s in work.steps for v in values_of(s) for p in _reads(v)}
    writes = {store.access for step in nest.steps for store in step.stores}
    for axis in axes:
        steps = {name: nest.place[name].flat.coefficient(axis) for name in (*reads, *writes)}
        is_dense = all(step in (0, 1) for step in steps.values())
        if is_dense and any(steps[name] for name in reads) and all(steps[n] for n in writes):
            return axis
    return None


def _reads(value: Expr) -> Iterator[Read]:
    return (part for part in walk(value) if isinstance(part, Read))


def _total(work: Work, blocks: Sequence[Block], lanes: int) -> float:
    """Return what all points cost, those too that fill no block."""
    sizes = {block.axis: block.size for block in blocks}
    axes = work.nest.domain
    done = {a: points(work.nest, a) // sizes.get(a, 1) * sizes.get(a, 1) for a in axes}
    total = prod(done.values()) * _cost(work, blocks, lanes)
    regions = 1
    for number, block in enumerate(blocks):
        left = points(work.nest, block.axis) - done[block.axis]
        if left:
            others = [b for at, b in enumerate(blocks) if at != number]
            area = prod(
                done[a]
                if a in sizes and axes.index(a) < axes.index(block.axis)
                else points(work.nest, a)
                for a in axes
                if a != block.axis
            )
            total += left * area * _cost(work, others, lanes)
            regions += 1
    return float(total * REGION_PENALTY ** (regions - 1))


def _cost(work: Work, blocks: Sequence[Block], lanes: int) -> float:
    """Return the instructions of the folds of one point, estimated."""
    total = 0.0
    sizes = {block.axis: block.size / (lanes if block.is_vector else 1) for block in blocks}
    count = prod(block.size for block in blocks)
    for step in work.steps:
        turns = prod(work.nest.extent[a] for a in step.over)
        once = 1.0
        pointers = set()
        for fold in step.folds:
            once += _operations(work, fold.each, step, sizes)
            pointers |= {p.access for p in _reads(fold.each) if not _is_still(work, p, step)}
        total += turns * (once + len(pointers))
    return total / count


def _operations(work: Work, expr: Expr, step: Loop, sizes: Mapping[str, float]) -> float:
    """Return the loads and operations of a value in one turn of a block."""
    if isinstance(expr, Number | Local):
        return 0.0
    if isinstance(expr, Read) and _is_still(work, expr, step):
        return 0.0
    is_sum = any(isinstance(part, Local) for part in walk(expr))
    axes = sizes.keys() if is_sum else work.deps(expr)
    own = prod(sizes.get(axis, 1) for axis in axes)
    return own + sum(_operations(work, part, step, sizes) for part in _parts(expr))


def _parts(expr: Expr) -> Iterator[Expr]:
    """Yield the operands of a value."""
    for item in fields(expr):
        part = getattr(expr, item.name)
        if isinstance(part, tuple):
            yield from (element for element in part if isinstance(element, Expr))
        elif isinstance(part, Expr):
            yield part


def _is_still(work: Work, read: Read, step: Loop) -> bool:
    """Tell whether a read gives the same number in all turns of a step."""
    if read.access in work.by_value:
        return True
    return not set(step.over) & set(work.nest.place[read.access].flat.axes())


def _needed(work: Work, blocks: Sequence[Block], lanes: int) -> float:
    """Return how many registers a block keeps busy in the innermost loop."""
    if not blocks:
        return 0.0
    sizes = {block.axis: block.size / (lanes if block.is_vector else 1) for block in blocks}
    most = 0.0
    for step in work.steps:
        sums = len(step.folds) * prod(sizes.values())
        pointers: set[str] = set()
        still: set[str] = set()
        groups: list[float] = []
        for fold in step.folds:
            for read in _reads(fold.each):
                if _is_still(work, read, step):
                    still.add(read.access)
                else:
                    pointers.add(read.access)
                    groups.append(prod(sizes.get(a, 1) for a in work.deps(read)))
        # Compilers load all that a turn shares before they use it; two products are under way.
        live = sum(groups) + 2
        scalars = 0 if lanes > 1 else len(pointers) + len(still) + 1
        most = max(most, sums + live + scalars)
    return most
