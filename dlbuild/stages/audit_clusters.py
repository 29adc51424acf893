"""Check that clusters keep to themselves: who writes where, and who may read another's memory."""

from collections.abc import Iterator

from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Profile
from dlbuild.ir.schedule import Buffer, Schedule
from dlbuild.ir.target import Memory, Target

CALLER = "caller"


def known_memories(target: Target) -> dict[str, Memory]:
    """Return the memories of a target by the names that a schedule gives them."""
    if not target.clusters:
        return {memory.name: memory for memory in target.memories}
    return {f"{c.name}.{m.name}": m for c in target.clusters for m in c.memories}


def cluster_faults(
    graph: Graph, profile: Profile, schedule: Schedule, target: Target
) -> Iterator[str]:
    """Yield where a cluster writes into another's memory, or reads it without communication."""
    if not target.clusters:
        return
    place = {op: group.cluster for group in graph.clusters.groups for op in group.ops}
    sources = {found.op: found.sources for found in graph.clusters.communications}
    for op in graph.ops:
        if op.name not in place:
            yield f"{op.name} is of no cluster"
    for kernel in profile.kernels:
        clusters = {place.get(op, "") for op in kernel.ops}
        if len(clusters) != 1:
            yield f"{kernel.name} is of several clusters"
        (own, *_) = clusters
        allowed = {own, *(s for op in kernel.ops for s in sources.get(op, ()))}
        for names, may_be in ((kernel.writes, {own}), (kernel.reads, allowed)):
            for name in names:
                home = _home(schedule.buffer[name])
                if home not in ("", *may_be):
                    yield f"{kernel.name} of {own} touches {name}, which is {home}'s"
    yield from _core_faults(graph, profile, schedule, target)


def _core_faults(
    graph: Graph, profile: Profile, schedule: Schedule, target: Target
) -> Iterator[str]:
    place = {op: group.cluster for group in graph.clusters.groups for op in group.ops}
    cores: list[str] = []
    for cluster in target.clusters:
        cores += [cluster.name] * cluster.count
    for step in schedule.steps:
        own = place.get(profile.kernel[step.kernel].anchor, "")
        if step.core >= len(cores) or cores[step.core] != own:
            yield f"step {step.number} ({step.kernel}) of {own} runs on core {step.core}"


def _home(buffer: Buffer) -> str:
    """Return the cluster in whose memory a buffer lies; nothing for the caller's."""
    return "" if buffer.memory == CALLER else buffer.memory.partition(".")[0]
