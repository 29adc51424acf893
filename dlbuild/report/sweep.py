"""The table of a sweep."""

from collections.abc import Collection, Iterator, Sequence

from dlbuild.build.sweep import Outcome, Point
from dlbuild.report.text import table_text

_LEGEND = """\
*: no other point of that model and target has less arena, flash, MACs or cost and more of none
arena, flash, stack in bytes; MACs: of a run, rows computed again included
cost: of all kernels, measured or predicted, copies and rows computed again left out"""


def sweep_text(found: Sequence[Outcome], front: Collection[Point]) -> Iterator[str]:
    """Yield the lines. front: the points that no other is better than."""
    header = ("model@target", "point", "arena", "flash", "stack", "MACs", "cost", "")
    rows = [_row(one, is_best=one.point in front) for one in found]
    yield from table_text(header, rows)
    for one in found:
        if one.fault:
            yield f"{_label(one.point)} {_settings(one.point)}: {one.fault}"
    yield ""
    yield _LEGEND


def _row(one: Outcome, *, is_best: bool) -> tuple[str, ...]:
    head = (_label(one.point), _settings(one.point))
    if one.fault:
        return (*head, "-", "-", "-", "-", "-", "")
    stack = "unknown" if one.stack_bytes is None else f"{one.stack_bytes:,}"
    figures = (f"{one.arena_bytes:,}", f"{one.flash_bytes:,}", stack, f"{one.macs:,}")
    return (*head, *figures, f"{one.cost:,} {one.unit}", "*" if is_best else "")


def _label(point: Point) -> str:
    return f"{point.model}@{point.target}"


def _settings(point: Point) -> str:
    return " ".join(f"{key}={value}" for key, value in point.settings) or "as it is"
