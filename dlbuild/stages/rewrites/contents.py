"""What no kernel could compute safely, found before any is made."""

from dlbuild.base.errors import UserError
from dlbuild.stages.rewrites.draft import Draft, Node

INDEXED = frozenset({"Gather", "GatherElements"})


def check_contents(draft: Draft) -> None:
    """Refuse results without elements, and constant indices outside the tensor they pick from.

    Raises:
        UserError: names the node and the tensor.
    """
    for node in draft.nodes:
        where = f"{draft.where}: node '{node.label}' ({node.kind})"
        for name in filter(None, node.outputs):
            if draft.tensors[name].count == 0:
                raise UserError(
                    f"the result '{name}' has no elements: {list(draft.shape(name))}",
                    where=where,
                    why="there is nothing to compute",
                    fix="check the shapes in the recipe and the export of the model",
                )
        if not node.domain and node.kind in INDEXED and node.inputs[1] in draft.constants:
            check_indices(draft, node, where)


def check_indices(draft: Draft, node: Node, where: str) -> None:
    """Refuse a constant index outside the axis that it picks from.

    Raises:
        UserError: names the index and the extent.
    """
    shape = draft.shape(node.inputs[0])
    extent = shape[node.integer("axis", 0)]
    for index in draft.constants[node.inputs[1]].reshape(-1).tolist():
        if not -extent <= index < extent:
            raise UserError(
                f"the index {index} in '{node.inputs[1]}' is outside an axis of {extent}",
                where=where,
                fix="export the model again",
            )
