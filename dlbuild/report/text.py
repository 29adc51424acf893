"""Reports as plain text."""

from collections.abc import Iterator, Mapping, Sequence

from dlbuild.build.engine import Finished
from dlbuild.build.forecast import Forecast


def status_line(finished: Finished) -> str:
    """Return the line printed when a stage is done."""
    how = f"{finished.seconds:.2f} s" if finished.was_run else "from the store"
    return f"{finished.label}: {finished.stage} ({how})"


def forecast_text(
    found: Mapping[str, Sequence[Forecast]], number: int, *, is_whole: bool = False
) -> Iterator[str]:
    """Yield the lines of `dlbuild explain`.

    Args:
        found: of each build its stages.
        number: how many builds there were.
        is_whole: also tell of stages that are up to date and older than the last build that made
            any.
    """
    yield f"{number} build{'s' if number != 1 else ''} so far"
    newest = max((stage.number for stages in found.values() for stage in stages), default=0)
    for label, stages in found.items():
        yield ""
        yield label
        shown = [s for s in stages if is_whole or s.state != "up to date" or s.number == newest]
        older = len(stages) - len(shown)
        width = max((len(stage.stage) for stage in shown), default=0)
        if older:
            what, them = (f"{older} stages are", "them") if older > 1 else ("1 stage is", "it")
            yield f"  {what} up to date and older than build {newest}; --all shows {them}"
        for stage in shown:
            why = f": {'; '.join(stage.reasons)}" if stage.reasons else ""
            join = " " if stage.state == "depends" else ""
            why = f"{join}{'; '.join(stage.reasons)}" if stage.state == "depends" else why
            yield f"  {stage.stage:<{width}}  {stage.state}{why}"
            if stage.last:
                yield f"  {'':<{width}}    {stage.last}"


def table_text(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table: the first column to the left, all others to the right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in (header, *rows):
        cells = [
            cell.ljust(width) if number == 0 else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def markdown_text(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    for row in (header, ["---"] * len(header), *rows):
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"
