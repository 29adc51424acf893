"""Profile to tile plan."""

from collections.abc import Mapping

from dlbuild.build.job import Job
from dlbuild.ir import codec
from dlbuild.ir.graph import Graph
from dlbuild.ir.plans import Profile
from dlbuild.stages.tile import tile


def run(job: Job) -> Mapping[str, bytes]:
    """Tile."""
    graph = codec.decode(job.inputs["graph"], Graph)
    profile = codec.decode(job.inputs["profile"], Profile)
    made = tile(graph, profile, job.settings.target, job.settings.options)
    return {"tiles": codec.encode(made)}
