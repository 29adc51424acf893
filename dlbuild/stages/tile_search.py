"""The best way to cut a kernel for a near memory: every size and every loop order is weighed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Literal

import numpy as np
import numpy.typing as npt

from dlbuild.stages.tile_parts import Counts, parts_of
from dlbuild.stages.tile_space import Moved, TileSpace

Objective = Literal["time", "traffic"]
Cycles = npt.NDArray[np.float64]
Truths = npt.NDArray[np.bool_]

TWO = 2
"""Buffers of an operand that changes: one in use, one on the way."""


@dataclass(frozen=True, slots=True)
class Near:
    """The near memory and what reaching it costs.

    cycles: of the kernel's computation, however it is cut. task_cycles: of what each task adds.
    buffers: of an operand that changes; with one, nothing is moved during a computation.
    """

    size_bytes: int
    align_bytes: int = 4
    setup_cycles: int = 0
    bytes_per_cycle: float = 0.0
    cycles: int = 0
    task_cycles: int = 100
    objective: Objective = "traffic"
    buffers: int = TWO


@dataclass(frozen=True, slots=True)
class Choice:
    """How to cut a kernel.

    loops: (axis, size) from the outermost to the innermost, axes in one piece left out.
    traffic_bytes: of all windows, each brought when it differs from the one before.
    near_bytes: of all buffers. tasks: how many. cycles: predicted.
    """

    loops: tuple[tuple[str, int], ...]
    traffic_bytes: int
    near_bytes: int
    tasks: int
    cycles: float


def search(space: TileSpace, near: Near) -> Choice | None:
    """Return the cheapest cut whose buffers fit, None if none does.

    Among equals: the least traffic, the fewest tasks, the least near memory, the first in the
    order of the space.
    """
    mesh = _Mesh(space, near)
    fitting = mesh.near_bytes() <= near.size_bytes
    if not fitting.any():
        return None
    tasks = mesh.tasks()
    best: tuple[tuple[float, ...], Choice] | None = None
    for order in _orders(space):
        traffic, loads, edge = mesh.moved(order)
        time = mesh.time(traffic, loads, edge, tasks)
        keys: list[Counts | Cycles] = [traffic, tasks, mesh.near_bytes()]
        if near.objective == "time":
            keys.insert(0, time)
        rows = np.flatnonzero(fitting)
        for key in keys:
            values = np.broadcast_to(key, fitting.shape).ravel()[rows]
            rows = rows[values == values.min()]
        at = np.unravel_index(rows[0], fitting.shape)
        scores = tuple(float(np.broadcast_to(key, fitting.shape)[at]) for key in keys)
        if best is None or scores < best[0]:
            best = scores, mesh.choice(order, at, traffic, time)
    assert best is not None, "there is at least one order"
    return best[1]


def _orders(space: TileSpace) -> Iterator[tuple[int, ...]]:
    """Yield the loop orders; partial sums stay where they are, so their loops are innermost."""
    split = len(space.axes) - space.reduce
    for outer in permutations(range(split)):
        for inner in permutations(range(split, len(space.axes))):
            yield (*outer, *inner)


class _Mesh:
    """All combinations of sizes; an array has an axis for each axis of the space."""

    def __init__(self, space: TileSpace, near: Near) -> None:
        self._space = space
        self._near = near
        self._parts = {m.operand.name: parts_of(m, space) for m in space.moved}
        self._cuts = {m.operand.name: space.cuts(m) for m in space.moved}
        self._shape = tuple(len(sizes) for sizes in space.sizes)
        self.trips = [
            self._along(np.array([-(-extent // s) for s in sizes]), number)
            for number, (sizes, extent) in enumerate(zip(space.sizes, space.extents, strict=True))
        ]

    def near_bytes(self) -> Counts:
        """Return the bytes of all buffers."""
        total = np.zeros(self._shape, np.int64)
        for moved in self._space.moved:
            size = self._aligned(self._product(moved, "most") * moved.element_bytes)
            total = total + size * np.where(self._is_changing(moved), self._near.buffers, 1)
        return total + self._sums()

    def tasks(self) -> Counts:
        """Return how many tasks there are."""
        count = np.ones([1] * len(self._shape), np.int64)
        for trips in self.trips:
            count = count * trips
        return count

    def moved(self, order: Sequence[int]) -> tuple[Counts, Counts, Counts]:
        """Return the bytes moved, the number of windows moved, and the bytes of a first load."""
        traffic = np.zeros(self._shape, np.int64)
        loads = np.zeros(self._shape, np.int64)
        edge = np.zeros(self._shape, np.int64)
        for moved in self._space.moved:
            again, times = self._loads(moved, order)
            traffic = traffic + self._product(moved, "total") * moved.element_bytes * again
            loads = loads + times
            edge = edge + self._product(moved, "most") * moved.element_bytes
        return traffic, loads, edge

    def time(self, traffic: Counts, loads: Counts, edge: Counts, tasks: Counts) -> Cycles:
        """Return the predicted cycles: what is moved hides behind the computation or reversely.

        The first windows are brought before there is anything to compute, the last result leaves
        after it.
        """
        near = self._near
        rate = 1 / near.bytes_per_cycle if near.bytes_per_cycle else 0.0
        transfer = loads * near.setup_cycles + traffic * rate
        compute = near.cycles + tasks * near.task_cycles
        if near.buffers < TWO:
            serial: Cycles = transfer + compute
            return serial
        first = len(self._space.moved) * near.setup_cycles + edge * rate
        hidden: Cycles = np.maximum(compute, transfer - first) + first
        return hidden

    def choice(
        self, order: Sequence[int], at: tuple[np.intp, ...], traffic: Counts, time: Cycles
    ) -> Choice:
        """Return one combination in words."""
        space = self._space
        loops = tuple(
            (space.axes[number], space.sizes[number][at[number]])
            for number in order
            if space.sizes[number][at[number]] < space.extents[number]
        )
        pick = {number: slice(at[number], at[number] + 1) for number in order}
        tasks = int(np.prod([self.trips[n].ravel()[at[n]] for n in pick]))
        shown = np.broadcast_to(traffic, self._shape)[at], np.broadcast_to(time, self._shape)[at]
        return Choice(loops, int(shown[0]), int(self.near_bytes()[at]), tasks, float(shown[1]))

    def _along(self, values: Counts, number: int) -> Counts:
        shape = [1] * len(self._shape)
        shape[number] = len(values)
        return values.astype(np.int64).reshape(shape)

    def _product(self, moved: Moved, what: Literal["total", "most"]) -> Counts:
        """Return the elements of an operand over the mesh."""
        found = np.ones([1] * len(self._shape), np.int64)
        for part in self._parts[moved.operand.name]:
            shape = [1] * len(self._shape)
            for cut in part.cuts:
                shape[cut] = self._shape[cut]
            found = found * getattr(part, what).reshape(shape)
        return found

    def _is_changing(self, moved: Moved) -> Truths:
        found = np.zeros([1] * len(self._shape), bool)
        for cut in self._cuts[moved.operand.name]:
            found = found | (self.trips[cut] > 1)
        return found

    def _loads(self, moved: Moved, order: Sequence[int]) -> tuple[Counts, Counts]:
        """Return how often all windows of an operand are brought, and how many that are."""
        innermost = np.full([1] * len(self._shape), -1)
        for place, number in enumerate(order):
            if number in self._cuts[moved.operand.name]:
                innermost = np.where(self.trips[number] > 1, place, innermost)
        again = np.ones([1] * len(self._shape), np.int64)
        times = np.ones([1] * len(self._shape), np.int64)
        for place, number in enumerate(order):
            outside = np.where(place < innermost, self.trips[number], 1)
            if number in self._cuts[moved.operand.name]:
                times = times * self.trips[number]
            else:
                again = again * outside
                times = times * outside
        return again, times

    def _sums(self) -> Counts:
        """Return the bytes of the partial sums: of one tile, while its reduction is cut."""
        space = self._space
        split = len(space.axes) - space.reduce
        is_cut = np.zeros([1] * len(self._shape), bool)
        points = np.full([1] * len(self._shape), space.points, np.int64)
        for number in range(split):
            points = points * self._along(np.array(space.sizes[number]), number)
        for number in range(split, len(space.axes)):
            is_cut = is_cut | (self.trips[number] > 1)
        return np.where(is_cut, self._aligned(points * space.sum_bytes), 0)

    def _aligned(self, size: Counts) -> Counts:
        align = self._near.align_bytes
        return -(-size // align) * align
