"""How a kernel is divided among cores: boxes of its domain, what each touches, what it costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from dlbuild.ir.tile_plan import Box, Tile, Touch
from dlbuild.rulebook.instance import Instance
from dlbuild.rulebook.tiles import shifted
from dlbuild.stages.tile_space import Moved, TileSpace

Cut = tuple[tuple[int, int], ...]
"""Consecutive half-open ranges of one axis."""

CHANNELS_COST = 1.02
"""What a cut along another axis than the slowest in memory has to be better by: its parts read and
write rows that lie apart."""


@dataclass(frozen=True)
class Division:
    """A way to divide a kernel. cuts: of each axis that is cut. shares: of each part, which
    together are 1: what part of the kernel's time it takes.
    """

    cuts: Mapping[str, Cut]
    shares: tuple[float, ...]

    @property
    def boxes(self) -> tuple[tuple[Box, ...], ...]:
        """The boxes of each part."""
        axes = tuple(self.cuts)
        return tuple(
            tuple(Box(axis, *r) for axis, r in zip(axes, ranges, strict=True))
            for ranges in product(*self.cuts.values())
        )

    @property
    def longest(self) -> float:
        """The greatest share."""
        return max(self.shares)


def divide(space: TileSpace, count: int, activations: frozenset[str]) -> Division | None:
    """Return the division into at most `count` parts whose longest part is shortest.

    Rows, channels or both: any one or two axes of the domain. None if no part would be shorter.

    Args:
        space: the ways to cut the kernel.
        count: of cores.
        activations: tensors that are computed, not constants.
    """
    domain = space.axes[: len(space.axes) - space.reduce]
    axes = [axis for axis in domain if space.nest.extent[axis] > 1]
    weights = {axis: _weights(space, axis, activations) for axis in axes}
    slowest = _slowest(space, axes)
    best: tuple[float, Division] | None = None
    for parts in _counts(axes, count):
        cuts = {axis: _balanced(weights[axis], number) for axis, number in parts.items()}
        found = Division(cuts, _shares(cuts, weights))
        is_apart = any(axis != slowest for axis in parts)
        score = found.longest * (CHANNELS_COST if is_apart else 1.0)
        if best is None or score < best[0]:
            best = score, found
    return best[1] if best and best[1].longest < 1 else None


def _counts(axes: Sequence[str], count: int) -> Iterator[Mapping[str, int]]:
    """Yield how many parts each axis may have, one axis or two."""
    for axis in axes:
        yield {axis: count}
    for number, outer in enumerate(axes):
        for inner in axes[number + 1 :]:
            for parts in range(2, count // 2 + 1):
                yield {outer: parts, inner: count // parts}


def _slowest(space: TileSpace, axes: Sequence[str]) -> str:
    """Return the axis along which the output's rows lie."""
    (output, *_) = [moved for moved in space.moved if moved.is_output]
    pitch = {
        axis: output.pitch[place]
        for axis in axes
        for place, index in enumerate(output.accesses[0].index)
        if axis in index.axes()
    }
    return max(axes, key=lambda axis: pitch.get(axis, 0), default="")


def _weights(space: TileSpace, axis: str, activations: frozenset[str]) -> tuple[float, ...]:
    """Return how long each point of an axis takes: less where windows lie in the padding."""
    whole = {a: (0, n) for a, n in space.nest.extent.items()}
    read = [m for m in space.moved if m.operand.tensor in activations and not m.is_output]
    moving = [
        (access.index[place], moved.view[place])
        for moved in read
        if not moved.is_whole
        for access in moved.accesses
        for place in range(len(moved.view))
        if axis in access.index[place].axes() and access.guards
    ]
    found = []
    for point in range(space.nest.extent[axis]):
        weight = 1.0
        for index, extent in moving:
            low, high = index.interval(whole | {axis: (point, point + 1)})
            there = min(high + 1, extent) - max(low, 0)
            weight = min(weight, max(there, 0) / (high + 1 - low))
        found.append(max(weight, 0.01))
    return tuple(found)


def _balanced(weights: Sequence[float], count: int) -> Cut:
    """Cut an axis into parts so that the heaviest is lightest; the first fit of a limit.

    Each part begins where the one before ends. There may be fewer than `count`.
    """
    low, high = max(weights), sum(weights)
    best = _within(weights, high)
    for _ in range(40):
        limit = (low + high) / 2
        cut = _within(weights, limit)
        if len(cut) <= count:
            best, high = cut, limit
        else:
            low = limit
    return best


def _within(weights: Sequence[float], limit: float) -> Cut:
    """Cut an axis greedily into parts of at most `limit`."""
    cut = []
    first, total = 0, 0.0
    for point, weight in enumerate(weights):
        if point > first and total + weight > limit * (1 + 1e-9):
            cut.append((first, point))
            first, total = point, 0.0
        total += weight
    return (*cut, (first, len(weights)))


def _shares(cuts: Mapping[str, Cut], weights: Mapping[str, Sequence[float]]) -> tuple[float, ...]:
    parts = []
    for axis, cut in cuts.items():
        total = sum(weights[axis])
        parts.append([sum(weights[axis][first:last]) / total for first, last in cut])
    return tuple(prod(shares) for shares in product(*parts))


def tiles_of(kernel: str, division: Division) -> tuple[Tile, ...]:
    """Return the tiles of a divided kernel."""
    pairs = zip(division.boxes, division.shares, strict=True)
    return tuple(Tile(kernel, n, boxes, share) for n, (boxes, share) in enumerate(pairs))


def touches_of(tile: Tile, space: TileSpace, activations: frozenset[str]) -> Iterator[Touch]:
    """Yield what a tile reads and writes of activations."""
    box = {axis: (0, extent) for axis, extent in space.nest.extent.items()}
    box |= {b.axis: (b.first, b.last) for b in tile.boxes}
    for moved in space.moved:
        if moved.operand.tensor in activations:
            yield _touch(tile, moved, moved.window(box))


def _touch(tile: Tile, moved: Moved, window: tuple[tuple[int, int], ...]) -> Touch:
    pairs = list(zip(window, moved.pitch, strict=True))
    first = sum(low * pitch for (low, _), pitch in pairs)
    last = sum((high - 1) * pitch for (_, high), pitch in pairs)
    size = moved.element_bytes
    return Touch(
        tile.kernel,
        tile.number,
        moved.operand.tensor,
        moved.is_output,
        moved.view,
        window,
        first * size,
        (last + 1) * size,
    )


def part_instance(instance: Instance, space: TileSpace, tiles: Sequence[Tile]) -> Instance:
    """Return the instance that computes any part of a kernel, which is given where it lies.

    `<axis>_first` and, unless all parts are as long, `<axis>_count` are its given numbers.
    """
    longest: dict[str, int] = {}
    lengths: dict[str, set[int]] = {}
    for tile in tiles:
        for box in tile.boxes:
            size = box.last - box.first
            longest[box.axis] = max(longest.get(box.axis, 0), size)
            lengths.setdefault(box.axis, set()).add(size)
    nest = shifted(space.nest, longest)
    even = {axis for axis, found in lengths.items() if len(found) == 1}
    given = {n: b for n, b in nest.given.items() if n not in {f"{a}_count" for a in even}}
    count = {axis: name for axis, name in nest.count.items() if axis not in even}
    return replace(instance, nests=(replace(nest, given=given, count=count),))


def given_number(tile: Tile, name: str) -> int:
    """Return the value of a given number for a tile: where its box begins, or how long it is."""
    axis, _, what = name.rpartition("_")
    (box,) = [box for box in tile.boxes if box.axis == axis]
    return box.first if what == "first" else box.last - box.first
