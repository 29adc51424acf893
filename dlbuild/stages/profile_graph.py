"""The profile graph: the schedule's calls with their times, and what flows between them."""

from collections.abc import Iterator

from dlbuild.ir.costs import Costs
from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Profile
from dlbuild.ir.profile_graph import Edge, Node, ProfileGraph
from dlbuild.ir.schedule import Schedule, Step
from dlbuild.ir.tile_plan import TilePlan, Touch
from dlbuild.stages.cluster_memory import cluster_of
from dlbuild.stages.timeline import time_of, timeline


def profile_graph(
    graph: Graph, profile: Profile, costs: Costs, tiles: TilePlan, schedule: Schedule
) -> ProfileGraph:
    """Return the calls of a schedule in its order, each with its predicted start."""
    tile_of = {(tile.kernel, tile.number): tile for tile in tiles.tiles}
    time = time_of(tiles, costs)
    spans = timeline(schedule.steps, time)
    clusters = cluster_of(graph, profile)
    nodes = tuple(
        Node(
            step.number,
            step.kernel,
            step.core,
            tile_of[step.kernel, step.tile].boxes,
            round(profile.kernel[step.kernel].macs * tile_of[step.kernel, step.tile].share),
            time(step),
            spans[step.number].start,
            costs.of[step.kernel].is_measured,
            clusters[step.kernel],
        )
        for step in schedule.steps
    )
    edges = tuple(_edges(graph, profile, tiles, schedule))
    return ProfileGraph(costs.unit, max((s.end for s in spans.values()), default=0), nodes, edges)


def _edges(graph: Graph, profile: Profile, tiles: TilePlan, schedule: Schedule) -> Iterator[Edge]:
    """Yield what flows: from each tile that writes a tensor to each that reads some of it."""
    touched: dict[tuple[str, int, str, bool], Touch] = {
        (t.kernel, t.tile, t.tensor, t.is_write): t for t in tiles.touches
    }
    writers: dict[str, list[Step]] = {}
    for step in schedule.steps:
        for tensor in profile.kernel[step.kernel].writes:
            writers.setdefault(tensor, []).append(step)
    for step in schedule.steps:
        for tensor in profile.kernel[step.kernel].reads:
            read = touched.get((step.kernel, step.tile, tensor, False))
            size = read.end_byte - read.first_byte if read else graph.tensor[tensor].size_bytes
            if tensor not in writers:
                yield Edge(None, step.number, tensor, size)
            for source in writers.get(tensor, []):
                write = touched.get((source.kernel, source.tile, tensor, True))
                if read is None or write is None or read.meets(write):
                    yield Edge(source.number, step.number, tensor, size)
