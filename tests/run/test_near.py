"""What lies in a near memory beside windows: results that stay, and rings of strips."""

from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from dlbuild.base.paths import builtin_folder
from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Profile
from dlbuild.ir.schedule import Schedule
from dlbuild.ir.target import Memory, Options, Target
from dlbuild.ir.tile_plan import TilePlan
from dlbuild.rulebook.load import RuleBook, load_rules
from dlbuild.stages.audit import AuditError, audit
from dlbuild.stages.audit_tiles import audit_tiles
from dlbuild.stages.parse import parse
from dlbuild.stages.profile import profile
from dlbuild.stages.schedule import schedule
from dlbuild.stages.tile import tile

CHANNELS, HEIGHT, WIDTH = 4, 12, 10
TENSOR_BYTES = CHANNELS * HEIGHT * WIDTH * 4
WEIGHTS_BYTES = (CHANNELS * CHANNELS * 9 + CHANNELS) * 4
PLAIN = Options()


@cache
def book() -> RuleBook:
    return load_rules([builtin_folder()])


def three_convolutions() -> onnx.ModelProto:
    """Return a chain of three convolutions of one shape."""
    values = np.random.default_rng(1)
    nodes, weights = [], []
    for number, (source, result) in enumerate(pairwise(("x", "a", "b", "y"))):
        shape = (CHANNELS, CHANNELS, 3, 3)
        for name, size in ((f"w{number}", shape), (f"b{number}", (CHANNELS,))):
            array = values.normal(size=size).astype(np.float32)
            weights.append(numpy_helper.from_array(array, name))
        inputs = [source, f"w{number}", f"b{number}"]
        nodes.append(helper.make_node("Conv", inputs, [result], f"c{number}", pads=[1, 1, 1, 1]))
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, CHANNELS, HEIGHT, WIDTH))
        for name in "xy"
    ]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def planned(
    folder: Path, target: Target, options: Options = PLAIN
) -> tuple[Graph, Profile, TilePlan, Schedule]:
    """Plan the three convolutions, and audit the plan."""
    file = folder / "net.onnx"
    onnx.save(three_convolutions(), file)
    graph = parse(file, {}, book(), "net").graph
    options = replace(options, layout=(("x", "nhwc"), ("y", "nhwc")))
    kernels = profile(graph, book(), target, options)
    tiles = tile(graph, kernels, target, options, book())
    audit_tiles(graph, kernels, tiles, target, options, book())
    plan = schedule(graph, kernels, tiles, target, options)
    audit(graph, kernels, tiles, plan, target, options)
    return graph, kernels, tiles, plan


def board(near_bytes: int) -> Target:
    near = Memory("near", near_bytes, holds=("tiles",))
    return Target("board", (near, Memory("far", holds=("arena",))))


def test_a_result_that_stays_is_not_moved(tmp_path: Path) -> None:
    _, _, tiles, plan = planned(tmp_path, board(3 * TENSOR_BYTES))

    moved = {t.kernel: {b.operand for b in t.buffers} for t in tiles.tilings}

    assert {resident.tensor for resident in tiles.residents} == {"a", "b"}
    assert moved == {"conv1": {"x", "w", "b"}, "conv2": {"w", "b"}, "conv3": {"w", "b", "y"}}
    ends = 2 * TENSOR_BYTES
    assert sum(t.traffic_bytes for t in tiles.tilings) == ends + 3 * WEIGHTS_BYTES
    assert plan.memories[0].height_bytes == 0


def test_without_room_nothing_stays(tmp_path: Path) -> None:
    _, _, tiles, _ = planned(tmp_path, board(TENSOR_BYTES // 2))

    assert not tiles.residents
    assert [t.kernel for t in tiles.tilings] == ["conv1", "conv2", "conv3"]


def test_what_stays_is_alive_with_the_windows_and_within_the_budget(tmp_path: Path) -> None:
    target = board(2 * TENSOR_BYTES)
    _, _, tiles, plan = planned(tmp_path, target)
    (use,) = plan.memories[1:]

    assert tiles.residents
    assert use.bound_bytes <= use.height_bytes <= 2 * TENSOR_BYTES
    here = [b for b in plan.buffers if b.memory == "near"]
    assert max(b.offset_bytes + b.size_bytes for b in here) == use.height_bytes


def test_rings_of_strips_lie_in_the_near_memory(tmp_path: Path) -> None:
    options = Options(optimize="ram", input="streamed", output="arena")
    _, _, tiles, plan = planned(tmp_path, board(2 * TENSOR_BYTES), options)

    between = {ring.tensor for strip in tiles.strips for ring in strip.rings} - {"x"}

    assert between
    assert {b.tensor: b.memory for b in plan.buffers if b.tensor in between} == dict.fromkeys(
        between, "near"
    )


def test_windows_on_what_stays_are_caught(tmp_path: Path) -> None:
    target = board(3 * TENSOR_BYTES)
    graph, kernels, tiles, plan = planned(tmp_path, target)
    staying = next(r for r in tiles.residents if r.tensor == "a")
    wrong = tuple(
        replace(t, buffers=tuple(replace(b, offset_bytes=staying.offset_bytes) for b in t.buffers))
        if t.kernel == "conv2"
        else t
        for t in tiles.tilings
    )
    moved = tuple(
        replace(b, offset_bytes=staying.offset_bytes) if b.tensor.endswith("of conv2") else b
        for b in plan.buffers
    )

    with pytest.raises(AuditError, match="share bytes"):
        audit(
            graph,
            kernels,
            replace(tiles, tilings=wrong),
            replace(plan, buffers=moved),
            target,
            replace(PLAIN, layout=(("x", "nhwc"), ("y", "nhwc"))),
        )
