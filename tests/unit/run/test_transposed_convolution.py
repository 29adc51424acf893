"""A transposed convolution has the size that runtimes give it, or is refused."""

from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from dlbuild.base.errors import UserError
from dlbuild.base.paths import builtin_folder
from dlbuild.ir.weights import Array
from dlbuild.rulebook.load import RuleBook, load_rules
from dlbuild.run.reference import Model, computed
from dlbuild.stages.parse import parse

CASES = [
    case
    for case in product(
        ("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"), (1, 2, 3), (0, 1, 2), (2, 3)
    )
    if case[2] < case[1]
]


@cache
def book() -> RuleBook:
    return load_rules([builtin_folder()])


def ours(file: Path, x: Array) -> Array:
    parsed = parse(file, {}, book(), "net")
    values: dict[str, Array] = {**parsed.weights, "x": x}
    for op in parsed.graph.ops:
        values |= computed(op, Model(file, parsed.graph, parsed.weights, book()), values)
    return values["y"]


@pytest.mark.parametrize(("pad", "stride", "extra", "kernel"), CASES)
def test_its_size_is_that_of_runtimes(
    pad: str, stride: int, extra: int, kernel: int, tmp_path: Path
) -> None:
    rng = np.random.default_rng(1)
    w, x = (rng.normal(size=(1, 1, n)).astype(np.float32) for n in (kernel, 4))
    given = {"output_padding": [extra]} if extra else {}
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], auto_pad=pad, strides=[stride])
    node.attribute.extend(helper.make_attribute(name, value) for name, value in given.items())
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(w, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (due,) = session.run(None, {"x": x})
    size = max((4 - 1) * stride + extra + kernel, 4 * stride)
    if pad.startswith("SAME") and extra and size != 4 * stride:
        with pytest.raises(UserError, match="pads say it"):
            ours(tmp_path / "m.onnx", x)
    else:
        np.testing.assert_allclose(
            ours(tmp_path / "m.onnx", x).astype(np.float64), due, rtol=1e-5, atol=1e-6
        )
