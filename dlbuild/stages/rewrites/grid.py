"""The grid of a quantised tensor: scale and zero point, and when two of them are equal."""

from dataclasses import dataclass

import numpy as np

from dlbuild.ir.graph import Fact
from dlbuild.ir.weights import numpy_dtype
from dlbuild.stages.rewrites.draft import Draft, Node

QUANTIZE, DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"
NARROW = frozenset({"int8", "uint8"})


@dataclass(frozen=True, slots=True)
class Grid:
    """Constants that give integers their meaning: real = (q - zero) * scale.

    zero: empty if there is none. dtype: of the integers. axis: of the scales, None if one for all.
    """

    scale: str
    zero: str
    dtype: str
    axis: int | None = None


def grid_of(draft: Draft, node: Node) -> Grid | None:
    """Return the grid of a quantise or dequantise node; None if it is not constant or blocked."""
    if node.kind not in {QUANTIZE, DEQUANTIZE} or node.integer("block_size", 0):
        return None
    scale, zero = node.input(1), node.input(2)
    if scale not in draft.constants or (zero and zero not in draft.constants):
        return None
    if draft.dtype(scale) != "float32":
        return None
    integers = node.inputs[0] if node.kind == DEQUANTIZE else node.outputs[0]
    rank = len(draft.shape(integers))
    # One scale in a list is one for all, whatever the axis says.
    is_single = draft.tensors[scale].count == 1
    axis = None if is_single else node.integer("axis", 1) % max(rank, 1)
    if not is_single and len(draft.shape(scale)) != 1:
        return None
    return Grid(scale, zero, draft.dtype(integers), axis)


def dequantized(draft: Draft, producers: dict[str, Node], name: str) -> tuple[str, Grid] | None:
    """Return the integers that a real tensor is made of, and their grid."""
    node = producers.get(name)
    if node is None or node.kind != DEQUANTIZE:
        return None
    grid = grid_of(draft, node)
    return None if grid is None else (node.inputs[0], grid)


def are_equal(draft: Draft, first: Grid, *others: Grid) -> bool:
    """Say whether grids have the same numbers, and record the facts that this rests on."""
    if any(grid.axis is not None or grid.dtype != first.dtype for grid in (first, *others)):
        return False
    pairs = [(first.scale, grid.scale) for grid in others]
    pairs += [(first.zero, grid.zero) for grid in others]
    found = [same(draft, one, other) for one, other in pairs]
    known = [facts for facts in found if facts is not None]
    if len(known) != len(found):
        return False
    draft.facts |= dict.fromkeys(fact for facts in known for fact in facts)
    return True


def same(draft: Draft, one: str, other: str) -> tuple[Fact, ...] | None:
    """Return the facts by which two constants are equal (none if they are one); None if not."""
    if one == other:
        return ()
    if not one or not other:
        name = one or other
        return (Fact("all_zero", (name,)),) if draft.constants.ask("all_zero", name) else None
    return (Fact("equal", (one, other)),) if draft.constants.ask("equal", one, other) else None


def zero_point(draft: Draft, grid: Grid) -> str:
    """Return the name of the zero point, made if the grid has none."""
    if grid.zero:
        return grid.zero
    shape = draft.shape(grid.scale)
    name = f"{grid.scale}_zero_point"
    zeros = np.zeros(shape, dtype=numpy_dtype(grid.dtype))
    if name in draft.constants and draft.dtype(name) == grid.dtype and name in draft.made:
        return name
    made = draft.constant(name, zeros)
    draft.made.add(made)
    return made


def scalar_parameters(draft: Draft) -> None:
    """Give scales and zero points that are lists of one element no axis at all."""
    users: dict[str, list[Node]] = draft.consumers()
    for node in draft.nodes:
        if node.kind not in {QUANTIZE, DEQUANTIZE}:
            continue
        for name in node.inputs[1:3]:
            if name not in draft.constants or name in draft.outputs:
                continue
            tensor = draft.tensors[name]
            if tensor.count != 1 or not tensor.shape:
                continue
            if all(is_parameter(user, name) for user in users[name]):
                draft.derive(name, "scalar", (name,))


def is_parameter(node: Node, name: str) -> bool:
    """Say whether a node reads a constant as scale or zero point only."""
    return node.kind in {QUANTIZE, DEQUANTIZE} and node.inputs[0] != name
