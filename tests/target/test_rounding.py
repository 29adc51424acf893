"""Rounding half to even on emulated cores, where each other result lies between two integers."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
import yaml
from onnx import helper, numpy_helper

from dlbuild.build.engine import Engine
from dlbuild.build.project import Build
from dlbuild.cli.bench import figures_of

Made = Callable[..., tuple[Engine, dict[str, Build]]]
CORES = ("cortex-m3", "cortex-m4f", "cortex-m7", "cortex-m33", "cortex-m55")
ZERO_POINT = -3


def model_of() -> onnx.ModelProto:
    """Return a convolution of one channel: halves, and products that do not fit."""
    constants: Mapping[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]] = {
        "one": np.array(1, np.float32),
        "zero": np.array(0, np.int8),
        "w": np.array([1, -1, 3, 127], np.int8).reshape(4, 1, 1, 1),
        "ws": np.array([0.5, 0.5, 0.5, 1e6], np.float32),
        "yz": np.array(ZERO_POINT, np.int8),
    }
    names = ["x", "one", "zero", "w", "ws", "zero", "one", "yz"]
    graph = helper.make_graph(
        [helper.make_node("QLinearConv", names, ["y"])],
        "halves",
        [helper.make_tensor_value_info("x", 3, (1, 1, 16, 16))],
        [helper.make_tensor_value_info("y", 3, (1, 4, 16, 16))],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


@pytest.mark.parametrize("core", CORES)
def test_halves_go_to_the_even_integer_on_every_core(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: Made, core: str
) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(model_of(), "halves.onnx")
    x = np.arange(-128, 128, dtype=np.int8).reshape(1, 1, 16, 16)
    np.savez("samples.npz", x=x)
    entry = {
        "source": "halves.onnx",
        "samples": "samples.npz",
        "layout": {"x": "nhwc", "y": "nhwc"},
    }
    targets = {"core": {"extends": core, "requantize": "exact"}}
    recipe = {"version": 1, "models": {"halves": entry}, "targets": targets}
    Path("dlbuild.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False))

    engine, builds = made()
    content = figures_of(engine, builds["halves@core"], steps=False).content

    factors = np.array([0.5, -0.5, 1.5, 127e6])
    due = np.clip(np.rint(np.arange(-128, 128)[:, None] * factors) + ZERO_POINT, -128, 127)
    found = np.frombuffer(content, np.int8)[-1024:].reshape(256, 4)
    np.testing.assert_array_equal(found, due.astype(np.int8))
