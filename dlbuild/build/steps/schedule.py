"""Tile plan to schedule, which the audit proves before anything uses it."""

from collections.abc import Mapping

from dlbuild.build.job import Job
from dlbuild.ir import codec
from dlbuild.ir.costs import Costs
from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Profile
from dlbuild.ir.tile_plan import TilePlan
from dlbuild.stages.audit import audit
from dlbuild.stages.audit_cores import audit_cores
from dlbuild.stages.cores import schedule_cores
from dlbuild.stages.schedule import schedule


def run(job: Job) -> Mapping[str, bytes]:
    """Schedule and audit."""
    target, options = job.settings.target, job.settings.options
    graph = codec.decode(job.inputs["graph"], Graph)
    profile = codec.decode(job.inputs["profile"], Profile)
    tiles = codec.decode(job.inputs["tiles"], TilePlan)
    if target.resources[1] > 1:
        costs = codec.decode(job.inputs["costs"], Costs)
        made = schedule_cores(graph, profile, costs, tiles, target, options)
        audit_cores(graph, profile, tiles, made)
    else:
        made = schedule(graph, profile, tiles, target, options)
    audit(graph, profile, tiles, made, target, options)
    return {"schedule": codec.encode(made)}
