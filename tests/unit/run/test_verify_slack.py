"""What may differ for a reason that is not the C's, and that no more than that may."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import NodeProto, TensorProto, helper, numpy_helper

from dlbuild.base.paths import builtin_folder
from dlbuild.ir.weights import Array
from dlbuild.rulebook.load import RuleBook, load_rules
from dlbuild.run.reference import Model
from dlbuild.run.verify_compare import Comparison, Tolerance
from dlbuild.run.verify_judge import judged
from dlbuild.run.verify_slack import Question
from dlbuild.stages.parse import parse


@cache
def book() -> RuleBook:
    return load_rules([builtin_folder()])


def model_of(  # noqa: PLR0913, PLR0917 - what a model is
    folder: Path,
    nodes: Sequence[NodeProto],
    shape: Sequence[int],
    constants: Mapping[str, Array],
    dtype: int = TensorProto.FLOAT,
    out: int = TensorProto.FLOAT,
) -> Model:
    """Return the model of nodes that read x and write y."""
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info("x", dtype, shape)],
        [helper.make_tensor_value_info("y", out, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    file = folder / "model.onnx"
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(made, file)
    parsed = parse(file, {}, book(), "net")
    return Model(file, parsed.graph, parsed.weights, book())


def verdict(  # noqa: PLR0913 - what is asked, and how
    model: Model,
    x: Array,
    due: Array,
    ours: Array,
    *,
    kernel: str = "k",
    tolerance: Tolerance | None = None,
) -> Comparison:
    question = Question(model, "y", ({"x": x},), (due.astype(np.float32),))
    return judged(question, kernel, [ours.astype(np.float32)], tolerance or Tolerance())


def quantized(scale: float, last: Sequence[NodeProto]) -> tuple[list[NodeProto], dict[str, Array]]:
    """Return nodes that compute exp(x), quantise it and give it back as a real, then `last`."""
    return (
        [
            helper.make_node("Exp", ["x"], ["e"]),
            helper.make_node("QuantizeLinear", ["e", "s", "z"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["r"]),
            *last,
        ],
        {"s": np.array(scale, np.float32), "z": np.array(3, np.int8)},
    )


AFTER = {
    "nothing": [helper.make_node("Identity", ["r"], ["y"])],
    "a movement": [helper.make_node("Transpose", ["r"], ["y"], perm=[1, 0])],
    "a sign": [helper.make_node("Neg", ["r"], ["y"])],
}


@pytest.mark.parametrize("after", AFTER)
@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(scale=st.floats(0.0625, 4.0, width=32))
def test_a_tie_before_a_real_result_is_worth_one_step(
    after: str, scale: float, tmp_path: Path
) -> None:
    nodes, constants = quantized(scale, AFTER[after])
    model = model_of(tmp_path, nodes, [2, 3], constants)
    x = np.zeros((2, 3), np.float32)
    due = np.full((3, 2) if after == "a movement" else (2, 3), 10 * scale)

    assert verdict(model, x, due, due).limit == "rtol 0.0001, atol 1e-05"
    near = verdict(model, x, due, due + 1.0001 * scale)
    assert near.passed
    assert near.limit == (
        f"rtol 0.0001, atol 1e-05, or one step of the integers before it ({scale:.3g})"
    )
    assert not verdict(model, x, due, due + 2 * scale).passed


def test_a_recipes_own_tolerance_is_all_that_is_allowed(tmp_path: Path) -> None:
    nodes, constants = quantized(0.5, AFTER["nothing"])
    model = model_of(tmp_path, nodes, [2, 3], constants)
    x = np.zeros((2, 3), np.float32)
    asked = Tolerance(rtol=1e-3, atol=1e-3)
    assert not verdict(model, x, x + 1, x + 1.5, tolerance=asked).passed


def test_a_real_that_no_integers_precede_has_no_steps(tmp_path: Path) -> None:
    model = model_of(tmp_path, [helper.make_node("Exp", ["x"], ["y"])], [2, 3], {})
    x = np.zeros((2, 3), np.float32)
    found = verdict(model, x, x + 1, x + 1.001)
    assert not found.passed
    assert "rounding (1.19e-07)" in found.limit or "rounding (0)" in found.limit


@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 1000))
def test_a_sum_that_cancels_is_known_to_the_rounding_of_its_terms(
    seed: int, tmp_path: Path
) -> None:
    rng = np.random.default_rng(seed)
    half = rng.normal(0, 1000, (256, 4)).astype(np.float32)
    w = np.concatenate([half, -half])
    model = model_of(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"])], [8, 512], {"w": w})
    x = np.concatenate([rng.normal(1, 1, (8, 256))] * 2, axis=1).astype(np.float32)
    x[0, 0] += 1  # one result that does not cancel: the range of the tensor
    one, other = (x[:, order] @ w[order] for order in (np.arange(512), rng.permutation(512)))
    exact = x.astype(np.float64) @ w.astype(np.float64)
    error = np.abs(one - exact).max()

    assert verdict(model, x, one, exact).passed
    assert verdict(model, x, one, other).passed or np.abs(other - one).max() > 2 * error
    assert not verdict(model, x, one, one + 1e-3 * np.abs(exact).max()).passed


def test_reals_that_were_narrow_on_the_way_are_judged_as_narrow(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16),
        helper.make_node("Exp", ["h"], ["e"]),
        helper.make_node("Cast", ["e"], ["y"], to=TensorProto.FLOAT),
    ]
    model = model_of(tmp_path, nodes, [2, 3], {})
    x = np.zeros((2, 3), np.float32)
    found = verdict(model, x, x + 1, x + 1.005)
    assert found.passed
    assert found.limit == "rtol 0.01 of the range, atol 0.001 (float16 before it)"
    assert not verdict(model, x, x + 1, x + 1.02).passed


def test_onnxs_evaluator_decides_where_sums_of_the_reference_saturate(tmp_path: Path) -> None:
    """Sums of unsigned and signed 8-bit products do so in ONNX Runtime on some processors."""
    node = helper.make_node(
        "QLinearMatMul", ["x", "s", "zx", "w", "s", "zw", "sy", "zy"], ["y"], "dense"
    )
    constants: dict[str, Array] = {
        "s": np.array(1.0, np.float32),
        "sy": np.array(1000.0, np.float32),
        "zx": np.array(0, np.uint8),
        "zw": np.array(0, np.int8),
        "zy": np.array(0, np.uint8),
        "w": np.full((4, 1), 127, np.int8),
    }
    kind = TensorProto.UINT8
    model = model_of(tmp_path, [node], [1, 4], constants, kind, kind)
    x = np.full((1, 4), 255, np.uint8)
    right, saturated = (np.array([[n]], np.uint8) for n in (130, 66))

    def asked(kernel: str, ours: Array) -> Comparison:
        question = Question(model, "y", ({"x": x},), (saturated,))
        return judged(question, kernel, [ours], Tolerance())

    assert asked("dense", right).passed
    assert asked("dense", right).limit == (
        "1 LSB from onnx's evaluator, which the reference is not"
    )
    assert not asked("dense", right + 4).passed
    assert not asked("", right).passed
