"""BatchNormalization after a convolution or a matrix product, folded into its weights.

y = (x*w + b - mean) / sqrt(variance + epsilon) * scale + bias is the same operator with other
weights: w' = w * f, b' = (b - mean) * f + bias, with f = scale / sqrt(variance + epsilon).
"""

import numpy as np

from dlbuild.stages.rewrites.draft import Draft, Node

MATRIX = 2
FLOATS = frozenset({"float32", "float64", "float16"})


def fold_batch_normalization(draft: Draft) -> None:
    """Fold each BatchNormalization whose operand nothing else reads."""
    producers, consumers = draft.producers(), draft.consumers()
    dropped: set[int] = set()
    for node in draft.nodes:
        if node.kind != "BatchNormalization" or node.domain or node.integer("training_mode", 0):
            continue
        source = node.inputs[0]
        before = producers.get(source)
        if before is None or len(consumers.get(source, ())) != 1 or not draft.is_plain(source):
            continue
        if any(name not in draft.constants for name in node.inputs[1:5]):
            continue
        if not absorb(draft, before, node, consumers):
            continue
        before.outputs = [node.outputs[0]]
        producers[node.outputs[0]] = before
        dropped.add(id(node))
    draft.nodes = [node for node in draft.nodes if id(node) not in dropped]


def absorb(draft: Draft, before: Node, node: Node, consumers: dict[str, list[Node]]) -> bool:
    """Scale a node's weights and set its bias; say whether it could be done."""
    if before.domain or before.kind not in {"Conv", "ConvTranspose", "Gemm"}:
        return False
    weight, bias = before.input(1), before.input(2)
    if weight not in draft.constants or (bias and bias not in draft.constants):
        return False
    if draft.dtype(weight) not in FLOATS:
        return False
    rank = len(draft.shape(weight))
    (channels,) = draft.shape(node.inputs[1])
    outer = (1,) * (rank - 2)
    beta = 1.0
    over: tuple[int, ...]
    if before.kind == "Gemm":
        # beta and alpha stay outside: alpha * (a @ (b * f)) + (beta * c - mean) * f + bias.
        beta = before.number("beta", 1.0)
        if rank != MATRIX or (bias and not draft.is_row(bias, channels)):
            return False
        before.attributes.pop("beta", None)
        over = (channels, 1) if before.integer("transB", 0) else (1, channels)
    elif before.kind == "Conv":
        over = (channels, 1, *outer)
    else:
        groups = before.integer("group", 1)
        over = (groups, 1, channels // groups, *outer)
    scale, shift, mean, variance = node.inputs[1:5]
    epsilon = float(np.float32(node.number("epsilon", 1e-5)))
    result = before.inputs[2:3] if bias and draft.shape(bias) == (channels,) else []
    # Both before either: a constant may be part of the one and the other.
    named = [replaced(draft, weight, consumers)]
    named.append(
        replaced(draft, result[0], consumers)
        if result
        else draft.fresh(f"{before.outputs[0]}_bias")
    )
    arrays = (weight, scale, shift, mean, variance, *([bias] if bias else []))
    draft.derive(named[1], "shifted_bias", arrays, epsilon=epsilon, factor=beta)
    draft.derive(named[0], "scaled_weights", (weight, scale, variance), epsilon=epsilon, shape=over)
    before.inputs[1:] = named
    return True


def replaced(draft: Draft, name: str, consumers: dict[str, list[Node]]) -> str:
    """Return the name of a constant with new numbers: another if others read the old ones."""
    if len(consumers.get(name, ())) == 1 and name not in draft.outputs:
        return name
    return draft.fresh(f"{name}_folded")
