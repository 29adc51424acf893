"""The best way to cut a kernel for a near memory: every size and every loop order is weighed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Literal

import numpy as np
import numpy.typing as npt

from dlbuild.stages.tile_parts import Counts, Part, all_parts
from dlbuild.stages.tile_space import Moved, TileSpace
from dlbuild.stages.tile_work import SUM_CYCLES, WINDOW_CYCLES, repeated

Objective = Literal["time", "traffic"]
Cycles = npt.NDArray[np.float64]
Truths = npt.NDArray[np.bool_]

TWO = 2
"""Buffers of an operand that changes: one in use, one on the way."""


@dataclass(frozen=True, slots=True)
class Near:
    """The near memory and what reaching it costs.

    cycles: of the kernel's computation, however it is cut. task_cycles: of what each task adds.
    buffers: of an operand that changes, at most; with one, nothing is moved during a computation.
    window_cycles: of each number that a hand-written kernel makes ready again for further channels.
    hurry: bytes that a cycle of computation weighs where traffic is the objective and loops could
    stand in the place of a hand-written kernel.
    """

    size_bytes: int
    align_bytes: int = 4
    setup_cycles: int = 0
    bytes_per_cycle: float = 0.0
    cycles: int = 0
    task_cycles: int = 100
    objective: Objective = "traffic"
    buffers: int = TWO
    hurry: float = 0.0
    window_cycles: float = WINDOW_CYCLES


@dataclass(frozen=True, slots=True)
class Choice:
    """How to cut a kernel.

    loops: (axis, size) from the outermost to the innermost, axes in one piece left out.
    traffic_bytes: of all windows, each brought when it differs from the one before.
    near_bytes: of all buffers. tasks: how many. cycles: predicted.
    doubled: operands that have two buffers.
    """

    loops: tuple[tuple[str, int], ...]
    traffic_bytes: int
    near_bytes: int
    tasks: int
    cycles: float
    doubled: frozenset[str] = frozenset()


def search(space: TileSpace, near: Near) -> Choice | None:
    """Return the cheapest cut whose buffers fit, None if none does."""
    return Table(space, near).best(near.size_bytes)


class Table:
    """What every cut of a kernel costs, from which the cheapest is read for any size."""

    def __init__(
        self,
        space: TileSpace,
        near: Near,
        parts: Mapping[str, Sequence[Part]] | None = None,
        outer: Mapping[str, int] | None = None,
    ) -> None:
        """Weigh every size and every loop order.

        Args:
            space: the ways to cut the kernel.
            near: what the near memory offers; its size does not matter.
            parts: `all_parts` of a space with the same operands and more, if that is known.
            outer: sizes of axes that loops around cut already, multiples of those in the space;
                with each of their parts all is moved anew.
        """
        mesh = _Mesh(space, near, parts or all_parts(space), outer or {})
        ways = [near]
        if near.objective == "time" and near.buffers == TWO:
            ways += [replace(near, buffers=1), replace(near, objective="traffic")]
        self._rankings = [_Ranking(mesh, way, near) for way in ways]
        for order in _orders(space):
            moved = mesh.moved(order)
            for ranking in self._rankings:
                ranking.weigh(order, *moved)

    def best(self, size_bytes: int) -> Choice | None:
        """Return the cheapest cut whose buffers fit, None if none does.

        Operands that change have two buffers each. Some have one where that is faster, or, if
        traffic counts, where less is moved by that: as many of them two as then fit, those first
        whose windows change most often.

        Among equals: the least traffic, the least that is computed again, the most buffers, the
        fewest tasks, the least near memory, the first in the order of the space.
        """
        found = [ranking.best(size_bytes) for ranking in self._rankings]
        return min(filter(None, found), key=lambda choice: choice.cycles, default=None)


class _Ranking:
    """For each combination of sizes the cheapest loop order."""

    def __init__(self, mesh: _Mesh, near: Near, wanted: Near) -> None:
        """near: what the ranking is by. wanted: how many buffers there may be."""
        self._mesh = mesh
        self._near = near
        self._wanted = wanted
        self._most = mesh.near_bytes(near.buffers)
        self._least = self._most if near.objective == "time" else mesh.near_bytes(1)
        self._tasks = mesh.tasks()
        self._further = mesh.further()
        self._orders: list[tuple[int, ...]] = []

    def weigh(self, order: tuple[int, ...], traffic: Counts, loads: Counts, edge: Counts) -> None:
        """Take the loops in this order where they are cheaper than those known.

        traffic, loads, edge: what is moved then, see `_Mesh.moved`.
        """
        mesh, near = self._mesh, self._near
        cost: Counts | Cycles = traffic
        if near.objective == "time":
            is_hidden = near.buffers == TWO
            cost = mesh.time(traffic, loads, edge, self._tasks, is_hidden=is_hidden)
        self._orders.append(order)
        if len(self._orders) == 1:
            self._cost = np.broadcast_to(cost, mesh.shape).copy()
            self._traffic = np.broadcast_to(traffic, mesh.shape).copy()
            self._order = np.zeros(mesh.shape, np.int64)
            return
        is_less = (cost < self._cost) | ((cost == self._cost) & (traffic < self._traffic))
        np.copyto(self._cost, cost, where=is_less)
        np.copyto(self._traffic, traffic, where=is_less)
        self._order[is_less] = len(self._orders) - 1

    def best(self, size_bytes: int) -> Choice | None:
        rows = np.flatnonzero(np.broadcast_to(self._least <= size_bytes, self._mesh.shape))
        if not rows.size:
            return None
        is_full = self._most > size_bytes
        for key in (
            *(self._cost, self._traffic, self._further),
            *(is_full, self._tasks, self._most),
        ):
            values = np.broadcast_to(key, self._mesh.shape).ravel()[rows]
            rows = rows[values == values.min()]
        at = np.unravel_index(rows[0], self._mesh.shape)
        order = self._orders[int(self._order[at])]
        near = replace(self._wanted, size_bytes=size_bytes)
        return self._mesh.choice(order, at, int(self._traffic[at]), near)


def _orders(space: TileSpace) -> Iterator[tuple[int, ...]]:
    """Yield the loop orders; partial sums stay where they are, so their loops are innermost."""
    split = len(space.axes) - space.reduce
    for outer in permutations(range(split)):
        for inner in permutations(range(split, len(space.axes))):
            yield (*outer, *inner)


class _Mesh:
    """All combinations of sizes; an array has an axis for each axis of the space."""

    def __init__(
        self,
        space: TileSpace,
        near: Near,
        parts: Mapping[str, Sequence[Part]],
        outer: Mapping[str, int],
    ) -> None:
        self.space = space
        self._near = near
        self._parts = parts
        self._cuts = {m.operand.name: space.cuts(m) for m in space.moved}
        self.shape = tuple(len(sizes) for sizes in space.sizes)
        self.trips = [
            self._along(np.array([-(-extent // s) for s in sizes]), number)
            for number, (sizes, extent) in enumerate(zip(space.sizes, space.extents, strict=True))
        ]
        named = zip(space.axes, space.extents, strict=True)
        self._whole = [outer.get(axis, extent) for axis, extent in named]
        counts = zip(space.extents, self._whole, strict=True)
        self._around = [extent // whole for extent, whole in counts]
        pairs = zip(self.trips, self._around, strict=True)
        self._inside = [trips // around for trips, around in pairs]
        self._further = self.further()

    def near_bytes(self, buffers: int) -> Counts:
        """Return the bytes of all buffers, `buffers` of each operand that changes."""
        total = np.zeros(self.shape, np.int64)
        for moved in self.space.moved:
            size = self._buffer_bytes(moved) * np.where(self._is_changing(moved), buffers, 1)
            total = total + size
        return total + self._sums()

    def _buffer_bytes(self, moved: Moved) -> Counts:
        return self._aligned(self._product(moved, "most") * moved.element_bytes)

    def tasks(self) -> Counts:
        """Return how many tasks there are."""
        count = np.ones([1] * len(self.shape), np.int64)
        for trips in self.trips:
            count = count * trips
        return count

    def further(self) -> Cycles:
        """Return the cycles that tasks take beyond those of the kernel at once."""
        rate = self._near.window_cycles if self.space.hand else SUM_CYCLES
        found: Cycles = np.asarray(repeated(self.space, self.trips), np.float64) * rate
        return found

    def moved(self, order: Sequence[int]) -> tuple[Counts, Counts, Counts]:
        """Return the bytes moved, the number of windows moved, and the bytes of a first load."""
        traffic = np.zeros(self.shape, np.int64)
        loads = np.zeros(self.shape, np.int64)
        edge = np.zeros(self.shape, np.int64)
        for moved in self.space.moved:
            again, times = self._loads(moved, order)
            traffic = traffic + self._product(moved, "total") * moved.element_bytes * again
            loads = loads + times
            edge = edge + self._product(moved, "most") * moved.element_bytes
        return traffic, loads, edge

    def time(
        self, traffic: Counts, loads: Counts, edge: Counts, tasks: Counts, *, is_hidden: bool
    ) -> Cycles:
        """Return the predicted cycles: what is moved hides behind the computation or reversely.

        The first windows are brought before there is anything to compute, the last result leaves
        after it.
        """
        near = self._near
        rate = 1 / near.bytes_per_cycle if near.bytes_per_cycle else 0.0
        transfer = loads * near.setup_cycles + traffic * rate
        compute = near.cycles + tasks * near.task_cycles + self._further
        if not is_hidden:
            serial: Cycles = transfer + compute
            return serial
        first = len(self.space.moved) * near.setup_cycles + edge * rate
        hidden: Cycles = np.maximum(compute, transfer - first) + first
        return hidden

    def choice(
        self, order: Sequence[int], at: tuple[np.intp, ...], traffic: int, near: Near
    ) -> Choice:
        """Return one combination in words."""
        space = self.space
        loops = tuple(
            (space.axes[number], space.sizes[number][at[number]])
            for number in order
            if space.sizes[number][at[number]] < self._whole[number]
        )
        tasks = int(np.prod([self.trips[n].ravel()[at[n]] for n in order]))
        doubled, near_bytes = self._doubled(order, at, near)
        time = self._time_of(order, at, tasks, doubled)
        return Choice(loops, traffic, near_bytes, tasks, time, doubled)

    def _time_of(
        self, order: Sequence[int], at: tuple[np.intp, ...], tasks: int, doubled: frozenset[str]
    ) -> float:
        """Return the predicted cycles of one combination, where some operands have two buffers."""
        near = self._near
        rate = 1 / near.bytes_per_cycle if near.bytes_per_cycle else 0.0
        hidden = first = shown = 0.0
        for moved in self.space.moved:
            again, times = (self._at(count, at) for count in self._loads(moved, order))
            size = moved.element_bytes * rate
            cost = times * near.setup_cycles + again * size * self._at(
                self._product(moved, "total"), at
            )
            if moved.operand.name in doubled:
                hidden += cost
                first += near.setup_cycles + size * self._at(self._product(moved, "most"), at)
            else:
                shown += cost
        compute = near.cycles + tasks * near.task_cycles + self._at(self._further, at)
        return shown + first + max(compute, hidden - first)

    def _doubled(
        self, order: Sequence[int], at: tuple[np.intp, ...], near: Near
    ) -> tuple[frozenset[str], int]:
        """Return the operands that have two buffers, and the bytes of all."""
        total = int(self._at(self.near_bytes(1), at))
        changing = [m for m in self.space.moved if self._at(self._is_changing(m), at)]
        changing.sort(key=lambda m: -self._at(self._loads(m, order)[1], at))
        found: set[str] = set()
        for moved in changing if near.buffers == TWO else ():
            size = int(self._at(self._buffer_bytes(moved), at))
            if total + size <= near.size_bytes:
                total += size
                found.add(moved.operand.name)
        return frozenset(found), total

    def _at(self, values: Counts | Cycles | Truths, at: tuple[np.intp, ...]) -> float:
        return float(np.broadcast_to(values, self.shape)[at])

    def _along(self, values: Counts, number: int) -> Counts:
        shape = [1] * len(self.shape)
        shape[number] = len(values)
        return values.astype(np.int64).reshape(shape)

    def _product(self, moved: Moved, what: Literal["total", "most"]) -> Counts:
        """Return the elements of an operand over the mesh."""
        found = np.ones([1] * len(self.shape), np.int64)
        for part in self._parts[moved.operand.name]:
            shape = [1] * len(self.shape)
            for cut in part.cuts:
                shape[cut] = self.shape[cut]
            found = found * getattr(part, what).reshape(shape)
        return found

    def _is_changing(self, moved: Moved) -> Truths:
        found = np.zeros([1] * len(self.shape), bool)
        for cut in self._cuts[moved.operand.name]:
            found = found | (self._inside[cut] > 1)
        return found

    def _loads(self, moved: Moved, order: Sequence[int]) -> tuple[Counts, Counts]:
        """Return how often all windows of an operand are brought, and how many that are."""
        cuts = self._cuts[moved.operand.name]
        innermost = np.full([1] * len(self.shape), -1)
        for place, number in enumerate(order):
            if number in cuts:
                innermost = np.where(self._inside[number] > 1, place, innermost)
        again = np.ones([1] * len(self.shape), np.int64)
        times = np.ones([1] * len(self.shape), np.int64)
        for place, number in enumerate(order):
            if number in cuts:
                times = times * self.trips[number]
                continue
            outside = np.where(place < innermost, self._inside[number], 1) * self._around[number]
            again, times = again * outside, times * outside
        return again, times

    def _sums(self) -> Counts:
        """Return the bytes of the partial sums: of one tile, while its reduction is cut."""
        space = self.space
        split = len(space.axes) - space.reduce
        is_cut = np.zeros([1] * len(self.shape), bool)
        points = np.full([1] * len(self.shape), space.points, np.int64)
        for number in range(split):
            points = points * self._along(np.array(space.sizes[number]), number)
        for number in range(split, len(space.axes)):
            is_cut = is_cut | (self.trips[number] > 1)
        return np.where(is_cut, self._aligned(points * space.sum_bytes), 0)

    def _aligned(self, size: Counts) -> Counts:
        align = self._near.align_bytes
        return -(-size // align) * align
