"""The rules of the operators of com.microsoft, which onnx does not define, against ONNX Runtime."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import ascii_letters

import numpy as np
import onnxruntime
import pytest
import yaml
from onnx import TensorProto, helper, numpy_helper, parser

from dlbuild.base.errors import UserError
from dlbuild.ir.target import Rounding
from dlbuild.ir.weights import Array
from dlbuild.rulebook.interpret import interpret
from dlbuild.rulebook.load import load_rules
from dlbuild.rulebook.match import Wish, match
from dlbuild.stages.parse import parse
from tests.run.conftest import Verifies

ROOT = Path(__file__).parent.parent.parent
BOOK = load_rules([ROOT])
MICROSOFT = "com.microsoft"


@dataclass(frozen=True)
class Case:
    """One node. shape: of its activations. rest: its inputs after x, `x` stands for another one.

    choose: the shape of a condition, which comes before x.

    The letters of `rest`: a scale `s`, a zero point `z`, another activation `x`, a weight `w`.
    """

    kind: str
    shape: tuple[int, ...]
    rest: str
    out: tuple[int, ...]
    weight: tuple[int, ...] = ()
    attributes: Mapping[str, object] = field(default_factory=dict)
    choose: tuple[int, ...] = ()

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
    Case(
        "QLinearAveragePool",
        (2, 3, 7, 6),
        "szsz",
        (2, 3, 4, 4),
        attributes={
            "kernel_shape": [3, 3],
            "strides": [2, 2],
            "pads": [1, 1, 1, 1],
            "ceil_mode": 1,
            "count_include_pad": 1,
        },
    ),
    Case(
        "QLinearAveragePool",
        (1, 3, 8, 7),
        "szsz",
        (1, 3, 4, 4),
        attributes={"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1},
    ),
    Case(
        "QLinearAveragePool",
        (1, 3, 7, 6),
        "szsz",
        (1, 3, 7, 6),
        attributes={"kernel_shape": [3, 2], "auto_pad": "SAME_LOWER"},
    ),
    Case(
        "QLinearAveragePool",
        (2, 3, 9),
        "szsz",
        (2, 3, 4),
        attributes={"kernel_shape": [3], "strides": [2]},
    ),
    Case("QLinearGlobalAveragePool", (1, 4, 5, 5), "szsz", (1, 4, 1, 1)),
    Case("QLinearSoftmax", (3, 11), "szsz", (3, 11), attributes={"axis": 1, "opset": 13}),
    Case("QLinearWhere", (2, 3, 5), "szxszsz", (2, 3, 5), choose=(2, 3, 5)),
    Case("QLinearWhere", (3, 7), "szxszsz", (3, 7), choose=(3, 1)),
    Case("QLinearWhere", (1, 7), "szxszsz", (2, 3, 7), choose=(2, 3, 1)),
]


def made(case: Case, dtype: str, folder: Path) -> tuple[Path, dict[str, Array]]:
    """Write a model of one node; return it and values of its inputs."""
    rng = np.random.default_rng(5)
    limits = np.iinfo(dtype)
    kind = TensorProto.INT8 if dtype == "int8" else TensorProto.UINT8
    middle = 0 if dtype == "int8" else 128
    inputs, weights, names = {}, [], ["x"]
    inputs["x"] = rng.integers(limits.min, limits.max, case.shape, dtype, endpoint=True)
    if case.choose:
        names = ["c", "x"]
        inputs["c"] = rng.integers(0, 2, case.choose).astype(bool)
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
        [
            helper.make_tensor_value_info(n, TensorProto.BOOL if n == "c" else kind, list(a.shape))
            for n, a in inputs.items()
        ],
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
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
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


HEAD = '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>\n'
LETTERS = ascii_letters.replace("y", "")
REALS = [
    (
        ["int8[3,8]", "float", "int8", "int8[8,5]", "float", "int8", "int32[5]"],
        "float[3,5] y = QGemm (a, b, c, d, e, f, g)",
    ),
    (
        ["uint8[8,3]", "float", "uint8", "int8[5,8]", "float[5]", "int8[5]"],
        "float[3,5] y = QGemm <alpha = 0.5, transA = 1, transB = 1> (a, b, c, d, e, f)",
    ),
    (["float[2,9]"], "float[2,9] y = QuickGelu <alpha = 1.5> (a)"),
    (["float[2,3,5]", "float[5]"], "float[2,3,5] y = BiasGelu (a, b)"),
    (["float[4,6]", "float[6]"], "float[4,6] y = FastGelu (a, b)"),
    (["float[3,4]", "float[5,4]"], 'float[3,5] y = CDist <metric = "euclidean"> (a, b)'),
    (
        ["float[2,3,8]", "float[8]"],
        "float[2,3,8] y = SimplifiedLayerNormalization <epsilon = 0.01> (a, b)",
    ),
    (
        ["float[2,3,4,8]", "int64[2,4]", "float[16,4]", "float[16,4]"],
        "float[2,3,4,8] y = RotaryEmbedding (a, b, c, d)",
    ),
    (
        ["float[2,3,8]", "float[2,3,8]", "float[8]", "float[8]"],
        "float[2,3,8] y = SkipLayerNormalization (a, b, c, d)",
    ),
    (
        ["float[2,3,8]", "float[2,3,8]", "float[8]"],
        "float[2,3,8] y = SkipSimplifiedLayerNormalization (a, b, c)",
    ),
    (
        ["uint8[3,4]", "uint8[4,5]", "float[1]", "float[5]", "uint8[1]", "uint8[5]", "float[5]"],
        "float[3,5] y = MatMulIntegerToFloat (a, b, c, d, e, f, g)",
    ),
    (
        ["float[3,40]", "uint8[5,2,16]", "float[10]"],
        "float[3,5] y = MatMulNBits <K = 40, N = 5, bits = 4, block_size = 32> (a, b, c)",
    ),
    (
        ["float[2,5,3]", "float[5,4]"],
        "float[2,3,4] y = FusedMatMul <transA = 1, alpha = 0.5> (a, b)",
    ),
    (["float[2,3,5]", "float[2,4,5]"], "float[2,3,4] y = FusedMatMul <transB = 1> (a, b)"),
    (
        ["float[1,5,3]", "float[2,4,5]"],
        "float[2,3,4] y = FusedMatMul <transA = 1, transB = 1, alpha = -2.0> (a, b)",
    ),
    (
        ["float[3,2,5]", "float[5,2,4]"],
        "float[2,3,4] y = FusedMatMul <transBatchA = 1, transBatchB = 1> (a, b)",
    ),
    (
        ["float[5,6,2,3]", "float[4,6,2,5]"],
        (
            "float[6,2,3,4] y = FusedMatMul "
            "<transBatchA = 1, transBatchB = 1, transA = 1, transB = 1> (a, b)"
        ),
    ),
    (["float[5]", "float[2,5,4]"], "float[2,4] y = FusedMatMul <alpha = 3.0> (a, b)"),
    (["float[3,5]", "float[5]"], "float[3] y = FusedMatMul <alpha = 3.0> (a, b)"),
    (
        ["float[1,3,6,5]", "float[4,3,3,3]", "float[4]"],
        'float[1,4,4,3] y = FusedConv <activation = "Relu"> (a, b, c)',
    ),
    (
        ["float[2,4,6,5]", "float[4,2,3,3]", "float[4]", "float[2,4,3,3]"],
        (
            "float[2,4,3,3] y = FusedConv "
            '<activation = "Relu", group = 2, strides = [2, 2], pads = [1, 1, 1, 1]> (a, b, c, d)'
        ),
    ),
    (
        ["float[1,3,6,5]", "float[4,3,3,3]", "", "float[1,4,2,1]"],
        (
            'float[1,4,2,1] y = FusedConv <activation = "LeakyRelu", '
            'activation_params = [0.3], dilations = [2, 2]> (a, b, "", d)'
        ),
    ),
    (
        ["float[1,4,6,5]", "float[4,1,3,3]"],
        (
            'float[1,4,6,5] y = FusedConv <activation = "Clip", '
            'activation_params = [-0.5, 1.5], group = 4, auto_pad = "SAME_UPPER"> (a, b)'
        ),
    ),
    (
        ["float[1,3,6,5]", "float[4,3,2,2]", "float[4]"],
        'float[1,4,5,4] y = FusedConv <activation = "Sigmoid"> (a, b, c)',
    ),
    (
        ["float[1,3,9]", "float[4,3,3]", "float[4]"],
        'float[1,4,7] y = FusedConv <activation = "Tanh"> (a, b, c)',
    ),
    (
        ["float[1,3,6,5]", "float[4,3,3,3]", "float[4]"],
        (
            "float[1,4,4,3] y = FusedConv "
            '<activation = "HardSigmoid", activation_params = [0.2, 0.4]> (a, b, c)'
        ),
    ),
    (["float[1,3,6,5]", "float[4,3,3,3]"], "float[1,4,4,3] y = FusedConv (a, b)"),
    (
        ["float[3,5]", "float[5,4]", "float[4]"],
        'float[3,4] y = FusedGemm <activation = "Relu"> (a, b, c)',
    ),
    (
        ["float[5,3]", "float[4,5]", "float[3,1]"],
        (
            "float[3,4] y = FusedGemm "
            '<activation = "LeakyRelu", activation_alpha = 0.2, transA = 1, transB = 1> (a, b, c)'
        ),
    ),
    (
        ["float[3,5]", "float[4,5]", "float[3,4]"],
        (
            "float[3,4] y = FusedGemm "
            '<activation = "Sigmoid", alpha = 0.5, beta = 2.0, transB = 1> (a, b, c)'
        ),
    ),
    (
        ["float[3,5]", "float[5,4]"],
        'float[3,4] y = FusedGemm <activation = "Tanh", alpha = 0.25> (a, b)',
    ),
    (
        ["float[3,5]", "float[5,4]", "float[4]"],
        (
            "float[3,4] y = FusedGemm "
            '<activation = "HardSigmoid", activation_alpha = 0.3, activation_beta = 0.4> (a, b, c)'
        ),
    ),
    (
        ["float[3,5]", "float[5,4]", "float[4]"],
        'float[3,4] y = FusedGemm <activation = "Elu", activation_alpha = 0.7> (a, b, c)',
    ),
    (
        ["float[3,5]", "float[5,4]", "float[4]"],
        'float[3,4] y = FusedGemm <activation = "Celu", activation_alpha = 0.7> (a, b, c)',
    ),
    (
        ["float[3,5]", "float[5,4]", "float[4]"],
        (
            "float[3,4] y = FusedGemm "
            '<activation = "Selu", activation_alpha = 1.5, activation_gamma = 1.1> (a, b, c)'
        ),
    ),
    (
        ["float[3,5]", "float[5,4]", "float[4]"],
        'float[3,4] y = FusedGemm <activation = "Softplus"> (a, b, c)',
    ),
    (
        ["float[3,5]", "float[5,4]", "float[4]"],
        'float[3,4] y = FusedGemm <activation = "Softsign"> (a, b, c)',
    ),
    (
        ["float[3,5]", "float[5,4]", "float[4]"],
        (
            "float[3,4] y = FusedGemm "
            '<activation = "ThresholdedRelu", activation_alpha = 0.5> (a, b, c)'
        ),
    ),
]
"""The types of the operands a, b, ...; the results and the call."""

IN_C = [
    (
        ["int8[3,8]", "float", "int8", "int8[8,5]", "float", "int8", "int32[5]"],
        "float[3,5] y = QGemm (a, b, c, d, e, f, g)",
        "a",
    ),
    (
        ["float[3,20]", "uint8[20,5]", "float"],
        "float[3,5] y = DynamicQuantizeMatMul (a, b, c)",
        "a",
    ),
    (
        ["float[2,3,9]", "int8[9,32]", "float[32]", "int8[32]", "float[32]"],
        "float[2,3,32] y = DynamicQuantizeMatMul (a, b, c, d, e)",
        "a",
    ),
    (
        ["float[1,40]", "uint8[40,19]", "float[1]", "uint8", "float[19]"],
        "float[1,19] y = DynamicQuantizeMatMul (a, b, c, d, e)",
        "a",
    ),
    (
        ["float[7]", "uint8[7,18]", "float[18]", "uint8[18]"],
        "float[18] y = DynamicQuantizeMatMul (a, b, c, d)",
        "a",
    ),
    (
        [
            "float",
            "uint8",
            *["uint8[2,3,4]", "float", "uint8"],
            *["uint8[2,5,4]", "float", "uint8"],
        ],
        "uint8[2,8,4] y = QLinearConcat <axis = 1> (a, b, c, d, e, f, g, h)",
        "cf",
    ),
    (
        ["float", "int8", *["int8[3,2]", "float", "int8"] * 2, "int8[3,1]", "float[1]", "int8[1]"],
        "int8[3,5] y = QLinearConcat <axis = -1> (a, b, c, d, e, f, g, h, i, j, k)",
        "cfi",
    ),
    (
        ["float", "uint8", *["uint8[2]", "float", "uint8"] * 9],
        f"uint8[18] y = QLinearConcat <axis = 0> ({', '.join(LETTERS[:29])})",
        "cfiloruxB",
    ),
    (
        ["float", "uint8", "uint8[2,6]", "float", "uint8"],
        "uint8[2,6] y = QLinearConcat <axis = 0> (a, b, c, d, e)",
        "c",
    ),
]
"""The same of rules with a template, which computes in C alone, and which operands are inputs."""

REFUSED = [
    (
        ["float[3,4]", "float[5,4]"],
        'float[3,5] y = CDist <metric = "cityblock"> (a, b)',
        "the attribute 'metric' is 'cityblock', it can be 'euclidean', 'sqeuclidean'",
    ),
    (
        ["float[2,3,4,8]", "int64[2,4]", "float[16,4]", "float[16,4]"],
        "float[2,3,4,8] y = RotaryEmbedding <interleaved = 1> (a, b, c, d)",
        "its first half with its second",
    ),
    (
        ["float[2,5,3]", "float[4,5]"],
        "float[2,3,4] y = FusedMatMul <transA = 1> (a, b)",
        "the inner extents of a and b are summed over together",
    ),
    (
        ["float[1,3,6,5]", "float[4,3,3,3]"],
        'float[1,4,4,3] y = FusedConv <activation = "Elu"> (a, b)',
        "the attribute 'activation' is 'Elu', it can be '', 'Relu', 'LeakyRelu', 'Clip', 'Sigmoid'",
    ),
    (
        ["float[1,3,6,5]", "float[4,3,3,3]"],
        'float[1,4,4,3] y = FusedConv <activation = "Clip", activation_params = [0.2]> (a, b)',
        "LeakyRelu has one parameter, Clip and HardSigmoid have two",
    ),
    (
        ["float[3,5]", "float[5,4]"],
        'float[3,4] y = FusedGemm <activation = "Gelu"> (a, b)',
        "the attribute 'activation' is 'Gelu', it can be 'Relu', 'LeakyRelu', 'Sigmoid'",
    ),
    (
        ["float[3,5]", "float[5,4]"],
        'float[3,4] y = FusedGemm <activation = "LeakyRelu"> (a, b)',
        "the parameters of the activation are given",
    ),
    (
        ["float[3,5]", "float[4,5]"],
        'float[3,4] y = FusedGemm <activation = "Relu"> (a, b)',
        "the inner extents of a and b are summed over together",
    ),
    (
        ["bool[4]", "int8[4]", "float", "int8", "uint8[4]", "float", "uint8", "float", "int8"],
        "int8[4] y = QLinearWhere (a, b, c, d, e, f, g, h, i)",
        "both choices and the result have one type",
    ),
    (
        ["bool[4]", "int8[4]", "float[4]", "int8", "int8[4]", "float", "int8", "float", "int8"],
        "int8[4] y = QLinearWhere (a, b, c, d, e, f, g, h, i)",
        "each tensor has one scale and one zero point",
    ),
    (
        ["float[3,20]", "uint8[20,5]", "float[4]"],
        "float[3,5] y = DynamicQuantizeMatMul (a, b, c)",
        "b has one scale and zero point, or one for each column",
    ),
    (
        ["float[3,20]", "uint8[20,5]", "float", "int8"],
        "float[3,5] y = DynamicQuantizeMatMul (a, b, c, d)",
        "b and its zero point have one type",
    ),
    (
        ["float[1,40000]", "uint8[40000,2]", "float"],
        "float[1,2] y = DynamicQuantizeMatMul (a, b, c)",
        "sums of products of 8 bits fit 32 bits",
    ),
    (
        ["float", "int8", "int8[3,2]", "float[2]", "int8"],
        "int8[3,2] y = QLinearConcat <axis = 1> (a, b, c, d, e)",
        "each tensor has one scale and one zero point",
    ),
    (
        ["float", "int8", *["int8[3,2]", "float", "int8"], *["int8[3,2]", "float", "int8[2]"]],
        "int8[3,4] y = QLinearConcat <axis = 1> (a, b, c, d, e, f, g, h)",
        "each tensor has one scale and one zero point",
    ),
    (
        ["float", "int8", "uint8[3,2]", "float", "uint8"],
        "int8[3,2] y = QLinearConcat <axis = 1> (a, b, c, d, e)",
        "what is joined and the result have one type",
    ),
    (
        ["float", "int8", "int8[3,2]", "float"],
        "int8[3,2] y = QLinearConcat <axis = 1> (a, b, c, d)",
        "each with a scale and a zero point",
    ),
]
"""As above, and why no rule takes it."""


def text_of(types: list[str], call: str) -> str:
    """Return a model of one node in ONNX's notation; operands are inputs, `""` is none."""
    given = ", ".join(f"{t} {n}" for n, t in zip(LETTERS, types, strict=False) if t)
    results, _, call = call.partition(" = ")
    name = call if call.startswith("Simplified") else f"{MICROSOFT}.{call}"
    return f"{HEAD} g ({given}) => ({results}) {{ {results.split()[-1]} = {name} }}"


def values_of(types: list[str]) -> dict[str, Array]:
    """Return values of the operands; one number for a whole tensor is a scale, thus positive."""
    rng = np.random.default_rng(7)
    values: dict[str, Array] = {}
    for name, type_ in zip(LETTERS, types, strict=False):
        kind, _, dims = type_.rstrip("]").partition("[")
        extents = [int(extent) for extent in dims.split(",") if extent]
        if kind == "float":
            values[name] = rng.standard_normal(extents).astype(np.float32)
            if not extents:
                values[name] = np.array(rng.uniform(0.02, 0.1), np.float32)
        elif kind:
            values[name] = rng.integers(0, 2 if kind == "bool" else 16, extents).astype(kind)
    return values


@pytest.mark.parametrize(("types", "call"), REALS)
def test_an_operator_gives_what_onnx_runtime_gives(
    types: list[str], call: str, tmp_path: Path
) -> None:
    model = parser.parse_model(text_of(types, call)).SerializeToString()
    file = tmp_path / "model.onnx"
    file.write_bytes(model)
    inputs = values_of(types)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    (due,) = session.run(None, inputs)
    parsed = parse(file, {}, BOOK, "m")
    (op,) = parsed.graph.ops
    instance = match(op, parsed.graph, BOOK, Wish())
    operands = [operand for operand in instance.operands if operand.role == "input"]
    values = {**parsed.weights, **inputs}
    (found,) = interpret(instance, {o.name: values[o.tensor] for o in operands}).values()
    assert (found.dtype, found.shape) == (due.dtype, due.shape)
    assert due.min() < due.max(), "a case that says nothing"
    np.testing.assert_allclose(found, due, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("case", IN_C, ids=lambda case: case[1])
def test_a_template_computes_what_onnx_runtime_computes(
    case: tuple[list[str], str, str], verifies: Verifies
) -> None:
    types, call, given = case
    model = parser.parse_model(text_of(types, call))
    values = values_of(types)
    inputs = [entry for entry in model.graph.input if entry.name in given]
    constants = [numpy_helper.from_array(a, n) for n, a in values.items() if n not in given]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    model.graph.initializer.extend(constants)
    verifies(model)


@pytest.mark.parametrize(("types", "call", "because"), REFUSED)
def test_what_a_rule_does_not_take_is_refused(
    types: list[str], call: str, because: str, tmp_path: Path
) -> None:
    file = tmp_path / "model.onnx"
    file.write_bytes(parser.parse_model(text_of(types, call)).SerializeToString())
    parsed = parse(file, {}, BOOK, "m")
    with pytest.raises(UserError) as error:
        match(parsed.graph.ops[0], parsed.graph, BOOK, Wish())
    assert because in str(error.value)


def test_each_operator_of_that_domain_has_a_case() -> None:
    named = set()
    for path in sorted((ROOT / "rules" / "ops").glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            if document.get("domain_name") == MICROSOFT:
                named |= {document["op"]} if "op" in document else set(document["ops"])
    calls = [call for _, call in REALS] + [call for _, call, _ in IN_C]
    reals = {call.split(" = ")[1].split()[0] for call in calls}
    assert named == ({case.kind for case in CASES} | reals) - {"SimplifiedLayerNormalization"}
