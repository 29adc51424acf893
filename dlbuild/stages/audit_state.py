"""State in a plan: each is left where the next run reads it."""

from collections.abc import Iterator
from dataclasses import replace

from dlbuild.ir.graph import Graph
from dlbuild.ir.schedule import Buffer, Schedule


def interface_of(graph: Graph) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the inputs and the outputs that are the caller's: no state."""
    inputs = [state.input for state in graph.states]
    outputs = [state.output for state in graph.states]
    return (
        tuple(name for name in graph.inputs if name not in inputs),
        tuple(name for name in graph.outputs if name not in outputs),
    )


def state_faults(graph: Graph, schedule: Schedule) -> Iterator[str]:
    """Each state begins a run where it ends one, in bytes that no other one has."""
    given, made = interface_of(graph)
    for state in graph.states:
        old, new = schedule.buffer[state.input], schedule.buffer[state.output]
        if "caller" in (old.memory, new.memory):
            yield f"the state {state.output} lies with the caller"
        if _bytes(old) != _bytes(new):
            yield f"the state {state.output} is not left where {state.input} is read"
        others = [other.input for other in graph.states if other != state]
        for name in (*given, *made, *others):
            _, first, last = _bytes(schedule.buffer[name])
            is_same = schedule.buffer[name].memory == old.memory
            if is_same and first < _bytes(old)[2] and _bytes(old)[1] < last:
                yield f"the state {state.input} shares bytes with {name}"
    yield from _replica_faults(graph, schedule)


def _replica_faults(graph: Graph, schedule: Schedule) -> Iterator[str]:
    """Each copy of a state lies in another memory, and is computed as the first is: from the same
    tensors, or from copies of them, by the same operators in the same order.
    """
    first = {state.input: state for state in graph.states}
    for state in graph.states:
        if not state.replica_of:
            continue
        original = first[state.replica_of]
        alike = [s for s in graph.states if state.replica_of in (s.input, s.replica_of)]
        memories = [schedule.buffer[s.input].memory for s in alike]
        if len(set(memories)) != len(memories):
            yield f"two copies of {original.input} lie in one memory"
        if state.initial != original.initial:
            yield f"{state.input} and {original.input} do not begin alike"
        seen: set[tuple[str, str]] = set()
        left = [(original.output, state.output)]
        while left:
            pair = left.pop()
            if pair in seen or pair[0] == pair[1]:
                continue
            seen.add(pair)
            inputs = _paired(graph, *pair)
            if inputs is None:
                yield f"{state.output} is made of {pair[1]}, {original.output} of {pair[0]}"
                break
            left += inputs


def _paired(graph: Graph, one: str, other: str) -> list[tuple[str, str]] | None:
    """Return what must be alike for two tensors to be equal, None if nothing makes them."""
    pieces = {piece.tensor: piece for piece in graph.clusters.pieces}
    if one in graph.constants:
        left, right = pieces.get(one), pieces.get(other)
        is_same = left is not None and right is not None and replace(left, tensor=other) == right
        return [] if is_same else None
    if one in graph.inputs:
        return [] if graph.replicas.get(other) == graph.replicas.get(one, one) else None
    if one not in graph.producer or other not in graph.producer:
        return None
    mine, theirs = graph.producer[one], graph.producer[other]
    is_alike = replace(mine, name="", inputs=(), outputs=()) == replace(
        theirs, name="", inputs=(), outputs=()
    )
    is_alike = is_alike and mine.outputs.index(one) == theirs.outputs.index(other)
    if not is_alike or len(mine.inputs) != len(theirs.inputs):
        return None
    return list(zip(mine.inputs, theirs.inputs, strict=True))


def _bytes(buffer: Buffer) -> tuple[str, int, int]:
    return buffer.memory, buffer.offset_bytes, buffer.offset_bytes + buffer.size_bytes
