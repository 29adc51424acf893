"""Tensors whose size only the run knows: cut to what is there, or filled up to what has room."""

from collections.abc import Mapping

import numpy as np

from dlbuild.ir.graph import Count, Graph
from dlbuild.ir.weights import Array

Values = Mapping[str, Array]


def counted(graph: Graph, values: Values) -> dict[str, Array]:
    """Return the values, each with a count cut to that many slices."""
    return {name: cut(graph.count.get(name), array, values) for name, array in values.items()}


def cut(known: Count | None, array: Array, counts: Values) -> Array:
    """Return the slices that are there, by the counts among `counts`."""
    if known is None or known.count not in counts:
        return array
    there = slice(0, int(counts[known.count].reshape(())))
    return array[(*(slice(None),) * known.axis, there)]


def with_rest_of(graph: Graph, name: str, ours: Array, due: Array, counts: Values) -> Array:
    """Return our slices that are there by `counts`; behind them, which is no part of it, those due.

    Args:
        graph: says whether the tensor has a count.
        name: the tensor.
        ours: its value.
        due: another value of the same extents.
        counts: values of the graph's counts.
    """
    known = graph.count.get(name)
    if known is None or known.count not in counts:
        return ours
    there = np.arange(ours.shape[known.axis]) < int(counts[known.count].reshape(()))
    return np.where(there.reshape(-1, *(1,) * (ours.ndim - known.axis - 1)), ours, due)


def fits(graph: Graph, name: str, shape: tuple[int, ...]) -> bool:
    """Say whether a value of a tensor may have these extents."""
    known, most = graph.count.get(name), graph.tensor[name].shape
    return shape == most or (known is not None and _fits(shape, most, known.axis))


def filled(graph: Graph, values: Values) -> dict[str, Array]:
    """Return the values of another program under dlbuild's extents, and the counts with them.

    Behind the last slice are zeros. Arrays that do not fit stay as they are.
    """
    found = dict(values)
    for known in graph.counts:
        array, most = values.get(known.tensor), graph.tensor[known.tensor].shape
        if array is None or not _fits(array.shape, most, known.axis):
            continue
        found[known.count] = np.array(array.shape[known.axis], np.int32)
        pads = [(0, most[axis] - extent) for axis, extent in enumerate(array.shape)]
        found[known.tensor] = np.pad(array, pads)
    return found


def _fits(shape: tuple[int, ...], most: tuple[int, ...], axis: int) -> bool:
    same = [a == b for a, b in zip(shape, most, strict=False)]
    return (
        len(shape) == len(most)
        and all(same[:axis] + same[axis + 1 :])
        and (shape[axis] <= most[axis])
    )
