"""What bench measured, as plain text."""

from collections.abc import Iterator

from dlbuild.report.text import table_text
from dlbuild.run.bench import Figures

_HEADER = ("", "step", "MACs", "cost", "share", "per MAC")


def figures_text(found: Figures) -> Iterator[str]:
    """Yield the lines of one model on one target."""
    per_mac = f", {found.cost / found.macs:.2f} for each of {found.macs:,} MACs"
    yield f"{found.model}@{found.target}: {found.cost:,} {found.unit} a run" + (
        per_mac if found.macs else ""
    )
    if not found.is_repeatable:
        yield "  two runs of the same input differ; this is the cheaper one"
    if found.stack_bytes is not None:
        said = "unknown to" if found.stack_limit is None else f"{found.stack_limit:,} B by"
        yield f"  stack: {found.stack_bytes:,} B overwritten, {said} 'dlbuild size'"
    if found.written is not None:
        wrote = found.written
        errno = f" {wrote.errno:,} B of the C library's errno," if wrote.errno else ""
        yield (
            f"  written: {wrote.arena:,} B of the arena's {found.arena_bytes:,} B,"
            f" {wrote.outputs:,} B of outputs, {wrote.stack:,} B of stack,{errno}"
            f" {wrote.elsewhere:,} B elsewhere"
        )
    for fault in found.faults:
        yield f"  FAILED: {fault}"
    total = sum(step.cost for step in found.steps) or 1
    rows = [
        (
            step.kernel,
            str(step.step),
            f"{step.macs:,}",
            f"{step.cost:,}",
            f"{100 * step.cost / total:.1f} %",
            f"{step.cost / step.macs:.2f}" if step.macs else "-",
        )
        for step in found.steps
    ]
    if rows:
        yield f"  steps, with a hook between them: {total:,}"
        yield from (f"    {line}" for line in table_text(_HEADER, rows))
