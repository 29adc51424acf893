"""Which tensors stay in the near memory from one kernel to the next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from dlbuild.ir.dtype import DTYPES
from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Kernel, Profile
from dlbuild.ir.schedule import Buffer, Schedule
from dlbuild.stages.problem import Bytes, Step, aligned
from dlbuild.stages.tile_parts import Part, all_parts
from dlbuild.stages.tile_search import Choice, Near, Table
from dlbuild.stages.tile_space import TileSpace
from dlbuild.stages.tile_work import further_cycles

STATES = 128
"""So many sets of tensors that stay are followed at a time, the cheapest."""

EVERY_SUBSET = 3
"""Of more tensors that begin with one step, the smallest stay, not every choice of them."""

Cost = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A tensor and its views, which may lie in the near memory during [first_step, last_step)."""

    tensor: str
    members: frozenset[str]
    size_bytes: Bytes
    first_step: Step
    last_step: Step
    align_bytes: int


def candidates(graph: Graph, profile: Profile, plan: Schedule, near: Near) -> Iterator[Candidate]:
    """Yield what may stay: a tensor between kernels whose bytes no other tensor has but its views.

    plan: a schedule with the same tilings, in which all of them lie in the arena.
    """
    arena = plan.memories[0].memory
    views = {
        name
        for step in plan.steps
        if not step.is_code
        for name in profile.kernel[step.kernel].writes
    }
    interface = {*graph.inputs, *graph.outputs}
    blocks: dict[str, list[Buffer]] = {}
    for buffer in plan.buffers:
        if buffer.memory == arena and not buffer.dtype:
            blocks.setdefault(buffer.alias_of or buffer.tensor, []).append(buffer)
    for root, buffers in blocks.items():
        members = frozenset(buffer.tensor for buffer in buffers)
        start = min(buffer.offset_bytes for buffer in buffers)
        end = max(buffer.offset_bytes + buffer.size_bytes for buffer in buffers)
        if members & interface or not members - {root} <= views or root in views:
            continue
        if end - start <= near.size_bytes:
            yield Candidate(
                root,
                members,
                Bytes(end - start),
                Step(min(buffer.first_step for buffer in buffers)),
                Step(max(buffer.last_step for buffer in buffers)),
                max(near.align_bytes, *(buffer.align_bytes for buffer in buffers)),
            )


@dataclass(frozen=True, slots=True)
class Chosen:
    """How a kernel is cut.

    space: the ways that it was chosen from, but for what stays. near: what the near memory offers,
    as its cycles are in that space. weight: what decides.
    """

    space: TileSpace
    near: Near
    choice: Choice
    weight: float


class Cutting:
    """The ways to cut one kernel, each worked out when it is first asked for."""

    def __init__(
        self, kernel: Kernel, spaces: Sequence[TileSpace], near: Near, loops: float = 1.0
    ) -> None:
        """Take what decides.

        Args:
            kernel: to be cut.
            spaces: the ways to; first those of a hand-written kernel, if there is one.
            near: what the empty near memory offers to the kernel.
            loops: how long they take over what is predicted of the kernel.
        """
        self.kernel = kernel
        self._ways = [
            _Way(space, near, space.hand.cost if space.hand else loops) for space in spaces
        ]
        self._known: dict[tuple[frozenset[str], int], Chosen | None] = {}

    def best(self, staying: frozenset[str], size_bytes: int) -> Chosen | None:
        """Return the cheapest cut.

        A hand-written kernel that computes all at once is taken where that fits.

        Args:
            staying: tensors that lie in the near memory as a whole.
            size_bytes: what is left of that memory.
        """
        own = frozenset(m.operand.tensor for w in self._ways for m in w.space.moved) & staying
        key = own, size_bytes
        if key not in self._known:
            self._known[key] = self._cheapest(own, size_bytes)
        return self._known[key]

    def _cheapest(self, own: frozenset[str], size_bytes: int) -> Chosen | None:
        found = None
        for number, way in enumerate(self._ways):
            one = way.best(own, size_bytes)
            if one and number == 0 and one.space.hand and not one.choice.loops:
                return one
            if one and (found is None or one.weight < found.weight):
                found = one
        return found

    def cost(self, staying: frozenset[str], size_bytes: int) -> Cost | None:
        """Return what that costs, then what it moves; None if no cut fits."""
        found = self.best(staying, size_bytes)
        return (found.weight, float(found.choice.traffic_bytes)) if found else None


def scratch_bytes(space: TileSpace, near: Near) -> int:
    """Return what the working memory of a hand-written kernel takes of the near memory."""
    sizes = [prod(o.shape) * DTYPES[o.dtype].bits // 8 for o in space.scratch]
    return sum(-(-size // near.align_bytes) * near.align_bytes for size in sizes)


class _Way:
    """One way to compute a kernel in tasks, hand-written or by loops."""

    def __init__(self, space: TileSpace, near: Near, cost: float) -> None:
        """cost: how long the computation takes over what is predicted of the kernel."""
        self.space = space
        self._near = replace(near, cycles=round(near.cycles * cost))
        self._scratch_bytes = scratch_bytes(space, near)
        self._tables: dict[frozenset[str], Table] = {}

    @cached_property
    def _parts(self) -> Mapping[str, Sequence[Part]]:
        return all_parts(self.space)

    def best(self, own: frozenset[str], size_bytes: int) -> Chosen | None:
        """Return the cheapest cut where the tensors `own` stay, None if none fits."""
        space = self.space.without(own)
        if own not in self._tables:
            known = self._parts if space.sizes == self.space.sizes else None
            self._tables[own] = Table(space, self._near, known)
        choice = self._tables[own].best(size_bytes - self._scratch_bytes)
        if choice is None:
            return None
        is_timed = self._near.objective == "time"
        further = further_cycles(space, choice.loops, self._near.window_cycles)
        slowness = self._near.hurry * (self._near.cycles + further)
        weight = choice.cycles if is_timed else choice.traffic_bytes + slowness
        near = replace(self._near, size_bytes=size_bytes)
        return Chosen(space, near, choice, weight)


@dataclass(frozen=True)
class _State:
    """A set of tensors that stay at one step, and what led there."""

    staying: frozenset[Candidate]
    cost: Cost
    chosen: tuple[Candidate, ...]

    @property
    def rank(self) -> tuple[Cost, int, list[str]]:
        return self.cost, len(self.chosen), [c.tensor for c in self.chosen]


class Residency:
    """The choice of what stays: states step after step, the cheapest of each set kept."""

    def __init__(
        self,
        graph: Graph,
        kernels: Sequence[Kernel],
        cuttings: Mapping[str, Cutting],
        near: Near,
        found: Sequence[Candidate],
    ) -> None:
        """Take what decides.

        Args:
            graph: the model.
            kernels: of each step in order.
            cuttings: of the kernels that can be cut.
            near: the near memory, empty.
            found: what may stay.
        """
        self._graph = graph
        self._kernels = kernels
        self._cuttings = cuttings
        self._near = near
        self._found = found

    def chosen(self, size_bytes: int) -> tuple[Candidate, ...] | None:
        """Return what stays in a near memory of so many bytes; None if some kernel does not fit."""
        states = [_State(frozenset(), (0.0, 0.0), ())]
        for step, kernel in enumerate(self._kernels):
            begun = [c for c in self._found if c.first_step == step]
            reached: dict[frozenset[Candidate], _State] = {}
            for state in states:
                still = frozenset(c for c in state.staying if c.last_step > step)
                for more in _subsets(begun):
                    staying = still.union(more)
                    cost = self._cost(kernel, staying, size_bytes)
                    if cost is None:
                        continue
                    total = state.cost[0] + cost[0], state.cost[1] + cost[1]
                    after = _State(staying, total, (*state.chosen, *more))
                    if staying not in reached or after.rank < reached[staying].rank:
                        reached[staying] = after
            states = sorted(reached.values(), key=lambda state: state.rank)[:STATES]
        return min(states, key=lambda state: state.rank).chosen if states else None

    def left(self, chosen: Iterable[Candidate], step: int, size_bytes: int) -> int:
        """Return the bytes that one step has for windows beside what stays."""
        taken = sum(
            aligned(c.size_bytes, c.align_bytes)
            for c in chosen
            if c.first_step <= step < c.last_step
        )
        return size_bytes - taken

    def _cost(self, kernel: Kernel, staying: Iterable[Candidate], size_bytes: int) -> Cost | None:
        left = size_bytes - sum(aligned(c.size_bytes, c.align_bytes) for c in staying)
        if left < 0:
            return None
        names = frozenset(name for c in staying for name in c.members)
        if kernel.name in self._cuttings:
            return self._cuttings[kernel.name].cost(names, left)
        if kernel.alias is not None:
            return 0.0, 0.0
        far = {*kernel.reads, *kernel.writes} - names
        size = float(sum(self._graph.tensor[name].size_bytes for name in sorted(far)))
        rate = self._near.bytes_per_cycle if self._near.objective == "time" else 1.0
        return size / rate, size


def _subsets(begun: Sequence[Candidate]) -> Iterator[tuple[Candidate, ...]]:
    if len(begun) <= EVERY_SUBSET:
        for number in range(1 << len(begun)):
            yield tuple(c for at, c in enumerate(begun) if number >> at & 1)
        return
    by_size = sorted(begun, key=lambda c: (c.size_bytes, c.tensor))
    for count in range(len(by_size) + 1):
        yield tuple(by_size[:count])
