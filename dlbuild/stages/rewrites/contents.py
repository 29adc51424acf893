"""What no kernel could compute safely, found before any is made."""

from collections.abc import Iterable

from dlbuild.base.errors import UserError
from dlbuild.stages.rewrites.draft import Draft, Node

MOST_ELEMENTS = 2**31 - 1

INDEXED = frozenset({"Gather", "GatherElements"})


def leave_out_empty(draft: Draft) -> None:
    """Leave out the model's outputs without elements: C has no array of none, nor a use for it."""
    for name in draft.outputs:
        if draft.tensors[name].count == 0:
            draft.notes.append(f"output '{name}' has no elements and is left out")
    draft.outputs = [name for name in draft.outputs if draft.tensors[name].count]


def check_sizes(draft: Draft, names: Iterable[str]) -> None:
    """Refuse tensors whose elements C could not number.

    Raises:
        UserError: names the tensor and its elements.
    """
    for name in filter(None, names):
        tensor = draft.tensors[name]
        if tensor.count > MOST_ELEMENTS:
            raise UserError(
                f"'{name}' {list(tensor.shape)} has {tensor.count:,} elements",
                where=draft.where,
                why=f"the C counts them by int32_t, up to {MOST_ELEMENTS:,}",
                fix="check the shapes in the recipe and the export of the model",
            )


def check_contents(draft: Draft) -> None:
    """Refuse constant indices outside the tensor that they pick from.

    Raises:
        UserError: names the node and the tensor.
    """
    for node in draft.nodes:
        where = f"{draft.where}: node '{node.label}' ({node.kind})"
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
