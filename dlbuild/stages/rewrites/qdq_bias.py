"""The bias of an integer operator: whole steps of input scale * weight scale."""

import numpy as np
import numpy.typing as npt

from dlbuild.stages.rewrites.draft import Draft, Node
from dlbuild.stages.rewrites.grid import DEQUANTIZE, Grid, grid_of

NEAR = 1e-5
"""Relative difference up to which two scales mean the same (they were rounded to float32)."""


def integer_bias(  # noqa: PLR0913 - the bias, where it is used, and its factor
    draft: Draft,
    producers: dict[str, Node],
    name: str,
    grids: tuple[Grid, Grid],
    shape: tuple[int, ...],
    *,
    factor: float = 1.0,
) -> str | None:
    """Return the constant with a bias in whole steps.

    Args:
        draft: where the constant is added.
        producers: the node that writes each tensor.
        name: the bias of the real operator, empty if there is none.
        grids: of the operator's operand and of its weights.
        shape: what the bias is wanted in.
        factor: by which the bias is multiplied.

    Returns:
        Its name, empty without a bias; None if it is not constant or differs from row to row.
    """
    if not name:
        return ""
    step = product_of_scales(draft, grids)
    source, values, scale = name, draft.constants.get(name), None
    if values is None:
        node = producers.get(name)
        grid = grid_of(draft, node) if node is not None and node.kind == DEQUANTIZE else None
        if node is None or grid is None or node.inputs[0] not in draft.constants:
            return None
        source = node.inputs[0]
        zero = draft.constants[grid.zero].astype(np.float64) if grid.zero else np.float64(0)
        scale = draft.constants[grid.scale].astype(np.float64).reshape(-1)
        values = draft.constants[source].astype(np.float64).reshape(-1) - np.reshape(zero, -1)
    values = values.astype(np.float64).reshape(-1)
    count = shape[0]
    if values.size not in {1, count}:
        return None
    steps = in_steps(values, scale, step, factor)
    limit = np.iinfo(np.int32)
    rounded = np.clip(np.rint(np.nan_to_num(steps)), limit.min, limit.max)
    result = np.broadcast_to(rounded, shape).astype(np.int32)
    return draft.constant(f"{source}_steps", result)


def product_of_scales(draft: Draft, grids: tuple[Grid, Grid]) -> npt.NDArray[np.float64]:
    """Return input scale * weight scale, one or one for each channel."""
    one, other = (draft.constants[grid.scale].astype(np.float64).reshape(-1) for grid in grids)
    return one * other


def in_steps(
    values: npt.NDArray[np.float64],
    scale: npt.NDArray[np.float64] | None,
    step: npt.NDArray[np.float64],
    factor: float,
) -> npt.NDArray[np.float64]:
    """Return reals (or integers of `scale`) divided by the step."""
    with np.errstate(all="ignore"):
        if scale is None:
            return values * factor / step
        ratio = scale * factor / step
        # A bias that was made for these scales is taken as it is, to the last bit.
        return values * np.where(np.abs(ratio - 1) < NEAR, 1.0, ratio)
