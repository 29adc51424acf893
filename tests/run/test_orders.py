"""Interface tensors in rows of pixels, beside operators that see them in another shape."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import pytest
import yaml
from onnx import NodeProto, TensorProto, helper, numpy_helper

from dlbuild.cli import main
from dlbuild.ir.weights import Array

node = helper.make_node
IMAGE = (1, 3, 4, 5)
Shapes = Mapping[str, Sequence[int]]


def weights(*shape: int) -> Array:
    return np.random.default_rng(3).normal(size=shape).astype(np.float32)


@dataclass(frozen=True)
class Net:
    """A model of float32; the output `i` is int64."""

    nodes: Sequence[NodeProto]
    inputs: Shapes
    outputs: Shapes
    constants: Mapping[str, Array] = field(default_factory=dict)

    def save(self, folder: Path) -> None:
        """Write it where the recipe looks for it."""
        types = {"i": TensorProto.INT64}
        inputs, outputs = [
            [
                helper.make_tensor_value_info(name, types.get(name, TensorProto.FLOAT), shape)
                for name, shape in side.items()
            ]
            for side in (self.inputs, self.outputs)
        ]
        tensors = [numpy_helper.from_array(array, name) for name, array in self.constants.items()]
        graph = helper.make_graph(self.nodes, "g", inputs, outputs, tensors)
        opsets = [helper.make_opsetid("", 17)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), folder / "m.onnx")


def verified(folder: Path, capsys: pytest.CaptureFixture[str], **options: object) -> str:
    """Verify the model on this machine with options; return what is said."""
    entry = {"source": "m.onnx", **options}
    (folder / "dlbuild.yaml").write_text(yaml.safe_dump({"version": 1, "models": {"m": entry}}))
    code = main.run(("verify", "--layers"))
    said = capsys.readouterr()
    assert code == 0, said.out + said.err
    return said.out


@pytest.fixture(autouse=True)
def _in_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


CASES = {
    "a view of another shape": Net(
        [node("Flatten", ["x"], ["y"])],
        {"x": IMAGE},
        {"y": (1, 60)},
    ),
    "views at both ends": Net(
        [node("Reshape", ["x", "shape"], ["y"])],
        {"x": IMAGE},
        {"y": (1, 2, 6, 5)},
        {"shape": np.array((1, 2, 6, 5))},
    ),
    "a template of several results": Net(
        [node("TopK", ["x", "k"], ["y", "i"], axis=3)],
        {"x": IMAGE},
        {"y": (1, 3, 4, 2), "i": (1, 3, 4, 2)},
        {"k": np.array([2])},
    ),
    "a template of several operands": Net(
        [node("GridSample", ["x", "at"], ["y"])],
        {"x": IMAGE, "at": (1, 3, 2, 2)},
        {"y": (1, 3, 3, 2)},
    ),
    "a template of a sequence": Net(
        [node("LSTM", ["x", "w", "r"], ["y"], hidden_size=2)],
        {"x": (3, 2, 4)},
        {"y": (3, 1, 2, 2)},
        {"w": weights(1, 8, 4), "r": weights(1, 8, 2)},
    ),
    "an output that is read inside, and an input that others take": Net(
        [
            node("Compress", ["x", "c"], ["y"], axis=1),
            node("Tanh", ["y"], ["z"]),
            node("Tanh", ["x"], ["v"]),
        ],
        {"x": IMAGE},
        {"y": (1, 2, 4, 5), "z": (1, 2, 4, 5), "v": IMAGE},
        {"c": np.array([True, False, True])},
    ),
    "an input that is an output": Net(
        [node("Flatten", ["x"], ["y"])],
        {"x": IMAGE},
        {"y": (1, 60), "x": IMAGE},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_any_operator_stands_at_an_interface_in_rows_of_pixels(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net = CASES[case]
    net.save(tmp_path)
    shapes = {**net.inputs, **net.outputs}
    names = [name for name, shape in shapes.items() if len(shape) > 2]
    said = verified(tmp_path, capsys, layout=dict.fromkeys(names, "nhwc"))
    assert "'x' is copied to or from the order of ONNX" in said


def test_an_order_that_the_operators_take_needs_no_copy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Net([node("Tanh", ["x"], ["y"])], {"x": IMAGE}, {"y": IMAGE}).save(tmp_path)
    assert "is copied" not in verified(tmp_path, capsys, layout={"x": "nhwc", "y": "nhwc"})


def refusal(tmp_path: Path, capsys: pytest.CaptureFixture[str], **options: object) -> str:
    entry = {"source": "m.onnx", **options}
    (tmp_path / "dlbuild.yaml").write_text(yaml.safe_dump({"version": 1, "models": {"m": entry}}))
    assert main.run(("verify",)) == 1
    return capsys.readouterr().err


def test_a_part_of_an_input_is_not_fetched_as_if_it_began_at_its_first_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [
        node("Slice", ["x", "first", "end", "axis"], ["part"]),
        node("Tanh", ["part"], ["y"]),
    ]
    bounds = {"first": np.array([1]), "end": np.array([3]), "axis": np.array([1])}
    Net(nodes, {"x": IMAGE}, {"y": (1, 2, 4, 5)}, bounds).save(tmp_path)
    assert "'x' cannot be fetched in rows" in refusal(tmp_path, capsys, input="external")


def test_an_input_is_not_fetched_by_rows_of_two_lengths(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [
        node("Reshape", ["x", "shape"], ["other"]),
        node("Conv", ["other", "w"], ["y"]),
        node("Conv", ["x", "w"], ["z"]),
    ]
    outputs = {"y": (1, 1, 2, 7), "z": (1, 1, 5, 3)}
    constants = {"shape": np.array((1, 1, 3, 8)), "w": weights(1, 1, 2, 2)}
    Net(nodes, {"x": (1, 1, 6, 4)}, outputs, constants).save(tmp_path)
    said = refusal(tmp_path, capsys, input="external")
    assert "by the same rows ('other', 'y', 'z')" in said


def test_a_fetched_input_under_another_name_is_brought(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [node("Reshape", ["x", "shape"], ["other"]), node("Conv", ["other", "w"], ["y"])]
    constants = {"shape": np.array((1, 1, 3, 8)), "w": weights(1, 1, 2, 2)}
    Net(nodes, {"x": (1, 1, 6, 4)}, {"y": (1, 1, 2, 7)}, constants).save(tmp_path)
    verified(tmp_path, capsys, input="external")


def test_an_output_that_is_a_view_of_a_fetched_input_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [node("Tanh", ["x"], ["z"]), node("Reshape", ["x", "shape"], ["y"])]
    Net(nodes, {"x": IMAGE}, {"y": (1, 60), "z": IMAGE}, {"shape": np.array((1, 60))}).save(
        tmp_path
    )
    said = refusal(tmp_path, capsys, input="external")
    assert "'x' cannot be fetched in rows" in said


def test_long_names_beside_a_function_that_fetches_compile(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Net([node("Tanh", ["x" * 300], ["y" * 300])], {"x" * 300: IMAGE}, {"y" * 300: IMAGE}).save(
        tmp_path
    )
    verified(tmp_path, capsys, input="external")
