"""What the two references say of models, and that they speak of the version the file is of."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from dlbuild.run.reference_oracles import ask_evaluator, ask_runtime

X = np.arange(8, dtype=np.float32).reshape(1, 2, 2, 2)


def saved(folder: Path, kind: str, opset: int) -> Path:
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 2, 2, 2]) for n in "xy"]
    graph = helper.make_graph([helper.make_node(kind, ["x"], ["y"])], "g", info[:1], info[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=7)
    onnx.save(model, folder / "m.onnx")
    return folder / "m.onnx"


def test_the_runtime_answers_for_a_model_of_which_no_tensor_is_wanted(tmp_path: Path) -> None:
    answer = ask_runtime(saved(tmp_path, "Relu", 13), [{"x": X}], ["only_in_our_graph"])
    assert answer.runs is not None
    assert answer.notes == ()


@pytest.mark.parametrize("kind", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("opset", [11, 13])
def test_the_evaluator_takes_an_operator_of_old_as_it_was_then(
    tmp_path: Path, kind: str, opset: int
) -> None:
    answer = ask_evaluator(saved(tmp_path, kind, opset), [{"x": X}], ["y"])
    assert answer.runs is not None
    y = np.asarray(answer.runs[0]["y"])
    rows = np.exp(X) if opset == 13 else np.exp(X).reshape(1, 8)  # up to 12 cut at axis 1
    soft = (rows / rows.sum(-1, keepdims=True)).reshape(X.shape)
    due = {"Softmax": soft, "LogSoftmax": np.log(soft)}
    np.testing.assert_allclose(y.astype(np.float64), due[kind], rtol=1e-4)


def test_a_scalar_reaches_the_runtime_as_one(tmp_path: Path) -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float x) => (float y) { y = Relu(x) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    answer = ask_runtime(tmp_path / "m.onnx", [{"x": np.array(2.0, np.float32)}], ["y"])
    assert answer.runs is not None
    assert np.asarray(answer.runs[0]["y"]).shape == ()
