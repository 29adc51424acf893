"""BatchNormalization after a convolution or a matrix product, folded into its weights.

y = (x*w + b - mean) / sqrt(variance + epsilon) * scale + bias is the same operator with other
weights: w' = w * f, b' = (b - mean) * f + bias, with f = scale / sqrt(variance + epsilon).
"""

import numpy as np
import numpy.typing as npt

from dlbuild.ir.weights import Array
from dlbuild.stages.rewrites.draft import Draft, Node

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
    factor, offset = factors(draft, node)
    w = draft.constants[weight].astype(np.float64)
    channels = len(factor)
    old = draft.constants[bias].astype(np.float64) if bias else np.zeros(channels)
    if before.kind == "Gemm":
        # beta and alpha stay outside: alpha * (a @ (b * f)) + (beta * c - mean) * f + bias.
        old = old * before.number("beta", 1.0)
        if old.size not in {1, channels} or w.ndim != 2:  # noqa: PLR2004 - a matrix
            return False
        before.attributes.pop("beta", None)
        scaled = w * (factor[:, None] if before.integer("transB", 0) else factor[None, :])
    elif before.kind == "Conv":
        scaled = w * factor.reshape(-1, *(1,) * (w.ndim - 1))
    else:
        groups = before.integer("group", 1)
        shaped = w.reshape(groups, -1, *w.shape[1:])
        per_group = factor.reshape(groups, 1, -1, *(1,) * (w.ndim - 2))
        scaled = (shaped * per_group).reshape(w.shape)
    new_bias = np.broadcast_to(old.reshape(-1), (channels,)) * factor + offset
    kind = draft.constants[weight].dtype
    before.inputs[1] = replaced(draft, weight, scaled.astype(kind), consumers)
    name = f"{before.outputs[0]}_bias"
    result = new_bias.astype(kind)
    if bias and draft.shape(bias) == result.shape:
        before.inputs[2] = replaced(draft, bias, result, consumers)
    else:
        before.inputs[2:] = [draft.constant(name, result)]
    return True


def factors(draft: Draft, node: Node) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return f, and bias - mean * f."""
    scale, bias, mean, variance = (
        draft.constants[name].astype(np.float64) for name in node.inputs[1:5]
    )
    epsilon = float(np.float32(node.number("epsilon", 1e-5)))
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + epsilon)
    return factor, bias - mean * factor


def replaced(draft: Draft, name: str, array: Array, consumers: dict[str, list[Node]]) -> str:
    """Give a constant new numbers, under a new name if others read the old ones."""
    if len(consumers.get(name, ())) == 1 and name not in draft.outputs:
        draft.keep(name, array)
        return name
    return draft.constant(f"{name}_folded", array)
