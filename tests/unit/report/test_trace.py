"""Traces of profile graphs."""

import json

from dlbuild.ir.profile_graph import Edge, Node, ProfileGraph
from dlbuild.ir.tile_plan import Box
from dlbuild.report.trace import trace_text

GRAPH = ProfileGraph(
    "cycles",
    9000,
    (
        Node(0, "conv1", 0, (Box("oh", 0, 4),), 64, 4000, 0, is_measured=True),
        Node(1, "add2", 1, (), 0, 5000, 4000, is_measured=False),
    ),
    (Edge(None, 0, "x", 16), Edge(0, 1, "a", 16)),
)


def test_each_call_is_a_slice_of_its_core_and_each_tensor_between_cores_an_arrow() -> None:
    events = json.loads(trace_text("m@t", GRAPH))["traceEvents"]
    slices = [(e["name"], e["tid"], e["ts"], e["dur"]) for e in events if e["ph"] == "X"]
    assert slices == [("conv1", 0, 0.0, 4.0), ("add2", 1, 4.0, 5.0)]
    arrows = [(e["ph"], e["name"], e["tid"], e["ts"]) for e in events if e["ph"] in "sf"]
    assert arrows == [("s", "a", 0, 4.0), ("f", "a", 1, 4.0)]
    named = [e["args"]["name"] for e in events if e["ph"] == "M"]
    assert named == ["m@t, in cycles", "core 0", "core 1"]


def test_a_slice_says_which_tile_it_is() -> None:
    (first, _) = (e for e in json.loads(trace_text("m@t", GRAPH))["traceEvents"] if e["ph"] == "X")
    assert first["args"] == {"step": 0, "macs": 64, "cycles": 4000, "measured": True, "oh": "0-3"}
