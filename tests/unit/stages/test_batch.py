"""A batch in parts: what is divided, what is added up, and which nodes do not allow it."""

from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from dlbuild.base.errors import UserError
from dlbuild.base.paths import builtin_folder
from dlbuild.ir.batch import Batch
from dlbuild.rulebook.load import RuleBook, load_rules
from dlbuild.stages.batch import split_batch
from dlbuild.stages.parse import Parsed, parse

SAMPLES = 8
HALVES = Batch(("x",), 2)


@cache
def book() -> RuleBook:
    return load_rules([builtin_folder()])


def node(kind: str, inputs: str, outputs: str, **attributes: int | list[int]) -> onnx.NodeProto:
    made: onnx.NodeProto = helper.make_node(kind, inputs.split(), outputs.split(), f"the_{kind}")
    made.attribute.extend(helper.make_attribute(key, value) for key, value in attributes.items())
    return made


def split(
    folder: Path, nodes: list[onnx.NodeProto], outputs: str = "y", batch: Batch = HALVES
) -> Parsed:
    """Divide a model of `x` [8, 4, 5, 5] and a parameter `p` [4]."""
    constants = {"axes": [0, 2, 3], "zero": 0, "flat": [8, 100], "first": [0]}
    used = {name for n in nodes for name in n.input}
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [SAMPLES, 4, 5, 5]),
            helper.make_tensor_value_info("p", TensorProto.FLOAT, [4]),
        ],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs.split()],
        [
            numpy_helper.from_array(np.array(value), name)
            for name, value in constants.items()
            if name in used
        ],
    )
    file = folder / "g.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    file.write_bytes(model.SerializeToString())
    return split_batch(parse(file, {}, book(), "g"), book(), batch)


def kinds(parsed: Parsed) -> list[str]:
    return [op.kind for op in parsed.graph.ops]


def test_one_part_is_the_model_as_it_was(tmp_path: Path) -> None:
    assert kinds(split(tmp_path, [node("Relu", "x", "y")], batch=Batch(("x",), 1))) == ["Relu"]


def test_what_each_sample_has_alone_is_joined_at_the_output(tmp_path: Path) -> None:
    made = split(tmp_path, [node("Relu", "x", "y")])
    assert kinds(made) == ["Slice", "Slice", "Relu", "Relu", "Concat"]
    assert [made.graph.tensor[t].shape for t in made.graph.ops[-1].inputs] == [(4, 4, 5, 5)] * 2


def test_a_sum_over_samples_is_added_up_in_the_order_of_the_parts(tmp_path: Path) -> None:
    made = split(tmp_path, [node("ReduceSum", "x axes", "y", keepdims=0)])
    assert kinds(made) == ["Slice", "Slice", "ReduceSum", "ReduceSum", "Sum"]
    assert made.graph.ops[-1].inputs == ("y.0", "y.1")
    assert made.graph.ops[-1].outputs == ("y",)


def test_partial_sums_are_added_up_before_anything_but_a_move(tmp_path: Path) -> None:
    nodes = [
        node("Reshape", "x flat", "f"),
        node("Gemm", "f f", "g", transA=1),
        node("Transpose", "g", "t", perm=[1, 0]),
        node("Mul", "t t", "y"),
    ]
    made = split(tmp_path, nodes)
    assert kinds(made)[-5:] == ["Gemm", "Transpose", "Transpose", "Sum", "Mul"]


def test_shapes_in_constants_are_those_of_a_part(tmp_path: Path) -> None:
    made = split(tmp_path, [node("Reshape", "x flat", "y")], batch=Batch(("x",), 4))
    (shape,) = {op.inputs[1] for op in made.graph.ops if op.kind == "Reshape"}
    assert made.graph.value[shape].content == (2, 100)
    assert made.weights[shape].tolist() == [2, 100]
    assert "flat" not in made.graph.constants


def test_what_all_samples_share_is_computed_once(tmp_path: Path) -> None:
    nodes = [node("Exp", "p", "e"), node("Relu", "x", "y")]
    made = split(tmp_path, nodes, "y e")
    assert kinds(made).count("Exp") == 1


@pytest.mark.parametrize(
    ("nodes", "outputs", "why"),
    [
        (
            [node("BatchNormalization", "x p p p p", "y m v", training_mode=1)],
            "y m v",
            "each result needs all samples at once",
        ),
        (
            [node("ReduceMean", "x", "y", axes=[0, 2, 3])],
            "y",
            "what it computes depends on how many samples there are",
        ),
        (
            [node("ReduceMax", "x", "y", axes=[0])],
            "y",
            "it needs all samples at once, and not to add them up",
        ),
        ([node("Softmax", "x", "y", axis=0)], "y", "each result needs all samples at once"),
        (
            [node("ReduceL2", "x", "y", axes=[0, 1, 2, 3])],
            "y",
            "what it makes of the sum over the samples is not linear",
        ),
        (
            [node("Gather", "x first", "y", axis=0)],
            "y",
            "it does not go along axis 0 of 'x' step by step",
        ),
        ([node("CumSum", "x zero", "y")], "y", "each result needs all samples at once"),
        (
            [
                node("Reshape", "x flat", "f"),
                node("Transpose", "f", "t", perm=[1, 0]),
                node("MatMul", "f t", "y"),
            ],
            "y",
            "each sample needs a part of 't' of its own",
        ),
    ],
    ids=lambda value: value[-1].op_type if isinstance(value, list) else None,
)
def test_a_node_that_joins_samples_is_refused_by_its_name(
    nodes: list[onnx.NodeProto], outputs: str, why: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError) as caught:
        split(tmp_path, nodes, outputs)
    kind = nodes[-1].op_type
    expected = f"'the_{kind}' ({kind}) joins samples, so that the batch cannot be divided"
    assert caught.value.what == expected
    assert caught.value.why == why


@pytest.mark.parametrize(
    ("batch", "what"),
    [
        (Batch(("x",), 3), "8 samples cannot be dealt to 3 equal parts"),
        (Batch(("x", "p"), 2), "the inputs do not hold equally many samples"),
        (Batch(("z",), 2), "the model has no input 'z' that the caller gives"),
        (Batch(("z",), 1), "the model has no input 'z' that the caller gives"),
    ],
)
def test_a_batch_that_cannot_be_dealt_is_refused(batch: Batch, what: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        split(tmp_path, [node("Add", "x x", "y")], batch=batch)
    assert caught.value.what == what
