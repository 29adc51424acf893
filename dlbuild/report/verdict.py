"""What verify found, as plain text."""

from collections.abc import Iterator, Sequence

from dlbuild.report.text import table_text
from dlbuild.run.verify import Verdict
from dlbuild.run.verify_compare import Comparison

_HEADER = ("", "dtype", "elements", "differ", "outside", "max abs", "max rel", "limit")


def verdict_text(verdict: Verdict) -> Iterator[str]:
    """Yield the lines of one verdict."""
    word = "passed" if verdict.passed else "FAILED"
    yield f"{verdict.model}@{verdict.target}: {word}, {verdict.n_samples} samples"
    yield f"  against {verdict.reference}"
    for note in verdict.notes:
        yield f"  note: {note}"
    if not verdict.is_repeatable:
        yield f"  FAILED: {verdict.n_runs} runs of one sample differ"
    yield from _rows("outputs", verdict.outputs)
    if verdict.layers:
        yield from _rows("layers, each given the reference's inputs", verdict.layers)


def _rows(title: str, comparisons: Sequence[Comparison]) -> Iterator[str]:
    yield f"  {title}:"
    rows = [
        (
            "ok" if one.passed else "FAILED",
            one.dtype,
            f"{one.n_elements:,}",
            f"{one.n_differing:,}",
            f"{one.n_outside:,}",
            f"{one.max_abs:.3g}",
            f"{one.max_rel:.3g}",
            one.limit,
        )
        for one in comparisons
    ]
    # Names come last: those of some exporters are longer than a line.
    names = [
        "tensor",
        *(f"{one.kernel}: {one.tensor}" if one.kernel else one.tensor for one in comparisons),
    ]
    for line, name in zip(table_text(_HEADER, rows), names, strict=True):
        yield f"    {line}  {name}"
