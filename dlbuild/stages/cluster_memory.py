"""Which arena a kernel of a cluster writes into, and on which cores it runs."""

from collections.abc import Mapping
from dataclasses import replace

from dlbuild.base.errors import UserError
from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Profile
from dlbuild.ir.target import Memory, Target

UNNAMED = Memory("ram")
"""Where the arena of a target without memories lies; it has no budget."""

ALL = ""
"""The cluster of everything where there are none."""


def cluster_of(graph: Graph, profile: Profile) -> Mapping[str, str]:
    """Return the cluster of each kernel by its name."""
    known = graph.clusters.cluster_of
    return {kernel.name: known.get(kernel.anchor, ALL) for kernel in profile.kernels}


def cores_of(graph: Graph, target: Target) -> Mapping[str, range]:
    """Return the numbers of the cores of each cluster."""
    if not graph.clusters.is_several:
        return {ALL: range(target.resources[1])}
    found: dict[str, range] = {}
    first = 0
    for cluster in target.clusters:
        found[cluster.name] = range(first, first + cluster.count)
        first += cluster.count
    return found


def cores_of_kernels(graph: Graph, profile: Profile, target: Target) -> Mapping[str, range]:
    """Return the cores that may do each kernel by its name."""
    cores = cores_of(graph, target)
    return {kernel: cores[name] for kernel, name in cluster_of(graph, profile).items()}


def arenas_of(graph: Graph, target: Target) -> Mapping[str, Memory]:
    """Return the memory that holds the arena of each cluster: `left.l1` is memory l1 of left.

    Raises:
        UserError: there are memories, and none of them may hold it.
    """
    if not graph.clusters.is_several:
        return {ALL: arena_memory(target)}
    found = {}
    for cluster in target.clusters:
        memory = _arena(cluster.memories, f"cluster '{cluster.name}'")
        found[cluster.name] = replace(memory, name=f"{cluster.name}.{memory.name}")
    return found


def arena_memory(target: Target) -> Memory:
    """Return the nearest memory that may hold the arena of a target without clusters.

    Raises:
        UserError: the target has memories, and none of them may.
    """
    return _arena(target.memories, f"target '{target.name}'")


def _arena(memories: tuple[Memory, ...], owner: str) -> Memory:
    """Return the nearest memory that may hold an arena."""
    if not memories:
        return UNNAMED
    for memory in memories:
        if not memory.holds or "arena" in memory.holds:
            return memory
    names = ", ".join(memory.name for memory in memories)
    raise UserError(
        f"{owner} has no memory that may hold the arena",
        why=f"each of its memories ({names}) has 'holds' without 'arena'",
        fix=f"add arena to the 'holds' of {memories[0].name}",
        exit_code=2,
    )
