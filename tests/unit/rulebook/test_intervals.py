"""Whatever the inputs within their intervals, results lie in theirs."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from dlbuild.ir.graph import Attribute, Graph, Op, Tensor
from dlbuild.ir.target import Rounding
from dlbuild.ir.weights import Array, dtype_name
from dlbuild.rulebook.interpret import interpret
from dlbuild.rulebook.interval import Interval, known
from dlbuild.rulebook.intervals import anything, intervals
from dlbuild.rulebook.load import load_rules
from dlbuild.rulebook.match import Wish, match

BOOK = load_rules([Path(__file__).parents[3]])
MICROSOFT = "com.microsoft"
SHAPE = (1, 3, 4, 5)

OPS: Mapping[str, tuple[str, str, dict[str, Attribute]]] = {
    # kind: domain, dtypes of inputs that are computed, attributes
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Max", "Min"), ("", "int8 int8", {})),
    **dict.fromkeys(("Abs", "Neg", "Sign", "BitwiseNot"), ("", "int8", {})),
    **dict.fromkeys(("Less", "Equal", "GreaterOrEqual"), ("", "int32 int32", {})),
    "Clip": ("", "int8", {}),
    "Mod": ("", "int32 int32", {}),
    "Where": ("", "bool int8 int8", {}),
    "Cast": ("", "int32", {"to": 3}),
    "BitShift": ("", "uint8 uint8", {"direction": "RIGHT"}),
    "BitwiseXor": ("", "uint8 uint8", {}),
    "MaxPool": ("", "int8", {"kernel_shape": (2, 2), "strides": (1, 2), "pads": (1, 0, 0, 1)}),
    "GlobalMaxPool": ("", "int8", {}),
    "QLinearConv": ("", "int8", {"pads": (1, 1, 1, 1)}),
    "QLinearMatMul": ("", "int8", {}),
    "QuantizeLinear": ("", "float32", {}),
    "QLinearAdd": (MICROSOFT, "int8", {}),
    "QLinearLeakyRelu": (MICROSOFT, "int8", {"alpha": 0.3}),
    "QLinearSigmoid": (MICROSOFT, "uint8", {}),
    "QLinearGlobalAveragePool": (MICROSOFT, "int8", {}),
}


def constants(kind: str, random: np.random.Generator) -> Sequence[Array]:
    """Return the further inputs of an operator, behind those that are computed."""
    one, zero = np.array(0.1, np.float32), np.array(3, np.int8)
    if kind == "QLinearConv":
        weights = random.integers(-9, 9, (4, 3, 3, 3)).astype(np.int8)
        bias = random.integers(-99, 99, 4).astype(np.int32)
        scales = random.uniform(0.01, 0.2, 4).astype(np.float32)
        return [
            one,
            zero,
            weights,
            scales,
            np.zeros(4, np.int8),
            np.array(0.7, np.float32),
            zero,
            bias,
        ]
    if kind == "QLinearMatMul":
        weights = random.integers(-9, 9, (5, 2)).astype(np.int8)
        return [one, zero, weights, one, np.array(0, np.int8), np.array(1.5, np.float32), zero]
    if kind == "QuantizeLinear":
        return [one, zero]
    if kind == "QLinearAdd":
        other = random.integers(-9, 9, SHAPE).astype(np.int8)
        return [one, zero, other, np.array(0.2, np.float32), zero, np.array(0.3, np.float32), zero]
    if kind.startswith("QLinear"):
        zeros = [zero.astype(np.uint8 if kind == "QLinearSigmoid" else np.int8)] * 2
        return [one, zeros[0], np.array(0.2, np.float32), zeros[1]]
    return []


def interval(dtype: str, random: np.random.Generator) -> Interval:
    """Return bounds, some of them equal."""
    if dtype == "bool":
        low = random.integers(0, 2, SHAPE).astype(bool)
        return Interval(low, low | (random.uniform(size=SHAPE) < 0.4))
    if dtype == "float32":
        low = random.normal(size=SHAPE).astype(np.float32)
        return Interval(low, low + random.choice([0, 1, np.inf], SHAPE).astype(np.float32))
    limits = np.iinfo(dtype)
    least, most = max(limits.min, -(2**31)), limits.max
    ends = np.sort(random.integers(least, most, (2, *SHAPE), endpoint=True), axis=0)
    ends[1] = np.where(random.uniform(size=SHAPE) < 0.4, ends[0], ends[1])
    return Interval(*ends.astype(dtype))


def within(bounds: Interval, random: np.random.Generator) -> Array:
    """Return one of the arrays that an interval holds; its ends are likely."""
    low, high = bounds
    share = random.choice([0.0, 0.0, 0.5, 0.9, 1.0, 1.0], low.shape)
    if low.dtype == np.bool_:
        return np.where(share > 0.5, high, low)
    if low.dtype.kind == "f":
        span = np.where(np.isinf(high), np.array(7, np.float32), high) - np.where(
            np.isinf(high), 0, low
        )
        between = low + share * span
        return np.where(share == 1, high, np.minimum(between, high)).astype(low.dtype)
    wide = low.astype(np.int64)
    further = np.rint(share * (high.astype(np.int64) - wide)).astype(np.int64)
    return np.asarray(wide + further).astype(low.dtype)


@pytest.mark.parametrize("rounding", ["exact", "fixed"])
@pytest.mark.parametrize("kind", OPS)
def test_results_lie_in_their_intervals(kind: str, rounding: Rounding) -> None:
    domain, dtypes, attributes = OPS[kind]
    for seed in range(6):
        random = np.random.default_rng(seed)
        given = {f"x{n}": interval(d, random) for n, d in enumerate(dtypes.split())}
        fixed = {f"c{n}": np.asarray(c) for n, c in enumerate(constants(kind, random))}
        if kind == "BitShift":
            given["x1"] = Interval(*(end % 8 for end in (given["x1"].low,) * 2))
        names = [*given, *fixed]
        if kind in ("QLinearConv", "QLinearMatMul", "QLinearAdd"):
            names = ["x0", *(f"c{n}" for n in range(len(fixed)))]
        arrays = {n: b.low for n, b in given.items()} | fixed
        dtype = {"Less": "bool", "Equal": "bool", "GreaterOrEqual": "bool"}.get(kind)
        dtype = dtype or (
            "int8" if kind in ("Where", "Cast", "QuantizeLinear") else dtype_name(arrays["x0"])
        )
        shape = {
            "QLinearConv": (1, 4, 4, 5),
            "QLinearMatMul": (1, 3, 4, 2),
            "MaxPool": (1, 3, 4, 3),
        }.get(kind, (1, 3, 1, 1) if "Global" in kind else SHAPE)
        tensors = [Tensor(n, dtype_name(a), a.shape) for n, a in arrays.items()]
        op = Op(
            "op", kind, tuple(names), ("y",), tuple(attributes.items()), domain, 1 if domain else 18
        )
        graph = Graph(
            "g", tuple(given), ("y",), (*tensors, Tensor("y", dtype, shape)), (op,), tuple(fixed)
        )
        instance = match(op, graph, BOOK, Wish(rounding=rounding))
        operand = {o.name: o.tensor for o in instance.operands if o.role == "input"}
        bounds = given | {n: known(a) for n, a in fixed.items()}

        found = intervals(instance, {o: bounds[t] for o, t in operand.items()})

        for _ in range(8):
            values = {n: within(b, random) for n, b in given.items()} | fixed
            results = interpret(instance, {o: values[t] for o, t in operand.items()})
            for name, result in results.items():
                low, high = found[name]
                assert (low <= result).all()
                assert (result <= high).all()


def test_what_is_indexed_by_what_it_reads_can_be_anything() -> None:
    tensors = (Tensor("x", "int8", (4,)), Tensor("i", "int64", (2,)), Tensor("y", "int8", (2,)))
    op = Op("op", "Gather", ("x", "i"), ("y",), (), "", 18)
    instance = match(op, Graph("g", ("x", "i"), ("y",), tensors, (op,), ()), BOOK)
    operand = {o.tensor: o.name for o in instance.operands}

    given = {operand[t.name]: anything(t.shape, t.dtype) for t in tensors[:2]}
    found = intervals(instance, given)

    assert found[operand["y"]].low.tolist() == [-128, -128]
    assert found[operand["y"]].high.tolist() == [127, 127]


def test_a_product_that_wraps_around_can_be_anything() -> None:
    tensors = (Tensor("x", "int32", (2,)), Tensor("c", "int32", (2,)), Tensor("y", "int32", (2,)))
    op = Op("op", "Mul", ("x", "c"), ("y",), (), "", 18)
    instance = match(op, Graph("g", ("x",), ("y",), tensors, (op,), ("c",)), BOOK)
    first, second, result = (
        next(o.name for o in instance.operands if o.tensor == t) for t in ("x", "c", "y")
    )
    low, high = np.array([1, 1], np.int32), np.array([2**20, 9], np.int32)

    found = intervals(
        instance, {first: Interval(low, high), second: known(np.array([2**12] * 2, np.int32))}
    )

    assert found[result].low.tolist() == [-(2**31), 2**12]
    assert found[result].high.tolist() == [2**31 - 1, 9 * 2**12]
