"""A Pad before a convolution or a pool, joined with the operator's own padding.

Only where the result is the same to the bit: zeros before a convolution, the zero point before an
integer one, zeros that an average counts, and before a maximum zeros that cannot win.
"""

from dlbuild.ir.graph import Fact
from dlbuild.stages.rewrites.draft import Draft, Node

SPATIAL = 2
"""Axes before the spatial ones: batch and channel."""


def merge_pads(draft: Draft) -> None:
    """Join each Pad that one operator alone reads."""
    producers, consumers = draft.producers(), draft.consumers()
    dropped: set[int] = set()
    for node in draft.nodes:
        before = producers.get(node.input(0))
        if before is None or before.kind != "Pad" or before.domain:
            continue
        source = node.inputs[0]
        if len(consumers[source]) != 1 or not draft.is_plain(source):
            continue
        pads = spatial_pads(draft, before)
        if pads is None or not accepts(draft, node, before, producers, pads):
            continue
        own = node.integers("pads", (0,) * len(pads))
        node.attributes["pads"] = tuple(a + b for a, b in zip(own, pads, strict=True))
        node.attributes.pop("auto_pad", None)
        node.inputs[0] = before.inputs[0]
        dropped.add(id(before))
    draft.nodes = [node for node in draft.nodes if id(node) not in dropped]


def spatial_pads(draft: Draft, node: Node) -> tuple[int, ...] | None:
    """Return the pads of the spatial axes, begins then ends; None if others are padded or cut."""
    if node.text("mode", "constant") != "constant" or node.input(1) not in draft.constants:
        return None
    rank = len(draft.shape(node.inputs[0]))
    values = [int(v) for v in draft.constants[node.inputs[1]].reshape(-1)]
    axes = list(range(rank))
    if node.input(3):
        if node.input(3) not in draft.constants:
            return None
        axes = [int(a) % rank for a in draft.constants[node.inputs[3]].reshape(-1)]
    count = len(axes)
    before, after = [0] * rank, [0] * rank
    for axis, first, last in zip(axes, values[:count], values[count:], strict=True):
        before[axis], after[axis] = first, last
    pads = before + after
    outer = before[:SPATIAL] + after[:SPATIAL]
    if any(outer) or min(pads, default=0) < 0 or rank <= SPATIAL:
        return None
    return (*before[SPATIAL:], *after[SPATIAL:])


def accepts(
    draft: Draft, node: Node, before: Node, producers: dict[str, Node], pads: tuple[int, ...]
) -> bool:
    """Say whether an operator's own padding does the same as the Pad before it."""
    if node.domain or node.text("auto_pad", "NOTSET") not in {"NOTSET", "VALID"}:
        return False
    value = before.input(2)
    if node.kind == "QLinearConv":
        return bool(value) and is_equal(draft, value, node.inputs[2])
    if node.kind == "Conv":
        return is_zero(draft, value)
    if node.kind not in {"AveragePool", "MaxPool"} or node.integer("ceil_mode", 0):
        return False
    own = node.integers("pads", (0,) * len(pads))
    if node.kind == "AveragePool":
        # The Pad's zeros are counted, so the operator has to count all of its padding.
        is_counted = not any(own) or bool(node.integer("count_include_pad", 0))
        if not is_counted or not is_zero(draft, value):
            return False
        node.attributes["count_include_pad"] = 1
        return True
    kernel = node.integers("kernel_shape")
    total = [a + b for a, b in zip(own, pads, strict=True)]
    is_inside = all(pad < size for pad, size in zip(total, (*kernel, *kernel), strict=True))
    is_dense = all(d == 1 for d in node.integers("dilations"))
    source = producers.get(before.inputs[0])
    is_positive = source is not None and source.kind == "Relu" and not source.domain
    # Every window holds a real element, none is below zero: the padding never wins alone.
    return is_positive and is_inside and is_dense and is_zero(draft, value)


def is_zero(draft: Draft, name: str) -> bool:
    """Say whether a pad value is zero, and record what that rests on."""
    if not name:
        return True
    if name not in draft.constants or not draft.constants.ask("all_zero", name):
        return False
    draft.facts[Fact("all_zero", (name,))] = None
    return True


def is_equal(draft: Draft, one: str, other: str) -> bool:
    """Say whether two constants are one, or recorded as equal."""
    return one == other or any(
        fact.kind == "equal" and set(fact.tensors) == {one, other} for fact in draft.facts
    )
