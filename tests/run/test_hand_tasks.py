"""Tasks of hand-written kernels in a near memory compute what the nests compute at once.

Each case is one quantised layer, rendered twice: as a nest with all tensors resident, and by the
kernel of a core on what tasks bring, cut at random: by rows, parts of rows and channels, in each
form. See `test_tiles` for the port, which stops the program at a window that is used too early.

DLBUILD_HAND_PROGRAMS: how many programs of 20 cases each; 2 for each core by default.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any  # fields of a tiling

import numpy as np
import pytest
from onnx import TensorProto, helper

from dlbuild.ir.target import Options, Rate
from dlbuild.ir.tile_plan import Cut
from dlbuild.ir.weights import Array
from dlbuild.rulebook.kernels import instance_of, wish_of
from dlbuild.stages.audit import AuditError
from dlbuild.stages.audit_tiles import audit_tiles
from dlbuild.stages.hand_space import hand_spaces
from dlbuild.stages.parse import parse
from dlbuild.stages.profile import profile
from dlbuild.stages.tile import tile
from dlbuild.stages.tile_search import Near, search
from dlbuild.stages.tile_space import TileSpace
from dlbuild.stages.tile_work import further_cycles
from dlbuild.stages.tiling import near_of, planned
from tests.run.test_tiles import CASES_PER_PROGRAM, Case, Shape, book, model, plans, random, run

PROGRAMS = int(os.environ.get("DLBUILD_HAND_PROGRAMS", "2"))
CORES = (("dsp",), ("dsp", "mve"), ("x86",))
NHWC = Options(requantize="fixed", layout=(("x", "nhwc"), ("y", "nhwc")))
DENSE = ((1, 4), (3, 41), (1, 9))
"""Rows, inner extents and half of the columns of fully connected layers, from and up to."""


def quantised(values: np.random.Generator, shape: Sequence[int], m: int) -> dict[str, Array]:
    """Return the constants of a layer behind its input, weights without the least number."""
    return {
        "xs": np.array(0.05, np.float32),
        "xz": np.array(values.integers(-128, 128), np.int8),
        "w": values.integers(-127, 128, shape, np.int8),
        "ws": values.uniform(0.001, 0.02, m).astype(np.float32),
        "wz": np.zeros(m, np.int8),
        "ys": np.array(0.1, np.float32),
        "yz": np.array(-5, np.int8),
        "b": values.integers(-5000, 5000, m, np.int32),
    }


def conv(shape: Shape, seed: int) -> bytes:
    """Return a model of one convolution, one in three of several samples."""
    n = (1, 1, 3)[seed % 3]
    m = shape.per_group[1] * shape.groups
    constants = quantised(random(seed), (m, shape.per_group[0], *shape.kernel), m)
    node = helper.make_node(
        "QLinearConv", ["x", *constants], ["y"], group=shape.groups, **shape.attributes
    )
    sizes = {"x": (n, shape.channels, *shape.extent)}
    return model(node, sizes, (n, m, *shape.out), constants, TensorProto.INT8)


def dense(rows: int, inner: int, columns: int, seed: int) -> bytes:
    """Return a model of one fully connected layer."""
    made = quantised(random(seed), (columns, inner), columns)
    names = ("xs", "xz", "w", "ws", "wz", "b", "ys", "yz")
    constants = {name: made[name] for name in names}
    node = helper.make_node("QGemm", ["x", *names], ["y"], domain="com.microsoft", transB=1)
    return model(node, {"x": (rows, inner)}, (rows, columns), constants, TensorProto.INT8)


def shape_of(values: np.random.Generator) -> Shape:
    """Draw a convolution that each core has a kernel for, some with rows of one point."""

    def pick(*choices: int) -> int:
        return int(values.choice(choices))

    is_column = pick(0, 1, 2, 3) == 0
    tall = ((1, 1), (3, 1), (5, 1)) if is_column else ((1, 1), (1, 1), (3, 3), (3, 2), (7, 4))
    kernel = tall[pick(*range(len(tall)))]
    wide = 0 if is_column else 1
    strides = pick(1, 1, 2), pick(1, 1, 1 + wide)
    dilations = pick(1, 1, 2), pick(1, 1, 1 + wide)
    top, left, bottom, right = (pick(*range(min(3, kernel[at % 2] - 1) + 1)) for at in range(4))
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    rows = max(1, spans[0] - top - bottom) + pick(*range(13))
    columns = 1 if is_column else max(1, spans[1] - left - right) + pick(*range(9))
    is_deep = pick(0, 1) == 1
    channels = pick(4, 8, 12, 16, 32, 48) if is_deep else pick(1, 3, 4, 8, 16, 20)
    per_group = (1, 1) if is_deep else (channels, pick(2, 4, 6, 8, 12, 32))
    groups, pads = channels if is_deep else 1, (top, left, bottom, right)
    return Shape((rows, columns), channels, per_group, groups, kernel, strides, dilations, pads)


def case_of(seed: int, features: tuple[str, ...]) -> Case:
    """Draw a layer and how it is cut."""
    values = random(seed)
    draws = tuple(int(number) for number in values.integers(0, 97, 8))
    if seed % 6 == 0:
        rows, inner, columns = (int(values.integers(low, high)) for low, high in DENSE)
        content = dense(rows, inner, 2 * columns, seed)
        return Case(content, Options(requantize="fixed"), draws, features=features)
    return Case(conv(shape_of(values), seed), NHWC, draws, features=features)


@pytest.mark.parametrize("number", range(PROGRAMS))
@pytest.mark.parametrize("features", CORES, ids="-".join)
def test_tasks_of_hand_written_kernels_compute_what_the_nests_compute(
    tmp_path: Path, features: tuple[str, ...], number: int
) -> None:
    seeds = range(number * CASES_PER_PROGRAM, (number + 1) * CASES_PER_PROGRAM)
    drawn = [case_of(seed, features) for seed in seeds]

    made = [plans(case, tmp_path) for case in drawn]

    tilings = [tiling for plan in made for tiling in plan.tiles.tilings]
    by_hand = [tiling for tiling in tilings if tiling.is_handwritten]
    # A PC has kernels for some of the layers.
    assert len(by_hand) >= (len(drawn) // 4 if features == ("x86",) else len(drawn))
    axes = {cut.axis for tiling in by_hand for cut in tiling.loops}
    assert axes >= ({"oh"} if features == ("x86",) else {"m", "oh"})
    assert run(drawn, tmp_path, made=made) == ""


@pytest.mark.parametrize("features", CORES[:2], ids="-".join)
def test_tasks_of_hand_written_kernels_come_through_a_memory_between(
    tmp_path: Path, features: tuple[str, ...]
) -> None:
    shapes = [
        Shape((12, 9), 16, (16, 32), 1, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
        Shape((18, 9), 48, (1, 1), 48, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
        Shape((30, 1), 16, (16, 32), 1, (3, 1), (1, 1), (1, 1), (0, 0, 0, 0)),
    ]
    drawn = [
        Case(conv(shape, 1), NHWC, near_bytes=near, features=features, between_bytes=3000)
        for shape in shapes
        for near in (800, 1500)
    ]

    made = [plans(case, tmp_path) for case in drawn]

    tilings = [tiling for plan in made for tiling in plan.tiles.tilings]
    assert any(tiling.is_handwritten and tiling.around for tiling in tilings)
    assert run(drawn, tmp_path, made=made) == ""


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"buffers": -1}, "quads has no 432 numbers of working memory"),
        ({"loops": (Cut("m", 3),)}, "3 of the channels m are computed at a time"),
        ({"loops": (Cut("c", 8),)}, "a hand-written kernel is cut along c"),
        ({"loops": (Cut("oh", 2),)}, "a hand-written kernel is cut along oh"),
    ],
)
def test_what_a_hand_written_kernel_cannot_compute_is_caught(
    tmp_path: Path, change: dict[str, Any], fault: str
) -> None:
    shape = Shape((12, 9), 32, (32, 6), 1, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1))
    case = Case(conv(shape, 1), NHWC, features=("dsp",))
    made = plans(case, tmp_path)
    (found,) = made.tiles.tilings
    assert found.is_handwritten
    assert not found.is_by_rows
    changed = {**change, "buffers": found.buffers[:-1]} if "buffers" in change else change
    tiles = replace(made.tiles, tilings=(replace(found, **changed),))

    with pytest.raises(AuditError) as caught:
        audit_tiles(made.graph, made.profile, tiles, case.target, case.options, book())

    assert str(caught.value) == f"conv1: {fault}"


def ways(shape: Shape, folder: Path, window_cycles: float) -> list[tuple[TileSpace, Near]]:
    """Return the ways to cut a convolution by hand, and a near memory with a rate."""
    folder.mkdir()
    case = Case(conv(shape, 1), NHWC, features=("dsp",))
    made = plans(case, folder)
    (kernel,) = (k for k in made.profile.kernels if k.handwriting)
    instance = instance_of(kernel, made.graph, book(), wish_of(case.target, NHWC))
    rates = {kernel.handwriting.name if kernel.handwriting else "": Rate(1, 1, window_cycles)}
    memory = replace(case.target.memories[0], copy_setup_cycles=40, copy_bytes_per_cycle=4.0)
    near = near_of(memory, replace(case.target, kernels=rates), NHWC, kernel)
    spaces = list(hand_spaces(kernel, instance, made.graph, made.profile))
    costs = [space.hand.cost if space.hand else 1 for space in spaces]
    nears = [replace(near, cycles=round(near.cycles * cost)) for cost in costs]
    return list(zip(spaces, nears, strict=True))


@pytest.mark.parametrize(
    ("shape", "numbers"),
    [
        (Shape((12, 9), 32, (32, 16), 1, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)), 12 * 9 * 9 * 32),
        (Shape((12, 9), 32, (1, 1), 32, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)), 0),
    ],
    ids=["dense", "depthwise"],
)
def test_windows_that_further_channels_need_again_take_time(
    tmp_path: Path, shape: Shape, numbers: int
) -> None:
    found = []
    for number, rate in enumerate((1.0, 3.0)):
        (space, near), *_ = ways(shape, tmp_path / str(number), rate)
        loops = (("m", space.nest.extent["m"] // 4),)
        found.append(planned("conv1", space, loops, near, frozenset()).cycles)

    assert found[1] - found[0] == 3 * numbers * 2


def test_rows_are_cut_where_channels_would_need_their_windows_again(tmp_path: Path) -> None:
    shape = Shape((8, 8), 16, (16, 64), 1, (1, 1), (1, 1), (1, 1), (0, 0, 0, 0))
    cut = []
    for number, rate in enumerate((0.001, 3.0)):
        made = ways(shape, tmp_path / str(number), rate)
        cycles = []
        for space, near in made:
            choice = search(space, replace(near, size_bytes=4000))
            if choice is not None:
                again = further_cycles(space, choice.loops, near.window_cycles)
                cycles.append((choice.cycles, again))
        cut.append(min(cycles))

    assert cut[0][1] > 0
    assert cut[1][1] == 0


def test_loops_in_the_place_of_a_kernel_take_what_the_target_says_of_them(tmp_path: Path) -> None:
    shape = Shape((12, 9), 32, (32, 16), 1, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1))
    (tmp_path / "case.onnx").write_bytes(conv(shape, 1))
    graph = parse(tmp_path / "case.onnx", {}, book(), "case").graph
    tiny = Case(b"", NHWC, near_bytes=400, features=("dsp",)).target
    cycles = []
    for mac in (0.1, 0.2, 0.9):
        target = replace(tiny, kernels={"conv_dsp": Rate(mac, 0.0)})
        kernels = profile(graph, book(), target, NHWC)
        (found,) = tile(graph, kernels, target, NHWC, book()).tilings
        assert not found.is_handwritten
        cycles.append(found.cycles)

    macs = 32 * 16 * 9 * 12 * 9
    assert min(cycles) > macs
    assert max(cycles) - min(cycles) <= 2  # each is rounded
