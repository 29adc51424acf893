"""Kernels that run through a near memory, on an emulated core whose DMA controller copies."""

import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from dlbuild.base.paths import builtin_folder
from dlbuild.build.targets import TargetBook, read_target_files, target_files
from dlbuild.ir.target import Memory, Options, Target
from dlbuild.ir.weights import Array
from dlbuild.rulebook.load import load_rules
from dlbuild.run.board import BoardMaker, boards_folder
from dlbuild.run.compile import WARNINGS
from dlbuild.run.runner import Built, Values, model_program, run_model
from dlbuild.run.runner_program import Compiler
from dlbuild.stages.audit import audit
from dlbuild.stages.audit_tiles import audit_tiles
from dlbuild.stages.parse import parse
from dlbuild.stages.profile import profile
from dlbuild.stages.render import render
from dlbuild.stages.schedule import schedule
from dlbuild.stages.tables import tables
from dlbuild.stages.tile import tile

BOOK = load_rules([builtin_folder()])
OPTIONS = Options(requantize="fixed", layout=(("x", "nhwc"), ("y", "nhwc")))
PORT = builtin_folder() / "templates" / "port" / "dlb_port_pl080.c"


def board() -> Target:
    """Return the Cortex-M33 with a near memory of 1,500 B."""
    files = read_target_files(target_files((builtin_folder(),)), Path.as_posix)
    core = TargetBook({}, files).resolve("cortex-m33").target
    assert core.board is not None
    near = Memory("near", 1500, holds=("tiles",))
    places = tuple(str(boards_folder() / name) for name in core.board.sources)
    start = replace(core.board, script=str(boards_folder() / core.board.script), sources=places)
    return replace(core, memories=(near, *core.memories), board=start)


def network(file: Path) -> None:
    """Write two integer convolutions, the second over odd channels."""
    random = np.random.default_rng(3)
    scalars = {
        "one": np.float32(0.05),
        "zero": np.int8(0),
        "three": np.int8(3),
        "ten": np.float32(1.0),
    }
    weights = [numpy_helper.from_array(np.asarray(value), name) for name, value in scalars.items()]
    nodes, at = [], "x"
    for number, (channels, before) in enumerate(((12, 3), (7, 12))):
        shape = (channels, before, 3, 3)
        values = random.integers(-90, 90, shape).astype(np.int8)
        weights.append(numpy_helper.from_array(values, f"w{number}"))
        scale = np.full(channels, 0.02, np.float32)
        weights.append(numpy_helper.from_array(scale, f"s{number}"))
        name = "y" if number else "t"
        x = [at, "one", "three", f"w{number}", f"s{number}", "zero", "ten", "three"]
        nodes.append(helper.make_node("QLinearConv", x, [name], name, pads=[1, 1, 1, 1]))
        at = name
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.INT8, [1, 3, 17, 11])],
        [helper.make_tensor_value_info("y", TensorProto.INT8, [1, 7, 17, 11])],
        weights,
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), file)


def built(folder: Path, target: Target) -> Built:
    """Plan and write the network for a target."""
    file = folder / "net.onnx"
    network(file)
    parsed = parse(file, {}, BOOK, "net")
    kernels = profile(parsed.graph, BOOK, target, OPTIONS)
    tiles = tile(parsed.graph, kernels, target, OPTIONS, BOOK)
    audit_tiles(parsed.graph, kernels, tiles, target, OPTIONS, BOOK)
    plan = schedule(parsed.graph, kernels, tiles, target, OPTIONS)
    audit(parsed.graph, kernels, tiles, plan, target, OPTIONS)
    given = (BOOK, target, OPTIONS, "net")
    for name, text in render(parsed.graph, kernels, tiles, plan, *given).items():
        (folder / name).write_text(text, encoding="ascii")
    for name, content in tables(parsed.graph, parsed.weights, kernels, *given, tiles).items():
        (folder / name).write_bytes(content)
    return Built("net", parsed.graph, kernels, plan, BOOK, target, OPTIONS, folder, tiles)


def outputs(model: Built, port: str) -> list[Array]:
    """Run the model twice on its board with the text of a port."""
    (model.folder / "port.c").write_text(port)
    sources = [model.folder / "net_weights.c", model.folder / "port.c"]
    maker = BoardMaker(model.target, OPTIONS)
    program = maker.program(model_program(model), "run", sources, model.folder)
    (runs,) = run_model(model, program, [sample()], 2)
    return [run["y"] for run in runs]


def sample() -> Values:
    """Return the model's input."""
    values = np.random.default_rng(5).integers(-128, 128, (1, 3, 17, 11))
    return {"x": values.astype(np.int8)}


def test_a_dma_controller_copies_what_a_kernel_needs(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    here = built(tmp_path / "here", Target("here"))
    there = built(tmp_path / "there", board())
    assert all(tiling.tasks > 1 for tiling in there.tiles.tilings)
    tables_here = [here.folder / "net_weights.c"]
    program = Compiler("gcc").program(model_program(here), "run", tables_here, here.folder)
    ((wanted,),) = run_model(here, program, [sample()], 1)

    for got in outputs(there, PORT.read_text()):
        assert np.array_equal(got, wanted["y"])


def test_it_is_the_controller_that_copies(tmp_path: Path) -> None:
    model = built(tmp_path, board())
    right, _ = outputs(model, PORT.read_text())
    # Its destination no longer moves: every element lands on the first.
    still = PORT.read_text().replace(
        "SOURCE_INCREMENTS | DESTINATION_INCREMENTS", "SOURCE_INCREMENTS"
    )

    assert still != PORT.read_text()
    assert not any(np.array_equal(wrong, right) for wrong in outputs(model, still))


def test_the_port_compiles_without_a_warning(tmp_path: Path) -> None:
    strict = ["arm-none-eabi-gcc", "-std=c99", *WARNINGS, "-Werror", f"-I{PORT.parent}"]
    command = [*strict, "-c", str(PORT), "-o", str(tmp_path / "port.o")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
