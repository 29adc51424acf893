"""Hand-written kernels on emulated cores against those of this machine, bit for bit.

`DLBUILD_KERNEL_CASES=50 pytest tests/target/test_handwritten.py` runs more random networks.
"""

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import pytest
import yaml
from onnx import helper, numpy_helper

from dlbuild.build.engine import Engine, path_of
from dlbuild.build.project import Build
from dlbuild.cli.bench import figures_of
from dlbuild.ir import codec
from dlbuild.ir.profile import Profile
from dlbuild.ir.tile_plan import TilePlan, handwritten_kernel
from dlbuild.run.compile import WARNINGS

Made = Callable[..., tuple[Engine, dict[str, Build]]]
CORES = {"m4f": "cortex-m4f", "m7": "cortex-m7", "m33": "cortex-m33", "m55": "cortex-m55"}

COUNTS = {"fixed": 266_953, "exact": 263_800}
"""Instructions on a Cortex-M4F with gcc 12.2; a rise fails, a fall is to be recorded here."""

COUNTS_OF_M55 = {"fixed": 57_496, "exact": 57_390}
"""The same on a Cortex-M55."""

CASES = int(os.environ.get("DLBUILD_KERNEL_CASES", "1"))

CONVS = (
    # channels, outputs, kernel, strides, pads, group
    (8, 6, (1, 1), (1, 1), (0, 0, 0, 0), 1),
    (600, 4, (1, 1), (1, 1), (0, 0, 0, 0), 1),
    (8, 4, (3, 3), (1, 1), (1, 1, 1, 1), 1),
    (3, 8, (3, 3), (2, 2), (0, 0, 1, 1), 1),
    (1, 4, (5, 4), (2, 2), (2, 1, 2, 1), 1),
    (64, 2, (3, 3), (2, 1), (1, 1, 1, 1), 1),
    (8, 8, (3, 3), (1, 1), (1, 1, 1, 1), 8),
    (4, 4, (3, 3), (2, 2), (0, 0, 1, 1), 4),
    (4, 4, (5, 1), (1, 1), (0, 0, 0, 0), 4),
    (4, 4, (7, 7), (2, 1), (3, 3, 3, 3), 4),
)
EXTENTS = (6, 7)
DENSE = ((24, 8), (1030, 4), (13, 6))


def constant(made: list[onnx.TensorProto], name: str, array: npt.ArrayLike) -> str:
    """Add a constant and return its name."""
    made.append(numpy_helper.from_array(np.asarray(array), name))
    return name


def model_of(seed: int) -> onnx.ModelProto:
    """Return a model of independent convolutions and dense layers."""
    random = np.random.default_rng(seed)
    made: list[onnx.TensorProto] = []
    nodes, inputs, outputs = [], [], []
    zero = constant(made, "zero", np.int8(0))
    scale = constant(made, "scale", np.float32(0.7))
    for number, (c, m, kernel, strides, pads, group) in enumerate(CONVS):
        w = random.integers(-127, 128, (m, c // group, *kernel)).astype(np.int8)
        factor = random.uniform(0.002, 0.01, m) / w[0].size ** 0.5
        factor[0] = 0.7
        operands = [
            constant(made, f"w{number}", w),
            constant(made, f"ws{number}", factor.astype(np.float32)),
            zero,
            scale,
            constant(made, f"yz{number}", np.int8(random.integers(-9, 9))),
            constant(made, f"b{number}", random.integers(-(2**13), 2**13, m).astype(np.int32)),
        ]
        xz = constant(made, f"xz{number}", np.int8(random.integers(-128, 127)))
        names = [f"x{number}", scale, xz, *operands]
        node = helper.make_node(
            "QLinearConv", names, [f"y{number}"], strides=strides, pads=pads, group=group
        )
        nodes.append(node)
        inputs.append(helper.make_tensor_value_info(f"x{number}", 3, (1, c, *EXTENTS)))
        sizes = zip(EXTENTS, kernel, strides, pads[:2], pads[2:], strict=True)
        out = [(x + low + high - taps) // step + 1 for x, taps, step, low, high in sizes]
        outputs.append(helper.make_tensor_value_info(f"y{number}", 3, (1, m, *out)))
    for number, (k, n) in enumerate(DENSE):
        w = random.integers(-127, 128, (n, k)).astype(np.int8)
        factor = random.uniform(0.002, 0.01, n) / k**0.5
        operands = [
            scale,
            constant(made, f"az{number}", np.int8(random.integers(-128, 127))),
            constant(made, f"v{number}", w),
            constant(made, f"vs{number}", factor.astype(np.float32)),
            zero,
            constant(made, f"c{number}", random.integers(-(2**13), 2**13, n).astype(np.int32)),
            scale,
            zero,
        ]
        names = [f"a{number}", *operands]
        nodes.append(
            helper.make_node("QGemm", names, [f"z{number}"], domain="com.microsoft", transB=1)
        )
        inputs.append(helper.make_tensor_value_info(f"a{number}", 3, (2, k)))
        outputs.append(helper.make_tensor_value_info(f"z{number}", 3, (2, n)))
    graph = helper.make_graph(nodes, "kernels", inputs, outputs, made)
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def write_recipe(targets: Mapping[str, object]) -> None:
    """Write the model of all kernels, a sample, and a recipe for some targets."""
    model = model_of(7)
    onnx.save(model, "kernels.onnx")
    random = np.random.default_rng(8)
    samples = {
        i.name: random.integers(
            -128, 128, [d.dim_value for d in i.type.tensor_type.shape.dim]
        ).astype(np.int8)
        for i in model.graph.input
    }
    np.savez("samples.npz", **samples)  # type: ignore[arg-type] # names of arrays
    layout = {f"{side}{n}": "nhwc" for n in range(len(CONVS)) for side in "xy"}
    entry = {"source": "kernels.onnx", "samples": "samples.npz", "layout": layout}
    recipe = {"version": 1, "models": {"kernels": entry}, "targets": dict(targets)}
    Path("dlbuild.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False))


@pytest.mark.parametrize("rounding", ["fixed", "exact"])
def test_hand_written_kernels_give_the_numbers_of_the_nests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: Made, rounding: str
) -> None:
    monkeypatch.chdir(tmp_path)
    cores = {**CORES, "pc": "host"}
    write_recipe({n: {"extends": core, "requantize": rounding} for n, core in cores.items()})

    engine, builds = made()

    here = figures_of(engine, builds["kernels@pc"], steps=False, count=False)
    for name in CORES:
        one = builds[f"kernels@{name}"]
        profile = codec.decode(engine.content(one, "profile"), Profile)
        tiles = codec.decode(engine.content(one, "tiles"), TilePlan)
        assert all(handwritten_kernel(kernel, tiles) for kernel in profile.kernels), name
        there = figures_of(engine, one, steps=False)
        assert there.faults == (), name
        assert there.content == here.content, name
        most = {"m4f": COUNTS, "m55": COUNTS_OF_M55}.get(name)
        assert most is None or there.cost <= most[rounding], (name, there.cost)
    for (name, core), level in product(CORES.items(), ("-O0", "-O2", "-Os")):
        cpu = core.removesuffix("f")
        files = path_of(engine.out, builds[f"kernels@{name}"], "header").parent
        by_clang(files, ["--target=arm-none-eabi", f"-mcpu={cpu}", "-mfloat-abi=hard", level])


SIZES = {"40 KiB": 0, "400 B": 3}
"""Near memories, and how many kernels at least run in several tasks there."""


@pytest.mark.parametrize("size", SIZES)
def test_each_kernel_gives_the_same_in_a_near_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: Made, size: str
) -> None:
    monkeypatch.chdir(tmp_path)
    memories = {
        "tcm": {"size": size, "holds": ["tiles"]},
        "sram": {"holds": ["arena"]},
        "flash": {"holds": ["weights"]},
    }
    near = {name: {"extends": CORES[name], "memories": memories} for name in ("m4f", "m55")}
    fixed = {name: {**one, "requantize": "fixed"} for name, one in near.items()}
    write_recipe({"pc": {"extends": "host", "requantize": "fixed"}, **fixed})

    engine, builds = made()

    here = figures_of(engine, builds["kernels@pc"], steps=False, count=False)
    for name in near:
        one = builds[f"kernels@{name}"]
        tiles = codec.decode(engine.content(one, "tiles"), TilePlan)
        there = figures_of(engine, one, steps=False)
        assert len(tiles.tilings) == len(CONVS) + len(DENSE), name
        by_hand = [tiling for tiling in tiles.tilings if tiling.is_handwritten]
        assert SIZES[size] or len(by_hand) == len(tiles.tilings), name
        assert sum(bool(tiling.loops) for tiling in by_hand) >= SIZES[size], name
        assert there.faults == (), name
        assert there.content == here.content, name


class Chain:
    """A network of random convolutions, one behind the other; `shape` is the last's [C, H, W]."""

    def __init__(self, seed: int, shape: tuple[int, int, int], samples: int = 1) -> None:
        """shape: of a sample of its input `x`."""
        self.samples = samples
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.made: list[onnx.TensorProto] = []
        self.input = self.shape = shape
        self.at = "x"
        constant(self.made, "scale", np.float32(0.7))

    def conv(self, kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int]) -> None:
        """Add a convolution or a depthwise one. pads: before and behind each axis, in turn."""
        channels, *extents = self.shape
        is_deep = bool(self.random.integers(0, 2))
        m = channels if is_deep else 4 * int(self.random.integers(1, 6))
        shape = (m, 1 if is_deep else channels, *kernel)
        name = f"y{len(self.nodes)}"
        w = self.random.integers(-127, 128, shape).astype(np.int8)
        factor = self.random.uniform(0.004, 0.02, m) / w[0].size ** 0.5
        b = self.random.integers(-(2**11), 2**11, m).astype(np.int32)
        operands = [
            constant(self.made, f"{name}_xz", np.int8(self.random.integers(-128, 127)))
            if self.at == "x"
            else f"{self.at}_yz",
            constant(self.made, f"{name}_w", w),
            constant(self.made, f"{name}_ws", factor.astype(np.float32)),
            constant(self.made, f"{name}_wz", np.int8(0)),
            "scale",
            constant(self.made, f"{name}_yz", np.int8(self.random.integers(-9, 9))),
            constant(self.made, f"{name}_b", b),
        ]
        node = helper.make_node(
            "QLinearConv",
            [self.at, "scale", *operands],
            [name],
            strides=strides,
            pads=[*pads[::2], *pads[1::2]],
            group=channels if is_deep else 1,
        )
        self.nodes.append(node)
        around = [sum(pads[:2]), sum(pads[2:])]
        sizes = zip(extents, kernel, strides, around, strict=True)
        height, width = [(x + pad - taps) // step + 1 for x, taps, step, pad in sizes]
        self.at, self.shape = name, (m, height, width)

    def some(self, count: int) -> None:
        """Add convolutions whose windows are no larger than the map."""
        for _ in range(count):
            kernel = [int(self.random.integers(1, min(4, e) + 1)) for e in self.shape[1:]]
            strides = [int(self.random.integers(1, 3)) if e > 6 else 1 for e in self.shape[1:]]
            pads = [int(self.random.integers(0, taps)) for taps in kernel for _ in range(2)]
            self.conv(kernel, strides, pads)

    def model(self) -> onnx.ModelProto:
        """Return the network as a model."""
        ends = [("x", self.input), (self.at, self.shape)]
        (x, y) = [
            helper.make_tensor_value_info(name, 3, (self.samples, *shape)) for name, shape in ends
        ]
        graph = helper.make_graph(self.nodes, "chain", [x], [y], self.made)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def chain_of(seed: int, samples: int) -> Chain:
    """Return convolutions of an image, then of a column: its rows are of one point."""
    random = np.random.default_rng(seed)
    chain = Chain(seed, (4, int(random.integers(18, 27)), int(random.integers(5, 9))), samples)
    chain.some(3)
    chain.conv((1, chain.shape[2]), (1, 1), (0, 0, 0, 0))
    chain.some(3)
    return chain


@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize("seed", range(CASES))
def test_random_networks_give_the_same_layer_by_layer_in_strips_in_parts_of_rows_and_in_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: Made, seed: int, samples: int
) -> None:
    monkeypatch.chdir(tmp_path)
    chain = chain_of(seed, samples)
    onnx.save(chain.model(), "chain.onnx")
    random = np.random.default_rng(seed)
    values = random.integers(-128, 128, (samples, *chain.input)).astype(np.int8)
    np.savez("samples.npz", x=values)
    layout = dict.fromkeys(("x", chain.at), "nhwc")
    entry: dict[str, object] = {
        "source": "chain.onnx",
        "samples": "samples.npz",
        "layout": layout,
    }
    entry |= {"input": "arena", "requantize": "fixed"}
    ram = {**entry, "optimize": "ram"}
    models = {"layers": entry, "strips": ram}
    models["small"] = {**entry, "optimize": "size"}
    if samples == 1:  # rows of a batch are samples, which have no parts
        models["parts"] = {**ram, "max_recompute": 2.0}
    targets: dict[str, dict[str, object]] = {
        core: {"extends": CORES.get(core, "host")} for core in ("m4f", "m55", "pc")
    }
    memories = {
        "tcm": {"size": "600 B" if samples == 1 else "8 KiB", "holds": ["tiles"]},
        "sram": {"holds": ["arena"]},
        "flash": {"holds": ["weights"]},
    }
    pairs = [{"model": model, "target": list(targets)} for model in models]
    pairs.append({"model": "layers", "target": ["near"]})
    targets["near"] = {"extends": CORES["m4f"], "memories": memories}
    recipe = {"version": 1, "models": models, "targets": targets, "builds": pairs}
    Path("dlbuild.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False))

    engine, builds = made()

    here = figures_of(engine, builds["layers@pc"], steps=False, count=False)
    near = builds["layers@near"]
    tiles = codec.decode(engine.content(near, "tiles"), TilePlan)
    there = figures_of(engine, near, steps=False)
    assert any(tiling.is_handwritten and tiling.loops for tiling in tiles.tilings)
    assert there.faults == ()
    assert there.content == here.content
    for name, core in product(models, ("m4f", "m55")):
        one = builds[f"{name}@{core}"]
        profile = codec.decode(engine.content(one, "profile"), Profile)
        tiles = codec.decode(engine.content(one, "tiles"), TilePlan)
        assert bool(tiles.strips) == (name in {"strips", "parts"}), (name, core)
        assert all(handwritten_kernel(k, tiles) for k in profile.kernels), (name, core)
        there = figures_of(engine, one, steps=False)
        assert there.faults == (), (name, core)
        assert there.content == here.content, (name, core)


def by_clang(folder: Path, flags: Sequence[str]) -> None:
    """Compile what was generated by clang with the C library of gcc; no warning may come."""
    asked = ["arm-none-eabi-gcc", "-E", "-v", "-xc", os.devnull]
    said = subprocess.run(asked, capture_output=True, text=True, check=True).stderr
    *_, library = said.partition("End of search list")[0].split()
    command = ["clang-14", *flags, *WARNINGS, "-Werror", "-std=c99", f"-isystem{library}"]
    done = subprocess.run(
        [*command, "-c", "kernels.c", "-o", os.devnull],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.stderr
    assert done.returncode == 0
