"""Which outputs of a nest are computed together, so that what they share is loaded once.

A fold that is computed for a block of points of the domain loads each element once for all the
points that read it, and keeps the block's sums in registers. Turns of a short loop may be written
out as well: neighbouring windows then share what they read. Only the nest decides: which axes each
access depends on, what is computed, how many registers there are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import product
from math import prod

from dlbuild.emit.lower import Block, Lowered
from dlbuild.ir.target import Registers
from dlbuild.rulebook.derive import step_values
from dlbuild.rulebook.index import Index
from dlbuild.rulebook.instance import Fold, Loop
from dlbuild.rulebook.value import Expr, Local, Lookup, Number, Offset, Position, Read, walk

SIZES = (2, 3, 4, 5, 6, 7, 8, 10)
"""Points of a block along one axis."""

VECTORS = (1, 2, 4)
"""Vector registers of a block along the axis that is computed in vectors."""

MOST_BLOCKED = 2
"""Axes of the domain that a block has more than one point of."""

MOST_TURNS = 5
"""Turns of a loop that may be written out."""

REGION_PENALTY = 1.01
"""What each further copy of the code must spare at least."""

LOOP = 3
"""Instructions of beginning and ending a loop, beside its addresses."""

REACH = 2048
"""Bytes from an address within which a load needs no other one: what a short immediate holds."""

UNDER_WAY = 2
"""Products that are not added yet."""


@dataclass(frozen=True)
class Blocks:
    """Points of the domain that are computed together, and the loop that is written out."""

    points: tuple[Block, ...] = ()
    unrolled: str = ""

    @property
    def longest(self) -> int:
        """The most points along an axis."""
        return max((block.size for block in self.points), default=0)


@dataclass(frozen=True)
class Folding:
    """A step that folds, as far as its cost is concerned.

    over: its loops with their turns. nodes: of each operation and load, the reads of which it is
    made; None = it is done for each sum. reads: those whose element moves from turn to turn.
    still: others, of one number each. folds: how many sums a point has.
    """

    over: tuple[tuple[str, int], ...]
    nodes: tuple[tuple[str, ...] | None, ...]
    reads: tuple[str, ...]
    still: int
    folds: int

    @cached_property
    def turns(self) -> Mapping[str, int]:
        """The turns of each loop."""
        return dict(self.over)


@dataclass(frozen=True)
class Work:
    """The folds of a nest. flat: the address of each access."""

    nest: Lowered
    flat: Mapping[str, Index]
    foldings: tuple[Folding, ...]

    @property
    def steps(self) -> tuple[Loop, ...]:
        """The steps that fold."""
        return tuple(step for step in self.nest.steps if step.folds)

    @cached_property
    def count(self) -> Mapping[str, int]:
        """The points of each axis of the domain."""
        return {axis: points(self.nest, axis) for axis in self.nest.domain}

    @cached_property
    def factors(self) -> Mapping[str, Mapping[str, int]]:
        """By how much the address of each access grows along each axis on which it depends."""
        return {name: dict(index.affine()) for name, index in self.flat.items()}

    @cached_property
    def element_bytes(self) -> int:
        """Bytes of an element that is folded."""
        return 4 if any(fold.type == "f32" for step in self.steps for fold in step.folds) else 1


def work_of(nest: Lowered, by_value: Collection[str]) -> Work | None:
    """Return the folds of a nest that may be computed in blocks, None if it has none.

    First come steps that only fold, each of them on its own; then what is made of their results.

    Args:
        nest: a nest.
        by_value: accesses of one number that is in a register.
    """
    folding = [bool(step.folds) for step in nest.steps]
    count = sum(folding)
    if not count or not nest.domain or any(folding[count:]):
        return None
    if any(not _is_plain(step) for step in nest.steps[:count]):
        return None
    if any(step.over or step.when for step in nest.steps[count:]):
        return None
    flat = {name: place.flat for name, place in nest.place.items()}
    made = (_folding(step, nest, flat, by_value) for step in nest.steps[:count])
    return Work(nest, flat, tuple(made))


def _is_plain(step: Loop) -> bool:
    if not step.over or step.lets or step.stores:
        return False
    return all(
        all(_is_own(part, fold) for part in walk(fold.each))
        and all(_is_begun(part) for part in walk(fold.start))
        for fold in step.folds
    )


def _is_own(part: Expr, fold: Fold) -> bool:
    if isinstance(part, Local):
        return part.name == fold.name
    return not isinstance(part, Position | Offset | Lookup)


def _is_begun(part: Expr) -> bool:
    """Tell whether a sum may begin with it: that is computed for each point by itself."""
    return not isinstance(part, Local | Offset | Lookup)


def _folding(
    step: Loop, nest: Lowered, flat: Mapping[str, Index], by_value: Collection[str]
) -> Folding:
    reads = dict.fromkeys(r.access for fold in step.folds for r in _reads(fold.each))
    moving = {r for r in reads if r not in by_value and set(step.over) & set(flat[r].axes())}
    nodes: list[tuple[str, ...] | None] = []
    for fold in step.folds:
        for part in walk(fold.each):
            inside = list(walk(part))
            names = tuple(dict.fromkeys(r.access for r in _reads(part) if r.access in moving))
            if any(isinstance(p, Local) for p in inside):
                nodes += [None] if len(inside) > 1 else []
            elif not isinstance(part, Read | Number) or names:
                nodes.append(names)
    return Folding(
        tuple((axis, nest.extent[axis]) for axis in step.over),
        tuple(nodes),
        tuple(r for r in reads if r in moving),
        len(reads) - len(moving),
        len(step.folds),
    )


def _reads(value: Expr) -> Iterator[Read]:
    return (part for part in walk(value) if isinstance(part, Read))


def blockable(work: Work) -> Iterator[str]:
    """Yield the axes of the domain that blocks may lie along."""
    nest = work.nest
    closed = _closed(work)
    for axis in nest.domain:
        is_gapped = axis in nest.span and nest.span[axis].skip != (0, 0)
        if axis not in closed and not is_gapped:
            yield axis


def _closed(work: Work) -> set[str]:
    """Return the axes that an address does not go through in equal steps, or a condition tests."""
    nest = work.nest
    closed = {a for index in work.flat.values() for a in index.entangled_axes()}
    closed.update(nest.count)
    closed.update(a for name in nest.access for a in guarded(nest, name))
    for step in nest.steps:
        for condition in step.when:
            closed.update((*condition.left.axes(), *condition.right.axes()))
    return closed


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


def choose(work: Work, axes: Sequence[str], registers: Registers) -> tuple[Blocks, float]:
    """Return the blocks that cost least, and what they spare; none if nothing is gained."""
    kinds = {fold.type for step in work.steps for fold in step.folds}
    if len(kinds) != 1 or not kinds <= {"f32", "i32"}:
        return Blocks(), 0.0
    lanes = registers.lanes
    room = registers.floats if kinds == {"f32"} or lanes > 1 else registers.integers
    vector = _vector_axis(work, axes) if lanes > 1 else None
    best = Blocks()
    before = least = _total(work, best, lanes)
    for blocks in _candidates(work, axes, vector, lanes):
        if not _fits(work, blocks, lanes, room):
            continue
        cost = _total(work, blocks, lanes)
        if cost < least or (cost == least and blocks.longest < best.longest):
            best, least = blocks, cost
    return best, before - least


def _candidates(
    work: Work, axes: Sequence[str], vector: str | None, lanes: int
) -> Iterator[Blocks]:
    choices: list[list[Block]] = []
    for axis in axes:
        count = work.count[axis]
        sizes = [lanes * n for n in VECTORS] if axis == vector else SIZES
        made = [Block(axis, n, is_vector=axis == vector) for n in sizes if n <= count]
        choices.append([Block(axis, 1), *made])
    turns = ["", *_unrollable(work)]
    for blocks in product(*choices):
        longer = tuple(block for block in blocks if block.size > 1)
        if 0 < len(longer) <= MOST_BLOCKED:
            yield from (Blocks(longer, axis) for axis in turns)


def _unrollable(work: Work) -> Iterator[str]:
    """Yield the loops of the only fold that may be written out.

    Floats are added in one order: of their loops, the innermost.
    """
    if len(work.foldings) != 1:
        return
    closed = _closed(work)
    is_float = any(fold.type == "f32" for step in work.steps for fold in step.folds)
    for axis, turns in work.foldings[0].over[-1 if is_float else 0 :]:
        if 1 < turns <= MOST_TURNS and axis not in closed:
            yield axis


def _vector_axis(work: Work, axes: Sequence[str]) -> str | None:
    """Return the axis along which all that folds read, and what is written, lies without gaps."""
    nest = work.nest
    reads = {p.access for s in work.steps for v in step_values(s) for p in _reads(v)}
    writes = {store.access for step in nest.steps for store in step.stores}
    for axis in axes:
        steps = {name: work.flat[name].coefficient(axis) for name in (*reads, *writes)}
        is_dense = all(step in (0, 1) for step in steps.values())
        if is_dense and any(steps[name] for name in reads) and all(steps[n] for n in writes):
            return axis
    return None


def _total(work: Work, blocks: Blocks, lanes: int) -> float:
    """Return what all points cost, those too that fill no block."""
    sizes = {block.axis: block.size for block in blocks.points}
    count = work.count
    done = {a: n // sizes.get(a, 1) * sizes.get(a, 1) for a, n in count.items()}
    total = prod(done.values()) * _cost(work, blocks, lanes)
    regions = 0
    area = dict(count)
    for number, block in enumerate(blocks.points):
        left = count[block.axis] - done[block.axis]
        if left:
            short = () if block.is_vector else (replace(block, size=left),)
            others = (*blocks.points[:number], *short, *blocks.points[number + 1 :])
            rest = prod(area.values()) // area[block.axis] * left
            total += rest * _cost(work, replace(blocks, points=others), lanes)
            area[block.axis] = done[block.axis]
            regions += 1
    return float(total * REGION_PENALTY**regions)


def _cost(work: Work, blocks: Blocks, lanes: int) -> float:
    """Return the instructions of the folds of one point, estimated."""
    sizes = _sizes(blocks, lanes)
    every = prod(sizes.values())
    total = 0.0
    for folding in work.foldings:
        unrolled = folding.turns.get(blocks.unrolled, 1)
        loops = [turns for axis, turns in folding.over if axis != blocks.unrolled]
        once = 0.0
        for names in folding.nodes:
            once += every * unrolled if names is None else _times(work, names, sizes, blocks)
        turns = prod(loops)
        total += turns * once
        addresses = _addresses(work, folding, blocks)
        ends = 1  # of the innermost loop
        for count in reversed(loops):
            total += turns * (addresses + ends)
            turns //= count
            ends = LOOP
    return total / prod(block.size for block in blocks.points)


def _sizes(blocks: Blocks, lanes: int) -> dict[str, float]:
    """Return the points of a block along each axis, counted in registers."""
    return {b.axis: b.size / (lanes if b.is_vector else 1) for b in blocks.points}


def _times(work: Work, names: Sequence[str], sizes: Mapping[str, float], blocks: Blocks) -> float:
    """Return how many different values a part of a fold has in one turn of a block."""
    factors = [work.factors[name] for name in names]
    count: float = 1
    for axis, size in sizes.items():
        for one in factors:
            if axis in one:
                count *= size
                break
    if not blocks.unrolled or not any(blocks.unrolled in one for one in factors):
        return count
    turns = work.nest.extent[blocks.unrolled]
    if len(factors) != 1:
        return count * turns
    step = factors[0][blocks.unrolled]
    for block in blocks.points:
        other = factors[0].get(block.axis)
        if other and not block.is_vector and not other % step:
            return count / block.size * _distinct(block.size, other // step, turns)
    return count * turns


def _addresses(work: Work, folding: Folding, blocks: Blocks) -> int:
    """Return how many addresses go from turn to turn."""
    steps = {block.axis: block.size - 1 for block in blocks.points}
    steps[blocks.unrolled] = folding.turns.get(blocks.unrolled, 1) - 1
    total = 0
    for name in folding.reads:
        factors = work.factors[name]
        reach = sum(abs(factors[axis]) * count for axis, count in steps.items() if axis in factors)
        total += 1 + reach * work.element_bytes // REACH
    return total


@cache
def _distinct(size: int, stride: int, turns: int) -> int:
    """Return how many elements `size` windows of `turns` have together, `stride` apart."""
    return len({at * stride + turn for at in range(size) for turn in range(turns)})


def _fits(work: Work, blocks: Blocks, lanes: int, room: int) -> bool:
    """Say whether what a block keeps busy in the innermost loop are no more registers than `room`.

    Compilers load all that a turn shares before they use it.
    """
    sizes = _sizes(blocks, lanes)
    every = prod(sizes.values())
    for folding in work.foldings:
        needed = folding.folds * every + UNDER_WAY
        if needed > room:
            return False
        needed += sum(_times(work, (name,), sizes, blocks) for name in folding.reads)
        if lanes == 1:
            needed += _addresses(work, folding, blocks) + folding.still + 1
        if needed > room:
            return False
    return True
