"""Cut kernels into tasks: rows of several kernels together where the arena has to be small."""

from collections.abc import Callable
from functools import partial

from dlbuild.base.errors import UserError
from dlbuild.ir.costs import Costs
from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Profile
from dlbuild.ir.target import Memory, Options, Target
from dlbuild.ir.tile_plan import Tile, TilePlan
from dlbuild.rulebook.load import RuleBook
from dlbuild.stages.lives import names_of_fetched
from dlbuild.stages.predicted import predicted
from dlbuild.stages.schedule import arrange
from dlbuild.stages.strips import budget_of, strip_plan, with_arena_of
from dlbuild.stages.tiling import tile_memories


def tile(  # noqa: PLR0913, PLR0917 - the inputs of the stage
    graph: Graph,
    profile: Profile,
    target: Target,
    options: Options,
    book: RuleBook | None = None,
    costs: Costs | None = None,
) -> TilePlan:
    """Return the tasks of each kernel: one, the whole, or rows in strips with its neighbours.

    Strips are made if the input is streamed, if the arena is to be small (`optimize: ram`), or if
    layer by layer it exceeds its budget, or is fetched. They compute nothing twice but what
    `max_recompute` allows. Where a memory holds tiles, all other kernels run through it one by one.
    A target of several cores has no strips: kernels or parts of them are dealt to its cores.

    graph, profile: the model and its kernels.
    target: the chip.
    options: of the build.
    book: the rules; without them every kernel is whole.
    costs: of the kernels, by which they are divided among cores; predictions if there are none.
    """
    whole = TilePlan(tuple(Tile(kernel.name) for kernel in profile.kernels))
    if book is None:
        return whole
    if target.resources[1] > 1:
        from dlbuild.stages.split import core_plan  # noqa: PLC0415 - of several cores alone

        return core_plan(graph, profile, costs or predicted(profile), target, options, book)
    memories = tile_memories(graph, target)
    # What lies in a near memory takes no room in the arena.
    near = partial(_with_near, graph, profile, memories, target, options, book)
    if options.input not in ("streamed", "external"):
        made = near(whole)
        (use, *_) = arrange(graph, profile, made, target, options).memories
        budget = budget_of(target)
        fits = budget is None or use.height_bytes <= budget
        if fits and options.optimize != "ram":
            return made
        found = _in_strips(graph, profile, target, options, book, near)
        return found[1] if found is not None and found[0] < use.height_bytes else made
    check_streamed(graph, target, options)
    found = _in_strips(graph, profile, target, options, book, near)
    if found is None:
        raise _unstreamable(graph, profile, target, options)
    return found[1]


def _in_strips(  # noqa: PLR0913, PLR0917 - the inputs of the stage, and what completes a plan
    graph: Graph,
    profile: Profile,
    target: Target,
    options: Options,
    book: RuleBook,
    near: Callable[[TilePlan], TilePlan],
) -> tuple[int, TilePlan] | None:
    """Return the bytes of the arena of a plan in strips, and the plan; None if there is none.

    Where the plan for the budget exceeds it as it is placed, the lowest there is may not.
    """
    budget = budget_of(target)
    best: tuple[int, TilePlan] | None = None
    for room in (target, with_arena_of(target, 0)):
        found = strip_plan(graph, profile, room, options, book)
        if found is None:
            break
        made = near(found)
        (use, *_) = arrange(graph, profile, made, target, options).memories
        if best is None or use.height_bytes < best[0]:
            best = use.height_bytes, made
        if budget is None or best[0] <= budget:
            break
    return best


def _with_near(  # noqa: PLR0913, PLR0917 - the inputs of the stage, and what it has made so far
    graph: Graph,
    profile: Profile,
    memories: tuple[Memory, ...],
    target: Target,
    options: Options,
    book: RuleBook,
    plan: TilePlan,
) -> TilePlan:
    """Return a plan with what lies in the near memory, if there is one."""
    if not memories:
        return plan
    from dlbuild.stages.near import near_plan  # noqa: PLC0415 - of near memories alone

    return near_plan(graph, profile, plan, memories, target, options, book)


def check_streamed(graph: Graph, target: Target, options: Options) -> None:
    """Refuse what an input that comes in rows, or is fetched in rows, does not go with.

    Raises:
        UserError: names the option to change.
    """
    where = f"{graph.name}@{target.name}"
    if graph.states:
        raise UserError(
            f"'input: {options.input}' does not go with 'state'",
            where=where,
            why="the state would be overwritten before the last row has come",
            fix="set input: caller or input: arena",
        )
    if len(graph.inputs) != 1:
        raise UserError(
            f"the model has {len(graph.inputs)} inputs, 'input: {options.input}' needs one",
            where=where,
            fix="set input: caller or input: arena",
        )
    if options.input == "streamed" and options.output != "arena":
        raise UserError(
            f"'input: streamed' does not go with 'output: {options.output}'",
            where=where,
            why="a push returns to the caller in the middle of a run",
            fix="set output: arena",
        )


def _unstreamable(graph: Graph, profile: Profile, target: Target, options: Options) -> UserError:
    (name,) = graph.inputs
    names = {name} | names_of_fetched(graph, profile, options)
    reading = [k for k in profile.kernels if not names.isdisjoint(k.reads)]
    readers = ", ".join(f"'{kernel.anchor}'" for kernel in reading)
    is_streamed = options.input == "streamed"
    why = (
        f"no strip of kernels that go row by row holds all that read it ({readers})"
        if is_streamed
        else f"not all that read it go row by row, each once and by the same rows ({readers})"
    )
    how = "streaming" if is_streamed else "that"
    return UserError(
        f"'{name}' cannot be {'streamed' if is_streamed else 'fetched in rows'}",
        where=f"{graph.name}@{target.name}",
        why=why,
        fix=f"set input: arena; for images, {how} needs layout: {{{name}: nhwc}}",
    )
