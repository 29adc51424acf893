"""What verify found, as plain text."""

from collections.abc import Iterator, Sequence

from dlbuild.emit.comments import shortened
from dlbuild.report.text import table_text
from dlbuild.run.verify import EXPECTED, Verdict
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
    yield from _advice(verdict)


def _advice(verdict: Verdict) -> Iterator[str]:
    """Yield where to look for what failed."""
    if all(one.passed for one in verdict.outputs):
        return
    if not verdict.layers:
        yield "  fix: dlbuild verify --layers says which kernel is wrong"
    elif all(one.passed for one in verdict.layers) and verdict.reference.startswith(EXPECTED):
        yield (
            "  each kernel computes what the reference does: are the expected outputs of the"
            " samples this model's?"
        )


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
    for one in comparisons:
        if one.worst:
            yield f"    worst of {shortened(one.tensor)}: {one.worst}"
        if one.n_nan:
            yield (
                f"    {shortened(one.tensor)}: {one.n_nan:,} of {one.n_elements:,} elements are not"
                " a number on both sides"
            )
