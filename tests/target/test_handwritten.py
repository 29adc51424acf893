"""Hand-written kernels on emulated cores against the nests of this machine, bit for bit."""

import os
import subprocess
from collections.abc import Callable, Sequence
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

COUNTS = {"fixed": 255_098, "exact": 252_646}
"""Instructions on a Cortex-M4F with gcc 12.2; a rise fails, a fall is to be recorded here."""

COUNTS_OF_M55 = {"fixed": 53_289, "exact": 53_210}
"""The same on a Cortex-M55."""

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


@pytest.mark.parametrize("rounding", ["fixed", "exact"])
def test_hand_written_kernels_give_the_numbers_of_the_nests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: Made, rounding: str
) -> None:
    monkeypatch.chdir(tmp_path)
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
    targets = {
        name: {"extends": core, "requantize": rounding}
        for name, core in {**CORES, "pc": "host"}.items()
    }
    entry = {"source": "kernels.onnx", "samples": "samples.npz", "layout": layout}
    models = {"kernels": entry}
    recipe = {"version": 1, "models": models, "targets": targets}
    Path("dlbuild.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False))

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
    files = path_of(engine.out, builds["kernels@m55"], "header").parent
    for level in ("-O0", "-O2"):
        by_clang(files, ["--target=arm-none-eabi", "-mcpu=cortex-m55", "-mfloat-abi=hard", level])


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
