"""The C against the model, layer by layer too."""

from collections.abc import Mapping

from dlbuild.build.job import Job
from dlbuild.build.steps import parse
from dlbuild.build.steps.verify import compare

files = parse.files


def run(job: Job) -> Mapping[str, bytes]:
    """Verify outputs and layers."""
    return compare(job, layers=True)
