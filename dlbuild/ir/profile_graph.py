"""The profile graph of a build: calls of kernel functions, and the data that flows between them."""

from dataclasses import dataclass

from dlbuild.ir.tile_plan import Box


@dataclass(frozen=True, slots=True)
class Node:
    """One call of a kernel function, which can be scheduled alone.

    step: its number in the schedule. boxes: the tile that it computes; none = the whole.
    cluster: of the core, if there are several.
    start, time: in the unit of the graph; the start is predicted from the times.
    """

    step: int
    kernel: str
    core: int
    boxes: tuple[Box, ...]
    macs: int
    time: int
    start: int
    is_measured: bool
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class Edge:
    """Data that one call writes and another reads; `source` None = an input of the model."""

    source: int | None
    target: int
    tensor: str
    size_bytes: int


@dataclass(frozen=True)
class ProfileGraph:
    """Nodes in the order of the schedule. makespan: when the last one ends."""

    unit: str
    makespan: int
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
