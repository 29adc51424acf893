"""What each kernel costs, as plain text."""

from collections.abc import Iterator

from dlbuild.ir.costs import Costs
from dlbuild.ir.profile import Profile
from dlbuild.ir.profile_graph import ProfileGraph
from dlbuild.report.text import table_text
from dlbuild.run.trial import Trial

_HEADER = ("kernel", "MACs", "time", "share", "per MAC", "from")


def profile_text(label: str, profile: Profile, costs: Costs) -> Iterator[str]:
    """Yield the lines of one build."""
    macs = sum(kernel.macs for kernel in profile.kernels)
    yield f"{label}: {costs.total:,} {costs.unit}, {macs:,} MACs"
    rows = [
        (
            kernel.name,
            f"{kernel.macs:,}",
            f"{found.cost:,}",
            f"{100 * found.cost / (costs.total or 1):.1f} %",
            f"{found.cost / kernel.macs:.2f}" if kernel.macs else "-",
            "measurement" if found.is_measured else "prediction",
        )
        for kernel, found in zip(profile.kernels, costs.kernels, strict=True)
    ]
    yield from (f"  {line}" for line in table_text(_HEADER, rows))


def makespan_text(graph: ProfileGraph, kind: str, count: int) -> Iterator[str]:
    """Yield what several cores are predicted to take, and how busy each is."""
    total = sum(node.time for node in graph.nodes)
    yield (
        f"  predicted makespan on {count} {kind}: {graph.makespan:,} {graph.unit},"
        f" {total / (graph.makespan or 1):.2f} times as fast as one"
    )
    busy = [sum(node.time for node in graph.nodes if node.core == core) for core in range(count)]
    yield "  busy: " + ", ".join(f"{100 * time / (graph.makespan or 1):.0f} %" for time in busy)


def trial_text(label: str, found: Trial, known: int) -> Iterator[str]:
    """Yield the lines of one trial. known: kernels that were measured before."""
    yield f"{label}: {len(found.costs)} kernels measured, {known} known"
    if known == 0:
        off = 100 * (found.steps - found.whole) / (found.whole or 1)
        yield (
            f"  their sum is {found.steps:,} {found.unit}, a whole run without marks"
            f" {found.whole:,} ({off:+.2f} %); {found.mark:,} taken off for each mark"
        )


def out_of_date_text(file: str, labels: list[str], stale: int) -> Iterator[str]:
    """Yield what a build says of a file of measurements that is not what a run would leave.

    labels: `model@target: kernel, ...` of what has no measurement. stale: how many entries are of
    kernels that no longer occur.
    """
    if labels or stale:
        said = []
        if labels:
            said.append(f"no measurement of {'; '.join(labels)}")
        if stale:
            said.append(f"{stale} of kernels that no longer occur")
        yield f"note: {file} is out of date: {', '.join(said)}"
        yield "  fix: dlbuild profile --run"
