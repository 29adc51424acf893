"""The same model with other numbers, as a new training run or a new calibration would leave it.

    python bench/retrain.py MODEL OUT [--seed N] [--scales]

Every weight changes. With --scales the scales and zero points change too, in a way that keeps the
facts on which a structure may depend: equal ones stay equal, different ones stay different, a zero
stays zero, a zero point at the end of its range stays there and scales only become smaller, so that
limits behind which nothing lies are still such, and a bias keeps the product of its input's and its
weight's scale. Weights keep to whether one of them is the least of its type. What is a scale and
what a zero point is known of the operators of PLACES; of others, 8-bit zeros throughout stay.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

Array = npt.NDArray[np.generic]
Pair = tuple[str, str]
"""The names of a scale and its zero point; one that is absent has the empty name."""
OPERANDS = ("x", "w", "b")

ABSENT = -1
ONE_OPERAND = ((1, 2), (3, 4))
TWO_OPERANDS = ((1, 2), (4, 5), (6, 7))
ZERO_POINTS = ((ABSENT, 2), (ABSENT, 3))
PLACES = {
    "QuantizeLinear": ((1, 2),),
    "DequantizeLinear": ((1, 2),),
    "ConvInteger": ZERO_POINTS,
    "DynamicQuantizeMatMul": ((2, 3),),
    "MatMulInteger": ZERO_POINTS,
    "MatMulIntegerToFloat": ((2, 4), (3, 5)),
    "QGemm": ((1, 2), (4, 5), (7, 8)),
    "QLinearAdd": TWO_OPERANDS,
    "QLinearAveragePool": ONE_OPERAND,
    "QLinearConv": TWO_OPERANDS,
    "QLinearGlobalAveragePool": ONE_OPERAND,
    "QLinearLeakyRelu": ONE_OPERAND,
    "QLinearMatMul": TWO_OPERANDS,
    "QLinearMul": TWO_OPERANDS,
    "QLinearSigmoid": ONE_OPERAND,
    "QLinearSoftmax": ONE_OPERAND,
    "QLinearWhere": ((2, 3), (5, 6), (7, 8)),
}
"""Where an operator's inputs have a scale and its zero point."""


def retrained(
    model: onnx.ModelProto, seed: int, *, scales: bool, keep: frozenset[str] = frozenset()
) -> onnx.ModelProto:
    """Return a model of the same structure with other numbers; those of `keep` stay."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    rng = np.random.default_rng(seed)
    arrays = {t.name: numpy_helper.to_array(t) for t in made.graph.initializer}
    parameters = {name for pair in quantization(made) for name in pair}
    changed = {
        name: perturbed(array, rng)
        for name, array in arrays.items()
        if name not in parameters | keep and is_weight(array)
    }
    if scales:
        changed |= rescaled(made, arrays, rng)
    for tensor in made.graph.initializer:
        if tensor.name in changed:
            tensor.CopyFrom(numpy_helper.from_array(changed[tensor.name], tensor.name))
    return made


def has_weights(model: onnx.ModelProto, keep: frozenset[str]) -> bool:
    """Say whether a model has numbers that `retrained` changes."""
    parameters = {name for pair in quantization(model) for name in pair}
    return any(
        t.name not in parameters | keep and is_weight(numpy_helper.to_array(t))
        for t in model.graph.initializer
    )


def is_weight(array: Array) -> bool:
    """Shapes and axes are int64, single numbers may be bounds, zeros be zero points: those stay."""
    if array.dtype.name in ("int8", "uint8") and not array.any():
        return False
    return array.dtype.name in ("float32", "int8", "uint8", "int32") and array.size > 1


def perturbed(array: Array, rng: np.random.Generator) -> Array:
    """Return other numbers of the same kind; none changes its sign, and no variance gets one."""
    if array.dtype == np.float32:
        reals = array.astype(np.float64) * rng.uniform(0.8, 1.25, array.shape)
        return reals.astype(np.float32)
    if array.dtype == np.int32:
        sums = array.astype(np.int64) + rng.integers(-9, 10, array.shape)
        return sums.astype(np.int32)
    ends = np.iinfo(np.uint8 if array.dtype == np.uint8 else np.int8)
    is_least = array.astype(np.int64) == ends.min
    moved = array.astype(np.int64) + rng.integers(-3, 4, array.shape)
    inside = np.clip(moved, ends.min + 1, ends.max)
    kept: Array = np.where(is_least, ends.min, inside).astype(array.dtype)
    return kept


def quantization(model: onnx.ModelProto) -> list[Pair]:
    """Return each scale and zero point that a node reads, once, in the order of the nodes."""
    pairs = (
        (name_at(node, scale), name_at(node, zero))
        for node in model.graph.node
        for scale, zero in places(node)
    )
    return list(dict.fromkeys(pairs))


def places(node: onnx.NodeProto) -> tuple[tuple[int, int], ...]:
    """Return where a node's inputs have a scale and its zero point."""
    if node.op_type == "QLinearConcat":  # those of the result, then each operand before its own
        return tuple((at, at + 1) for at in range(0, len(node.input), 3))
    return PLACES.get(node.op_type, ())


def name_at(node: onnx.NodeProto, position: int) -> str:
    """Return the name of an input, empty if it is absent."""
    return node.input[position] if 0 <= position < len(node.input) else ""


def rescaled(
    model: onnx.ModelProto, arrays: Mapping[str, Array], rng: np.random.Generator
) -> dict[str, Array]:
    """Return other scales and zero points."""
    biases = bias_scales(model)
    found: dict[str, Array] = {}
    factors: dict[bytes, float] = {}
    shifts: dict[bytes, int] = {}
    for scale, zero in quantization(model):
        if scale in arrays and scale not in biases:
            array = arrays[scale]
            factor = factors.setdefault(array.tobytes(), float(rng.uniform(0.8, 1.0)))
            found[scale] = (array.astype(np.float64) * factor).astype(np.float32)
        if zero in arrays and arrays[zero].any() and arrays[zero].dtype.itemsize == 1:
            array = arrays[zero]
            shift = shifts.setdefault(array.tobytes(), int(rng.integers(1, 5)))
            found[zero] = toward_middle(array, shift)
    for bias, (x, w) in biases.items():
        steps = found.get(x, arrays[x]).astype(np.float32)
        product = steps * found.get(w, arrays[w]).astype(np.float32)
        found[bias] = np.broadcast_to(product, arrays[bias].shape)
    return found


def toward_middle(zero_point: Array, shift: int) -> Array:
    """Return the zero points moved by `shift`, never to zero; those at an end of the range stay."""
    ends = np.iinfo(np.uint8 if zero_point.dtype == np.uint8 else np.int8)
    middle = 128 if zero_point.dtype == np.uint8 else 0
    numbers = zero_point.astype(np.int64)
    moved = numbers + np.where(numbers < middle, shift, -shift)
    inner = np.where(moved == 0, numbers + 1, moved)
    is_end = (numbers == ends.min) | (numbers == ends.max)
    return np.where(is_end, numbers, inner).astype(zero_point.dtype)


def bias_scales(model: onnx.ModelProto) -> dict[str, tuple[str, str]]:
    """Return of each bias's scale the scales of the input and the weight beside it."""
    source = {n.output[0]: n for n in model.graph.node if n.op_type == "DequantizeLinear"}
    found = {}
    for node in model.graph.node:
        read = [source[name] for name in node.input if name in source]
        if node.op_type in ("Conv", "Gemm") and len(read) == len(OPERANDS):
            x, w, b = (dequantize.input[1] for dequantize in read)
            found[b] = (x, w)
    return found


def main() -> int:
    """Write the retrained model."""
    parser = argparse.ArgumentParser(description="Write a model with other numbers.")
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scales", action="store_true", help="scales and zero points too")
    given = parser.parse_args()
    made = retrained(onnx.load(str(given.model)), given.seed, scales=given.scales)
    given.out.write_bytes(made.SerializeToString())
    return 0


if __name__ == "__main__":
    sys.exit(main())
