"""Files for the build around ours."""

from collections.abc import Mapping

from dlbuild.build.job import Job
from dlbuild.ir.target import is_tiled
from dlbuild.run.fragments import cmake_fragment, make_fragment


def run(job: Job) -> Mapping[str, bytes]:
    """Write the fragments; they name files only, so they need no input."""
    name = job.settings.model
    has_port = is_tiled(job.settings.target.memories)
    return {
        "make": make_fragment(name, port=has_port).encode(),
        "cmake": cmake_fragment(name, port=has_port).encode(),
    }
