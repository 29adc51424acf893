"""The rules of the integer operators that onnx does not define, against ONNX Runtime."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import yaml
from onnx import TensorProto, helper, numpy_helper

from dlbuild.ir.target import Rounding
from dlbuild.ir.weights import Array
from dlbuild.rulebook.interpret import interpret
from dlbuild.rulebook.load import load_rules
from dlbuild.rulebook.match import Wish, match
from dlbuild.stages.parse import parse

ort = pytest.importorskip("onnxruntime")

ROOT = Path(__file__).parent.parent.parent
BOOK = load_rules([ROOT])
MICROSOFT = "com.microsoft"


@dataclass(frozen=True)
class Case:
    """One node. shapes: of its activations. rest: its inputs after x, `x` stands for another one.

    The letters of `rest`: a scale `s`, a zero point `z`, another activation `x`, a weight `w`.
    """

    kind: str
    shape: tuple[int, ...]
    rest: str
    out: tuple[int, ...]
    weight: tuple[int, ...] = ()
    attributes: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.kind}-{'x'.join(map(str, self.shape))}-{len(self.attributes)}"


CASES = [
    Case("QLinearAdd", (2, 3, 5), "szxszsz", (2, 3, 5)),
    Case("QLinearMul", (2, 3, 5), "szxszsz", (2, 3, 5)),
    Case("QLinearSigmoid", (4, 9), "szsz", (4, 9)),
    Case("QLinearLeakyRelu", (4, 9), "szsz", (4, 9), attributes={"alpha": 0.2}),
    Case("QGemm", (3, 8), "szwszbsz", (3, 5), (5, 8), attributes={"transB": 1}),
    Case("QGemm", (3, 8), "szwszbsz", (3, 5), (8, 5), attributes={}),
    Case(
        "QLinearAveragePool",
        (1, 3, 7, 6),
        "szsz",
        (1, 3, 4, 3),
        attributes={"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 0]},
    ),
    Case(
        "QLinearAveragePool",
        (1, 3, 6, 6),
        "szsz",
        (1, 3, 2, 2),
        attributes={"kernel_shape": [3, 3], "strides": [3, 3]},
    ),
    Case("QLinearGlobalAveragePool", (1, 4, 5, 5), "szsz", (1, 4, 1, 1)),
    Case("QLinearSoftmax", (3, 11), "szsz", (3, 11), attributes={"axis": 1, "opset": 13}),
]


def made(case: Case, dtype: str, folder: Path) -> tuple[Path, dict[str, Array]]:
    """Write a model of one node; return it and values of its inputs."""
    rng = np.random.default_rng(5)
    limits = np.iinfo(dtype)
    kind = TensorProto.INT8 if dtype == "int8" else TensorProto.UINT8
    middle = 0 if dtype == "int8" else 128
    inputs, weights, names = {}, [], ["x"]
    inputs["x"] = rng.integers(limits.min, limits.max, case.shape, dtype, endpoint=True)
    for number, letter in enumerate(case.rest):
        name = f"{letter}{number}"
        names.append(name)
        if letter == "x":
            inputs[name] = rng.integers(limits.min, limits.max, case.shape, dtype, endpoint=True)
            continue
        content: Array
        if letter == "s":
            content = np.float32(rng.uniform(0.01, 0.1)) * np.ones((), np.float32)
        elif letter == "z":
            content = np.array(middle + rng.integers(-9, 10), dtype)
        elif letter == "b":
            content = rng.integers(-500, 500, case.out[-1]).astype(np.int32)
        else:
            content = rng.integers(limits.min, limits.max, case.weight, dtype, endpoint=True)
        weights.append(numpy_helper.from_array(content, name))
    if case.kind == "QLinearSoftmax":  # probabilities from 0 to 1, as the operator is used
        weights[-2] = numpy_helper.from_array(np.float32(1 / 256) * np.ones((), "f4"), names[-2])
        weights[-1] = numpy_helper.from_array(np.array(limits.min, dtype), names[-1])
    node = helper.make_node(case.kind, names, ["y"], name="node", domain=MICROSOFT)
    node.attribute.extend(helper.make_attribute(k, v) for k, v in case.attributes.items())
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(n, kind, list(a.shape)) for n, a in inputs.items()],
        [helper.make_tensor_value_info("y", kind, list(case.out))],
        weights,
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]
    file = folder / "model.onnx"
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    file.write_bytes(model.SerializeToString())
    return file, inputs


@pytest.mark.parametrize("rounding", ["exact", "fixed"])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_rule_is_within_one_of_onnx_runtime(
    case: Case, dtype: str, rounding: Rounding, tmp_path: Path
) -> None:
    file, inputs = made(case, dtype, tmp_path)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    (due,) = session.run(None, inputs)
    parsed = parse(file, {}, BOOK, "m")
    (op,) = parsed.graph.ops
    instance = match(op, parsed.graph, BOOK, Wish(rounding=rounding))
    values = {**parsed.weights, **inputs}
    operands = [operand for operand in instance.operands if operand.role == "input"]
    (found,) = interpret(instance, {o.name: values[o.tensor] for o in operands}).values()
    apart = np.abs(found.astype(np.int64) - due.astype(np.int64))
    assert due.min() < due.max(), "a case that says nothing"
    assert apart.max() <= 1


def test_each_operator_of_that_domain_has_a_case() -> None:
    named = set()
    for path in sorted((ROOT / "rules" / "ops").glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            if document.get("domain_name") == MICROSOFT:
                named |= {document["op"]} if "op" in document else set(document["ops"])
    assert named == {case.kind for case in CASES}
