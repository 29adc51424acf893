"""Random networks in strips, or through a near memory, compute what they do layer by layer.

`DLBUILD_STRIP_CASES=400 pytest tests/run/test_strips.py` runs more of them.
"""

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from dlbuild.base.errors import UserError
from dlbuild.base.paths import builtin_folder
from dlbuild.ir.target import Memory, Options, Target
from dlbuild.ir.tile_plan import TilePlan
from dlbuild.ir.weights import Array
from dlbuild.rulebook.load import load_rules
from dlbuild.run.compile import WARNINGS
from dlbuild.run.guard import guarded_program
from dlbuild.run.runner import Built, Values, model_program, run_input, run_model
from dlbuild.run.runner_program import Compiler, Program, compile_program
from dlbuild.stages.audit import AuditError, audit
from dlbuild.stages.audit_tiles import audit_tiles
from dlbuild.stages.forms import POINTS
from dlbuild.stages.parse import parse
from dlbuild.stages.profile import profile
from dlbuild.stages.render import render
from dlbuild.stages.schedule import arrange, schedule
from dlbuild.stages.tables import tables
from dlbuild.stages.tile import tile
from tests.conftest import Needs

CASES = int(os.environ.get("DLBUILD_STRIP_CASES", "6"))
BOOK = load_rules([builtin_folder()])
TARGET = Target("host", (Memory("sram"),))
SANITIZED = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
MEMCHECK = ("valgrind", "-q", "--error-exitcode=9")
PLAIN = Options(requantize="fixed")
TYPES = {"float32": TensorProto.FLOAT, "int8": TensorProto.INT8}


Shape = tuple[int, int, int]


@dataclass
class Net:
    """A network as it grows; `open` are the tensors made, each [C, H, W]."""

    random: np.random.Generator
    dtype: str
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)
    shape: dict[str, Shape] = field(default_factory=dict)

    def constant(self, name: str, value: Array | np.generic) -> str:
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def pick(self, low: int, high: int) -> int:
        return int(self.random.integers(low, high + 1))

    def layer(self, at: str) -> str:
        channels, height, width = self.shape[at]
        name = f"t{len(self.nodes)}"
        kernel = [self.pick(1, min(4, e)) for e in (height, width)]
        strides = [self.pick(1, 2) for _ in kernel]
        pads = [self.pick(0, k - 1) for k in (*kernel, *kernel)]
        extents = [
            (e + pads[i] + pads[i + 2] - kernel[i]) // strides[i] + 1
            for i, e in enumerate((height, width))
        ]
        is_pool = self.dtype == "float32" and self.pick(0, 3) == 0
        is_deep = not is_pool and self.pick(0, 1) == 0
        made = channels if is_pool or is_deep else self.pick(1, 6) if width > 1 else 4 * kernel[0]
        kind, inputs, group = self._operator(at, name, made, (channels if is_deep else 1), kernel)
        if is_pool:
            kind, inputs = "MaxPool", [at]
        node = helper.make_node(
            kind, inputs, [name], name, kernel_shape=kernel, strides=strides, pads=pads
        )
        if not is_pool:
            node.attribute.append(helper.make_attribute("group", group))
        self.nodes.append(node)
        self.shape[name] = (made, extents[0], extents[1])
        return name

    def _operator(
        self, at: str, name: str, made: int, group: int, kernel: list[int]
    ) -> tuple[str, list[str], int]:
        shape = (made, self.shape[at][0] // group, *kernel)
        if self.dtype == "float32":
            weights = self.constant(f"{name}_w", self.random.normal(size=shape).astype("f4"))
            bias = self.constant(f"{name}_b", self.random.normal(size=made).astype("f4"))
            return "Conv", [at, weights, bias], group
        weights = self.constant(f"{name}_w", self.random.integers(-9, 9, shape).astype("i1"))
        scale = self.constant(f"{name}_s", np.full(made, 0.05, np.float32))
        bias = self.constant(f"{name}_b", self.random.integers(-99, 99, made).astype("i4"))
        x = [at, "one", "three", weights, scale, "zero", "one", "three", bias]
        return "QLinearConv", x, group

    def add(self, one: str, other: str) -> str:
        name = f"t{len(self.nodes)}"
        if self.dtype == "float32":
            self.nodes.append(helper.make_node("Add", [one, other], [name], name))
        else:
            inputs = [one, "one", "three", other, "one", "three", "two", "three"]
            node = helper.make_node("QLinearAdd", inputs, [name], name, domain="com.microsoft")
            self.nodes.append(node)
        self.shape[name] = self.shape[one]
        return name

    def pool(self, at: str) -> str:
        name = f"t{len(self.nodes)}"
        self.shape[name] = (self.shape[at][0], 1, 1)
        if self.dtype == "float32":
            self.nodes.append(helper.make_node("GlobalAveragePool", [at], [name], name))
            return name
        inputs = [at, "one", "three", "one", "three"]
        kind, domain = "QLinearGlobalAveragePool", "com.microsoft"
        self.nodes.append(helper.make_node(kind, inputs, [name], name, domain=domain))
        return name


def network(seed: int, dtype: str, shape: Shape | None = None) -> onnx.ModelProto:
    """Return a network of two to seven layers, some with a residual connection.

    shape: the input's; by default small, and wider than a column.
    """
    net = Net(np.random.default_rng(seed), dtype)
    net.shape["x"] = shape or (net.pick(1, 4), net.pick(5, 14), net.pick(3, 9))
    if dtype == "int8":
        net.constant("one", np.float32(1.0))
        net.constant("two", np.float32(2.0))
        net.constant("zero", np.int8(0))
        net.constant("three", np.int8(3))
    at = "x"
    for _ in range(net.pick(2, 7)):
        at = net.layer(at)
        alike = [n for n, shape in net.shape.items() if shape == net.shape[at] and n != at]
        if alike and net.pick(0, 1):
            at = net.add(at, alike[net.pick(0, len(alike) - 1)])
    if net.pick(0, 1):
        at = net.pool(at)
    return model_of(net, at)


def model_of(net: Net, at: str) -> onnx.ModelProto:
    """Return a network whose output is `at` as a model."""
    ends = [
        helper.make_tensor_value_info(name, TYPES[net.dtype], [1, *net.shape[name]])
        for name in ("x", at)
    ]
    graph = helper.make_graph(net.nodes, "net", ends[:1], ends[1:], net.weights)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def built(
    file: Path,
    options: Options,
    out: Path,
    ends: tuple[tuple[str, str], ...] | None = None,
    target: Target = TARGET,
) -> tuple[Built, TilePlan]:
    """Plan and write a network. ends: its `layout`, by default rows of pixels."""
    parsed = parse(file, {}, BOOK, "net")
    graph = parsed.graph
    if ends is None:
        ends = tuple((name, "nhwc") for name in (*graph.inputs, *graph.outputs))
    options = replace(options, layout=ends)
    kernels = profile(graph, BOOK, target, options)
    tiles = tile(graph, kernels, target, options, BOOK)
    audit_tiles(graph, kernels, tiles, target, options, BOOK)
    plan = schedule(graph, kernels, tiles, target, options)
    audit(graph, kernels, tiles, plan, target, options)
    out.mkdir()
    texts = render(graph, kernels, tiles, plan, BOOK, target, options, "net")
    for name, text in texts.items():
        (out / name).write_text(text, encoding="ascii")
    binary = tables(graph, parsed.weights, kernels, BOOK, target, options, "net", tiles)
    for name, content in binary.items():
        (out / name).write_bytes(content)
    return Built("net", graph, kernels, plan, BOOK, target, options, out, tiles), tiles


def outputs(model: Built, samples: list[Values]) -> list[Mapping[str, Array]]:
    """Run each sample twice over an arena filled with other bytes, under the sanitizers.

    With a hook, what no later step may read is overwritten behind each step.
    """
    program = program_of(model, SANITIZED)
    return [run for runs in run_model(model, program, samples, 2) for run in runs]


def program_of(model: Built, flags: tuple[str, ...]) -> Program:
    """Compile the program of a model; what it copies goes through the honest port."""
    sources = [model.folder / "net_weights.c", *model.ports(is_honest=True)]
    text = model_program(model, is_honest=True, kills_dead=True)
    return compile_program(text, "run", sources, Compiler("gcc", flags), model.folder)


def layer_by_layer(
    seed: int, dtype: str, folder: Path, of: Shape | None = None
) -> tuple[Path, list[Values], list[Mapping[str, Array]]]:
    """Return the file of a random network, a sample, and what it gives layer by layer."""
    file = folder / "net.onnx"
    onnx.save(network(seed, dtype, of), file)
    layers, _ = built(file, PLAIN, folder / "layers")
    (name,) = layers.graph.inputs
    shape = layers.graph.tensor[name].shape
    random = np.random.default_rng(seed)
    values = random.normal(0, 40, shape) if dtype == "int8" else random.normal(size=shape)
    samples: list[Values] = [{name: np.clip(values, -128, 127).astype(dtype)}]
    return file, samples, outputs(layers, samples)


@pytest.mark.parametrize("seed", range(CASES))
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_strips_compute_what_the_layers_compute(seed: int, dtype: str, tmp_path: Path) -> None:
    file, samples, expected = layer_by_layer(seed, dtype, tmp_path)
    small = replace(PLAIN, optimize="ram")
    streamed = replace(small, input="streamed", output="arena")
    external = replace(small, input="external")
    for number, options in enumerate(
        (
            replace(small, input="arena"),
            streamed,
            replace(streamed, arena="caller", hook=seed % 2 == 0),
            external,
            replace(external, max_recompute=(1.2, 1.5, 3.0)[seed % 3], arena="caller", hook=True),
            replace(small, input="arena", max_recompute=2.0),
        )
    ):
        strips, _ = built(file, options, tmp_path / str(number))
        for got, wanted in zip(outputs(strips, samples), expected, strict=True):
            for output, array in wanted.items():
                assert np.array_equal(got[output], array), options


@pytest.mark.parametrize("seed", range(CASES // 6))
@pytest.mark.parametrize("features", [(), ("dsp",), ("dsp", "mve")], ids="-".join)
def test_rows_of_one_point_are_computed_three_at_a_time(
    seed: int, features: tuple[str, ...], tmp_path: Path
) -> None:
    column = (4, 17 + 2 * seed, 1)
    file, samples, expected = layer_by_layer(seed, "int8", tmp_path, column)
    small = replace(PLAIN, optimize="ram")
    streamed = replace(small, input="streamed", output="arena", hook=True)
    target = replace(TARGET, features=features)
    for number, options in enumerate((replace(small, input="arena", hook=True), streamed)):
        strips, tiles = built(file, options, tmp_path / str(number), target=target)
        assert {y.step for s in tiles.strips for y in s.layers if y.rows > POINTS} >= {POINTS}
        for got, wanted in zip(outputs(strips, samples), expected, strict=True):
            for output, array in wanted.items():
                assert np.array_equal(got[output], array), options


def near_target(size_bytes: int, between_bytes: int = 0) -> Target:
    """Return a target with a near memory, smaller than most layers need, and one between."""
    near = Memory("near", size_bytes, holds=("tiles",))
    between = [Memory("between", between_bytes, holds=("tiles",))] if between_bytes else []
    return Target("near", (near, *between, Memory("far", holds=("arena",))))


@pytest.mark.parametrize("seed", range(CASES // 2))
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_a_near_memory_changes_no_result(seed: int, dtype: str, tmp_path: Path) -> None:
    """Windows come and go, tensors stay, rings of strips lie there."""
    file, samples, expected = layer_by_layer(seed, dtype, tmp_path)
    small = replace(PLAIN, optimize="ram", hook=True)
    choices = (
        replace(PLAIN, hook=True),
        replace(PLAIN, arena="caller", input="arena"),
        replace(small, input="streamed", output="arena"),
        replace(small, input="external", max_recompute=2.0, arena="caller"),
    )
    random = np.random.default_rng(seed)
    for number, options in enumerate(choices):
        size_bytes = int(2.0 ** random.uniform(8, 13))
        target = near_target(size_bytes, size_bytes * (number % 2) * int(random.integers(1, 6)))
        near, _ = built(file, options, tmp_path / str(number), target=target)
        for got, wanted in zip(outputs(near, samples), expected, strict=True):
            for output, array in wanted.items():
                # Real numbers are summed in the order of the tasks.
                limit = 1e-5 * np.abs(array).max() if dtype == "float32" else 0
                is_equal = np.allclose(got[output], array, rtol=0, atol=limit)
                assert is_equal, (options, target)


@pytest.mark.parametrize("features", [("dsp",), ("dsp", "mve"), ("x86",)], ids="-".join)
def test_hand_written_kernels_run_in_a_near_memory(
    features: tuple[str, ...], tmp_path: Path
) -> None:
    file, samples, expected = layer_by_layer(1, "int8", tmp_path, (4, 17, 1))
    found = []
    for size_bytes in (1024, 4096):
        target = replace(near_target(size_bytes), features=features)
        options = replace(PLAIN, hook=True)
        near, tiles = built(file, options, tmp_path / str(size_bytes), target=target)
        found.append({tiling.is_handwritten for tiling in tiles.tilings})
        for got, wanted in zip(outputs(near, samples), expected, strict=True):
            for output, array in wanted.items():
                assert np.array_equal(got[output], array), size_bytes
    assert True in found[1]


@pytest.mark.parametrize(
    ("channels", "sizes"), [(8, (3, 1)), (8, (3,)), (2, (1, 1))], ids=("int16", "last", "int8")
)
def test_kernels_of_a_strip_share_working_memory_of_several_types(
    channels: int, sizes: Sequence[int], tmp_path: Path
) -> None:
    # A PC's convolutions work in int16, its depthwise ones in int8; either may need more.
    net = Net(np.random.default_rng(7), "int8")
    for name, value in (("one", np.float32(1.0)), ("three", np.int8(3)), ("zero", np.int8(0))):
        net.constant(name, value)
    net.shape["x"] = at = (channels, 12, 9)
    last = "x"
    layers = [(32, sizes[0], False), (32, 3, True), *((16, size, False) for size in sizes[1:])]
    for number, (made, size, is_deep) in enumerate(layers):
        name = f"t{number}"
        group = at[0] if is_deep else 1
        kind, inputs, _ = net._operator(last, name, made, group, [size, size])
        pads = [size // 2] * 4
        net.nodes.append(helper.make_node(kind, inputs, [name], name, group=group, pads=pads))
        net.shape[name] = at = (made, 12, 9)
        last = name
    file = tmp_path / "net.onnx"
    onnx.save(model_of(net, last), file)
    plain = replace(PLAIN, layout=(("x", "nhwc"),))
    whole, _ = built(file, plain, tmp_path / "whole")
    values = np.random.default_rng(6).integers(-128, 128, (1, channels, 12, 9)).astype(np.int8)
    samples: list[Values] = [{"x": values}]

    small = replace(plain, optimize="ram", input="arena", hook=True)
    target = replace(TARGET, features=("x86",))
    strips, tiles = built(file, small, tmp_path / "strips", target=target)

    (strip,) = tiles.strips
    hand = [strips.profile.kernel[layer.kernel].handwriting for layer in strip.layers]
    assert {s.dtype for found in hand if found for s in found.scratch} == {"int8", "int16"}
    source = ["-c", "net.c", "-o", "net.o"]
    subprocess.run(["gcc", *WARNINGS, "-Werror", *source], cwd=strips.folder, check=True)
    assert np.array_equal(outputs(strips, samples)[0][last], outputs(whole, samples)[0][last])


def test_an_optimising_compiler_leaves_no_kernel_out(tmp_path: Path) -> None:
    # Told of the addresses that it is called with, GCC 12 takes a pool's sums for unwritten.
    net = Net(np.random.default_rng(5), "int8")
    net.shape["x"] = (8, 25, 5)
    net.constant("one", np.float32(1.0))
    net.constant("three", np.int8(3))
    net.constant("zero", np.int8(0))
    kind, inputs, group = net._operator("x", "t0", 64, 8, [1, 1])
    net.nodes.append(helper.make_node(kind, inputs, ["t0"], "t0", group=group))
    net.shape["t0"] = (64, 25, 5)
    last = net.pool("t0")
    file = tmp_path / "net.onnx"
    onnx.save(model_of(net, last), file)
    layers, _ = built(file, Options(requantize="fixed"), tmp_path / "layers")
    values = np.random.default_rng(6).integers(-128, 128, (1, 8, 25, 5)).astype(np.int8)
    samples: list[Values] = [{"x": values}]
    options = Options(requantize="fixed", optimize="ram", input="arena")
    strips, tiles = built(file, options, tmp_path / "strips")
    assert tiles.strips

    program = compile_program(
        model_program(strips),
        "run",
        [strips.folder / "net_weights.c"],
        Compiler("gcc", ("-O2",)),
        strips.folder,
    )

    (runs,) = run_model(strips, program, samples, 1)
    assert np.array_equal(runs[0][last], outputs(layers, samples)[0][last])


def test_an_input_in_rows_of_pixels_behind_a_transpose_is_streamed(tmp_path: Path) -> None:
    model = network(3, "int8")
    graph = model.graph
    (entry,) = graph.input
    shape = [dim.dim_value for dim in entry.type.tensor_type.shape.dim]
    pixels = [shape[axis] for axis in (0, 2, 3, 1)]
    turn = helper.make_node("Transpose", ["pixels"], ["x"], "turn", perm=[0, 3, 1, 2])
    graph.node.insert(0, turn)
    graph.input.remove(entry)
    graph.input.append(helper.make_tensor_value_info("pixels", TensorProto.INT8, pixels))
    file = tmp_path / "net.onnx"
    onnx.save(model, file)
    options = Options(requantize="fixed")
    layers, _ = built(file, options, tmp_path / "layers", ends=())
    values = np.random.default_rng(3).integers(-128, 128, pixels).astype(np.int8)
    samples: list[Values] = [{"pixels": values}]

    options = replace(options, optimize="ram", input="streamed", output="arena")
    strips, tiles = built(file, options, tmp_path / "streamed", ends=())

    assert tiles.strips[0].views == (strips.profile.kernels[0].name,)
    for got, wanted in zip(outputs(strips, samples), outputs(layers, samples), strict=True):
        for output, array in wanted.items():
            assert np.array_equal(got[output], array)


@pytest.mark.parametrize("seed", range(2))
def test_no_byte_is_read_before_it_is_written(seed: int, tmp_path: Path, needs: Needs) -> None:
    needs("valgrind")
    file = tmp_path / "net.onnx"
    onnx.save(network(seed, "int8"), file)
    options = Options(requantize="fixed", optimize="ram", arena="caller", hook=True)
    for number, chosen in enumerate(
        (
            replace(options, input="streamed", output="arena"),
            replace(options, input="external", max_recompute=2.0),
        )
    ):
        model, _ = built(file, chosen, tmp_path / str(number))
        (name,) = model.graph.inputs
        values = np.ones(model.graph.tensor[name].shape, np.int8)
        sources = [model.folder / "net_weights.c"]
        compiler = Compiler("gcc", ("-O1", "-DBOARD_MEMCHECK"))
        text = model_program(model, kills_dead=True)
        program = compile_program(text, "run", sources, compiler, model.folder)

        program.listen(run_input(model, [{name: values}], 2), MEMCHECK)


@pytest.mark.parametrize("target", [near_target(700), near_target(400, 2000)], ids=["1", "2"])
def test_no_byte_of_a_window_is_read_before_it_has_come(
    target: Target, tmp_path: Path, needs: Needs
) -> None:
    needs("valgrind")
    file = tmp_path / "net.onnx"
    onnx.save(network(1, "int8"), file)
    options = Options(requantize="fixed", arena="caller", hook=True)
    model, tiles = built(file, options, tmp_path / "near", target=target)
    (name,) = model.graph.inputs
    values = np.ones(model.graph.tensor[name].shape, np.int8)
    assert tiles.tilings

    program = program_of(model, ("-O1", "-DBOARD_MEMCHECK"))

    program.listen(run_input(model, [{name: values}], 3), MEMCHECK)


def test_a_byte_that_is_read_before_it_is_written_is_seen(tmp_path: Path, needs: Needs) -> None:
    needs("valgrind")
    file = tmp_path / "net.onnx"
    onnx.save(network(0, "int8"), file)
    options = Options(requantize="fixed", optimize="ram", input="streamed", output="arena")
    model, tiles = built(file, options, tmp_path / "streamed")
    (name,) = model.graph.inputs
    values = np.ones(model.graph.tensor[name].shape, np.int8)
    source = model.folder / "net.c"
    kernel = model.model.face.kernels[tiles.strips[0].layers[0].kernel]
    text = source.read_text()
    assert text.count(f"            {kernel}(") >= 1
    # Its rows are counted, but not computed.
    source.write_text(re.sub(rf"( {{12}}){kernel}\([^;]*;", r"\1;", text, count=1))
    compiler = Compiler("gcc", ("-O1", "-DBOARD_MEMCHECK"))
    sources = [model.folder / "net_weights.c"]
    program = compile_program(model_program(model), "run", sources, compiler, model.folder)

    with pytest.raises(UserError, match="failed when run here"):
        program.listen(run_input(model, [{name: values}], 1), MEMCHECK)


@pytest.mark.parametrize("is_behind", [True, False])
def test_the_arena_is_as_large_as_the_plan_says_and_no_larger(
    is_behind: bool,  # noqa: FBT001 - a parameter of the test
    tmp_path: Path,
) -> None:
    file = tmp_path / "net.onnx"
    onnx.save(network(7, "float32"), file)
    options = Options(optimize="ram", input="streamed", output="arena", arena="caller")
    model, _ = built(file, options, tmp_path / "streamed")
    (name,) = model.graph.inputs
    samples: list[Values] = [{name: np.ones(model.graph.tensor[name].shape, np.float32)}]
    sources = [model.folder / "net_weights.c"]
    compiler = Compiler("gcc", ("-O1",))

    def run(missing_bytes: int) -> None:
        text = guarded_program(model, is_behind=is_behind, missing_bytes=missing_bytes)
        program = compile_program(text, f"run{missing_bytes}", sources, compiler, model.folder)
        run_model(model, program, samples, 2)

    run(0)
    with pytest.raises(UserError, match="failed when run here"):
        run(4)


def test_no_output_in_the_arena_lies_on_an_input_that_the_caller_writes_there(
    tmp_path: Path,
) -> None:
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "xs", "xz"], ["xr"], "xdq"),
        helper.make_node("DequantizeLinear", ["h", "hs", "hz"], ["hr"], "hdq"),
        helper.make_node("Add", ["xr", "hr"], ["s"], "sum"),
        helper.make_node("QuantizeLinear", ["s", "hs", "hz"], ["z"], "zq"),
        helper.make_node("QuantizeLinear", ["s", "xs", "xz"], ["y"], "yq"),
    ]
    grids = {"xs": np.float32(0.02), "xz": np.int8(-5), "hs": np.float32(0.03), "hz": np.int8(7)}
    graph = helper.make_graph(
        nodes,
        "two",
        [helper.make_tensor_value_info(n, TensorProto.INT8, [9]) for n in ("x", "h")],
        [helper.make_tensor_value_info(n, TensorProto.INT8, [9]) for n in ("y", "z")],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in grids.items()],
    )
    file = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)]), file)
    options = Options(optimize="ram", input="arena", output="arena")

    model, tiles = built(file, options, tmp_path / "c")

    assert tiles.strips  # row by row, an output may else lie on what its strip reads
    rng = np.random.default_rng(0)
    sample = {n: rng.integers(-128, 128, 9).astype(np.int8) for n in ("x", "h")}
    found, again = outputs(model, [sample])
    assert found["y"].tobytes() == again["y"].tobytes()
    real = (sample["x"] + 5.0) * 0.02 + (sample["h"] - 7.0) * 0.03
    due = np.clip(np.round(real / 0.02) - 5, -128, 127)
    assert np.abs(found["y"].astype(np.int32) - due).max() <= 1


def test_an_off_by_one_ring_is_caught(tmp_path: Path) -> None:
    file = tmp_path / "net.onnx"
    onnx.save(network(7, "float32"), file)
    options = Options(requantize="fixed", optimize="ram", input="streamed", output="arena")
    model, tiles = built(file, options, tmp_path / "streamed")
    strip = tiles.strips[0]
    ring = next(r for r in strip.rings if 1 < r.rows < r.extent)
    short = replace(ring, rows=ring.rows - 1)
    rings = tuple(short if r == ring else r for r in strip.rings)
    buffers = tuple(
        replace(b, rows=short.rows, size_bytes=short.rows * short.row_bytes)
        if b.tensor == ring.tensor
        else b
        for b in model.schedule.buffers
    )
    wrong = replace(tiles, strips=(replace(strip, rings=rings), *tiles.strips[1:]))
    plan = replace(model.schedule, buffers=buffers)

    with pytest.raises(AuditError):
        audit(model.graph, model.profile, wrong, plan, TARGET, model.options)


def test_what_fits_a_budget_fits_a_greater_one(tmp_path: Path) -> None:
    # At 225 B groups were chosen whose steps need 224 B, but which take more as they are placed.
    onnx.save(network(4, "int8"), tmp_path / "net.onnx")
    graph = parse(tmp_path / "net.onnx", {}, BOOK, "net").graph
    ends = tuple((name, "nhwc") for name in (*graph.inputs, *graph.outputs))
    options = replace(PLAIN, layout=ends, input="external", max_recompute=2.0)
    for size_bytes in (194, 225):
        memory = Memory("sram", size_bytes, align_bytes=16, holds=("arena",))
        target = Target("board", (memory,), features=("dsp", "mve"))
        kernels = profile(graph, BOOK, target, options)
        tiles = tile(graph, kernels, target, options, BOOK)
        (use,) = schedule(graph, kernels, tiles, target, options).memories
        assert use.height_bytes <= size_bytes


def test_rows_of_one_point_go_one_by_one_only_where_that_takes_less(tmp_path: Path) -> None:
    # The reduction over rows keeps all of `y`, and one by one leaves no strip but layers alone.
    net = Net(np.random.default_rng(1), "int8")
    for name, value in (
        ("one", np.float32(0.05)),
        ("two", np.float32(0.01)),
        ("three", np.int8(3)),
    ):
        net.constant(name, value)
    net.constant("w", np.random.default_rng(2).integers(-9, 9, (5, 10)).astype("i1"))
    fine, coarse = ["two", "three"], ["one", "three"]
    for kind, name, inputs in (
        ("QLinearSigmoid", "t", ["x", *coarse, *coarse]),
        ("QLinearMatMul", "y", ["t", *coarse, "w", *coarse, *coarse]),
        ("QLinearSoftmax", "q", ["y", *coarse, *coarse]),
        ("QLinearAdd", "v", ["y", *coarse, "y", *coarse, *fine]),
        ("QLinearSigmoid", "u", ["x", *coarse, *fine]),
        ("QLinearSigmoid", "z", ["u", *fine, *coarse]),
    ):
        domain = "" if kind == "QLinearMatMul" else "com.microsoft"
        net.nodes.append(helper.make_node(kind, inputs, [name], name, domain=domain))
    net.nodes[2].attribute.append(helper.make_attribute("axis", 0))
    net.nodes[2].attribute.append(helper.make_attribute("opset", 13))
    shapes = {"x": (2, 5), "q": (2, 10), "v": (2, 10), "z": (2, 5)}
    ends = [helper.make_tensor_value_info(n, TensorProto.INT8, s) for n, s in shapes.items()]
    made = helper.make_graph(net.nodes, "net", ends[:1], ends[1:], net.weights)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(made, opset_imports=opsets, ir_version=8)
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    graph = parse(tmp_path / "net.onnx", {}, BOOK, "net").graph
    options = Options(input="arena", max_recompute=2.0)
    heights = []
    for size_bytes in (6, 15):
        target = Target("board", (Memory("sram", size_bytes, align_bytes=1, holds=("arena",)),))
        kernels = profile(graph, BOOK, target, options)
        tiles = tile(graph, kernels, target, options, BOOK)
        heights.append(arrange(graph, kernels, tiles, target, options).memories[0].height_bytes)
    assert heights == [15, 15]
