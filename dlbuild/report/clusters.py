"""What each cluster of a build does and holds, as plain text."""

from collections.abc import Iterator

from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Profile
from dlbuild.ir.profile_graph import ProfileGraph
from dlbuild.ir.schedule import MemoryUse, Schedule
from dlbuild.report.text import table_text

_HEADER = ("cluster", "cores", "kernels", "time", "from others", "arena", "budget")


def clusters_text(
    graph: Graph, profile: Profile, schedule: Schedule, found: ProfileGraph
) -> Iterator[str]:
    """Yield a table with a row for each cluster; nothing if there are none.

    time: what its cores do together. from others: bytes that it reads in the memories of other
    clusters in a run.
    """
    clusters = graph.clusters
    if not clusters.is_several:
        return
    yield f"  parallel: {clusters.parallel}"
    rows = []
    for group, use in zip(clusters.groups, schedule.memories, strict=True):
        own = [node for node in found.nodes if node.cluster == group.cluster]
        cores = sorted({node.core for node in own})
        rows.append(
            (
                group.cluster,
                ", ".join(map(str, cores)),
                f"{len({node.kernel for node in own}):,}",
                f"{sum(node.time for node in own):,}",
                f"{_received(graph, profile, group.cluster):,}",
                f"{use.height_bytes:,}",
                "-" if use.budget_bytes is None else f"{use.budget_bytes:,}",
            )
        )
    yield from (f"  {line}" for line in table_text(_HEADER, rows))


def _received(graph: Graph, profile: Profile, cluster: str) -> int:
    """Return the bytes that the communication nodes of a cluster read elsewhere."""
    kernels = {kernel.anchor: kernel for kernel in profile.kernels}
    total = 0
    for node in graph.clusters.communications:
        if graph.clusters.cluster_of[node.op] != cluster:
            continue
        sources = zip(node.sources, kernels[node.op].reads, strict=False)
        total += sum(
            graph.tensor[tensor].size_bytes
            for source, tensor in sources
            if source not in ("", cluster)
        )
    return total


def arenas_text(memories: tuple[MemoryUse, ...]) -> str:
    """Say how the memory of each cluster is filled: `left 3,072 B of l1 (budget 65,536 B), ...`."""
    parts = []
    for use in memories:
        cluster, _, memory = use.memory.partition(".")
        budget = "" if use.budget_bytes is None else f" (budget {use.budget_bytes:,} B)"
        parts.append(f"{cluster} {use.height_bytes:,} B of {memory}{budget}")
    return ", ".join(parts)
