"""What each kernel costs, as plain text."""

from collections.abc import Iterator

from dlbuild.ir.costs import Costs
from dlbuild.ir.profile import Kernel, Profile
from dlbuild.ir.profile_graph import ProfileGraph
from dlbuild.ir.tile_plan import NEAR_REASON, NO_TILES, TilePlan, handwritten_kernel
from dlbuild.report.text import table_text
from dlbuild.run.trial import Trial

_STRIP = "its strip computes rows or columns in another way"

_HEADER = ("kernel", "MACs", "time", "share", "per MAC", "from", "code")


def profile_text(
    label: str, profile: Profile, costs: Costs, tiles: TilePlan = NO_TILES
) -> Iterator[str]:
    """Yield the lines of one build. tiles: which of its kernels run in strips or tasks."""
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
            _code(kernel, tiles),
        )
        for kernel, found in zip(profile.kernels, costs.kernels, strict=True)
    ]
    yield from (f"  {line}" for line in table_text(_HEADER, rows))
    yield from _obstacles(profile, tiles)
    if not any(found.is_measured for found in costs.kernels):
        yield "  predicted from the target's 'cycles' and 'kernels'; 'dlbuild bench' measures"


def _obstacles(profile: Profile, tiles: TilePlan) -> Iterator[str]:
    """Yield why loops compute kernels that their rules have something faster for."""
    tiled = {tiling.kernel for tiling in tiles.tilings}
    found: dict[str, list[str]] = {}
    for kernel in profile.kernels:
        faster = kernel.handwriting
        if faster is None or handwritten_kernel(kernel, tiles) is not None:
            continue
        plan = NEAR_REASON if kernel.name in tiled else _STRIP
        text = f"loops, not {faster.name}, since {faster.obstacle or plan}"
        found.setdefault(text, []).append(kernel.name)
    yield from (f"  {', '.join(names)}: {text}" for text, names in found.items())


def _code(kernel: Kernel, tiles: TilePlan) -> str:
    """Return what computes a kernel: loops, a hand-written kernel by its name, or nothing."""
    if kernel.alias is not None:
        return "none"
    found = handwritten_kernel(kernel, tiles)
    words = [found.name if found is not None else "loops"]
    for number, strip in enumerate(tiles.strips, start=1):
        if any(layer.kernel == kernel.name for layer in strip.layers):
            words.append(f"in strip {number}")
    if any(tiling.kernel == kernel.name for tiling in tiles.tilings):
        words.append("in tasks")
    return ", ".join(words)


def makespan_text(graph: ProfileGraph, kind: str, count: int) -> Iterator[str]:
    """Yield what several cores are predicted to take, and how busy each is."""
    total = sum(node.time for node in graph.nodes)
    yield (
        f"  predicted makespan on {count} {kind}: {graph.makespan:,} {graph.unit},"
        f" {total / (graph.makespan or 1):.2f} times as fast as one"
    )
    busy = [sum(node.time for node in graph.nodes if node.core == core) for core in range(count)]
    yield "  busy: " + ", ".join(f"{100 * time / (graph.makespan or 1):.0f} %" for time in busy)


def trial_text(label: str, found: Trial, known: int, total: int) -> Iterator[str]:
    """Yield the lines of one trial.

    known: kernels that were measured before, or are equal to one that was. total: of all kernels.
    """
    yield f"{label}: {len(found.costs)} kernels measured, {known} known"
    off = 100 * (total - found.whole) / (found.whole or 1)
    yield (
        f"  their sum is {total:,} {found.unit}, a whole run without marks"
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
