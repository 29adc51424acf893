"""Tiles: whole kernels, in the profile's order."""

from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Kernel, Profile
from dlbuild.ir.target import Options, Target
from dlbuild.ir.tile_plan import Tile
from dlbuild.stages.tile import tile


def test_each_kernel_is_one_whole_tile() -> None:
    kernels = tuple(
        Kernel(name, name, (), (), "test.yaml#Any", "", (), (), (), 0, 0, 0, 0, 0)
        for name in ("conv1", "relu2")
    )
    graph = Graph("net", (), (), (), (), ())
    plan = tile(graph, Profile(kernels), Target("board"), Options())
    assert plan.tiles == (Tile("conv1", 0, ()), Tile("relu2", 0, ()))
