"""Cut kernels into tasks: rows of several kernels together where the arena has to be small."""

from dlbuild.ir.graph import Graph
from dlbuild.ir.plans import Profile, Tile, TilePlan
from dlbuild.ir.target import Options, Target
from dlbuild.rulebook.load import RuleBook
from dlbuild.stages.schedule import arrange
from dlbuild.stages.strips import budget_of, strip_plan


def tile(
    graph: Graph, profile: Profile, target: Target, options: Options, book: RuleBook | None = None
) -> TilePlan:
    """Return the tasks of each kernel: one, the whole, or rows in strips with its neighbours.

    Strips are made if the input is streamed, if the arena is to be small (`optimize: ram`), or if
    layer by layer it exceeds its budget. They compute nothing twice.

    Args:
        graph: the model.
        profile: its kernels.
        target: the chip.
        options: of the build.
        book: the rules; without them every kernel is whole.
    """
    whole = TilePlan(tuple(Tile(kernel.name) for kernel in profile.kernels))
    if book is None:
        return whole
    if options.input != "streamed":
        (use,) = arrange(graph, profile, whole, target, options).memories
        budget = budget_of(target)
        fits = budget is None or use.height_bytes <= budget
        if fits and options.optimize != "ram":
            return whole
        found = strip_plan(graph, profile, target, options, book)
        if found is None:
            return whole
        (strips,) = arrange(graph, profile, found, target, options).memories
        return found if strips.height_bytes < use.height_bytes else whole
    return strip_plan(graph, profile, target, options, book) or whole
