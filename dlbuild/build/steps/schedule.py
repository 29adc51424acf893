"""Tile plan to schedule, which the audit proves before anything uses it."""

from collections.abc import Mapping

from dlbuild.build.job import Job
from dlbuild.ir import codec
from dlbuild.ir.graph import Graph
from dlbuild.ir.plans import Profile, TilePlan
from dlbuild.stages.audit import audit
from dlbuild.stages.schedule import schedule


def run(job: Job) -> Mapping[str, bytes]:
    """Schedule and audit."""
    target, options = job.settings.target, job.settings.options
    graph = codec.decode(job.inputs["graph"], Graph)
    profile = codec.decode(job.inputs["profile"], Profile)
    tiles = codec.decode(job.inputs["tiles"], TilePlan)
    made = schedule(graph, profile, tiles, target, options)
    audit(graph, profile, tiles, made, target, options)
    return {"schedule": codec.encode(made)}
