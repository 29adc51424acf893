"""Model file to graph and weights, and to how the weights follow from the file."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from dlbuild.build.job import Job
from dlbuild.build.steps.book import book_of
from dlbuild.ir import codec, derivation, weights
from dlbuild.stages.initializers import Unreadable, sketch_of
from dlbuild.stages.order_copies import with_copies
from dlbuild.stages.parse import Parsed, parse
from dlbuild.stages.parse_file import inputs_of
from dlbuild.stages.rederive import rederived

_LARGE = 1 << 20


def run(job: Job) -> Mapping[str, bytes]:
    """Parse."""
    settings = job.settings
    book = book_of(settings.folders)
    state = dict(settings.state)
    parsed = parse(settings.source, settings.shapes, book, settings.model, state)
    if settings.options.fold_constant_channels:
        from dlbuild.stages.fold_channels import fold_constant_channels  # noqa: PLC0415 - seldom asked for

        parsed = fold_constant_channels(parsed, book)  # by the numbers of its weights
    if settings.options.layout:
        parsed = replace(parsed, graph=with_copies(parsed.graph, book, settings.options))
    if settings.batch is not None:
        from dlbuild.stages.batch import split_batch  # noqa: PLC0415 - as above

        parsed = split_batch(parsed, book, settings.batch)
    numbers = weights.encode(parsed.weights)
    return {
        "graph": codec.encode(parsed.graph),
        "weights": numbers,
        "derivation": _derivation(settings.source.read_bytes(), parsed, numbers),
    }


def _derivation(model: bytes, parsed: Parsed, numbers: bytes) -> bytes:
    """Return how the weights follow from the model file; nothing if they need all of parse."""
    if parsed.numbers is None:
        return b""
    try:
        sketch = sketch_of(model)
    except Unreadable:
        return b""
    digests = {name: one.digest for name, one in sketch.initializers.items()}
    made = derivation.encode(*parsed.numbers.derivation(sketch.structure, digests))
    # Of no use are what needs most numbers as they were, and what does not give these again.
    if len(made) > len(numbers) // 4 + _LARGE or rederived(made, model, numbers) != numbers:
        return b""
    return made


def files(source: Path) -> Mapping[str, Path]:
    """Return the model's external files, by their names from its folder on."""
    return {
        path.relative_to(source.parent).as_posix(): path
        for path in inputs_of(source)
        if path != source
    }
