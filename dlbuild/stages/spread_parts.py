"""Data-parallel training: each cluster computes parts of the batch, and all of what is carried.

The graph is one whose batch is in parts (`stages.batch`). What stands once for each part is
computed by one cluster; what stands once for all parts, by each cluster that needs it, for itself.
Each has its own copy of every state, in its own memory. Partial sums are added up within each
cluster, then over the clusters, in one order everywhere: so all copies of a state stay equal, to
the bit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dlbuild.base.errors import UserError
from dlbuild.ir.graph import Graph, Op, State
from dlbuild.stages.rewrites.kinds import JOIN, TAKE
from dlbuild.stages.spread import Spreader, Whole


def spread_parts(spreader: Spreader) -> Graph:
    """Return the graph with the parts of its batch dealt to the clusters.

    Raises:
        UserError: there are too few parts.
    """
    graph = spreader.graph
    home = _homes(spreader)
    everywhere = _everywhere(graph)
    for state in graph.states:
        _replicate(spreader, state)
    for op in graph.ops:
        part = graph.part_of.get(op.name)
        clusters = spreader.names if op.name in everywhere else spreader.names[:1]
        if part is not None:
            spreader.place(op, home[part], is_scattered=_is_taken(op, graph))
        elif any(_part(name, graph) is not None for name in op.inputs):
            _meet(spreader, op, clusters, home)
        elif op.name in everywhere:
            spreader.repeat(op)
        else:
            spreader.place(op, spreader.names[0])
    spreader.finish()
    return spreader.made.finished("data")


def _homes(spreader: Spreader) -> Sequence[str]:
    """Return the cluster of each part: more of them where there are more cores."""
    count = len(spreader.graph.parts)
    ranges = spreader.ranges(count, 0)
    if not all(cut.count for cut in ranges):
        counts = ", ".join(map(str, spreader.weights))
        raise UserError(
            f"{count} parts of the batch cannot be dealt to {len(spreader.names)} clusters",
            where=spreader.where,
            why=f"each computes whole parts, as many as by its share of the cores ({counts})",
            fix=f"set 'parts' of 'batch' to {sum(spreader.weights)} or another multiple of that",
        )
    return [
        name for name, cut in zip(spreader.names, ranges, strict=True) for _ in range(cut.count)
    ]


def _everywhere(graph: Graph) -> frozenset[str]:
    """Return the operators that every cluster computes, if it is no part's: what parts or the
    states depend on.
    """
    needed = {state.output for state in graph.states}
    found = set()
    for op in reversed(graph.ops):
        is_part = op.name in graph.part_of
        if is_part or needed.intersection(op.outputs):
            needed.update(op.inputs)
            found.add(op.name)
    return frozenset(found - graph.part_of.keys())


def _replicate(spreader: Spreader, state: State) -> None:
    """Add a state once more for each cluster but the first, whose one is called as in the model."""
    first, *others = spreader.names
    inputs = {other: spreader.made.input_of(state.input, other) for other in others}
    spreader.state[state.input] = Whole({first: state.input, **inputs})
    for other in others:
        output = spreader.made.named(state.output, other)
        spreader.known[state.output, other] = output
        copy = State(inputs[other], output, state.initial, state.input)
        spreader.made.states.append(copy)


def _is_taken(op: Op, graph: Graph) -> bool:
    """Say whether an operator takes a part of what the caller gives."""
    return op.kind == TAKE and op.inputs[0] in graph.inputs


def _part(tensor: str, graph: Graph) -> int | None:
    """Return the part of the batch that a tensor is of, None if it is of all."""
    producer = graph.producer.get(tensor)
    return None if producer is None else graph.part_of.get(producer.name)


def _meet(spreader: Spreader, op: Op, clusters: Sequence[str], home: Sequence[str]) -> None:
    """Join the parts of a tensor, or add up its partial sums, in some clusters."""
    graph, made = spreader.graph, spreader.made
    (output,) = op.outputs
    whole = graph.tensor[output]
    sources = [home[number] for name in op.inputs if (number := _part(name, graph)) is not None]
    sums = {} if op.kind == JOIN else _sums(spreader, op, sources)
    at: dict[str, str] = {}
    for cluster in clusters:
        called = spreader.called(output, cluster)
        if op.kind == JOIN:
            axis = dict(op.attributes)["axis"]
            assert isinstance(axis, int), "parts are joined along one axis"
            made.joined(op.inputs, sources, cluster, axis, whole, called)
        else:
            made.added(tuple(sums.values()), tuple(sums), cluster, whole, called)
        at[cluster] = called
    spreader.state[output] = Whole(at)


def _sums(spreader: Spreader, op: Op, sources: Sequence[str]) -> Mapping[str, str]:
    """Return the partial sum of each cluster, which is that of its parts."""
    (output,) = op.outputs
    found: dict[str, str] = {}
    for cluster in spreader.names:
        mine = [name for name, source in zip(op.inputs, sources, strict=True) if source == cluster]
        if len(mine) > 1:
            partial = replace(spreader.graph.tensor[output], name=f"{output}.sum")
            home = [cluster] * len(mine)
            found[cluster] = spreader.made.added(mine, home, cluster, partial)
        else:
            (found[cluster],) = mine
    return found
