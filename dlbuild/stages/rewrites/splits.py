"""A Split of which some parts are never read: a Slice for each part that is."""

from itertools import accumulate

from dlbuild.stages.rewrites.draft import Draft, Node

OPSET = 13


def slice_splits(draft: Draft) -> None:
    """Replace each Split that makes a part in vain."""
    read = {name for node in draft.nodes for name in node.inputs} | set(draft.outputs)
    order: list[Node] = []
    for node in draft.nodes:
        if node.kind != "Split" or node.domain or all(name in read for name in node.outputs):
            order.append(node)
            continue
        axis = node.integer("axis", 0)
        ends = list(accumulate(draft.shape(name)[axis] for name in node.outputs))
        for name, first, last in zip(node.outputs, [0, *ends], ends, strict=False):
            if name in read:
                bounds = [
                    draft.integers(f"{name}_{what}", [value])
                    for what, value in (("start", first), ("end", last), ("axis", axis))
                ]
                order.append(Node("Slice", [node.inputs[0], *bounds], [name], opset=OPSET))
    draft.nodes = order
