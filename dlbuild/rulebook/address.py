"""From index maps to element addresses: the one place where a layout meets an access."""

from collections.abc import Sequence
from itertools import pairwise
from math import prod

from dlbuild.rulebook.index import Index
from dlbuild.rulebook.instance import Access, Operand


def strides(shape: Sequence[int], order: Sequence[int] = ()) -> tuple[int, ...]:
    """Return the elements from one index to the next, for each axis.

    Args:
        shape: extents in the model's own order.
        order: axes from slowest to fastest in memory; empty = the model's own order.
    """
    pitch = [0] * len(shape)
    step = 1
    for axis in reversed(order or range(len(shape))):
        pitch[axis] = step
        step *= shape[axis]
    return tuple(pitch)


def view_strides(
    view: Sequence[int], shape: Sequence[int], order: Sequence[int] = ()
) -> tuple[int, ...] | None:
    """Return the strides of `view` of a tensor that lies in `order`, None if it has none.

    A view splits or merges neighbouring axes; merged ones must be neighbours in memory too.
    """
    pitch = strides(shape, order)
    if tuple(view) == tuple(shape):
        return pitch
    if prod(shape) == 0:
        return strides(view)
    seen = [0] * len(view)
    left = [i for i, extent in enumerate(view) if extent != 1]
    right = [i for i, extent in enumerate(shape) if extent != 1]
    while left and right:
        ours, theirs = [left.pop(0)], [right.pop(0)]
        while (size := prod(view[i] for i in ours)) != (count := prod(shape[i] for i in theirs)):
            if size < count:
                ours.append(left.pop(0))
            else:
                theirs.append(right.pop(0))
        for outer, inner in pairwise(theirs):
            if pitch[outer] != pitch[inner] * shape[inner]:
                return None
        step = pitch[theirs[-1]]
        for axis in reversed(ours):
            seen[axis] = step
            step *= view[axis]
    return tuple(seen)


def address(access: Access, operand: Operand, order: Sequence[int] = ()) -> Index:
    """Return the element number in memory that `access` addresses.

    Args:
        access: one index map for each axis of its view.
        operand: the tensor addressed.
        order: how it lies in memory; empty = the model's own order.

    Raises:
        ValueError: the view has no strides in this order. Passes that choose orders ask
            `view_strides` first.
    """
    pitch = view_strides(access.view, operand.shape, order)
    if pitch is None:
        raise ValueError(
            f"{operand.name}: the view {access.view} of {operand.shape} in order {tuple(order)} "
            "is not a grid"
        )
    return sum((i * s for i, s in zip(access.index, pitch, strict=True)), Index())
