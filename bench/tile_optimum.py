"""The least that any cut of a kernel moves, by an enumeration that shares nothing with the search.

The same axes, the same sizes of each and all orders of the loops; scratch and tables count like
all else. What tasks touch is found by looking at each point of an axis, how often a window comes
by counting the steps of an odometer at which it changes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import permutations
from math import prod
from operator import or_

import numpy as np
import numpy.typing as npt

from dlbuild.rulebook.index import Index
from dlbuild.stages.tile_space import Moved, TileSpace

Counts = npt.NDArray[np.int64]
SUM_BYTES = 4


@dataclass(frozen=True)
class _Windows:
    """Windows of an operand for each combination of sizes.

    axes: numbers of the axes that are cut and decide. all_bytes: of all windows that differ in
    these cuts. most_bytes: of the buffer that holds each of them.
    """

    axes: frozenset[int]
    all_bytes: Counts
    most_bytes: Counts
    is_output: bool


class Optimum:
    """Every cut of a kernel: the bytes of its buffers, and the least it moves in any order."""

    def __init__(self, space: TileSpace, align_bytes: int = 4) -> None:
        """Enumerate all cuts.

        space: the ways to cut a kernel whose sums are of 32 bits.
        """
        assert not space.reduce or space.sum_bytes == SUM_BYTES
        self._space = space
        self._align = align_bytes
        trips = [
            self._along(n, [-(-extent // size) for size in sizes])
            for n, (sizes, extent) in enumerate(zip(space.sizes, space.extents, strict=True))
        ]
        windows = [self._windows(moved) for moved in space.moved]
        self._near_bytes = sum((w.most_bytes for w in windows), self._sums(trips))
        # Orders in which each window comes equally often are one.
        known: dict[tuple[object, ...], Counts] = {}
        self._traffic = np.full(self._near_bytes.shape, np.iinfo(np.int64).max)
        for order in self._orders():
            total = np.zeros_like(self._near_bytes)
            for one in windows:
                key = (one.axes, order)
                if key not in known:
                    known[key] = _visits(one.axes, order, trips)
                total = total + one.all_bytes * (1 if one.is_output else known[key])
            self._traffic = np.minimum(self._traffic, total)

    def best(self, size_bytes: int) -> int | None:
        """Return the bytes that the best of the cuts moves whose buffers, one each, fit."""
        fitting = self._traffic[self._near_bytes <= size_bytes]
        return int(fitting.min()) if fitting.size else None

    def _orders(self) -> Iterator[tuple[int, ...]]:
        """Loops over parts of results are inside those over results."""
        numbers = range(len(self._space.axes))
        for order in permutations(numbers):
            split = len(numbers) - self._space.reduce
            if all(number < split for number in order[:split]):
                yield order

    def _along(self, number: int, values: Sequence[int]) -> Counts:
        shape = [1] * len(self._space.axes)
        shape[number] = len(values)
        return np.array(values, np.int64).reshape(shape)

    def _sums(self, trips: Sequence[Counts]) -> Counts:
        """Return the bytes of partial sums, over the whole mesh."""
        space = self._space
        split = len(space.axes) - space.reduce
        shape = tuple(len(sizes) for sizes in space.sizes)
        points = [space.nest.extent[a] for a in space.nest.domain if a not in space.axes]
        size = np.full(shape, prod(points) * SUM_BYTES, np.int64)
        for number in range(split):
            size = size * self._along(number, space.sizes[number])
        is_cut = reduce(or_, (trips[n] > 1 for n in range(split, len(trips))), np.zeros((), bool))
        return np.where(is_cut, -(-size // self._align) * self._align, 0)

    def _windows(self, moved: Moved) -> _Windows:
        total = most = np.ones([1] * len(self._space.axes), np.int64)
        axes: set[int] = set()
        for side in range(len(moved.view)):
            cut = [n for n, name in enumerate(self._space.axes) if name in moved.axes(side)]
            assert len(cut) <= 1, "each axis of a tensor is cut by one loop"
            assert not axes & set(cut), "each loop cuts one axis of a tensor"
            axes |= set(cut)
            touched = _touched(moved, side, self._space, cut)
            if not cut:
                total, most = total * len(touched[0]), most * len(touched[0])
                continue
            parts = [_parts(touched, size) for size in self._space.sizes[cut[0]]]
            total = total * self._along(cut[0], [sum(p) for p in parts])
            most = most * self._along(cut[0], [max(p) for p in parts])
        size = moved.element_bytes
        room = -(-most * size // self._align) * self._align
        return _Windows(frozenset(axes), total * size, room, moved.is_output)


def _touched(moved: Moved, side: int, space: TileSpace, cut: Sequence[int]) -> list[range]:
    """Return what each point of the loop that cuts a side touches of it; of no loop, all."""
    extents: Mapping[str, int] = space.nest.extent
    name = space.axes[cut[0]] if cut else ""
    found = []
    for point in range(extents.get(name, 1)):
        values = {0}
        if moved.is_whole:
            values = {0, moved.view[side] - 1}
        else:
            values = {v for a in moved.accesses for v in _values(a.index[side], name, point, space)}
        low = min(max(min(values), 0), moved.view[side] - 1)
        found.append(range(low, max(min(max(values) + 1, moved.view[side]), low + 1)))
    return found


def _values(index: Index, name: str, point: int, space: TileSpace) -> set[int]:
    """Return all values of an affine map at one point of the axis `name`."""
    values = {index.constant}
    for atom, factor in index.terms:
        assert isinstance(atom, str), "the maps of these networks are affine"
        steps = [point] if atom == name else range(space.nest.extent[atom])
        values = {v + factor * step for v in values for step in steps}
    return values


def _parts(touched: Sequence[range], size: int) -> list[int]:
    """Return how much each part of so many points touches, from the first to the last element."""
    parts = [touched[at : at + size] for at in range(0, len(touched), size)]
    return [max(r.stop for r in part) - min(r.start for r in part) for part in parts]


def _visits(axes: frozenset[int], order: Sequence[int], trips: Sequence[Counts]) -> Counts:
    """Return how often all windows that differ in `axes` come.

    A step of the odometer turns one loop on, and those inside it back to their beginnings.
    """
    changes: Counts = np.ones_like(trips[0]) if trips else np.ones((), np.int64)
    around = changes
    for place, number in enumerate(order):
        inside = [trips[n] > 1 for n in order[place + 1 :] if n in axes]
        is_new = np.array(number in axes) | reduce(or_, inside, np.zeros((), bool))
        changes = changes + (trips[number] - 1) * around * is_new
        around = around * trips[number]
    distinct = prod((trips[n] for n in axes), start=np.ones((), np.int64))
    visits, rest = np.divmod(changes, distinct)
    assert not rest.any(), "windows come equally often"
    return visits
