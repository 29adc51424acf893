"""How the integers at the model's inputs and outputs stand for reals."""

from dataclasses import replace

from dlbuild.ir.graph import Quantized
from dlbuild.stages.rewrites.draft import Draft, Node
from dlbuild.stages.rewrites.grid import DEQUANTIZE, QUANTIZE, grid_of
from dlbuild.stages.rewrites.qdq_move import MOVES

# Operators on integers: the positions of (tensor, scale, zero point) of their operands, and of
# (scale, zero point) of their result.
TRIPLES: dict[str, tuple[tuple[tuple[int, int, int], ...], tuple[int, int]]] = {
    "QLinearConv": (((0, 1, 2),), (6, 7)),
    "QLinearMatMul": (((0, 1, 2), (3, 4, 5)), (6, 7)),
    "QGemm": (((0, 1, 2),), (7, 8)),
    "QLinearAdd": (((0, 1, 2), (3, 4, 5)), (6, 7)),
    "QLinearMul": (((0, 1, 2), (3, 4, 5)), (6, 7)),
    "QLinearAveragePool": (((0, 1, 2),), (3, 4)),
    "QLinearGlobalAveragePool": (((0, 1, 2),), (3, 4)),
    "QLinearSoftmax": (((0, 1, 2),), (3, 4)),
    "QLinearSigmoid": (((0, 1, 2),), (3, 4)),
    "QLinearLeakyRelu": (((0, 1, 2),), (3, 4)),
}


def note_interface(draft: Draft) -> None:
    """Record scale and zero point of each quantised input and output."""
    producers, consumers = draft.producers(), draft.consumers()
    for name in draft.inputs:
        draft.quantized += read(draft, consumers, name)[:1]
    for name in draft.outputs:
        node = producers.get(name)
        found = written(draft, node, name) if node is not None else []
        draft.quantized += found[:1]


def read(draft: Draft, consumers: dict[str, list[Node]], name: str) -> list[Quantized]:
    """Return what the readers of a tensor say of it, or of what it is moved to."""
    found: list[Quantized] = []
    for node in consumers.get(name, ()):
        found += readings(draft, node, name)
        if node.kind in MOVES and not node.domain and node.inputs[0] == name:
            moved = read(draft, consumers, node.outputs[0])
            found += [replace(pair, tensor=name) for pair in moved]
    return found


def readings(draft: Draft, node: Node, name: str) -> list[Quantized]:
    """Return what a reader says of the integers it reads."""
    if node.kind == DEQUANTIZE and node.inputs[0] == name:
        grid = grid_of(draft, node)
        is_plain = grid is not None and grid.axis is None
        return [Quantized(name, grid.scale, grid.zero)] if grid is not None and is_plain else []
    operands, _ = TRIPLES.get(node.kind, ((), (0, 0)))
    return [
        Quantized(name, node.inputs[scale], node.input(zero))
        for tensor, scale, zero in operands
        if node.input(tensor) == name and is_single(draft, node.input(scale))
    ]


def written(draft: Draft, node: Node, name: str) -> list[Quantized]:
    """Return what the writer says of the integers it writes."""
    if node.kind == QUANTIZE:
        grid = grid_of(draft, node)
        is_plain = grid is not None and grid.axis is None
        return [Quantized(name, grid.scale, grid.zero)] if grid is not None and is_plain else []
    if node.kind not in TRIPLES:
        return []
    scale, zero = (node.input(position) for position in TRIPLES[node.kind][1])
    return [Quantized(name, scale, zero)] if is_single(draft, scale) else []


def is_single(draft: Draft, name: str) -> bool:
    """Say whether a constant is one number."""
    return name in draft.constants and draft.tensors[name].count == 1
