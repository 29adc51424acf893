"""State in a plan: each is left where the next run reads it."""

from collections.abc import Iterator

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


def _bytes(buffer: Buffer) -> tuple[str, int, int]:
    return buffer.memory, buffer.offset_bytes, buffer.offset_bytes + buffer.size_bytes
