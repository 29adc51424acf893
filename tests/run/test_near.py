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
from dlbuild.report.memories import filled, memories_text
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
PIXELS = Options(layout=(("x", "nhwc"), ("y", "nhwc")))


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
    folder: Path,
    target: Target,
    options: Options = PIXELS,
    model: onnx.ModelProto | None = None,
) -> tuple[Graph, Profile, TilePlan, Schedule]:
    """Plan the three convolutions, or another model, and audit the plan."""
    file = folder / "net.onnx"
    onnx.save(model or three_convolutions(), file)
    graph = parse(file, {}, book(), "net").graph
    kernels = profile(graph, book(), target, options)
    tiles = tile(graph, kernels, target, options, book())
    audit_tiles(graph, kernels, tiles, target, options, book())
    plan = schedule(graph, kernels, tiles, target, options)
    audit(graph, kernels, tiles, plan, target, options)
    return graph, kernels, tiles, plan


def test_a_table_that_is_looked_up_is_brought_as_a_whole(tmp_path: Path) -> None:
    numbers = {"s": np.float32(0.1), "z": np.int8(0), "t": np.float32(1 / 256), "u": np.int8(-128)}
    node = helper.make_node(
        "QLinearSoftmax",
        ["x", "s", "z", "t", "u"],
        ["y"],
        "softmax",
        domain="com.microsoft",
        axis=1,
        opset=13,
    )
    ends = [helper.make_tensor_value_info(name, TensorProto.INT8, (1, 12)) for name in "xy"]
    weights = [numpy_helper.from_array(np.asarray(value), name) for name, value in numbers.items()]
    graph = helper.make_graph([node], "net", ends[:1], ends[1:], weights)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    target = Target(
        "near", (Memory("near", 2048, holds=("tiles",)), Memory("far", holds=("arena",)))
    )

    _, _, tiles, _ = planned(tmp_path, target, Options(requantize="fixed"), model)

    (tiling,) = tiles.tilings
    assert {buffer.operand: buffer.shape for buffer in tiling.buffers}["power"] == (256,)
    assert tiling.traffic_bytes == 12 + 256 * 4 + 12


def model_of(kind: str) -> onnx.ModelProto:
    """Return a model of one operator."""
    values = np.random.default_rng(2)
    shape: list[int] = [1, 16, 16, 16]
    made = list(shape)
    inputs = ["x"]
    weights: dict[str, tuple[int, ...]] = {}
    attributes: dict[str, int | list[int]] = {}
    match kind:
        case "Conv":
            weights = {"w": (16, 16, 3, 3)}
            attributes = {"pads": [1, 1, 1, 1]}
        case "depthwise":
            kind, weights = "Conv", {"w": (16, 1, 3, 3)}
            attributes = {"pads": [1, 1, 1, 1], "group": 16}
        case "MatMul":
            shape, made, weights = [1, 1024], [1, 64], {"w": (1024, 64)}
        case "MaxPool":
            attributes = {"kernel_shape": [2, 2], "strides": [2, 2]}
            made = [1, 16, 8, 8]
    inputs += weights
    node = helper.make_node(kind, inputs, ["y"], kind, **attributes)  # type: ignore[arg-type]
    graph = helper.make_graph(
        [node],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, made)],
        [
            numpy_helper.from_array(values.normal(size=size).astype(np.float32), name)
            for name, size in weights.items()
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def board(near_bytes: int) -> Target:
    near = Memory("near", near_bytes, holds=("tiles",))
    return Target("board", (near, Memory("far", holds=("arena",))))


def test_a_result_that_stays_is_not_moved(tmp_path: Path) -> None:
    _, _, tiles, plan = planned(tmp_path, board(3 * TENSOR_BYTES))

    moved = {t.kernel: {b.operand for b in t.buffers} for t in tiles.tilings}

    assert {resident.tensor for resident in tiles.residents} == {"a", "b"}
    assert moved == {"conv1": {"x", "w", "b"}, "conv2": {"w", "b"}, "conv3": {"w", "b", "y"}}
    ends = 2 * TENSOR_BYTES
    assert sum(t.moved_bytes for t in tiles.tilings) == ends + 3 * WEIGHTS_BYTES
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
    options = replace(PIXELS, optimize="ram", input="streamed", output="arena")
    _, _, tiles, plan = planned(tmp_path, board(2 * TENSOR_BYTES), options)

    between = {ring.tensor for strip in tiles.strips for ring in strip.rings} - {"x"}

    assert between
    assert {b.tensor: b.memory for b in plan.buffers if b.tensor in between} == dict.fromkeys(
        between, "near"
    )


def plan_for(objective: str, size: int, setup: int, rate: float, folder: Path) -> TilePlan:
    near = Memory("near", size, 4, "", ("tiles",), setup, rate, objective)
    target = Target("chip", (near, Memory("far", holds=("arena",))), cycles={"float32": 1.0})
    return planned(folder, target, replace(PIXELS, optimize="size"))[2]


def test_time_or_traffic_is_least_as_the_memory_says(tmp_path: Path) -> None:
    by_traffic, by_time = (
        plan_for(objective, 1300, 40, 4.0, tmp_path).tilings for objective in ("traffic", "time")
    )
    assert sum(t.traffic_bytes for t in by_traffic) < sum(t.traffic_bytes for t in by_time)
    assert sum(t.cycles for t in by_traffic) > sum(t.cycles for t in by_time)


@pytest.mark.parametrize("size", [700, 1000, 1500, 4000])
@pytest.mark.parametrize(("setup", "rate"), [(100, 0.25), (40, 4.0)])
def test_no_plan_for_traffic_is_faster_than_that_for_time(
    tmp_path: Path, size: int, setup: int, rate: float
) -> None:
    by_traffic, by_time = (
        sum(t.cycles for t in plan_for(objective, size, setup, rate, tmp_path).tilings)
        for objective in ("traffic", "time")
    )
    assert by_time <= by_traffic


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
            PIXELS,
        )


FLASH_SRAM_TCM = Target(
    "board",
    (
        Memory("tcm", 512, holds=("tiles",)),
        Memory("sram", 2 * TENSOR_BYTES, holds=("tiles",)),
        Memory("external", holds=("arena",)),
        Memory("flash", holds=("weights",)),
    ),
)


def test_a_task_is_cut_again_for_a_nearer_memory(tmp_path: Path) -> None:
    """Flash to SRAM to TCM: from afar each byte comes once, to the core in many windows."""
    _, _, tiles, plan = planned(tmp_path, FLASH_SRAM_TCM)
    alone = replace(FLASH_SRAM_TCM, memories=FLASH_SRAM_TCM.memories[::2])
    _, _, one, _ = planned(tmp_path, alone)

    found = [t.outer for t in tiles.tilings]
    outer = [t for t in found if t is not None]

    assert len(outer) == len(tiles.tilings) == 3
    assert [t.memory for t in outer] == ["sram"] * 3
    far = sum(t.traffic_bytes for t in outer)
    assert far == 6 * TENSOR_BYTES + 3 * WEIGHTS_BYTES
    assert far < sum(t.traffic_bytes for t in one.tilings)
    assert all(t.tasks > t.outer.tasks for t in tiles.tilings if t.outer)
    assert [use.memory for use in plan.near] == ["tcm", "sram"]


def test_a_window_outside_its_part_is_caught(tmp_path: Path) -> None:
    small = replace(FLASH_SRAM_TCM.memories[1], size_bytes=TENSOR_BYTES)
    memories = (FLASH_SRAM_TCM.memories[0], small, *FLASH_SRAM_TCM.memories[2:])
    target = replace(FLASH_SRAM_TCM, memories=memories)
    graph, kernels, tiles, _ = planned(tmp_path, target)
    (first, *others) = tiles.tilings
    assert first.around is not None
    (x, *rest) = first.around.buffers
    n, c, h, w = x.shape
    short = replace(first.around, buffers=(replace(x, shape=(n, c, h - 1, w)), *rest))
    wrong = replace(tiles, tilings=(replace(first, around=short), *others))

    with pytest.raises(AuditError) as caught:
        audit_tiles(graph, kernels, wrong, target, PIXELS, book())

    assert str(caught.value) == "conv1: task 0 touches more of x than its buffer holds"


@pytest.mark.parametrize(
    ("kind", "axes"),
    [
        ("Conv", {"m", "oh", "ow", "c"}),
        ("depthwise", {"m", "oh", "ow"}),
        ("MatMul", {"m1", "k"}),
        ("MaxPool", {"c", "oh", "ow"}),
        ("Relu", {"i0", "i1", "i2"}),
    ],
)
def test_each_kind_of_computation_is_cut_along_its_own_axes(
    kind: str, axes: set[str], tmp_path: Path
) -> None:
    _, _, tiles, _ = planned(tmp_path, board(900), Options(), model_of(kind))

    (found,) = tiles.tilings

    assert found.loops
    assert {cut.axis for cut in found.loops} <= axes


def test_rooms_of_windows_are_overwritten_by_the_next_kernels(tmp_path: Path) -> None:
    _, _, tiles, plan = planned(tmp_path, board(TENSOR_BYTES // 2))
    windows = [b for b in plan.buffers if b.memory == "near"]

    assert len(tiles.tilings) == 3
    assert [b.last_step - b.first_step for b in windows] == [1] * len(windows)
    assert sum(b.size_bytes for b in windows) > plan.near[0].height_bytes
    assert plan.near[0].height_bytes <= TENSOR_BYTES // 2


def test_the_report_says_of_each_memory_what_it_holds_and_when_it_is_fullest(
    tmp_path: Path,
) -> None:
    _, _, _, plan = planned(tmp_path, board(3 * TENSOR_BYTES))

    text = "\n".join(memories_text("net@board", list(filled(plan, 0))))

    (use,) = plan.near
    ratio = f"{use.height_bytes / use.bound_bytes:.3f}"
    peak = f"step {use.peak_step} ({plan.steps[use.peak_step].kernel})"
    cells = [f"{use.height_bytes:,}", f"{use.bound_bytes:,}", ratio, f"{3 * TENSOR_BYTES:,}"]
    cells += [f"{3 * TENSOR_BYTES - use.height_bytes:,}", peak]
    (line,) = [line for line in text.splitlines() if line.startswith("  near   ")]
    assert line.split("  ")[1].strip() == "near"
    assert [cell for cell in map(str.strip, line.split("  ")) if cell][1:] == cells
    assert "near holds windows of the kernel that runs, partial sums" in text
    live = {name for one in filled(plan, 0) if one.memory == "near" for name, _ in one.live}
    assert live & {"a", "b"}
    assert any(" of conv" in name for name in live)
