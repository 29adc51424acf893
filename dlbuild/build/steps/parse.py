"""Model file to graph and weights."""

from collections.abc import Mapping
from pathlib import Path

from dlbuild.build.job import Job
from dlbuild.build.steps.book import book_of
from dlbuild.ir import codec, weights
from dlbuild.stages.fold_channels import fold_constant_channels
from dlbuild.stages.parse import parse
from dlbuild.stages.parse_file import inputs_of


def run(job: Job) -> Mapping[str, bytes]:
    """Parse."""
    settings = job.settings
    book = book_of(settings.folders)
    parsed = parse(settings.source, settings.shapes, book, settings.model, settings.state)
    if settings.options.fold_constant_channels:
        parsed = fold_constant_channels(parsed, book)
    return {"graph": codec.encode(parsed.graph), "weights": weights.encode(parsed.weights)}


def files(source: Path) -> Mapping[str, Path]:
    """Return the model's external files, by their names from its folder on."""
    return {
        path.relative_to(source.parent).as_posix(): path
        for path in inputs_of(source)
        if path != source
    }
