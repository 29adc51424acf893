"""Files for the build around ours."""

from collections.abc import Mapping

from dlbuild.build.job import Job
from dlbuild.run.fragments import cmake_fragment, make_fragment


def run(job: Job) -> Mapping[str, bytes]:
    """Write the fragments; they name files only, so they need no input."""
    name = job.settings.model
    return {"make": make_fragment(name).encode(), "cmake": cmake_fragment(name).encode()}
