"""Quantised models: what becomes one operator on integers, under which names, and what does not."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pytest

from dlbuild.ir.graph import Fact, Op, Quantized
from dlbuild.stages.parse import Parsed

Array = npt.NDArray[np.generic]
Constants = Mapping[str, Array]


class Reader(Protocol):
    folder: Path

    def read(self, text: str, constants: Constants | None = None) -> Parsed: ...

    def require_equal(
        self, text: str, constants: Constants | None, feeds: Constants, *, within: float = 0.0
    ) -> Parsed: ...


Ops = Callable[[Parsed], list[str]]
One = Callable[[Parsed, str], Op]

HEAD = '<ir_version: 8, opset_import: ["" : 13]>'
IMAGE, ROW = (1, 4, 6, 5), (2, 6)


def integers(dtype: str, *shape: int, seed: int = 1) -> Array:
    kind = np.dtype(dtype)
    low, high = (0, 256) if kind.kind == "u" else (-128, 128)
    return np.random.default_rng(seed).integers(low, high, shape).astype(kind)


def scale(value: float, *shape: int) -> npt.NDArray[np.float32]:
    spread = np.linspace(1.0, 1.5, int(np.prod(shape, dtype=int))).reshape(shape)
    return np.asarray(value * spread, dtype=np.float32)


def grids(kind: str = "int8", shape: tuple[int, ...] = ()) -> dict[str, Array]:
    """Scales and zero points of x, y and z."""
    offset = 128 if kind == "uint8" else 0
    return {
        "xs": np.full(shape, 0.05, np.float32),
        "xz": np.full(shape, offset + 3, kind),
        "ys": np.full(shape, 0.11, np.float32),
        "yz": np.full(shape, offset - 7, kind),
    }


def step_scale(constants: Constants) -> npt.NDArray[np.float32]:
    """Return input scale * weight scale."""
    return constants["xs"].astype(np.float32) * constants["ws"].astype(np.float32)


def conv(body: str = "", attributes: str = "", bias: str = "", kind: str = "int8") -> str:
    """Return a quantised convolution; `body` goes from `f` to `r`."""
    last = "r" if body else "f"
    operands = f"xf, wf{', ' + bias if bias else ''}"
    read = "bf = DequantizeLinear <axis = 0> (bq, bs)" if bias == "bf" else ""
    return (
        HEAD
        + f"""g ({kind}[1,4,6,5] x) => ({kind}[1,M,P,Q] y) {{
      xf = DequantizeLinear (x, xs, xz) wf = DequantizeLinear <axis = 0> (w, ws, wz) {read}
      f = Conv <{attributes or "pads = [1,0,0,1]"}> ({operands}) {body}
      y = QuantizeLinear ({last}, ys, yz) }}"""
    )


def weights(*shape: int, channels: int = 0, kind: str = "int8") -> dict[str, Array]:
    size = (channels,) if channels else ()
    return {
        "w": integers(kind, *shape, seed=2),
        "ws": scale(0.004, *size),
        "wz": np.zeros(size, kind),
    }


@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("shape", [(), (1,)])
@pytest.mark.parametrize("channels", [0, 3])
def test_a_quantised_convolution_is_one_integer_operator(
    reader: Reader, ops: Ops, kind: str, shape: tuple[int, ...], channels: int
) -> None:
    constants = grids(kind, shape) | weights(3, 4, 2, 3, channels=channels)
    parsed = reader.require_equal(
        conv(kind=kind), constants, {"x": integers(kind, *IMAGE)}, within=1
    )
    assert ops(parsed) == ["QLinearConv"]
    assert parsed.graph.ops[0].outputs == ("y",)


@pytest.mark.parametrize(
    ("attributes", "shape"),
    [
        ("group = 4, pads = [1,1,1,1]", (4, 1, 3, 3)),
        ("group = 2, strides = [2,1]", (6, 2, 2, 2)),
        ('auto_pad = "SAME_UPPER"', (3, 4, 2, 2)),
    ],
)
def test_every_form_of_convolution_is_fused(
    reader: Reader, ops: Ops, attributes: str, shape: tuple[int, ...]
) -> None:
    constants = grids() | weights(*shape, channels=shape[0])
    feeds = {"x": integers("int8", *IMAGE)}
    parsed = reader.require_equal(conv(attributes=attributes), constants, feeds, within=1)
    assert ops(parsed) == ["QLinearConv"]


def test_a_convolution_over_one_axis_is_fused(reader: Reader, ops: Ops) -> None:
    text = (
        HEAD
        + """g (int8[1,4,9] x) => (int8[1,3,7] y) {
      xf = DequantizeLinear (x, xs, xz) wf = DequantizeLinear <axis = 0> (w, ws, wz)
      f = Conv (xf, wf) y = QuantizeLinear (f, ys, yz) }"""
    )
    constants = grids() | weights(3, 4, 3, channels=3)
    parsed = reader.require_equal(text, constants, {"x": integers("int8", 1, 4, 9)}, within=1)
    assert ops(parsed) == ["QLinearConv"]


def test_an_integer_bias_is_taken_as_it_is(reader: Reader, one: One) -> None:
    constants = grids() | weights(3, 4, 2, 3, channels=3)
    constants["bq"] = np.array([1000, -70_000, 2_000_001], np.int32)
    constants["bs"] = step_scale(constants)
    feeds = {"x": integers("int8", *IMAGE)}
    parsed = reader.require_equal(conv(bias="bf"), constants, feeds, within=1)
    bias = one(parsed, "QLinearConv").inputs[8]
    assert parsed.weights[bias].tolist() == [1000, -70_000, 2_000_001]


def test_a_bias_of_another_scale_is_counted_in_steps(reader: Reader, one: One) -> None:
    constants = grids() | weights(3, 4, 2, 3, channels=3)
    constants["bq"] = np.array([100, -70, 3], np.int32)
    constants["bs"] = step_scale(constants) * np.float32(10)
    feeds = {"x": integers("int8", *IMAGE)}
    parsed = reader.require_equal(conv(bias="bf"), constants, feeds, within=1)
    assert parsed.weights[one(parsed, "QLinearConv").inputs[8]].tolist() == [1000, -700, 30]


def test_a_real_bias_is_counted_in_steps(reader: Reader, one: One) -> None:
    constants = grids() | weights(3, 4, 2, 3)
    constants["b"] = np.array([0.5, -1.0, 0.0], np.float32)
    feeds = {"x": integers("int8", *IMAGE)}
    parsed = reader.require_equal(conv(bias="b"), constants, feeds, within=1)
    assert parsed.weights[one(parsed, "QLinearConv").inputs[8]].tolist() == [2500, -5000, 0]


def test_weights_without_zero_point_get_zeros(reader: Reader, one: One) -> None:
    constants = grids() | weights(3, 4, 2, 3, channels=3)
    text = conv().replace("(w, ws, wz)", "(w, ws)")
    del constants["wz"]
    parsed = reader.require_equal(text, constants, {"x": integers("int8", *IMAGE)}, within=1)
    zero = one(parsed, "QLinearConv").inputs[5]
    assert parsed.weights[zero].tolist() == [0, 0, 0]
    assert Fact("all_zero", (zero,)) in parsed.graph.facts


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("r = Relu (f)", ["QLinearConv", "Max"]),
        ("r = Clip (f, lo, hi)", ["QLinearConv", "Max", "Min"]),
        ('r = Clip (f, "", hi)', ["QLinearConv", "Min"]),
        ("a = Relu (f) r = Clip (a, lo, hi)", ["QLinearConv", "Max", "Max", "Min"]),
    ],
)
def test_limits_before_quantising_become_limits_of_integers(
    reader: Reader, ops: Ops, body: str, expected: list[str]
) -> None:
    constants = grids() | weights(3, 4, 2, 3, channels=3)
    constants |= {"lo": np.array(-0.3, np.float32)} if "lo" in body else {}
    constants |= {"hi": np.array(0.9, np.float32)} if "hi" in body else {}
    feeds = {"x": integers("int8", *IMAGE)}
    parsed = reader.require_equal(conv(body.replace('""', "")), constants, feeds, within=1)
    assert ops(parsed) == expected
    assert parsed.graph.ops[-1].outputs == ("y",)


def test_the_lower_limit_of_relu_is_the_zero_point(reader: Reader, one: One) -> None:
    parsed = reader.read(conv("r = Relu (f)"), grids() | weights(3, 4, 2, 3))
    assert parsed.weights[one(parsed, "Max").inputs[1]] == -7


def test_an_activation_in_between_keeps_the_convolution_real(reader: Reader, ops: Ops) -> None:
    constants = grids() | weights(3, 4, 2, 3)
    feeds = {"x": integers("int8", *IMAGE)}
    parsed = reader.require_equal(conv("r = Sigmoid (f)"), constants, feeds, within=1)
    assert ops(parsed) == ["DequantizeLinear", "Conv", "Sigmoid", "QuantizeLinear"]


def test_scales_along_another_axis_keep_the_convolution_real(reader: Reader, ops: Ops) -> None:
    constants = grids() | weights(4, 4, 2, 3, channels=4)
    text = conv().replace("<axis = 0> (w", "<axis = 1> (w")
    feeds = {"x": integers("int8", *IMAGE)}
    parsed = reader.require_equal(text, constants, feeds, within=1)
    assert "QLinearConv" not in ops(parsed)


def test_a_convolution_whose_real_result_is_read_stays_real(reader: Reader, ops: Ops) -> None:
    text = conv().replace("=> (int8[1,M,P,Q] y)", "=> (int8[1,M,P,Q] y, float[1,M,P,Q] f)")
    parsed = reader.read(text, grids() | weights(3, 4, 2, 3))
    assert "Conv" in ops(parsed)


def gemm(body: str, *, b: str) -> str:
    return (
        HEAD
        + f"""g (int8[2,6] x) => (int8[2,4] y) {{
      xf = DequantizeLinear (x, xs, xz) wf = DequantizeLinear {b} (w, ws, wz) {body}
      y = QuantizeLinear (f, ys, yz) }}"""
    )


@pytest.mark.parametrize(
    ("body", "b", "shape", "channels"),
    [
        ("f = Gemm <transB = 1> (xf, wf)", "<axis = 0>", (4, 6), 4),
        ("f = Gemm (xf, wf)", "", (6, 4), 4),  # the default axis is 1
        ("f = Gemm (xf, wf, c)", "<axis = -1>", (6, 4), 4),
        ("f = Gemm <alpha = 0.5, beta = 2.0> (xf, wf, c)", "", (6, 4), 0),
        ("m = MatMul (xf, wf) f = Add (m, c)", "", (6, 4), 4),
        ("m = MatMul (xf, wf) f = Add (c, m)", "", (6, 4), 0),
    ],
)
@pytest.mark.parametrize("bias", [(4,), (1, 4), (1,)])
def test_a_matrix_product_is_one_integer_operator(  # noqa: PLR0913, PLR0917 - the cases
    reader: Reader,
    ops: Ops,
    body: str,
    b: str,
    shape: tuple[int, ...],
    channels: int,
    bias: tuple[int, ...],
) -> None:
    constants = grids() | weights(*shape, channels=channels)
    if "c" in body:
        constants["c"] = scale(-0.7, *bias)
    parsed = reader.require_equal(
        gemm(body, b=b), constants, {"x": integers("int8", *ROW)}, within=1
    )
    assert ops(parsed) == ["QGemm"]
    assert parsed.graph.ops[0].domain == "com.microsoft"


@pytest.mark.parametrize(("columns", "bias"), [(4, (2, 4)), (4, (2, 1)), (2, (2, 1))])
def test_a_bias_that_differs_from_row_to_row_keeps_the_product_real(
    reader: Reader, ops: Ops, columns: int, bias: tuple[int, ...]
) -> None:
    """Also where there are as many rows as columns."""
    constants = grids() | weights(6, columns) | {"c": 8 * scale(0.5, *bias) - 4}
    text = gemm("f = Gemm (xf, wf, c)", b="").replace("[2,4]", f"[2,{columns}]")
    parsed = reader.require_equal(text, constants, {"x": integers("int8", *ROW)}, within=1)
    assert "QGemm" not in ops(parsed)


@pytest.mark.parametrize("channels", [0, 4])
def test_a_product_without_bias_is_a_qlinear_matmul(
    reader: Reader, ops: Ops, channels: int
) -> None:
    constants = grids() | weights(6, 4, channels=channels)
    parsed = reader.require_equal(
        gemm("f = MatMul (xf, wf)", b=""), constants, {"x": integers("int8", *ROW)}, within=1
    )
    assert ops(parsed) == ["QLinearMatMul"]


@pytest.mark.parametrize("shape", [(1, 3, 6), (2, 3, 6), (2, 1, 3, 6)])
@pytest.mark.parametrize("channels", [0, 4])
@pytest.mark.parametrize("bias", [(), (1,), (4,)])
@pytest.mark.parametrize("sum_of", ["m, c", "c, m"])
def test_a_product_of_many_rows_takes_its_bias_in(  # noqa: PLR0913, PLR0917 - the cases
    reader: Reader,
    ops: Ops,
    shape: tuple[int, ...],
    channels: int,
    bias: tuple[int, ...],
    sum_of: str,
) -> None:
    """A dense layer of a transformer: a bias that is added after the rounding is added late."""
    constants = grids() | weights(6, 4, channels=channels) | {"c": scale(-0.7, *bias)}
    text = gemm(f"m = MatMul (xf, wf) f = Add ({sum_of})", b="")
    extents = [",".join(map(str, (*shape[:-1], last))) for last in (6, 4)]
    text = text.replace("[2,6]", f"[{extents[0]}]").replace("[2,4]", f"[{extents[1]}]")
    parsed = reader.require_equal(text, constants, {"x": integers("int8", *shape)}, within=1)
    assert ops(parsed) == ["Reshape", "QGemm", "Reshape"]


def test_a_product_of_reals_stays_what_it_was(reader: Reader, ops: Ops) -> None:
    text = HEAD + "g (float[2,3,6] x) => (float[2,3,4] y) { m = MatMul (x, w) y = Add (m, c) }"
    parsed = reader.read(text, {"w": scale(0.1, 6, 4), "c": scale(0.2, 4)})
    assert ops(parsed) == ["MatMul", "Add"]


def test_transposed_weights_keep_their_scales(reader: Reader, ops: Ops) -> None:
    constants = grids() | weights(4, 6, channels=4)
    body = "t = Transpose (wf) f = MatMul (xf, t)"
    parsed = reader.require_equal(
        gemm(body, b="<axis = 0>"), constants, {"x": integers("int8", *ROW)}, within=1
    )
    assert ops(parsed) == ["QLinearMatMul"]


SINGLE = [
    ("GlobalAveragePool (xf)", "QLinearGlobalAveragePool"),
    ("AveragePool <kernel_shape = [2,2], pads = [1,1,0,0]> (xf)", "QLinearAveragePool"),
    ("Softmax <axis = 1> (xf)", "QLinearSoftmax"),
    ("Sigmoid (xf)", "QLinearSigmoid"),
    ("LeakyRelu <alpha = 0.3> (xf)", "QLinearLeakyRelu"),
    ("Add (xf, xf)", "QLinearAdd"),
    ("Mul (xf, wf)", "QLinearMul"),
]


@pytest.mark.parametrize(("body", "kind"), SINGLE)
def test_other_operators_are_done_on_integers(
    reader: Reader, ops: Ops, body: str, kind: str
) -> None:
    text = (
        HEAD
        + f"""g (int8[1,4,6,5] x) => (int8[1,4,P,Q] y) {{
      xf = DequantizeLinear (x, xs, xz) wf = DequantizeLinear (w, ws, wz)
      f = {body} y = QuantizeLinear (f, ys, yz) }}"""
    )
    constants = grids() | weights(4, 1, 1)
    feeds = {"x": integers("int8", *IMAGE)}
    parsed = reader.require_equal(text, constants, feeds, within=1)
    assert ops(parsed) == [kind]


def test_windows_behind_counted_pads_are_averaged_as_onnx_says(reader: Reader, ops: Ops) -> None:
    text = (
        HEAD
        + """g (int8[1,4,6,5] x) => (int8[1,4,4,3] y) {
      xf = DequantizeLinear (x, xs, xz)
      f = AveragePool <kernel_shape = [3,3], strides = [2,2], pads = [1,1,1,1], ceil_mode = 1,
        count_include_pad = 1> (xf)
      y = QuantizeLinear (f, ys, yz) }"""
    )
    parsed = reader.require_equal(text, grids(), {"x": integers("int8", *IMAGE)}, within=1)
    assert "AveragePool" in ops(parsed)


MOVES = [
    "f = Transpose <perm = [0,2,3,1]> (xf)",
    "f = Reshape (xf, shape)",
    "f = Flatten (xf)",
    "f = MaxPool <kernel_shape = [2,2]> (xf)",
    "f = Concat <axis = 1> (xf, xf)",
    "f = Pad (xf, pads)",
    'f = Pad <mode = "reflect"> (xf, pads)',
    "f = Slice (xf, one, two, three)",
    "t = Transpose <perm = [0,2,3,1]> (xf) m = Flatten (t) f = Relu (m)",
    "f = Clip (xf, low, high)",
]


@pytest.mark.parametrize("body", MOVES)
@pytest.mark.parametrize("is_named_twice", [False, True])
def test_movements_between_equal_grids_are_done_on_integers(
    reader: Reader, ops: Ops, body: str, *, is_named_twice: bool
) -> None:
    out = ("ys", "yz") if is_named_twice else ("xs", "xz")
    extents = "[A,B]" if "Flatten" in body or "Reshape" in body else "[A,B,C,D]"
    text = (
        HEAD
        + f"""g (int8[1,4,6,5] x) => (int8{extents} y)
    <int64[2] shape = {{4, 30}}, int64[8] pads = {{0,0,1,2,0,0,0,1}},
     int64[1] one = {{1}}, int64[1] two = {{3}}, int64[1] three = {{2}},
     float low = {{0.2}}, float high = {{0.7}}> {{
      xf = DequantizeLinear (x, xs, xz) {body} y = QuantizeLinear (f, {out[0]}, {out[1]}) }}"""
    )
    constants = grids()
    if is_named_twice:
        constants |= {"ys": constants["xs"], "yz": constants["xz"]}
    parsed = reader.require_equal(text, constants, {"x": integers("int8", *IMAGE)})
    assert not {"DequantizeLinear", "QuantizeLinear"} & set(ops(parsed))
    equal = [fact for fact in parsed.graph.facts if fact.kind == "equal"]
    assert len(equal) == (2 if is_named_twice else 0)


def test_a_movement_before_a_convolution_gets_a_name_of_its_own(reader: Reader, ops: Ops) -> None:
    text = (
        HEAD
        + """g (int8[1,6,5,4] x) => (int8[1,3,P,Q] y) {
      xf = DequantizeLinear (x, xs, xz) t = Transpose <perm = [0,3,1,2]> (xf)
      wf = DequantizeLinear <axis = 0> (w, ws, wz)
      f = Conv (t, wf) y = QuantizeLinear (f, ys, yz) }"""
    )
    constants = grids() | weights(3, 4, 2, 3, channels=3)
    feeds = {"x": integers("int8", 1, 6, 5, 4)}
    parsed = reader.require_equal(text, constants, feeds, within=1)
    assert ops(parsed) == ["Transpose", "QLinearConv"]
    # `t` is real in the model, so its integers must not bear that name.
    assert parsed.graph.ops[0].outputs == ("t_quantized",)


def test_quantising_rises_over_movements(reader: Reader, ops: Ops) -> None:
    text = conv("m = MaxPool <kernel_shape = [2,2]> (f) r = Transpose <perm = [0,2,3,1]> (m)")
    constants = grids() | weights(3, 4, 2, 3, channels=3)
    feeds = {"x": integers("int8", *IMAGE)}
    parsed = reader.require_equal(text, constants, feeds, within=1)
    assert ops(parsed) == ["QLinearConv", "MaxPool", "Transpose"]


def test_a_joint_of_different_grids_is_requantised_part_by_part(reader: Reader, ops: Ops) -> None:
    text = (
        HEAD
        + """g (int8[1,4,6,5] x, int8[1,4,6,5] z) => (int8[1,8,6,5] y) {
      xf = DequantizeLinear (x, xs, xz) zf = DequantizeLinear (z, ys, yz)
      f = Concat <axis = 1> (xf, zf) y = QuantizeLinear (f, ys, yz) }"""
    )
    feeds = {"x": integers("int8", *IMAGE), "z": integers("int8", *IMAGE, seed=2)}
    parsed = reader.require_equal(text, grids(), feeds, within=1)
    assert sorted(ops(parsed)) == ["Concat", "DequantizeLinear", "QuantizeLinear"]
    assert all(t.dtype == "int8" for t in parsed.graph.tensors if t.name in {"x", "y", "z"})


@pytest.mark.parametrize(
    "between", ["", "aq = QuantizeLinear (a, xs, xz) a2 = DequantizeLinear (aq, xs, xz)"]
)
def test_a_pad_of_real_zeros_joins_an_integer_convolution(
    reader: Reader, ops: Ops, between: str
) -> None:
    last = "a2" if between else "a"
    text = (
        HEAD
        + f"""g (int8[1,4,6,5] x) => (int8[1,3,P,Q] y)
    <int64[8] pads = {{0,0,1,2,0,0,0,1}}> {{
      xf = DequantizeLinear (x, xs, xz) a = Pad (xf, pads) {between}
      wf = DequantizeLinear <axis = 0> (w, ws, wz)
      f = Conv ({last}, wf) y = QuantizeLinear (f, ys, yz) }}"""
    )
    constants = grids() | weights(3, 4, 2, 3, channels=3)
    feeds = {"x": integers("int8", *IMAGE)}
    parsed = reader.require_equal(text, constants, feeds, within=1)
    assert ops(parsed) == ["QLinearConv"]


def test_quantised_interface_tensors_name_their_grid(reader: Reader) -> None:
    parsed = reader.read(conv(), grids() | weights(3, 4, 2, 3))
    assert parsed.graph.quantized == (Quantized("x", "xs", "xz"), Quantized("y", "ys", "yz"))


def test_operators_on_integers_pass_through(reader: Reader, ops: Ops) -> None:
    text = (
        HEAD
        + """g (uint8[1,4,6,5] x) => (uint8[1,3,P,Q] y)
    { y = QLinearConv (x, xs, xz, w, ws, wz, ys, yz) }"""
    )
    constants = grids("uint8") | weights(3, 4, 2, 3, channels=3, kind="uint8")
    parsed = reader.read(text, constants)
    assert ops(parsed) == ["QLinearConv"]
    assert parsed.graph.quantized == (Quantized("x", "xs", "xz"), Quantized("y", "ys", "yz"))


def test_a_weight_quantised_in_the_graph_becomes_an_integer_constant(
    reader: Reader, ops: Ops
) -> None:
    text = conv().replace("wf =", "w = QuantizeLinear <axis = 0> (wr, ws, wz) wf =")
    constants = grids() | weights(3, 4, 2, 3, channels=3)
    del constants["w"]
    rng = np.random.default_rng(5)
    constants["wr"] = rng.uniform(-0.5, 0.5, (3, 4, 2, 3)).astype(np.float32)
    feeds = {"x": integers("int8", *IMAGE)}
    parsed = reader.require_equal(text, constants, feeds, within=1)
    assert ops(parsed) == ["QLinearConv"]
    assert parsed.weights["w"].dtype == np.int8
