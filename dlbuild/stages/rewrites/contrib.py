"""Operators of com.microsoft that parse writes or reads, and what their results look like."""

import numpy as np

from dlbuild.ir.graph import Tensor
from dlbuild.stages.rewrites.draft import Draft, Node
from dlbuild.stages.rewrites.interface import TRIPLES

DOMAIN = "com.microsoft"
STAND_IN_OPSET = 22
MATRIX_RANK = 2

# operator -> (standard operator with a result of the same extents, positions of its operands,
# position of the operand that has the result's element type)
CONTRIB: dict[tuple[str, str], tuple[str, tuple[int, ...], int]] = {
    (DOMAIN, "QLinearAdd"): ("Add", (0, 3), 0),
    (DOMAIN, "QLinearMul"): ("Mul", (0, 3), 0),
    (DOMAIN, "QLinearSigmoid"): ("Identity", (0,), 0),
    (DOMAIN, "QLinearLeakyRelu"): ("Identity", (0,), 0),
    (DOMAIN, "QLinearSoftmax"): ("Identity", (0,), 0),
    (DOMAIN, "QLinearAveragePool"): ("AveragePool", (0,), 0),
    (DOMAIN, "QLinearGlobalAveragePool"): ("GlobalAveragePool", (0,), 0),
    (DOMAIN, "QGemm"): ("Gemm", (0, 3), 0),
    (DOMAIN, "QLinearConcat"): ("Concat", (2, 5), 2),
    (DOMAIN, "QLinearWhere"): ("Max", (0, 1, 4), 1),
    (DOMAIN, "FusedConv"): ("Conv", (0, 1), 0),
}
# Operators that ONNX has taken over since; `modernize` moves them there.
ADOPTED = frozenset(
    (DOMAIN, kind) for kind in ("QuantizeLinear", "DequantizeLinear", "Gelu", "FastGelu")
)
KEPT_ATTRIBUTES = {
    "AveragePool": ("kernel_shape", "strides", "pads", "dilations", "ceil_mode", "auto_pad"),
    "Gemm": ("transA", "transB"),
    "Concat": ("axis",),
    "Conv": ("kernel_shape", "strides", "pads", "dilations", "group", "auto_pad"),
}


def stand_in(draft: Draft, node: Node) -> tuple[str, Node] | None:
    """Return the element type of a node's result and a standard node with its extents."""
    entry = CONTRIB.get((node.domain, node.kind))
    if entry is None:
        return None
    kind, positions, typed = entry
    if kind == "Concat":
        positions = tuple(range(2, len(node.inputs), 3))
    names = KEPT_ATTRIBUTES.get(kind, ())
    attributes = {name: node.attributes[name] for name in names if name in node.attributes}
    inputs = [node.inputs[position] for position in positions]
    proxy = Node(kind, inputs, node.outputs[:1], attributes, opset=STAND_IN_OPSET)
    source = node.input(typed) or node.inputs[0]
    _, (scale, _) = TRIPLES.get(node.kind, ((), (0, 0)))
    # A result of integers has a scale.
    return draft.dtype(source) if node.input(scale) else "float32", proxy


def product(draft: Draft, node: Node) -> Tensor | None:
    """Return the result of a product of matrices that lie transposed; None of anything else."""
    if (node.domain, node.kind) != (DOMAIN, "FusedMatMul"):
        return None
    batches: list[tuple[int, ...]] = []
    ends: tuple[int, ...] = ()
    for side, name, kept in (("A", node.inputs[0], 0), ("B", node.inputs[1], 1)):
        shape = draft.shape(name)
        if len(shape) < MATRIX_RANK:  # a vector, which is not transposed, leaves no axis
            continue
        is_first = bool(node.integer(f"transBatch{side}", 0))
        row = shape[0] if is_first else shape[-2]
        batches.append(shape[1:-1] if is_first else shape[:-2])
        is_turned = bool(node.integer(f"trans{side}", 0))
        ends += ((row, shape[-1])[kept != is_turned],)
    try:
        batch = np.broadcast_shapes(*batches)
    except ValueError:
        return None  # the rule says what does not fit
    return Tensor(node.outputs[0], draft.dtype(node.inputs[0]), (*batch, *ends))
