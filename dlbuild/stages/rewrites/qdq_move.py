"""Operators that only move elements, between dequantise and quantise: done on the integers.

Dequantising works on each element alone and keeps the order, so it can be done after a movement
or a maximum as well as before; the same holds for quantising. Dequantise sinks, quantise rises,
and where the two meet with equal grids both vanish.
"""

from dlbuild.ir.derivation import Setting
from dlbuild.ir.graph import Fact
from dlbuild.stages.rewrites.draft import Draft, Node
from dlbuild.stages.rewrites.grid import (
    DEQUANTIZE,
    NARROW,
    QUANTIZE,
    Grid,
    are_equal,
    dequantized,
    grid_of,
    zero_point,
)
from dlbuild.stages.rewrites.pads import is_zero

# operator -> the operator set from which it takes 8-bit integers
MOVES: dict[str, int] = {
    "Transpose": 1,
    "Reshape": 5,
    "Flatten": 9,
    "Squeeze": 13,
    "Unsqueeze": 13,
    "Slice": 10,
    "Split": 13,
    "Gather": 1,
    "Expand": 8,
    "Tile": 6,
    "DepthToSpace": 1,
    "SpaceToDepth": 1,
    "Identity": 1,
    "Concat": 4,
    "MaxPool": 12,
    "Pad": 13,
    "Resize": 13,
}
GROUPED = frozenset({"Concat"})


def move_to_integers(draft: Draft) -> None:
    """Move what can be moved, until nothing changes."""
    while sink(draft) or rise(draft):
        pass
    cancel(draft)


def is_move(draft: Draft, node: Node) -> bool:
    """Say whether a node only moves elements (or takes a maximum)."""
    if node.domain or node.kind not in MOVES:
        return False
    if node.kind == "MaxPool":
        return len(node.outputs) == 1
    if node.kind == "Resize":
        return node.text("mode", "nearest") == "nearest"
    if node.kind == "Pad":
        value = node.input(2)
        # The pad value is quantised on the tensor's grid: exact for zero, the only usual one.
        return is_zero(draft, value)
    return True


def operands(node: Node) -> list[str]:
    """Return the tensors whose elements a node moves."""
    return list(node.inputs) if node.kind in GROUPED else node.inputs[:1]


def sink(draft: Draft) -> bool:
    """Let dequantise nodes pass the movements after them; say whether one did."""
    producers = draft.producers()
    order: list[Node] = []
    changed = False
    for node in draft.nodes:
        found = sources(draft, producers, node)
        if found is None:
            order.append(node)
            continue
        integers, grid = found
        results = node.outputs
        node.inputs[: len(integers)] = integers
        node.outputs = [made(draft, name, grid.dtype) for name in results]
        on_integers(draft, node, grid)
        order.append(node)
        for source, result in zip(node.outputs, results, strict=True):
            after = Node(DEQUANTIZE, parameters(source, grid), [result], name=result, opset=13)
            if grid.axis is not None:
                after.attributes["axis"] = grid.axis
            producers[source], producers[result] = node, after
            order.append(after)
        changed = True
    draft.nodes = order
    return changed


def sources(draft: Draft, producers: dict[str, Node], node: Node) -> tuple[list[str], Grid] | None:
    """Return the integers that a movement could be done on, and the grid of its results."""
    if node.kind not in MOVES:
        return None
    found = [dequantized(draft, producers, name) for name in operands(node)]
    pairs = [pair for pair in found if pair is not None]
    if not pairs or len(pairs) != len(found):
        return None
    integers, grids = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    first = grids[0]
    if any(grid.dtype not in NARROW for grid in grids) or not is_move(draft, node):
        return None
    if first.axis is not None:
        if node.kind != "Transpose":
            return None
        rank = len(draft.shape(integers[0]))
        perm = node.integers("perm", tuple(range(rank))[::-1])
        return integers, Grid(first.scale, first.zero, first.dtype, perm.index(first.axis))
    return (integers, first) if are_equal(draft, *grids) else None


def rise(draft: Draft) -> bool:
    """Let quantise nodes pass the movements before them; say whether one did."""
    producers, consumers = draft.producers(), draft.consumers()
    for node in draft.nodes:
        if node.kind != QUANTIZE:
            continue
        grid, before = grid_of(draft, node), producers.get(node.inputs[0])
        if grid is None or grid.axis is not None or grid.dtype not in NARROW or before is None:
            continue
        source = node.inputs[0]
        if len(consumers[source]) != 1 or not draft.is_plain(source):
            continue
        if len(before.outputs) != 1 or not is_move(draft, before):
            continue
        added: list[Node] = []
        for position, name in enumerate(operands(before)):
            integers = made(draft, name, grid.dtype)
            added.append(Node(QUANTIZE, parameters(name, grid), [integers], opset=13))
            before.inputs[position] = integers
        before.outputs = [node.outputs[0]]
        on_integers(draft, before, grid)
        draft.nodes = [other for other in draft.nodes if other is not node] + added
        draft.sort()
        return True
    return False


def parameters(name: str, grid: Grid) -> list[str]:
    """Return the inputs of a quantise or dequantise node."""
    return [name, grid.scale, grid.zero] if grid.zero else [name, grid.scale]


def made(draft: Draft, name: str, dtype: str) -> str:
    """Add the integer form of a real tensor."""
    integers = draft.tensor(f"{name}_quantized", dtype, draft.shape(name))
    draft.made.add(integers)
    return integers


def on_integers(draft: Draft, node: Node, grid: Grid) -> None:
    """Fit a movement to integers: the operator set, and what a Pad puts outside."""
    node.opset = max(node.opset, MOVES[node.kind])
    if node.kind != "Pad" or node.text("mode", "constant") != "constant":
        return
    while len(node.inputs) <= 2:  # noqa: PLR2004 - the pad value is input 2
        node.inputs.append("")
    node.inputs[2] = zero_point(draft, grid)


def cancel(draft: Draft) -> None:
    """Replace a quantise node after a dequantise node of an equal grid by an Identity."""
    producers = draft.producers()
    for node in draft.nodes:
        if node.kind != QUANTIZE:
            continue
        before = dequantized(draft, producers, node.inputs[0])
        grid = grid_of(draft, node)
        if before is not None and grid is not None and are_equal(draft, before[1], grid):
            node.kind, node.inputs, node.attributes = "Identity", [before[0]], {}


def limits(draft: Draft, node: Node, grid: Grid) -> list[tuple[str, str]] | None:
    """Return the integer operators that do what Relu or Clip does before a quantise node.

    Each as (operator, constant), in order; None if the limits are not constant. A limit at the
    end of what the integers hold does nothing, which is a fact about the grid.
    """
    label = node.outputs[0]
    if node.kind == "Relu":
        low = _limit(draft, grid, "", "Max", f"{label}_low")
        return [("Max", low)] if low else []
    found: list[tuple[str, str]] = []
    for position, kind, suffix in ((1, "Max", "low"), (2, "Min", "high")):
        name = node.input(position)
        if not name:
            continue
        if name not in draft.constants or draft.tensors[name].count != 1:
            return None
        limit = _limit(draft, grid, name, kind, f"{label}_{suffix}")
        if limit:
            found.append((kind, limit))
    return found


def _limit(draft: Draft, grid: Grid, real: str, kind: str, wanted: str) -> str:
    """Add the integer of a limit and return its name.

    Empty if it is the least or the greatest integer, which is kept as a fact. real: a constant, or
    empty for zero.
    """
    names = tuple(name for name in (grid.scale, grid.zero) if name)
    arrays = (*names, real) if real else names
    how: dict[str, Setting] = {"dtype": grid.dtype, "has_zero": bool(grid.zero)}
    if not draft.constants.ask("quantized_to_end", *arrays, **how, is_least=kind == "Max"):
        return draft.derive(draft.fresh(wanted), "quantized", arrays, **how)
    draft.facts[Fact("lowest" if kind == "Max" else "highest", names)] = None
    return ""
