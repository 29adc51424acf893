"""Ways out of a budget that is too small: each is planned, and fits."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from dlbuild.base.errors import UserError
from dlbuild.base.paths import builtin_folder
from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Profile
from dlbuild.ir.target import Memory, Options, Target
from dlbuild.rulebook.load import load_rules
from dlbuild.stages.parse import parse
from dlbuild.stages.profile import profile
from dlbuild.stages.strips import trades
from dlbuild.stages.tile import tile
from dlbuild.stages.ways import check_fit, ways_out

BOOK = load_rules([builtin_folder()])
OPTIONS = Options(input="arena", output="arena", layout=(("x", "nhwc"), ("y", "nhwc")))


def target(size_bytes: int | None) -> Target:
    return Target("board", (Memory("sram", size_bytes),))


def convolutions(folder: Path) -> tuple[Graph, Profile]:
    """Return three convolutions over 24 rows of 16 pixels."""
    weights, nodes, at = [], [], "x"
    for number, channels in enumerate((4, 6, 2)):
        shape = (channels, (3, 4, 6)[number], 3, 3)
        weights.append(numpy_helper.from_array(np.ones(shape, np.float32), f"w{number}"))
        name = "y" if number == 2 else f"t{number}"
        nodes.append(helper.make_node("Conv", [at, f"w{number}"], [name], name, pads=[1, 1, 1, 1]))
        at = name
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 24, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2, 24, 16])],
        weights,
    )
    file = folder / "net.onnx"
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), file)
    parsed = parse(file, {}, BOOK, "net").graph
    return parsed, profile(parsed, BOOK, target(None), OPTIONS)


def test_a_model_that_fits_is_not_refused(tmp_path: Path) -> None:
    graph, kernels = convolutions(tmp_path)
    board = target(9600)

    check_fit(graph, kernels, tile(graph, kernels, board, OPTIONS, BOOK), board, OPTIONS, BOOK)


def test_the_error_names_the_budget_and_three_options_that_do(tmp_path: Path) -> None:
    graph, kernels = convolutions(tmp_path)
    board = target(5800)

    with pytest.raises(UserError) as caught:
        check_fit(graph, kernels, tile(graph, kernels, board, OPTIONS, BOOK), board, OPTIONS, BOOK)

    assert str(caught.value) == (
        "net@board: error: the arena needs 9,600 B of sram, the budget is 5,800 B\n"
        "  peak: step 0 (Conv 'conv1'), live: x 4,608 B, conv3 3,072 B, conv2 1,152 B, "
        "conv1 768 B\n"
        "  lower bound in strips of rows: 9,600 B, reached\n"
        "  would fit: input: caller (4,992 B)\n"
        "  would fit: input: streamed (5,576 B)\n"
        "  would fit: input: external (4,992 B)\n"
        "  fix: set sram: 9600 B, or the options of a line above"
    )


def test_what_less_of_a_change_does_is_not_offered(tmp_path: Path) -> None:
    graph, kernels = convolutions(tmp_path)

    found = ways_out(graph, kernels, target(2400), OPTIONS, BOOK)

    assert [(way.change, way.size_bytes) for way in found] == [
        ("input: caller, output: caller", 1920),
        ("input: external, output: caller", 1920),
    ]


def test_a_way_repeats_no_more_than_it_says(tmp_path: Path) -> None:
    graph, kernels = convolutions(tmp_path)
    options = replace(OPTIONS, input="caller", output="caller")

    (way, *_) = ways_out(graph, kernels, target(1500), options, BOOK)

    assert way.change == "max_recompute: 1.13"
    assert 1.12 < way.work <= 1.13
    again = replace(options, max_recompute=1.13)
    check_fit(
        graph,
        kernels,
        tile(graph, kernels, target(1500), again, BOOK),
        target(1500),
        again,
        BOOK,
    )


def test_a_smaller_arena_costs_more_work(tmp_path: Path) -> None:
    graph, kernels = convolutions(tmp_path)
    options = replace(OPTIONS, input="external", output="caller", max_recompute=2.0)

    found = list(trades(graph, kernels, target(None), options, BOOK))

    assert found[0].work == 1
    assert all(
        after.need_bytes < before.need_bytes and after.work >= before.work
        for before, after in pairwise(found)
    )
    assert found[-1].need_bytes < found[0].need_bytes / 2
    assert found[-1].work <= 2


def test_several_cores_are_said_to_make_no_strips_and_one_is_offered(tmp_path: Path) -> None:
    graph, kernels = convolutions(tmp_path)
    board = replace(target(9600), resources=("threads", 2))
    options = replace(OPTIONS, optimize="ram")

    with pytest.raises(UserError) as caught:
        check_fit(graph, kernels, tile(graph, kernels, board, options, BOOK), board, options, BOOK)

    assert str(caught.value) == (
        "net@board: error: the arena needs 18,432 B of sram, the budget is 9,600 B\n"
        "  peak: step 2 (Conv 'conv2'), live: conv2 9,216 B, conv1 6,144 B\n"
        "  lower bound layer by layer (no strips with 2 threads): 18,432 B, reached\n"
        "  would fit: resources: {threads: 1} (9,600 B)\n"
        "  fix: set sram: 18 KiB, or the options of a line above"
    )


def test_strips_fit_a_budget_beside_a_memory_that_holds_tiles(tmp_path: Path) -> None:
    graph, kernels = convolutions(tmp_path)
    near = Memory("near", 512, holds=("tiles",))
    board = replace(target(9600), memories=(near, Memory("sram", 9600)))

    made = tile(graph, kernels, board, OPTIONS, BOOK)
    check_fit(graph, kernels, made, board, OPTIONS, BOOK)

    assert made.strips
