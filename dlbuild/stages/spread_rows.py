"""Data-parallel with a single sample: each cluster computes some rows, and the rows beside them
that a window needs come from its neighbours.
"""

from dlbuild.ir.graph import Graph, Op
from dlbuild.rulebook.cost import cost
from dlbuild.stages.bands import Bands, bands_of
from dlbuild.stages.flow import NoFlow
from dlbuild.stages.rewrites.spread import Range, may_be_padded
from dlbuild.stages.spread import Parts, Spreader

ROWS = 2
"""Where ONNX has the rows of an image."""


def spread_rows(spreader: Spreader) -> Graph:
    """Return the graph with the rows of its images dealt to the clusters.

    What needs all rows, and has no rows of its own, is computed by the first cluster, where they
    are joined.
    """
    for op in spreader.graph.ops:
        bands = _bands(spreader, op)
        if bands is not None:
            _divide(spreader, op, bands)
        elif spreader.is_everywhere(op) and cost(spreader.matched(op.name)).macs == 0:
            spreader.repeat(op)
        else:
            spreader.place(op, spreader.names[0])
    spreader.finish()
    return spreader.made.finished("data")


def has_rows(graph: Graph) -> bool:
    """Say whether there are images in a graph."""
    return any(len(graph.tensor[t].shape) > ROWS for op in graph.ops for t in op.outputs if t)


def _bands(spreader: Spreader, op: Op) -> Bands | None:
    """Return how an operator is cut by rows, None if it cannot be or need not."""
    shape = spreader.graph.tensor[op.outputs[0]].shape
    read = spreader.activations(op)
    is_cut = any(isinstance(spreader.state[t], Parts) for t in read)
    if len(shape) <= ROWS or shape[ROWS] < len(spreader.names):
        return None
    instance = spreader.matched(op.name)
    if not is_cut and cost(instance).macs == 0:
        return None
    try:
        bands = bands_of(instance, op.outputs[0], ROWS)
    except NoFlow:
        return None
    windows = [reading for reading in bands.reads.values() if reading.is_window]
    is_right = all(name in read for name in bands.reads) and bool(bands.reads)
    if not is_right or (windows and not may_be_padded(op)):
        return None
    return bands


def _divide(spreader: Spreader, op: Op, bands: Bands) -> None:
    extent = spreader.graph.tensor[op.outputs[0]].shape[ROWS]
    ranges = spreader.ranges(extent, ROWS)
    names: dict[str, list[str]] = {name: [] for name in op.outputs if name}
    for number, (cluster, own) in enumerate(zip(spreader.names, ranges, strict=True)):
        given: dict[str, str] = {}
        padding = None
        for tensor in spreader.activations(op):
            reading = bands.reads.get(tensor)
            if reading is None:
                given[tensor] = spreader.whole(tensor, cluster)
                continue
            low, high = bands.needed(tensor, own.first, own.last)
            cut = Range(reading.axis, max(low, 0), min(high, reading.extent))
            given[tensor] = spreader.band(tensor, number, cut)
            if reading.is_window:
                padding = (ROWS, cut.first - low, high - cut.last)
        made = {name: spreader.made.named(name, cluster) for name in names}
        cuts = {name: Range(bands.axes[name], own.first, own.last) for name in names}
        inputs = [given.get(t, t) for t in op.inputs]
        spreader.made.add(op, cluster, inputs, made, cuts, is_whole=False, padding=padding)
        for name, found in names.items():
            found.append(made[name])
    for name, found in names.items():
        rows = tuple(Range(bands.axes[name], r.first, r.last) for r in ranges)
        spreader.state[name] = Parts(rows, tuple(found))
