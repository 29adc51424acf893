"""Which way a graph is spread over the clusters of a target."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from dlbuild.base.errors import UserError
from dlbuild.base.units import bytes_text
from dlbuild.ir.clusters import Parallel
from dlbuild.ir.costs import Costs
from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Profile
from dlbuild.ir.schedule import MemoryUse
from dlbuild.ir.target import Options, Target
from dlbuild.rulebook.kernels import matched_in, wish_of
from dlbuild.rulebook.load import RuleBook
from dlbuild.stages.cores import schedule_cores
from dlbuild.stages.predicted import scaled
from dlbuild.stages.profile import profile as profile_of
from dlbuild.stages.split import core_plan
from dlbuild.stages.spread import Spreader
from dlbuild.stages.spread_batch import batch_of, spread_batch
from dlbuild.stages.spread_channels import spread_channels
from dlbuild.stages.spread_layers import spread_layers
from dlbuild.stages.spread_parts import spread_parts
from dlbuild.stages.spread_rows import has_rows, spread_rows
from dlbuild.stages.timeline import makespan, period

WAYS: tuple[Parallel, ...] = ("data", "model", "pipeline")


def spread(  # noqa: PLR0913, PLR0917 - the inputs of the stage
    graph: Graph,
    profile: Profile,
    costs: Costs,
    target: Target,
    options: Options,
    book: RuleBook,
) -> Graph:
    """Return the graph restructured into a group of nodes for each cluster.

    Args:
        graph: the model.
        profile: its kernels, undivided.
        costs: what each of them costs one core.
        target: with its clusters.
        options: of the build; `parallel` says which way, `auto` takes the one that is predicted
            to take least time for each run of a stream of them, and fits.
        book: the rules.

    Raises:
        UserError: it cannot be divided in that way, or does not fit the memory of a cluster; or an
            option does not go with clusters.
    """
    _check(graph, target, options)
    planner = _Planner(graph, profile, costs, target, options, book)
    if options.parallel != "auto":
        return planner.wanted(options.parallel)
    return planner.best()


@dataclass(frozen=True, slots=True)
class _Plan:
    """A way that fits. time: of each run of a stream, in the unit of the costs."""

    way: Parallel
    graph: Graph
    memories: tuple[MemoryUse, ...]
    time: int

    @property
    def text(self) -> str:
        """What an error says of it."""
        arenas = ", ".join(
            f"{use.memory.partition('.')[0]} {bytes_text(use.height_bytes)}"
            for use in self.memories
        )
        return f"would fit: parallel: {self.way} ({arenas})"


@dataclass(frozen=True)
class _Planner:
    graph: Graph
    profile: Profile
    costs: Costs
    target: Target
    options: Options
    book: RuleBook

    def wanted(self, way: Parallel) -> Graph:
        """Return the graph spread in one way; say which other way fits if it does not."""
        made = self._spread(way)
        if all(m.size_bytes is None for c in self.target.clusters for m in c.memories):
            return made
        try:
            self._planned(way, made)
        except UserError as fault:
            others = [plan.text for plan, _ in self._tried([w for w in WAYS if w != way]) if plan]
            raise UserError(
                fault.what,
                where=fault.where,
                details=(*fault.details, *others),
                fix=f"{fault.fix}, or what a line above says" if others else fault.fix,
            ) from fault
        return made

    def best(self) -> Graph:
        """Return the graph spread in the best way of all that fit."""
        tried = self._tried(WAYS)
        plans = [plan for plan, _ in tried if plan is not None]
        if plans:
            return min(plans, key=lambda plan: plan.time).graph
        faults = zip(WAYS, (fault for _, fault in tried), strict=True)
        raise UserError(
            "no way to spread it over the clusters goes",
            where=f"{self.graph.name}@{self.target.name}",
            details=[f"{way}: {fault.what}" for way, fault in faults if fault is not None],
            fix="set parallel: to one of them, to be told more",
        )

    def _tried(self, ways: Sequence[Parallel]) -> list[tuple[_Plan | None, UserError | None]]:
        found: list[tuple[_Plan | None, UserError | None]] = []
        for way in ways:
            try:
                found.append((self._planned(way, self._spread(way)), None))
            except UserError as fault:
                found.append((None, fault))
        return found

    def _spread(self, way: Parallel) -> Graph:
        matched = cache(matched_in(self.graph, self.book, wish_of(self.target, self.options)))
        spreader = Spreader(self.graph, self.target, matched)
        if self.graph.parts and way == "data":
            return spread_parts(spreader)
        if self.graph.states:
            raise _refusal_of_states(
                self.graph,
                self.target,
                f"'parallel: {way}'",
                "set parallel: data, or resources in place of clusters",
            )
        match way:
            case "data":
                is_batch = batch_of(self.graph) >= len(spreader.names)
                by_rows = not is_batch and has_rows(self.graph)
                return spread_rows(spreader) if by_rows else spread_batch(spreader)
            case "model":
                return spread_channels(spreader)
            case "pipeline":
                return spread_layers(spreader, self.profile, self.costs)

    def _planned(self, way: Parallel, graph: Graph) -> _Plan:
        target, options = self.target, self.options
        kernels = profile_of(graph, self.book, target, options)
        costs = scaled(kernels, self.profile, self.costs)
        tiles = core_plan(graph, kernels, costs, target, options, self.book)
        schedule = schedule_cores(graph, kernels, costs, tiles, target, options)
        time = period if graph.clusters.is_stream else makespan
        return _Plan(way, graph, schedule.memories, time(schedule, tiles, costs))


def _check(graph: Graph, target: Target, options: Options) -> None:
    where = f"{graph.name}@{target.name}"
    for key, value, goes in (
        ("input", options.input, "caller"),
        ("output", options.output, "caller"),
        ("arena", options.arena, "static"),
    ):
        if value != goes:
            raise UserError(
                f"'{key}: {value}' does not go with clusters",
                where=where,
                why="each cluster has an arena of its own; what all of them read is the caller's",
                fix=f"set {key}: {goes}, or resources in place of clusters",
            )
    if graph.states and not graph.parts:
        parts = sum(cluster.count for cluster in target.clusters)
        fix = f"set batch: {{inputs: [...], parts: {parts}}}, or resources in place of clusters"
        raise _refusal_of_states(graph, target, "clusters if the batch is not in parts", fix)
    if graph.counts:
        raise UserError(
            f"'{graph.counts[0].tensor}' has a size that only the run knows",
            where=where,
            why="its slices cannot be dealt to clusters beforehand",
            fix="set resources in place of clusters",
        )


def _refusal_of_states(graph: Graph, target: Target, what: str, fix: str) -> UserError:
    """Return the error for a state that would have one place, which one cluster may write."""
    return UserError(
        f"the state '{graph.states[0].input}' does not go with {what}",
        where=f"{graph.name}@{target.name}",
        why="each cluster needs a copy; they stay equal where parts of a batch are added up",
        fix=fix,
    )
