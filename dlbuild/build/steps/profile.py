"""Graph to profile."""

from collections.abc import Mapping

from dlbuild.build.job import Job
from dlbuild.build.steps.book import book_of
from dlbuild.ir import codec
from dlbuild.ir.graph import Graph
from dlbuild.stages.profile import profile


def run(job: Job) -> Mapping[str, bytes]:
    """Profile."""
    settings = job.settings
    graph = codec.decode(job.inputs["graph"], Graph)
    made = profile(graph, book_of(settings.folders), settings.target, settings.options)
    return {"profile": codec.encode(made)}
