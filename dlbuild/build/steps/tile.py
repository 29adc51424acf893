"""Profile to tile plan, which the audit proves before anything uses it."""

from collections.abc import Mapping

from dlbuild.build.job import Job
from dlbuild.build.steps.book import book_of
from dlbuild.ir import codec
from dlbuild.ir.costs import Costs
from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Profile
from dlbuild.stages.audit_tiles import audit_tiles
from dlbuild.stages.tile import tile
from dlbuild.stages.ways import check_fit


def run(job: Job) -> Mapping[str, bytes]:
    """Tile and audit."""
    graph = codec.decode(job.inputs["graph"], Graph)
    profile = codec.decode(job.inputs["profile"], Profile)
    settings = job.settings
    book = book_of(settings.folders)
    costs = codec.decode(job.inputs["costs"], Costs)
    made = tile(graph, profile, settings.target, settings.options, book, costs)
    audit_tiles(graph, profile, made, settings.target, settings.options, book)
    check_fit(graph, profile, made, settings.target, settings.options, book)
    return {"tiles": codec.encode(made)}
