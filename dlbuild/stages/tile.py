"""Cut kernels into tasks that fit the near memory."""

from dlbuild.ir.graph import Graph
from dlbuild.ir.plans import Profile, Tile, TilePlan
from dlbuild.ir.target import Options, Target


def tile(_graph: Graph, profile: Profile, _target: Target, _options: Options) -> TilePlan:
    """Return the tasks of each kernel: one, the whole, since activations are resident."""
    return TilePlan(tuple(Tile(kernel.name) for kernel in profile.kernels))
