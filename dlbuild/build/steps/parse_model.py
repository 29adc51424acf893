"""Model file to graph and weights, of a model that is then spread over clusters."""

from collections.abc import Mapping

from dlbuild.build.job import Job
from dlbuild.build.steps import parse

files = parse.files


def run(job: Job) -> Mapping[str, bytes]:
    """Parse."""
    return {f"model_{name}": content for name, content in parse.run(job).items()}
