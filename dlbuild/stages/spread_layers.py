"""Pipeline: each cluster computes the layers between two cuts and hands on what others read."""

from collections.abc import Mapping, Sequence

from dlbuild.ir.costs import Costs
from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Profile
from dlbuild.stages.rewrites.spread import CALLER
from dlbuild.stages.spread import Spreader, Whole


def spread_layers(spreader: Spreader, profile: Profile, costs: Costs) -> Graph:
    """Return the graph with its layers dealt to the clusters, so that the slowest is fastest.

    What a cluster reads of earlier ones it copies from the one before it, first of all, so that
    this may go on with the next input.

    Args:
        spreader: an empty one.
        profile: the kernels of the graph; no kernel is cut.
        costs: what each of them costs one core.
    """
    graph = spreader.graph
    times = [costs.of[kernel.name].cost for kernel in profile.kernels]
    ends = partition(times, spreader.weights)
    stage_of: dict[str, int] = {}
    for number, kernel in enumerate(profile.kernels):
        stage = next(s for s, end in enumerate(ends) if number < end)
        for name in kernel.ops:
            stage_of[name] = min(stage, stage_of.get(name, stage))
    latest = _latest(spreader, stage_of)
    for stage, cluster in enumerate(spreader.names):
        before = [t for t, state in spreader.state.items() if isinstance(state, Whole)]
        for tensor in before:
            state = spreader.state[tensor]
            assert isinstance(state, Whole)
            if latest.get(tensor, -1) < stage or CALLER in state.at:
                continue
            source = spreader.names[stage - 1]
            have = state.at[source]
            state.at[cluster] = spreader.made.copy(have, tensor, source, cluster)
        for op in graph.ops:
            if stage_of.get(op.name, 0) == stage:
                spreader.place(op, cluster)
    spreader.finish()
    return spreader.made.finished("pipeline")


def _latest(spreader: Spreader, stage_of: Mapping[str, int]) -> dict[str, int]:
    """Return of each tensor the last stage that reads it."""
    found: dict[str, int] = {}
    for op in spreader.graph.ops:
        for tensor in spreader.activations(op):
            found[tensor] = max(found.get(tensor, 0), stage_of.get(op.name, 0))
    return found


def partition(times: Sequence[int], weights: Sequence[int]) -> tuple[int, ...]:
    """Return where each part of a sequence ends, so that the longest part is shortest.

    Args:
        times: of the elements.
        weights: how fast each part is done.
    """
    sums = [0]
    for time in times:
        sums.append(sums[-1] + time)
    count = len(times)
    # The longest part so far; of equals the least sum of squares, so that none is left idle.
    best = [(total / weights[0], (total / weights[0]) ** 2) for total in sums]
    cuts: list[list[int]] = []
    for weight in weights[1:]:
        found = []
        for end in range(count + 1):
            last = [(sums[end] - sums[start]) / weight for start in range(end + 1)]
            found.append(
                min(
                    ((max(before, time), squares + time**2), start)
                    for start, ((before, squares), time) in enumerate(
                        zip(best[: end + 1], last, strict=True)
                    )
                )
            )
        best = [measure for measure, _ in found]
        cuts.append([start for _, start in found])
    ends = [count]
    for starts in reversed(cuts):
        ends.append(starts[ends[-1]])
    return tuple(reversed(ends))
