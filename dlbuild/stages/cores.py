"""The schedule of several cores: who does which tile, where tensors lie, who waits for whom."""

from dataclasses import replace

from dlbuild.base.errors import UserError
from dlbuild.ir.costs import Costs
from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Profile
from dlbuild.ir.schedule import Schedule
from dlbuild.ir.target import Options, Target
from dlbuild.ir.tile_plan import TilePlan
from dlbuild.stages.cluster_memory import cores_of_kernels
from dlbuild.stages.deal import WHOLE, Dealer, Dealt, Policy, best_of
from dlbuild.stages.schedule import Spans, schedule
from dlbuild.stages.timeline import makespan
from dlbuild.stages.waits import with_waits

NEAR = 1.02
"""So near to the makespan without any shared bytes a placement is good enough."""


def schedule_cores(  # noqa: PLR0913, PLR0917 - the inputs of the stage
    graph: Graph,
    profile: Profile,
    costs: Costs,
    tiles: TilePlan,
    target: Target,
    options: Options,
) -> Schedule:
    """Return the steps of all cores in one order that is right for one core too.

    Steps that would overwrite what another core still needs wait for it, as those do that read what
    another core writes. Where the memory allows it, tensors that are there at the same time do not
    share bytes, so that few wait for that reason.

    Raises:
        UserError: no memory may hold the arena, or its budget is too small.
    """
    cores_of = cores_of_kernels(graph, profile, target)
    dealer = Dealer(profile, costs, target.resources, cores_of)
    dealt = _dealt(dealer, tiles, options)
    ordered = replace(tiles, tiles=dealt.tiles)
    layers = dealer.level if dealer.is_in_step else None

    def placed(spans: Spans | None) -> Schedule:
        plan = schedule(graph, profile, ordered, target, options, spans)
        steps = zip(plan.steps, dealt.cores, strict=True)
        plan = replace(plan, steps=tuple(replace(step, core=core) for step, core in steps))
        is_stream = graph.clusters.is_stream
        return with_waits(profile, tiles, plan, dealer.count, layers, is_stream=is_stream)

    if options.optimize == "ram" or any(tile.boxes for tile in tiles.tiles):
        return placed(None)
    try:
        apart = placed(dealt.together)
    except UserError:
        return placed(None)  # less memory, more waits
    time = makespan(apart, tiles, costs)
    if time <= NEAR * dealt.makespan:
        return apart
    tight = placed(None)
    return apart if time < makespan(tight, tiles, costs) else tight


def _dealt(dealer: Dealer, tiles: TilePlan, options: Options) -> Dealt:
    if any(tile.boxes for tile in tiles.tiles):
        return dealer.deal(tiles, "split")
    match options.schedule:
        case "auto":
            return best_of(dealer, tiles, WHOLE)
        case policy:
            chosen: Policy = policy
            return dealer.deal(tiles, chosen)
