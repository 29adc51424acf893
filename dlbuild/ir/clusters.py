"""A graph restructured into groups of nodes, one for each cluster, and how data goes between them.

A cluster is some cores with memories of their own. The nodes of a group read and write those, the
constants, and what the caller gives; a communication node alone reads what another cluster has.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Parallel = Literal["data", "model", "pipeline"]
"""What is divided: the batch, the output channels of each layer, or the layers."""


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """The operators that one cluster computes, in order; communication nodes are among them."""

    cluster: str
    ops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Communication:
    """An operator whose inputs lie in memories of other clusters; it writes into those of its own.

    kind: `copy` (one tensor), `scatter` (a part of one), `gather` (parts of one, joined), `reduce`
        (partial sums, added up in the order of the clusters).
    sources: the cluster of each input; the empty name = the caller's memory.
    """

    op: str
    kind: Literal["copy", "scatter", "gather", "reduce"]
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """A constant that is a part of one of the model's: [first, last) of an axis.

    axis: -1 = all of it, as a copy for one cluster.
    """

    tensor: str
    source: str
    axis: int = -1
    first: int = 0
    last: int = 0


@dataclass(frozen=True)
class Clusters:
    """How a graph is spread over clusters. No groups: it is not.

    parallel: what is divided.
    """

    parallel: Parallel = "data"
    groups: tuple[NodeGroup, ...] = ()
    communications: tuple[Communication, ...] = ()
    pieces: tuple[Piece, ...] = ()

    @cached_property
    def cluster_of(self) -> Mapping[str, str]:
        """The cluster of each operator."""
        return {op: group.cluster for group in self.groups for op in group.ops}

    @property
    def is_several(self) -> bool:
        """Whether there are clusters."""
        return bool(self.groups)

    @property
    def is_stream(self) -> bool:
        """Whether a cluster may begin the next input while a later one is still at the last."""
        return self.is_several and self.parallel == "pipeline"

    def are_apart(self, one: str, other: str) -> bool:
        """Say whether two operators must not become one kernel: one of them communicates, or each
        is in another cluster.
        """
        if not self.groups:
            return False
        return (
            one in self.communication
            or other in self.communication
            or self.cluster_of[one] != self.cluster_of[other]
        )

    @cached_property
    def communication(self) -> Mapping[str, Communication]:
        """Each communication node by its operator."""
        return {found.op: found for found in self.communications}


ONE_CLUSTER = Clusters()
"""Of a graph that is computed in one place."""
