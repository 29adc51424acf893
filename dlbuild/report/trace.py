"""A profile graph in the Trace Event Format, which Perfetto and chrome://tracing open."""

import json
from collections.abc import Iterator

from dlbuild.base.digest import Json
from dlbuild.ir.profile_graph import ProfileGraph

UNITS_OF_A_MICROSECOND = 1000
"""The format counts in microseconds. One unit of a graph is shown as a nanosecond, which it is if
it was taken by a clock."""


def trace_text(label: str, graph: ProfileGraph) -> str:
    """Return the JSON of a trace: a slice for each call, an arrow for each tensor between cores.

    Args:
        label: the build, `model@target`.
        graph: its calls.
    """
    events = [_named("process_name", 0, f"{label}, in {graph.unit}")]
    cores = sorted({(node.core, node.cluster) for node in graph.nodes})
    events += [
        _named("thread_name", core, f"core {core}, {cluster}" if cluster else f"core {core}")
        for core, cluster in cores
    ]
    events += [*_slices(graph), *_arrows(graph)]
    lines = ",\n".join(json.dumps(event) for event in events)
    return f'{{"displayTimeUnit": "ns", "traceEvents": [\n{lines}\n]}}\n'


def _named(kind: str, core: int, name: str) -> Json:
    return {"ph": "M", "name": kind, "pid": 1, "tid": core, "args": {"name": name}}


def _slices(graph: ProfileGraph) -> Iterator[Json]:
    for node in graph.nodes:
        boxes = {box.axis: f"{box.first}-{box.last - 1}" for box in node.boxes}
        yield {
            "ph": "X",
            "name": node.kernel,
            "pid": 1,
            "tid": node.core,
            "ts": node.start / UNITS_OF_A_MICROSECOND,
            "dur": node.time / UNITS_OF_A_MICROSECOND,
            "args": {
                "step": node.step,
                "macs": node.macs,
                graph.unit: node.time,
                "measured": node.is_measured,
                **boxes,
            },
        }


def _arrows(graph: ProfileGraph) -> Iterator[Json]:
    at = {node.step: node for node in graph.nodes}
    for number, edge in enumerate(graph.edges):
        if edge.source is None:
            continue
        source, target = at[edge.source], at[edge.target]
        if source.core == target.core:
            continue
        ends = (("s", source, source.start + source.time), ("f", target, target.start))
        for phase, node, time in ends:
            yield {
                "ph": phase,
                "id": number,
                "name": edge.tensor,
                "cat": "data",
                "pid": 1,
                "tid": node.core,
                "ts": time / UNITS_OF_A_MICROSECOND,
                **({"bp": "e"} if phase == "f" else {}),
            }
