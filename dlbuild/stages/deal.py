"""Deal the tiles of a plan to cores: round robin, list scheduling, or the parts of each layer."""

import heapq
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from dlbuild.ir.costs import Costs
from dlbuild.ir.profile import Profile
from dlbuild.ir.tile_plan import Tile, TilePlan
from dlbuild.stages.timeline import WAIT_COST, Span

Policy = Literal["round_robin", "list", "split"]

WHOLE: tuple[Policy, ...] = ("list", "round_robin")
"""Policies that deal whole kernels."""


@dataclass(frozen=True)
class Dealt:
    """Tiles in the order of the schedule, the core of each, and when it begins and ends.

    The times are predicted as if no tensor ever lay in the bytes of another.
    """

    tiles: tuple[Tile, ...]
    cores: tuple[int, ...]
    spans: tuple[Span, ...]

    @property
    def makespan(self) -> int:
        """When the last tile ends."""
        return max((span.end for span in self.spans), default=0)

    @property
    def together(self) -> tuple[tuple[int, int], ...]:
        """Return for each tile the numbers [first, last) of itself and all later ones that begin
        before it ends.
        """
        earliest = [span.start for span in self.spans]
        for number in range(len(earliest) - 2, -1, -1):
            earliest[number] = min(earliest[number], earliest[number + 1])
        return tuple(
            (number, max(bisect_left(earliest, span.end), number + 1))
            for number, span in enumerate(self.spans)
        )


@dataclass(frozen=True)
class Dealer:
    """Deals a plan.

    resources: `cores`, `threads` or `pes`, and how many. Processing elements run in step: none
    begins a layer before all have done the one before.
    cores_of: of each kernel the cores that may do it, if there are clusters; else any may.
    """

    profile: Profile
    costs: Costs
    resources: tuple[str, int]
    cores_of: Mapping[str, range] = field(default_factory=dict)

    def deal(self, plan: TilePlan, policy: Policy) -> Dealt:
        """Return the tiles dealt by one policy."""
        if policy == "split":
            return self._timed(
                plan.tiles, tuple(self._cores(t.kernel)[t.number] for t in plan.tiles)
            )
        kernels = [tile.kernel for tile in plan.tiles]
        if policy == "round_robin":
            order, cores = self._round_robin(kernels)
        elif self.is_in_step:
            order, cores = self._longest_first(kernels)
        else:
            order, cores = self._list(kernels)
        of = {tile.kernel: tile for tile in plan.tiles}
        return self._timed([of[name] for name in order], [cores[name] for name in order])

    @property
    def count(self) -> int:
        """How many there are."""
        return self.resources[1]

    @property
    def is_in_step(self) -> bool:
        """Whether all meet behind each layer."""
        return self.resources[0] == "pes"

    @cached_property
    def sources(self) -> Mapping[str, tuple[str, ...]]:
        """The kernels whose results each kernel reads, or whose state it overwrites."""
        writer = {t: k.name for k in self.profile.kernels for t in k.writes}
        return {
            k.name: tuple(dict.fromkeys([*(writer[t] for t in k.reads if t in writer), *k.after]))
            for k in self.profile.kernels
        }

    @cached_property
    def level(self) -> Mapping[str, int]:
        """The layer of each kernel: how many kernels with code lie on the longest way to it."""
        found: dict[str, int] = {}
        for kernel in self.profile.kernels:
            # A view is in the layer of what it shows.
            own = 0 if kernel.alias is not None else 1
            found[kernel.name] = max((found[s] for s in self.sources[kernel.name]), default=0) + own
        return found

    def _round_robin(self, kernels: Sequence[str]) -> tuple[list[str], dict[str, int]]:
        """Deal the kernels of each layer in turn."""
        order = sorted(kernels, key=lambda name: self.level[name])
        cores: dict[str, int] = {}
        dealt: dict[tuple[int, int], int] = {}
        for name in order:
            own = self._cores(name)
            layer = self.level[name], own[0]
            if self.profile.kernel[name].alias is not None:
                source = cores[self.sources[name][0]] if self.sources[name] else own[0]
                cores[name] = source if source in own else own[0]
                continue
            cores[name] = own[dealt.get(layer, 0) % len(own)]
            dealt[layer] = dealt.get(layer, 0) + 1
        return order, cores

    def _longest_first(self, kernels: Sequence[str]) -> tuple[list[str], dict[str, int]]:
        """Deal the kernels of each layer, the longest first, to whoever has least."""
        order = sorted(kernels, key=lambda name: (self.level[name], -self._cost(name)))
        cores: dict[str, int] = {}
        busy: dict[tuple[int, int], int] = {}
        for name in order:
            level = self.level[name]
            core = min(self._cores(name), key=lambda c: (busy.get((level, c), 0), c))
            cores[name] = core
            busy[level, core] = busy.get((level, core), 0) + self._cost(name)
        # A view may come before what it shows only if its layer is the same: keep their order.
        return sorted(order, key=lambda name: (self.level[name], kernels.index(name))), cores

    def _list(self, kernels: Sequence[str]) -> tuple[list[str], dict[str, int]]:
        """Give the ready kernel with the longest way to the end to the core that ends it first."""
        rank = self.ranks
        place = {name: number for number, name in enumerate(kernels)}
        users: dict[str, list[str]] = {}
        for name in kernels:
            for source in self.sources[name]:
                users.setdefault(source, []).append(name)
        left = {name: len(self.sources[name]) for name in kernels}
        ready = [(-rank[name], place[name], name) for name in kernels if not left[name]]
        heapq.heapify(ready)
        free = [0] * self.count
        end: dict[str, int] = {}
        cores: dict[str, int] = {}
        order: list[str] = []
        while ready:
            _, _, name = heapq.heappop(ready)
            starts = {c: self._start(name, c, free, end, cores) for c in self._cores(name)}
            core = min(starts, key=lambda c: (starts[c], c))
            end[name] = free[core] = starts[core] + self._cost(name)
            cores[name] = core
            order.append(name)
            for user in users.get(name, ()):
                left[user] -= 1
                if not left[user]:
                    heapq.heappush(ready, (-rank[user], place[user], user))
        return order, cores

    def _start(
        self,
        name: str,
        core: int,
        free: Sequence[int],
        end: Mapping[str, int],
        cores: Mapping[str, int],
    ) -> int:
        there = [
            end[source] + (WAIT_COST if cores[source] != core else 0)
            for source in self.sources[name]
        ]
        return max([free[core], *there])

    @cached_property
    def ranks(self) -> Mapping[str, int]:
        """Return of each kernel the longest way from its start to the end of the run."""
        found: dict[str, int] = {}
        behind: dict[str, int] = {}
        for kernel in reversed(self.profile.kernels):
            found[kernel.name] = self._cost(kernel.name) + behind.get(kernel.name, 0)
            for source in self.sources[kernel.name]:
                behind[source] = max(behind.get(source, 0), found[kernel.name])
        return found

    def _cores(self, name: str) -> range:
        """Return the cores that may do a kernel."""
        return self.cores_of.get(name, range(self.count))

    def _cost(self, name: str) -> int:
        return self.costs.of[name].cost

    def _timed(self, tiles: Sequence[Tile], cores: Sequence[int]) -> Dealt:
        """Predict the times: a tile waits for all tiles of the kernels that it reads."""
        free = [0] * self.count
        end: dict[str, list[tuple[int, int]]] = {}
        layer_end, level, latest = 0, 0, 0
        spans = []
        for tile, core in zip(tiles, cores, strict=True):
            if self.is_in_step and self.level[tile.kernel] != level:
                layer_end, level = latest + WAIT_COST, self.level[tile.kernel]
            there = [
                time + (WAIT_COST if other != core else 0)
                for source in self.sources[tile.kernel]
                for other, time in end[source]
            ]
            start = max([free[core], layer_end, *there])
            free[core] = start + round(self._cost(tile.kernel) * tile.share)
            spans.append(Span(start, free[core]))
            end.setdefault(tile.kernel, []).append((core, free[core]))
            latest = max(latest, free[core])
        return Dealt(tuple(tiles), tuple(cores), tuple(spans))


def best_of(dealer: Dealer, plan: TilePlan, policies: Sequence[Policy]) -> Dealt:
    """Return the deal with the least makespan; of equal ones the first."""
    found = [dealer.deal(plan, policy) for policy in policies]
    return min(found, key=lambda dealt: dealt.makespan)
