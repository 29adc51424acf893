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
        ends = list(accumulate(_lengths(draft, node, axis)))
        for name, first, last in zip(node.outputs, [0, *ends], ends, strict=False):
            if name in read:
                bounds = [
                    draft.integers(f"{name}_{what}", [value])
                    for what, value in (("start", first), ("end", last), ("axis", axis))
                ]
                order.append(Node("Slice", [node.inputs[0], *bounds], [name], opset=OPSET))
    draft.nodes = order


def _lengths(draft: Draft, node: Node, axis: int) -> list[int]:
    """Return the extent of each part along the axis; parts may have no name."""
    given = draft.constants.get(node.input(1))
    if given is not None:
        return [int(length) for length in given.reshape(-1)]
    extent, count = draft.shape(node.inputs[0])[axis], len(node.outputs)
    most = -(-extent // count)
    return [max(0, min(most, extent - number * most)) for number in range(count)]
