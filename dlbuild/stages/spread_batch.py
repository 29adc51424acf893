"""Data-parallel: each cluster computes some of the samples of a batch, with the same parameters."""

from dlbuild.base.errors import UserError
from dlbuild.ir.graph import Graph, Op
from dlbuild.stages.flow import NoFlow
from dlbuild.stages.rewrites.spread import Range
from dlbuild.stages.spread import Parts, Spreader

WAY = "by batch"
OTHER = "set parallel: model or parallel: pipeline, or resources in place of clusters"


def spread_batch(spreader: Spreader) -> Graph:
    """Return the graph with its samples dealt to the clusters.

    The batch is the first axis of the inputs. Each operator is followed from what it reads, by its
    index maps, so that no sample may have a part in the result of another.

    Raises:
        UserError: there are too few samples, or an operator joins several.
    """
    graph = spreader.graph
    extent = batch_of(graph)
    if extent < len(spreader.names):
        raise UserError(
            f"a batch of {extent} cannot be divided among {len(spreader.names)} clusters",
            where=spreader.where,
            why="each cluster computes whole samples",
            fix=f"set shapes: {{{graph.inputs[0]}: [{len(spreader.names)}, ...]}}, or {OTHER}",
        )
    ranges = spreader.ranges(extent, 0)
    for op in graph.ops:
        _add(spreader, op, ranges)
    spreader.finish()
    return spreader.made.finished("data")


def batch_of(graph: Graph) -> int:
    """Return how many samples the inputs hold: the extent of the first axis of all that agree."""
    extents = [graph.tensor[name].shape[0] for name in graph.inputs if graph.tensor[name].shape]
    return max(extents, default=1)


def _add(spreader: Spreader, op: Op, batch: tuple[Range, ...]) -> None:
    read = spreader.activations(op)
    divided = [t for t in read if _ranges(spreader, t, batch) is not None]
    if not divided:
        spreader.repeat(op)
        return
    ranges = _ranges(spreader, divided[0], batch)
    assert ranges is not None
    try:
        cuts = spreader.cuts(op, divided[0], ranges)
    except NoFlow as reason:
        raise spreader.refusal(op, WAY, str(reason), OTHER) from None
    for tensor in divided:
        if cuts.get(tensor) != _ranges(spreader, tensor, batch):
            why = f"it needs samples of '{tensor}' that another cluster computes"
            raise spreader.refusal(op, WAY, why, OTHER)
    spreader.divide(op, cuts)


def _ranges(spreader: Spreader, tensor: str, batch: tuple[Range, ...]) -> tuple[Range, ...] | None:
    """Return how a tensor is cut by batch, None if it is the same for all samples."""
    state = spreader.state[tensor]
    if isinstance(state, Parts):
        return state.ranges
    shape = spreader.graph.tensor[tensor].shape
    is_batch = tensor in spreader.graph.inputs and shape and shape[0] == batch[-1].last
    return batch if is_batch else None
