"""Operators of com.microsoft that parse writes or reads, and what their results look like."""

from dlbuild.stages.rewrites.draft import Draft, Node

DOMAIN = "com.microsoft"
STAND_IN_OPSET = 22

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
}
# Operators that ONNX has taken over since; `modernize` moves them there.
ADOPTED = frozenset(
    (DOMAIN, kind) for kind in ("QuantizeLinear", "DequantizeLinear", "Gelu", "FastGelu")
)
KEPT_ATTRIBUTES = {
    "AveragePool": ("kernel_shape", "strides", "pads", "dilations", "ceil_mode", "auto_pad"),
    "Gemm": ("transA", "transB"),
    "Concat": ("axis",),
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
    return draft.dtype(source), proxy
