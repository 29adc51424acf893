"""The bias of an integer operator: whole steps of input scale * weight scale."""

from dlbuild.stages.rewrites.draft import Draft, Node
from dlbuild.stages.rewrites.grid import DEQUANTIZE, Grid, grid_of


def integer_bias(  # noqa: PLR0913 - the bias, where it is used, and its factor
    draft: Draft,
    producers: dict[str, Node],
    name: str,
    grids: tuple[Grid, Grid],
    count: int,
    *,
    factor: float = 1.0,
) -> str | None:
    """Return the constant with a bias in whole steps.

    Args:
        draft: where the constant is added.
        producers: the node that writes each tensor.
        name: the bias of the real operator, empty if there is none.
        grids: of the operator's operand and of its weights.
        count: how many numbers are wanted.
        factor: by which the bias is multiplied.

    Returns:
        Its name, empty without a bias; None if it is not constant or differs from row to row.
    """
    if not name:
        return ""
    source, has_zero = name, False
    more: tuple[str, ...] = ()
    if name not in draft.constants:
        node = producers.get(name)
        grid = grid_of(draft, node) if node is not None and node.kind == DEQUANTIZE else None
        if node is None or grid is None or node.inputs[0] not in draft.constants:
            return None
        source, has_zero = node.inputs[0], bool(grid.zero)
        more = (grid.scale, grid.zero) if has_zero else (grid.scale,)
        if has_zero and draft.tensors[grid.zero].count not in {1, draft.tensors[source].count}:
            return None
    if not draft.is_row(source, count):
        return None
    return draft.derive(
        draft.fresh(f"{source}_steps"),
        "steps_of_bias",
        (source, grids[0].scale, grids[1].scale, *more),
        has_zero=has_zero,
        has_scale=bool(more),
        factor=factor,
        count=count,
    )
