"""Tiles for several cores: whole kernels, or parts of each, whichever ends sooner."""

from dlbuild.base.errors import UserError
from dlbuild.ir.costs import Costs
from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Profile
from dlbuild.ir.target import Options, Target
from dlbuild.ir.tile_plan import NO_TILES, Tile, TilePlan, Touch, handwritten_kernel
from dlbuild.rulebook.kernels import instance_of, wish_of
from dlbuild.rulebook.load import RuleBook
from dlbuild.stages.cluster_memory import cores_of_kernels
from dlbuild.stages.deal import WHOLE, Dealer, best_of
from dlbuild.stages.parts import divide, tiles_of, touches_of
from dlbuild.stages.spaces import space_of
from dlbuild.stages.timeline import WAIT_COST


def core_plan(  # noqa: PLR0913, PLR0917 - the inputs of the stage
    graph: Graph,
    profile: Profile,
    costs: Costs,
    target: Target,
    options: Options,
    book: RuleBook,
) -> TilePlan:
    """Return the tiles for a target of several cores, by `schedule`.

    Raises:
        UserError: an option or a memory that does not go with several cores.
    """
    _check(graph, target, options)
    whole = TilePlan(tuple(Tile(kernel.name) for kernel in profile.kernels))
    if options.schedule in WHOLE:
        return whole
    parts = divided(graph, profile, costs, target, options, book)
    if options.schedule == "split":
        return parts
    dealer = Dealer(profile, costs, target.resources, cores_of_kernels(graph, profile, target))
    best = best_of(dealer, whole, WHOLE)
    return parts if dealer.deal(parts, "split").makespan < best.makespan else whole


def divided(  # noqa: PLR0913, PLR0917 - the inputs of the stage
    graph: Graph,
    profile: Profile,
    costs: Costs,
    target: Target,
    options: Options,
    book: RuleBook,
) -> TilePlan:
    """Return a plan in which each kernel that gains by it is divided among its cluster's cores."""
    wish, cores_of = wish_of(target, options), cores_of_kernels(graph, profile, target)
    tiles: list[Tile] = []
    touches: list[Touch] = []
    activations = frozenset(t for k in profile.kernels for t in (*k.reads, *k.writes))
    for kernel in profile.kernels:
        whole = (Tile(kernel.name),)
        instance = instance_of(kernel, graph, book, wish)
        # What is written by hand computes all of its outputs, in working memory of its own.
        is_whole = kernel.alias is not None or handwritten_kernel(kernel, NO_TILES) is not None
        space = None if is_whole else space_of(kernel, instance, graph, profile)
        count = len(cores_of[kernel.name])
        division = divide(space, count, activations) if space and count > 1 else None
        time = costs.of[kernel.name].cost
        if space is None or division is None or division.longest * time + 2 * WAIT_COST >= time:
            tiles += whole
            continue
        made = tiles_of(kernel.name, division)
        tiles += made
        touches += [touch for tile in made for touch in touches_of(tile, space, activations)]
    return TilePlan(tuple(tiles), touches=tuple(touches))


def _check(graph: Graph, target: Target, options: Options) -> None:
    kind, count = target.resources
    where = f"{graph.name}@{target.name}"
    stops = "it would stop one of them in the middle of a run"
    strips = "strips alone compute anything twice, and several cores make none"
    for key, value, goes, default, why in (
        ("input", options.input, options.input in {"caller", "arena"}, "caller", stops),
        ("hook", "true", not options.hook, "false", stops),
        ("max_recompute", options.max_recompute, options.max_recompute <= 1, "1.0", strips),
    ):
        if not goes:
            raise UserError(
                f"'{key}: {value}' does not go with {count} {kind}",
                where=where,
                why=why,
                fix=f"set {key}: {default}, or resources: {{{kind}: 1}}",
            )
    nearer = [memory for cluster in target.clusters for memory in cluster.memories]
    for memory in (*target.memories, *nearer):
        if "tiles" in memory.holds:
            raise UserError(
                f"memory '{memory.name}' holds tiles, which does not go with {count} {kind}",
                where=where,
                why="the windows in it are those of one kernel at a time",
                fix=f"leave tiles out of its 'holds', or set resources: {{{kind}: 1}}",
            )
