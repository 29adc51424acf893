"""Model-parallel: each cluster computes some output channels of each layer, by its parameters."""

from collections.abc import Iterator
from math import prod

from dlbuild.ir.graph import Graph, Op
from dlbuild.rulebook.cost import cost
from dlbuild.stages.flow import NoFlow
from dlbuild.stages.spread import Cuts, Parts, Spreader

CHANNEL_AXIS = 1
"""Where ONNX has the channels of an image; of a matrix it is the last axis."""

UNITS = (4, 2, 1)
"""So many channels stay together where all clusters get as many."""


def spread_channels(spreader: Spreader) -> Graph:
    """Return the graph with its output channels dealt to the clusters.

    An operator that goes channel by channel stays where its channels are. One that needs all
    channels has them gathered in each cluster before it. What has no parameters and cannot go on
    channel by channel is computed by the first cluster.
    """
    for op in spreader.graph.ops:
        _add(spreader, op)
    spreader.finish()
    return spreader.made.finished("model")


def _add(spreader: Spreader, op: Op) -> None:
    cuts = _followed(spreader, op) or _by_channels(spreader, op)
    if cuts is not None:
        spreader.divide(op, cuts)
    elif spreader.is_everywhere(op) and cost(spreader.matched(op.name)).macs == 0:
        spreader.repeat(op)
    else:
        spreader.place(op, spreader.names[0])


def _followed(spreader: Spreader, op: Op) -> Cuts | None:
    """Return how an operator goes on with the parts that it reads, None if it cannot."""
    parts = {
        t: state.ranges
        for t in spreader.activations(op)
        if isinstance(state := spreader.state[t], Parts)
    }
    for tensor, ranges in parts.items():
        try:
            cuts = spreader.cuts(op, tensor, ranges)
        except NoFlow:
            return None
        if all(cuts.get(t) == found for t, found in parts.items()):
            return cuts
    return None


def _by_channels(spreader: Spreader, op: Op) -> Cuts | None:
    """Return how an operator with parameters is cut by output channels, None if it cannot be."""
    output = op.outputs[0]
    shape = spreader.graph.tensor[output].shape
    for axis in _channel_axes(len(shape)):
        if shape[axis] < len(spreader.names):
            continue
        try:
            cuts = spreader.cuts(
                op, output, spreader.ranges(shape[axis], axis, _unit(spreader, shape[axis]))
            )
        except NoFlow:
            continue
        # A cut that each cluster needs all parameters for divides something else than channels.
        if any(cuts.get(name) for name in op.inputs if _is_parameter(spreader, name)):
            return cuts
    return None


def _channel_axes(rank: int) -> Iterator[int]:
    if rank > CHANNEL_AXIS:
        yield CHANNEL_AXIS
    if rank > CHANNEL_AXIS + 1:
        yield rank - 1


def _unit(spreader: Spreader, extent: int) -> int:
    total = sum(spreader.weights)
    return next(unit for unit in UNITS if extent % (unit * total) == 0 or unit == 1)


def _is_parameter(spreader: Spreader, name: str) -> bool:
    return name in spreader.graph.constants and prod(spreader.graph.tensor[name].shape) > 1
