"""Which kernels are computed together, row by row: the shortest path over possible groups."""

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Profile
from dlbuild.ir.target import Options, Target
from dlbuild.ir.tile_plan import Strip, Tile, TilePlan
from dlbuild.rulebook.kernels import instance_of, orders_of, wish_of
from dlbuild.rulebook.load import RuleBook
from dlbuild.rulebook.rows import Rows, rows_of
from dlbuild.stages.cluster_memory import arena_memory
from dlbuild.stages.forms import POINTS
from dlbuild.stages.groups import Group, Groups
from dlbuild.stages.lives import names_of_fetched
from dlbuild.stages.schedule import arrange

STEP = 0.04
"""The share by which the arena of a plan is smaller than that of the one before."""

TRIES = 8
"""Limits asked for until a plan is as low as its groups need."""


def strip_plan(
    graph: Graph, profile: Profile, target: Target, options: Options, book: RuleBook
) -> TilePlan | None:
    """Return the tile plan whose arena is as low as the options ask for, None if there is none.

    `optimize: ram` asks for the lowest, else the memory's budget decides, and of the plans that
    fit it the one with the fewest layers in strips. Plans are compared as they are placed.
    """
    rows = kernel_rows(graph, profile, target, options, book)
    budget = budget_of(target)
    best: tuple[int, TilePlan] | None = None
    # Rows of one point are computed one by one only where there is too little room for several.
    for points in (POINTS, 1):
        made = _placed(Groups(graph, profile, options, rows, points), target, budget)
        if made is not None and (best is None or made[0] < best[0]):
            best = made
        is_enough = budget is None or best is None or best[0] <= budget
        if is_enough or not any(found.points == 1 for found in rows.values()):
            break
    return best[1] if best else None


def _placed(groups: Groups, target: Target, budget: int | None) -> tuple[int, TilePlan] | None:
    """Return the plan of these groups that `strip_plan` asks for, and the bytes of its arena."""
    graph, profile, options = groups.graph, groups.profile, groups.options
    chooser = Chooser(groups)
    least = chooser.lowest()
    if not least or (budget is not None and budget < least):
        chooser = Chooser(groups, may_be_slow=True)
        least = chooser.lowest()
    wanted = least if options.optimize == "ram" or budget is None else max(budget, least)
    best: tuple[int, TilePlan] | None = None
    heights: dict[tuple[Group, ...], int] = {}
    limit, asked = wanted, set[int]()
    for _ in range(TRIES):
        path = chooser.within(limit)
        if path is None:
            break
        asked.add(limit)
        if path not in heights:
            plan = plan_of(profile, groups, path)
            (use,) = arrange(graph, profile, plan, target, options).memories
            heights[path] = use.height_bytes
            if best is None or use.height_bytes < best[0]:
                best = use.height_bytes, plan
        # Placed it needs more than its steps do: ask for steps that need less, or for others.
        over = heights[path] - wanted
        below = min(limit - over, max(group.need_bytes for group in path) - 1)
        others = [n for n in (below, limit + over) if n >= least and n not in asked]
        if over <= 0 or not others:
            break
        limit = others[0]
    return best


@dataclass(frozen=True, slots=True)
class Trade:
    """What a plan needs of the arena (alignment not counted), and its multiplications over those of
    the model.
    """

    need_bytes: int
    work: float


def trades(
    graph: Graph, profile: Profile, target: Target, options: Options, book: RuleBook
) -> Iterator[Trade]:
    """Yield plans from the one without repetition on, each of a smaller arena and of more work.

    Each is the one of least work for its arena; the next is at least STEP smaller, as far as
    `max_recompute` allows.
    """
    chooser = Chooser(
        Groups(graph, profile, options, kernel_rows(graph, profile, target, options, book))
    )
    macs = sum(kernel.macs for kernel in profile.kernels)
    limit = chooser.lowest_once()
    while (path := chooser.within(limit)) is not None:
        need = max(group.need_bytes for group in path)
        again = sum(group.again_macs for group in path)
        yield Trade(need, 1 + again / macs if macs else 1.0)
        limit = int(need * (1 - STEP))


def with_arena_of(target: Target, size_bytes: int) -> Target:
    """Return a target with another size of the memory of the arena."""
    arena = arena_memory(target)
    memories = [replace(m, size_bytes=size_bytes) if m == arena else m for m in target.memories]
    return replace(target, memories=tuple(memories))


def budget_of(target: Target) -> int | None:
    """Return what the memory of the arena leaves to it; None if it has no budget."""
    size_bytes = arena_memory(target).size_bytes
    return None if size_bytes is None else size_bytes - (target.stack_bytes or 0)


def kernel_rows(
    graph: Graph, profile: Profile, target: Target, options: Options, book: RuleBook
) -> Mapping[str, Rows]:
    """Return how each kernel that can be computed row by row is.

    An input that is fetched is read by one operand of a kernel, and by the same rows everywhere.
    """
    constants = frozenset(graph.constants)
    wish = wish_of(target, options)
    brought = names_of_fetched(graph, profile, options)
    found: dict[str, Rows] = {}
    extents: set[int] = set()
    for kernel in profile.kernels:
        instance = instance_of(kernel, graph, book, wish)
        rows = rows_of(instance, orders_of(kernel, instance, profile), constants)
        if rows is None or len(kernel.writes) != 1:
            continue
        fetched = [o for o in instance.operands if o.tensor in brought and not kernel.alias]
        extents |= {read.extent for read in rows.reads if read.tensor in brought and fetched}
        if not fetched or (len(fetched) == 1 and len(extents) == 1):
            found[kernel.name] = rows
    return found


class Chooser:
    """Groups, each worked out when it is first asked for."""

    def __init__(self, groups: Groups, *, may_be_slow: bool = False) -> None:
        """groups: of a profile. may_be_slow: whether hand-written kernels may go in slower forms,
        which need less working memory.
        """
        self.groups = groups
        self.may_be_slow = may_be_slow
        self.count = len(groups.profile.kernels)
        macs = sum(kernel.macs for kernel in groups.profile.kernels)
        self.again_macs = int(macs * (groups.options.max_recompute - 1))
        self._found: dict[tuple[int, int], tuple[Group, ...]] = {}

    def lowest(self) -> int:
        """Return the least bytes that some path of groups needs at its fullest step.

        Of paths that compute no more again than `max_recompute` allows.
        """
        once = self.lowest_once()
        if not self.again_macs or not once:
            return once
        # Below `low` no path is, above `high` one is known.
        low, high = self._lowest(self._strips) - 1, once
        while high - low > 1:
            middle = (low + high) // 2
            path = self.within(middle)
            if path is None:
                low = middle
            else:
                high = max(group.need_bytes for group in path)
        return high

    def lowest_once(self) -> int:
        """Return the least bytes that a path needs which computes nothing twice."""
        return self._lowest(self._single)

    def _lowest(self, strips: Callable[[int, int], tuple[Group, ...]]) -> int:
        """Return the least need of a path, 0 if there is none."""
        settled = {0}
        open_ = list(self._edges(0, 0))
        heapq.heapify(open_)
        while open_:
            need, first, last, is_exact = heapq.heappop(open_)
            if last + 1 in settled:
                continue
            if is_exact:
                if last + 1 == self.count:
                    return need
                settled.add(last + 1)
                for edge in self._edges(last + 1, need):
                    heapq.heappush(open_, edge)
                continue
            needs = [group.need_bytes for group in strips(first, last)]
            if needs:
                heapq.heappush(open_, (max(need, min(needs)), first, last, True))
        return 0

    def _edges(self, node: int, need: int) -> Iterator[tuple[int, int, int, bool]]:
        """Yield (bytes, first, last, whether they are exact) of each group from `node` on."""
        alone = self.groups.alone(node)
        if alone:
            yield max(need, alone.need_bytes), node, node, True
        for last in range(node, self.count):
            if not self._may_go_on(node, last):
                break
            if self.groups.is_possible(node, last):
                yield max(need, self.groups.floor(node, last)), node, last, False

    def within(self, limit: int) -> tuple[Group, ...] | None:
        """Return the groups of a path none of whose steps needs more.

        Of such paths the one that computes the least again, slower forms counted as the work that
        takes as long, then the one with the fewest layers in strips; None if there is none, or if
        each computes more again than it may. Of the ways to each kernel only the best is followed:
        of paths that both repeat and go in slower forms, the best may be missed.
        """
        best: list[tuple[int, int, int] | None] = [(0, 0, -1)] + [None] * self.count
        chosen: list[Group | None] = [None] * (self.count + 1)
        again = [0] * (self.count + 1)
        for end in range(1, self.count + 1):
            least = sorted(
                (before[0], before[1] + _cost(first, end - 1, is_alone=is_alone), first, is_alone)
                for first in range(end)
                if (before := best[first]) is not None
                for is_alone in ([True, False] if first == end - 1 else [False])
            )
            for work, layers, first, is_alone in least:
                known = best[end]
                if known is not None and known <= (work, layers, first):
                    break
                for group in self._fitting(first, end - 1, limit, is_alone=is_alone):
                    cost = work + group.again_macs + group.slow_macs, layers, first
                    repeated = again[first] + group.again_macs
                    known = best[end]
                    if repeated <= self.again_macs and (known is None or cost < known):
                        best[end], chosen[end], again[end] = cost, group, repeated
        path: list[Group] = []
        end = self.count
        while end > 0:
            step = chosen[end]
            if step is None:
                return None
            path.append(step)
            end = step.first
        return tuple(reversed(path))

    def _fitting(self, first: int, last: int, limit: int, *, is_alone: bool) -> Iterator[Group]:
        """Yield the groups of these kernels that need no more than `limit`."""
        if is_alone:
            alone = self.groups.alone(first)
            if alone and alone.need_bytes <= limit:
                yield alone
            return
        if not self.groups.is_possible(first, last) or self.groups.floor(first, last) > limit:
            return
        for group in self._strips(first, last):
            if group.need_bytes <= limit:
                yield group

    def _may_go_on(self, first: int, last: int) -> bool:
        """Say whether a strip from `first` on can hold the kernel `last`."""
        kernel = self.groups.profile.kernels[last]
        before = self.groups.profile.kernels[last - 1].name
        rows, views = self.groups.rows, self.groups.views
        if first == 0 and kernel.name in views:
            return True
        if kernel.name not in rows or kernel.alias:
            return False
        return last == first or before in views or rows[before].parts is None

    def _strips(self, first: int, last: int) -> tuple[Group, ...]:
        if (first, last) not in self._found:
            found = self.groups.strips(first, last)
            self._found[first, last] = tuple(
                group for group in found if self.may_be_slow or not group.slow_macs
            )
        return self._found[first, last]

    def _single(self, first: int, last: int) -> tuple[Group, ...]:
        return tuple(g for g in self._strips(first, last) if g.strip and not g.strip.is_in_passes)


def _cost(first: int, last: int, *, is_alone: bool) -> int:
    """Return the cost of a group where paths differ in nothing else."""
    return 0 if is_alone else last - first + 2


def plan_of(profile: Profile, groups: Groups, path: Sequence[Group]) -> TilePlan:
    """Return the tile plan of a path of groups."""
    strips: list[Strip] = [group.strip for group in path if group.strip]
    sums = tuple(found for strip in strips for found in groups.working(strip))
    form = {
        layer.kernel: number
        for group in path
        if group.strip
        for layer, number in zip(group.strip.layers, group.forms, strict=True)
    }
    tiles = tuple(Tile(k.name, form=form.get(k.name, 0)) for k in profile.kernels)
    return TilePlan(tiles, tuple(strips), sums)
