"""How a kernel of a profile may be cut."""

from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Kernel, Profile
from dlbuild.ir.tile_plan import Tiling
from dlbuild.rulebook.instance import Instance
from dlbuild.rulebook.kernels import orders_of
from dlbuild.stages.hand_space import hand_space
from dlbuild.stages.tile_space import TileSpace, tile_space


def space_of(
    kernel: Kernel,
    instance: Instance,
    graph: Graph,
    profile: Profile,
    staying: frozenset[str] = frozenset(),
) -> TileSpace | None:
    """Return the ways to cut a kernel, None if its operands cannot be moved window by window.

    staying: tensors that lie in the near memory, which need not be moved.
    """
    constants = frozenset(graph.constants)
    in_table = frozenset(
        o.name for o in instance.operands if o.role == "constant" or o.tensor in constants
    )
    found = tile_space(instance, orders_of(kernel, instance, profile), in_table)
    return found.without(staying) if found else None


def tiling_space(
    tiling: Tiling, kernel: Kernel, instance: Instance, graph: Graph, profile: Profile
) -> TileSpace | None:
    """Return the ways to cut a kernel among which a tiling was chosen.

    instance: with the operands of the hand-written kernel, if that computes the tasks.
    """
    if not tiling.is_handwritten:
        return space_of(kernel, instance, graph, profile)
    return hand_space(kernel, instance, graph, profile, tiling.form, is_by_rows=tiling.is_by_rows)
