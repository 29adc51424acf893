"""The profile graph: the schedule's calls with their times, and what flows between them."""

from collections.abc import Iterator

from dlbuild.ir.costs import Costs
from dlbuild.ir.graph import Graph
from dlbuild.ir.plans import Profile, Schedule
from dlbuild.ir.profile_graph import Edge, Node, ProfileGraph


def profile_graph(graph: Graph, profile: Profile, costs: Costs, schedule: Schedule) -> ProfileGraph:
    """Return the calls of a schedule in its order, each with its predicted start."""
    nodes = []
    now = 0
    for step in schedule.steps:
        found = costs.of[step.kernel]
        time = found.cost if step.is_code else 0
        macs = profile.kernel[step.kernel].macs
        nodes.append(
            Node(step.number, step.kernel, step.core, (), macs, time, now, found.is_measured)
        )
        now += time
    return ProfileGraph(costs.unit, now, tuple(nodes), tuple(_edges(graph, profile, schedule)))


def _edges(graph: Graph, profile: Profile, schedule: Schedule) -> Iterator[Edge]:
    writers: dict[str, list[int]] = {}
    for step in schedule.steps:
        for tensor in profile.kernel[step.kernel].writes:
            writers.setdefault(tensor, []).append(step.number)
    for step in schedule.steps:
        for tensor in profile.kernel[step.kernel].reads:
            size = graph.tensor[tensor].size_bytes
            for source in writers.get(tensor, [None]):
                yield Edge(source, step.number, tensor, size)
