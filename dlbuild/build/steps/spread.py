"""Graph of a model to the graph of its clusters."""

from collections.abc import Mapping

from dlbuild.build.job import Job
from dlbuild.build.steps import costs
from dlbuild.build.steps.book import book_of
from dlbuild.ir import codec
from dlbuild.ir.costs import Costs
from dlbuild.ir.graph import Graph
from dlbuild.stages.clusters import spread
from dlbuild.stages.profile import profile


def run(job: Job) -> Mapping[str, bytes]:
    """Spread the graph by what its kernels cost as they are."""
    settings = job.settings
    target, options, book = settings.target, settings.options, book_of(settings.folders)
    graph = codec.decode(job.inputs["model_graph"], Graph)
    whole = profile(graph, book, target, options)
    inputs = {"graph": job.inputs["model_graph"], "profile": codec.encode(whole)}
    known = codec.decode(costs.run(Job(settings, inputs))["costs"], Costs)
    made = spread(graph, whole, known, target, options, book)
    return {"graph": codec.encode(made)}
