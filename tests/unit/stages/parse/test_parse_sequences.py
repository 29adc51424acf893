"""Sequences and optionals of known extents become their members."""

from pathlib import Path
from typing import Protocol

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from dlbuild.base.errors import UserError
from dlbuild.ir.weights import Array
from dlbuild.stages.parse import Parsed

Shapes = dict[str, tuple[int, ...]]
Given = list[Array] | Array | None


class Reader(Protocol):
    folder: Path

    def parse(self, path: Path, shapes: Shapes | None = None) -> Parsed: ...

    def compute(self, parsed: Parsed, feeds: dict[str, Array]) -> list[Array]: ...


TENSOR = helper.make_tensor_type_proto(TensorProto.FLOAT, ["n"])
SEQUENCE = helper.make_sequence_type_proto(TENSOR)
OPTIONAL = helper.make_optional_type_proto(TENSOR)
X = [np.array([1.0, -2.0], np.float32), np.array([3.0], np.float32)]
BOUND: Shapes = {"s.0": (2,), "s.1": (1,)}


def saved(
    reader: Reader,
    nodes: list[onnx.NodeProto],
    inputs: dict[str, onnx.TypeProto],
    outputs: dict[str, onnx.TypeProto],
) -> Path:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_value_info(name, kind) for name, kind in inputs.items()],
        [helper.make_value_info(name, kind) for name, kind in outputs.items()],
        [helper.make_tensor("one", TensorProto.INT64, [], [1])],
    )
    path = reader.folder / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), path)
    return path


def refusal(reader: Reader, path: Path, shapes: Shapes) -> str:
    with pytest.raises(UserError) as caught:
        reader.parse(path, shapes)
    return str(caught.value).replace(str(reader.folder), "FOLDER")


@pytest.mark.parametrize(
    ("kind", "operands", "attributes", "due"),
    [
        ("SequenceAt", ["s", "one"], {}, [X[1]]),
        ("ConcatFromSequence", ["s"], {"axis": 0}, [np.concatenate(X)]),
        ("SequenceLength", ["s"], {}, [np.array(2)]),
        ("OptionalHasElement", ["s"], {}, [np.array(True)]),  # noqa: FBT003 - a value
    ],
)
def test_an_operator_on_a_sequence_gives_a_tensor(
    reader: Reader, kind: str, operands: list[str], attributes: dict[str, int], due: list[Array]
) -> None:
    node = helper.make_node(kind, operands, ["y"])
    node.attribute.extend(helper.make_attribute(*item) for item in attributes.items())
    path = saved(reader, [node], {"s": SEQUENCE}, {"y": TENSOR})
    parsed = reader.parse(path, BOUND)
    found = reader.compute(parsed, dict(zip(("s.0", "s.1"), X, strict=True)))
    assert parsed.graph.inputs == ("s.0", "s.1")
    assert [array.tolist() for array in found] == [array.tolist() for array in due]


@pytest.mark.parametrize(
    ("kind", "operands", "due"),
    [
        ("SequenceInsert", ["s", "x"], [*X, X[0]]),
        ("SequenceInsert", ["s", "x", "one"], [X[0], X[0], X[1]]),
        ("SequenceErase", ["s", "one"], [X[0]]),
        ("SequenceConstruct", ["x", "x"], [X[0], X[0]]),
        ("Identity", ["s"], X),
    ],
)
def test_the_members_of_a_sequence_are_outputs_of_their_own(
    reader: Reader, kind: str, operands: list[str], due: list[Array]
) -> None:
    node = helper.make_node(kind, operands, ["y"])
    path = saved(reader, [node], {"s": SEQUENCE, "x": TENSOR}, {"y": SEQUENCE})
    parsed = reader.parse(path, {**BOUND, "x": (2,)})
    found = reader.compute(parsed, {"s.0": X[0], "s.1": X[1], "x": X[0]})
    assert parsed.graph.outputs == tuple(f"y.{number}" for number in range(len(due)))
    assert [array.tolist() for array in found] == [array.tolist() for array in due]


def test_a_body_is_applied_to_each_member(reader: Reader) -> None:
    body = helper.make_graph(
        [helper.make_node("Neg", ["a"], ["b"])],
        "body",
        [helper.make_value_info("a", TENSOR)],
        [helper.make_value_info("b", TENSOR)],
    )
    node = helper.make_node("SequenceMap", ["s"], ["y"], body=body)
    parsed = reader.parse(saved(reader, [node], {"s": SEQUENCE}, {"y": SEQUENCE}), BOUND)
    found = reader.compute(parsed, {"s.0": X[0], "s.1": X[1]})
    assert [array.tolist() for array in found] == [[-1.0, 2.0], [-3.0]]


def test_an_optional_is_there_if_its_shape_is_bound(reader: Reader) -> None:
    nodes = [
        helper.make_node("OptionalHasElement", ["o"], ["has"]),
        helper.make_node("OptionalGetElement", ["o"], ["y"]),
    ]
    truth = helper.make_tensor_type_proto(TensorProto.BOOL, [])
    path = saved(reader, nodes, {"o": OPTIONAL}, {"has": truth, "y": TENSOR})
    found = reader.compute(reader.parse(path, {"o": (2,)}), {"o": X[0]})
    assert [array.tolist() for array in found] == [True, [1.0, -2.0]]


def test_an_optional_that_is_not_bound_is_absent_with_a_note(reader: Reader) -> None:
    node = helper.make_node("OptionalHasElement", ["o"], ["has"])
    truth = helper.make_tensor_type_proto(TensorProto.BOOL, [])
    parsed = reader.parse(saved(reader, [node], {"o": OPTIONAL}, {"has": truth}))
    assert [array.tolist() for array in reader.compute(parsed, {})] == [False]
    assert parsed.graph.notes == (
        "the optional input 'o' is taken to be absent: 'shapes:' does not bind it",
    )


def test_an_absent_optional_that_is_read_is_refused(reader: Reader) -> None:
    node = helper.make_node("OptionalGetElement", ["o"], ["y"], "get")
    path = saved(reader, [node], {"o": OPTIONAL}, {"y": TENSOR})
    assert refusal(reader, path, {}) == (
        "FOLDER/m.onnx: node 'get' (OptionalGetElement): error: the optional 'o' holds nothing\n"
        "  fix: give the shape of the model's optional input under 'shapes:'"
    )


def test_a_sequence_whose_members_are_not_bound_is_refused(reader: Reader) -> None:
    node = helper.make_node("Identity", ["s"], ["y"])
    path = saved(reader, [node], {"s": SEQUENCE}, {"y": SEQUENCE})
    assert refusal(reader, path, {}) == (
        "FOLDER/m.onnx: error: input 's' is a sequence, and which members it has is not known\n"
        "  why: firmware has fixed buffers, so each member needs its extents\n"
        "  fix: bind them in the recipe: shapes: {s.0: [...], s.1: [...]}"
    )
    assert "the members [1] of input 's' are bound, but not each from 0 on" in refusal(
        reader, path, {"s.1": (2,)}
    )


def test_a_place_that_only_the_run_knows_is_refused(reader: Reader) -> None:
    place = helper.make_tensor_type_proto(TensorProto.INT64, [])
    node = helper.make_node("SequenceAt", ["s", "p"], ["y"], "pick")
    path = saved(reader, [node], {"s": SEQUENCE, "p": place}, {"y": TENSOR})
    assert refusal(reader, path, BOUND) == (
        "FOLDER/m.onnx: node 'pick' (SequenceAt): error: "
        "the extents of the sequence's members are not known before the model runs\n"
        "  why: they depend on what 'p' holds; firmware has fixed buffers\n"
        "  fix: export the model with 'p' as a constant"
    )


def test_a_place_outside_the_sequence_is_refused(reader: Reader) -> None:
    nodes = [
        helper.make_node("SequenceErase", ["s"], ["t"]),
        helper.make_node("SequenceAt", ["t", "one"], ["y"], "pick"),
    ]
    path = saved(reader, nodes, {"s": SEQUENCE}, {"y": TENSOR})
    assert refusal(reader, path, BOUND) == (
        "FOLDER/m.onnx: node 'pick' (SequenceAt): error: the place 1 is outside a sequence of 1\n"
        "  fix: export the model again"
    )
