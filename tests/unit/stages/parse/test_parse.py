"""What parse makes of floating-point models."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper

from dlbuild.ir.graph import Fact, Op, Value
from dlbuild.stages.parse import Parsed

Array = npt.NDArray[np.generic]
Constants = Mapping[str, Array]


class Reader(Protocol):
    folder: Path

    def save(self, text: str, constants: Constants | None = None) -> Path: ...

    def parse(self, path: Path, shapes: Mapping[str, tuple[int, ...]] | None = None) -> Parsed: ...

    def read(self, text: str, constants: Constants | None = None) -> Parsed: ...

    def require_equal(
        self, text: str, constants: Constants | None, feeds: Constants, *, within: float = 0.0
    ) -> Parsed: ...


Ops = Callable[[Parsed], list[str]]
One = Callable[[Parsed, str], Op]


def floats(*shape: int, seed: int = 1) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def positive(*shape: int, seed: int = 1) -> npt.NDArray[np.float32]:
    return np.abs(floats(*shape, seed=seed)) + np.float32(0.5)


def head(opset: int = 13) -> str:
    return f'<ir_version: 8, opset_import: ["" : {opset}]>'


def test_an_open_batch_is_one_and_noted(reader: Reader) -> None:
    parsed = reader.read(head() + "g (float[N,3] x) => (float[N,3] y) { y = Relu(x) }")
    assert parsed.graph.tensor["x"].shape == (1, 3)
    assert parsed.graph.notes == ("the batch of input 'x' is open in the model: 1 is assumed",)


def test_a_bound_batch_reaches_every_tensor(reader: Reader) -> None:
    text = head() + "g (float[N,3] a, float[N,3] b) => (float[N,3] y) { y = Add(a, b) }"
    parsed = reader.parse(reader.save(text), {"a": (4, 3)})
    assert [t.shape for t in parsed.graph.tensors] == [(4, 3)] * 3
    assert parsed.graph.notes == ()


def test_nodes_out_of_order_are_sorted_and_keep_their_order_else(reader: Reader, ops: Ops) -> None:
    text = """g (float[2] x) => (float[2] y, float[2] z)
    { y = Neg(a) z = Abs(x) a = Relu(x) }"""
    assert ops(reader.read(head() + text)) == ["Relu", "Neg", "Abs"]


def test_initializers_listed_as_inputs_are_constants(reader: Reader) -> None:
    text = """<ir_version: 3, opset_import: ["" : 8]>
    g (float[1,2] x, float[2] b, float[7] unused) => (float[1,2] y) { y = Add(x, b) }"""
    parsed = reader.read(text, {"b": floats(2), "unused": floats(7)})
    assert parsed.graph.inputs == ("x",)
    assert parsed.graph.constants == ("b",)
    assert sorted(parsed.weights) == ["b"]


def test_dead_nodes_and_their_constants_are_dropped(reader: Reader, ops: Ops) -> None:
    text = "g (float[2] x) => (float[2] y) { y = Neg(x) d = Add(x, w) e = Neg(d) }"
    parsed = reader.read(head() + text, {"w": floats(2)})
    assert ops(parsed) == ["Neg"]
    assert parsed.weights == {}


def test_a_shape_chain_folds_to_a_structural_value(reader: Reader, ops: Ops) -> None:
    text = """g (float[N,2,3] x) => (float[N,K] y) <int64[1] six = {6}, int64 zero = {0}> {
      s = Shape(x) n = Gather(s, zero) axis = Constant <value = int64[1] {0}> ()
      m = Unsqueeze(n, axis) t = Concat <axis = 0> (m, six) y = Reshape(x, t) }"""
    parsed = reader.read(head() + text)
    assert ops(parsed) == ["Reshape"]
    assert parsed.graph.values == (Value("t", (2,), (1, 6)),)


def test_equal_constants_are_not_merged(reader: Reader) -> None:
    text = "g (float[2] x) => (float[2] y) { a = Add(x, u) y = Add(a, v) }"
    same = np.ones(2, np.float32)
    assert reader.read(head() + text, {"u": same, "v": same}).graph.constants == ("u", "v")


def test_a_product_of_constants_is_folded_by_its_rule(reader: Reader, ops: Ops) -> None:
    text = "g (float[2,3] x) => (float[2,3] y) { c = MatMul(u, v) y = Add(x, c) }"
    u, v = floats(2, 5), floats(5, 3, seed=2)
    parsed = reader.require_equal(head() + text, {"u": u, "v": v}, {"x": floats(2, 3)}, within=1e-6)
    assert ops(parsed) == ["Add"]
    in_order = np.zeros((2, 3), np.float32)
    for k in range(5):
        in_order += u[:, k : k + 1] * v[k : k + 1, :]
    np.testing.assert_array_equal(parsed.weights["c"], in_order)


def test_sparse_initializers_are_filled_in(reader: Reader) -> None:
    path = reader.save(head() + "g (float[2,2] x) => (float[2,2] y) { y = Add(x, w) }")
    model = onnx.load_model_from_string(path.read_bytes())
    values = helper.make_tensor("w", TensorProto.FLOAT, [1], [5.0])
    indices = helper.make_tensor("w_indices", TensorProto.INT64, [1, 2], [1, 0])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [2, 2]))
    path.write_bytes(model.SerializeToString())
    assert reader.parse(path).weights["w"].tolist() == [[0, 0], [5, 0]]


def test_an_output_keeps_its_name_when_an_identity_before_it_goes(reader: Reader, ops: Ops) -> None:
    text = "g (float[2] x) => (float[2] y) { a = Neg(x) b = Identity(a) y = Identity(b) }"
    parsed = reader.read(head() + text)
    assert ops(parsed) == ["Neg"]
    assert parsed.graph.outputs == ("y",)


def test_two_outputs_of_one_value_are_both_written(reader: Reader, ops: Ops) -> None:
    text = (
        "g (float[2] x) => (float[2] y, float[2] z) { a = Neg(x) y = Identity(a) z = Identity(a) }"
    )
    parsed = reader.require_equal(head() + text, None, {"x": floats(2)})
    assert ops(parsed) == ["Neg", "Identity"]
    assert parsed.graph.outputs == ("y", "z")


def test_an_input_given_back_is_copied(reader: Reader, one: One) -> None:
    parsed = reader.read(head() + "g (float[2] x) => (float[2] y) { y = Identity(x) }")
    assert one(parsed, "Identity").inputs == ("x",)


def test_outputs_that_are_input_constant_or_repeated_are_copied(reader: Reader, ops: Ops) -> None:
    path = reader.save(head() + "g (float[2] x) => (float[2] y) { y = Neg(x) }", {"k": floats(2)})
    model = onnx.load_model_from_string(path.read_bytes())
    for name in ("x", "k", "y"):
        model.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]))
    path.write_bytes(model.SerializeToString())
    parsed = reader.parse(path)
    assert ops(parsed) == ["Neg", "Identity", "Identity", "Identity"]
    assert parsed.graph.outputs == ("y", "x_output", "k", "y_output")
    assert parsed.graph.constants == ("k_constant",)


def test_operator_names_are_made_unique(reader: Reader) -> None:
    text = "g (float[2] x) => (float[2] y) { [n] a = Neg(x) [n] b = Abs(a) y = Neg(b) }"
    assert [op.name for op in reader.read(head() + text).graph.ops] == ["n", "n_2", "y"]


def test_a_branch_known_at_build_time_replaces_the_if(reader: Reader, ops: Ops) -> None:
    text = """g (float[2] x) => (float[2] y) <int64 two = {2}> {
      s = Size(x) c = Equal(s, two)
      y = If (c) <then_branch = t () => (float[2] p) { q = Neg(x) p = Abs(q) },
                  else_branch = e () => (float[2] r) { r = Relu(x) }> }"""
    assert ops(reader.require_equal(head() + text, None, {"x": floats(2)})) == ["Neg", "Abs"]


def test_an_operator_without_a_rule_is_expanded(reader: Reader, ops: Ops) -> None:
    text = """g (float[1,4,3] x) => (float[1,4,3] y) { y = GroupNormalization <num_groups = 2>
      (x, s, b) }"""
    constants = {"s": positive(4), "b": floats(4)}
    parsed = reader.require_equal(head(21) + text, constants, {"x": floats(1, 4, 3)}, within=1e-5)
    assert "GroupNormalization" not in ops(parsed)


@pytest.mark.parametrize("power", [1, 2, 3])
def test_a_global_pool_of_any_power(reader: Reader, power: int) -> None:
    text = f"g (float[2,3,4,5] x) => (float[2,3,1,1] y) {{ y = GlobalLpPool <p = {power}> (x) }}"
    reader.require_equal(head() + text, None, {"x": floats(2, 3, 4, 5)}, within=1e-5)


def test_dropout_of_nothing_is_no_operator(reader: Reader, ops: Ops) -> None:
    text = """g (float[2,3] x) => (float[2,3] y) <float r = {0}, bool t = {1}>
      { d = Dropout (x, r, t) y = Neg(d) }"""
    assert ops(reader.require_equal(head() + text, None, {"x": floats(2, 3)})) == ["Neg"]


@pytest.mark.parametrize("form", ["[1,2,5,6]", "[1,2,7]"])
def test_places_of_maxima_are_counted_column_by_column(reader: Reader, form: str) -> None:
    shape = tuple(int(extent) for extent in form.strip("[]").split(","))
    kernel = ",".join("2" * (len(shape) - 2))
    dims = ",".join("ABCD"[: len(shape)])
    text = f"""g (float{form} x) => (float[{dims}] y, int64[{dims}] at)
      {{ y, at = MaxPool <kernel_shape = [{kernel}], storage_order = 1> (x) }}"""
    reader.require_equal(head() + text, None, {"x": floats(*shape)})


def test_a_split_that_is_half_read_is_a_slice(reader: Reader, ops: Ops) -> None:
    text = "g (float[2,6] x) => (float[2,3] y) { a, b = Split <axis = 1> (x) y = Neg(b) }"
    parsed = reader.require_equal(head() + text, None, {"x": floats(2, 6)})
    assert ops(parsed) == ["Slice", "Neg"]


OLD_FORMS = [
    (6, "y = Clip <min = -0.5, max = 0.5> (x)"),
    (6, "y = Clip <max = 0.5> (x)"),
    (7, "y = Dropout <ratio = 0.5> (x)"),
    (11, "y = Softmax <axis = 1> (x)"),
    (11, "y = Softmax <axis = 3> (x)"),
    (11, "y = LogSoftmax <axis = 2> (x)"),
    (11, "a = Squeeze <axes = [0]> (x) y = Unsqueeze <axes = [0]> (a)"),
    (11, "y = ReduceSum <axes = [2], keepdims = 1> (x)"),
    (13, "y = ReduceMean <axes = [-1], keepdims = 1> (x)"),
    (13, "y = ReduceMax <keepdims = 1> (x)"),
    (2, "y = Pad <pads = [0,0,1,0,0,0,0,2], value = 1.5> (x)"),
    (9, "y = Slice <starts = [1,0], ends = [3,9], axes = [2,3]> (x)"),
    (11, "a, b = Split <axis = 1, split = [1, 2]> (x) y = Concat <axis = 1> (b, a)"),
    (13, "a, b, c = Split <axis = 1> (x) y = Concat <axis = 1> (c, b, a)"),
    (9, "y = BatchNormalization <epsilon = 0.1> (x, p, q, q, p)"),
    (11, "a = Flatten (x) y = Gemm <alpha = 0.5> (a, w)"),
]


@pytest.mark.parametrize(("opset", "body"), OLD_FORMS)
def test_old_forms_compute_the_same(reader: Reader, opset: int, body: str) -> None:
    rank = 2 if "Gemm" in body else 4
    dims = ",".join("ABCD"[:rank])
    text = head(max(opset, 7)) + f"g (float[1,3,4,5] x) => (float[{dims}] y) {{ {body} }}"
    constants = {"p": positive(3), "q": floats(3), "w": floats(60, 2)}
    used = {
        name: array
        for name, array in constants.items()
        if f"{name}" in body.rsplit("(", maxsplit=1)[-1]
    }
    reader.require_equal(text, used, {"x": floats(1, 3, 4, 5)}, within=1e-6)


def test_clip_limits_become_constants(reader: Reader, one: One) -> None:
    parsed = reader.read(
        head(6) + "g (float[2] x) => (float[2] y) { y = Clip <min = 0.0, max = 6.0> (x) }"
    )
    assert one(parsed, "Clip").inputs == ("x", "y_min", "y_max")
    assert parsed.weights["y_max"] == np.float32(6)


CONV_BN = """g (float[1,2,5,5] x) => (float[1,4,3,3] y) {
  a = Conv (x, w) y = BatchNormalization (a, s, b, m, v) }"""


def batch_norm(channels: int = 4) -> dict[str, Array]:
    return {
        "s": floats(channels, seed=3),
        "b": floats(channels, seed=4),
        "m": floats(channels, seed=5),
        "v": positive(channels, seed=6),
    }


def test_batch_normalization_is_folded_into_a_convolution(reader: Reader, ops: Ops) -> None:
    constants = {"w": floats(4, 2, 3, 3), **batch_norm()}
    parsed = reader.require_equal(
        head() + CONV_BN, constants, {"x": floats(1, 2, 5, 5)}, within=1e-5
    )
    assert ops(parsed) == ["Conv"]
    assert parsed.graph.constants == ("a_bias", "w")


@pytest.mark.parametrize(
    ("body", "weights"),
    [
        ("a = Conv <group = 2> (x, w, c)", (4, 1, 3, 3)),
        ("a = ConvTranspose <group = 2> (x, w, c)", (2, 2, 3, 3)),
        ("a = ConvTranspose (x, w)", (2, 4, 2, 2)),
    ],
)
def test_batch_normalization_is_folded_by_output_channel(
    reader: Reader, ops: Ops, body: str, weights: tuple[int, ...]
) -> None:
    text = head() + (
        f"g (float[1,2,5,5] x) => (float[1,4,P,Q] y) "
        f"{{ {body} y = BatchNormalization (a, s, b, m, v) }}"
    )
    constants = {"w": floats(*weights), **batch_norm()}
    if "c)" in body:
        constants["c"] = floats(4, seed=9)
    parsed = reader.require_equal(text, constants, {"x": floats(1, 2, 5, 5)}, within=1e-5)
    assert len(ops(parsed)) == 1


def test_batch_normalization_is_folded_into_a_matrix_product_with_bias(
    reader: Reader, ops: Ops
) -> None:
    text = (
        head()
        + """g (float[2,3] x) => (float[2,4] y) {
      a = Gemm <beta = 0.5, transB = 1> (x, w, c) y = BatchNormalization (a, s, b, m, v) }"""
    )
    constants = {"w": floats(4, 3), "c": floats(1, 4), **batch_norm()}
    parsed = reader.require_equal(text, constants, {"x": floats(2, 3)}, within=1e-5)
    assert ops(parsed) == ["Gemm"]


def test_batch_normalization_stays_behind_a_bias_that_differs_from_row_to_row(
    reader: Reader, ops: Ops
) -> None:
    text = (
        head()
        + """g (float[4,3] x) => (float[4,4] y) {
      a = Gemm (x, w, c) y = BatchNormalization (a, s, b, m, v) }"""
    )
    constants = {"w": floats(3, 4), "c": floats(4, 1), **batch_norm()}
    parsed = reader.require_equal(text, constants, {"x": floats(4, 3)}, within=1e-5)
    assert ops(parsed) == ["Gemm", "BatchNormalization"]


def test_shared_weights_are_folded_into_copies(reader: Reader, ops: Ops) -> None:
    text = (
        head()
        + """g (float[1,2,3,3] x) => (float[1,4,1,1] y, float[1,4,1,1] z) {
      a = Conv (x, w) y = BatchNormalization (a, s, b, m, v)
      c = Conv (x, w) z = BatchNormalization (c, b, s, m, v) }"""
    )
    constants = {"w": floats(4, 2, 3, 3), **batch_norm()}
    parsed = reader.require_equal(text, constants, {"x": floats(1, 2, 3, 3)}, within=1e-5)
    assert ops(parsed) == ["Conv", "Conv"]


def test_a_convolution_that_others_read_keeps_its_batch_normalization(
    reader: Reader, ops: Ops
) -> None:
    text = (
        head()
        + """g (float[1,2,3,3] x) => (float[1,4,1,1] y, float[1,4,1,1] z) {
      a = Conv (x, w) y = BatchNormalization (a, s, b, m, v) z = Neg(a) }"""
    )
    constants = {"w": floats(4, 2, 3, 3), **batch_norm()}
    parsed = reader.require_equal(text, constants, {"x": floats(1, 2, 3, 3)}, within=1e-5)
    assert sorted(ops(parsed)) == ["BatchNormalization", "Conv", "Neg"]


def test_matrix_product_and_bias_are_one_gemm(reader: Reader, one: One) -> None:
    text = head() + "g (float[2,3] x) => (float[2,4] y) { a = MatMul(x, w) y = Add(b, a) }"
    parsed = reader.require_equal(
        text, {"w": floats(3, 4), "b": floats(4)}, {"x": floats(2, 3)}, within=1e-6
    )
    assert one(parsed, "Gemm").inputs == ("x", "w", "b")


def test_a_batched_product_stays_a_matmul(reader: Reader, ops: Ops) -> None:
    text = head() + "g (float[2,2,3] x) => (float[2,2,4] y) { a = MatMul(x, w) y = Add(a, b) }"
    parsed = reader.read(text, {"w": floats(3, 4), "b": floats(4)})
    assert ops(parsed) == ["MatMul", "Add"]


PADS = np.array([0, 0, 1, 0, 0, 0, 0, 2], dtype=np.int64)


@pytest.mark.parametrize(
    "body",
    [
        "y = Conv <pads = [1,0,0,1]> (a, w)",
        "y = AveragePool <kernel_shape = [2,2]> (a)",
        "y = AveragePool <kernel_shape = [2,2], pads = [1,1,0,0], count_include_pad = 1> (a)",
    ],
)
def test_zeros_before_an_operator_join_its_padding(reader: Reader, ops: Ops, body: str) -> None:
    text = head() + f"g (float[1,2,4,4] x) => (float[1,2,P,Q] y) {{ a = Pad(x, p) {body} }}"
    constants: dict[str, Array] = {"p": PADS}
    if "Conv" in body:
        constants["w"] = floats(2, 2, 3, 3)
    parsed = reader.require_equal(text, constants, {"x": floats(1, 2, 4, 4)}, within=1e-6)
    assert len(ops(parsed)) == 1


@pytest.mark.parametrize(
    "body",
    [
        "a = Pad(x, p) y = MaxPool <kernel_shape = [2,3]> (a)",
        "a = Pad(x, p) y = AveragePool <kernel_shape = [3,3], pads = [1,1,1,1]> (a)",
        'a = Pad <mode = "edge"> (x, p) y = Conv (a, w)',
        "a = Pad(x, p, one) y = Conv (a, w)",
        "r = Relu(x) a = Pad(r, p) y = MaxPool <kernel_shape = [2,2]> (a)",
        "a = Pad(x, p) y = AveragePool <kernel_shape = [2,2], strides = [3,3], ceil_mode = 1> (a)",
    ],
)
def test_a_pad_that_differs_from_the_operators_own_stays(
    reader: Reader, ops: Ops, body: str
) -> None:
    text = head() + f"g (float[1,2,4,4] x) => (float[1,2,P,Q] y) {{ {body} }}"
    constants: dict[str, Array] = {"p": PADS}
    if "w)" in body:
        constants["w"] = floats(2, 2, 3, 3)
    if "one)" in body:
        constants["one"] = np.array(1, np.float32)
    parsed = reader.require_equal(text, constants, {"x": floats(1, 2, 4, 4)}, within=1e-6)
    assert "Pad" in ops(parsed)


def test_zeros_before_a_maximum_of_non_negatives_join_its_padding(reader: Reader, ops: Ops) -> None:
    text = (
        head()
        + """g (float[1,2,4,4] x) => (float[1,2,P,Q] y) {
      r = Relu(x) a = Pad(r, p) y = MaxPool <kernel_shape = [2,3]> (a) }"""
    )
    parsed = reader.require_equal(text, {"p": PADS}, {"x": floats(1, 2, 4, 4)})
    assert ops(parsed) == ["Relu", "MaxPool"]


def test_a_pad_value_that_is_zero_is_a_fact(reader: Reader) -> None:
    text = (
        head() + "g (float[1,2,4,4] x) => (float[1,2,P,Q] y) { a = Pad(x, p, z) y = Conv (a, w) }"
    )
    constants: dict[str, Array] = {"p": PADS, "z": np.array(0, np.float32)}
    constants["w"] = floats(2, 2, 3, 3)
    assert reader.read(text, constants).graph.facts == (Fact("all_zero", ("z",)),)


def test_weights_kept_as_integers_are_made_real_at_build_time(reader: Reader, ops: Ops) -> None:
    text = (
        head()
        + """g (float[1,2,3,3] x) => (float[1,4,1,1] y) {
      w = DequantizeLinear <axis = 0> (q, s) y = Conv (x, w) }"""
    )
    q = np.random.default_rng(1).integers(-128, 128, (4, 2, 3, 3)).astype(np.int8)
    parsed = reader.require_equal(
        text, {"q": q, "s": positive(4)}, {"x": floats(1, 2, 3, 3)}, within=1e-5
    )
    assert ops(parsed) == ["Conv"]
    assert parsed.graph.constants == ("w",)


def test_functions_of_the_model_are_replaced_by_their_bodies(reader: Reader, ops: Ops) -> None:
    text = """<ir_version: 8, opset_import: ["" : 13, "local" : 1]>
    g (float[2] x) => (float[2] y) { a = local.twice <slope = 0.25> (x) y = local.twice (a) }
    <domain: "local", opset_import: ["" : 13]>
    twice <slope: float = 0.5> (p) => (r)
    { q = LeakyRelu <alpha: float = @slope> (p) r = Neg(q) }"""
    parsed = reader.require_equal(text, None, {"x": floats(2)})
    assert ops(parsed) == ["LeakyRelu", "Neg"] * 2
    assert [op.attributes for op in parsed.graph.ops[::2]] == [
        (("alpha", 0.25),),
        (("alpha", 0.5),),
    ]


@pytest.mark.parametrize("kind", ["Gelu", "FastGelu"])
def test_operators_that_onnx_has_taken_over_are_onnxs(reader: Reader, one: One, kind: str) -> None:
    text = f"""<ir_version: 8, opset_import: ["" : 13, "com.microsoft" : 1]>
    g (float[2] x) => (float[2] y) {{ y = com.microsoft.{kind} (x) }}"""
    parsed = reader.require_equal(text, None, {"x": floats(2)}, within=1e-5)
    assert one(parsed, "Gelu").domain == ""


def test_control_characters_in_a_nodes_name_are_not_kept(reader: Reader) -> None:
    path = reader.save(head() + "g (float[2] x) => (float[2] y) { y = Neg(x) }")
    model = onnx.load_model_from_string(path.read_bytes())
    model.graph.node[0].name = "a\n*/ b"
    path.write_bytes(model.SerializeToString())
    assert reader.parse(path).graph.ops[0].name == "a?*/ b"


def test_an_expanded_operator_has_the_defaults_of_its_schema(reader: Reader, ops: Ops) -> None:
    text = (
        head(21)
        + """g (float[2,3] x, int64[2] t) => (float y)
    { y = NegativeLogLikelihoodLoss (x, t) }"""
    )
    feeds: dict[str, Array] = {"x": floats(2, 3), "t": np.array([2, 0], np.int64)}
    parsed = reader.require_equal(text, None, feeds, within=1e-6)
    assert "NegativeLogLikelihoodLoss" not in ops(parsed)
