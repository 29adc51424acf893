"""Weights to the C of their tables."""

from collections.abc import Mapping

from dlbuild.build.job import Job
from dlbuild.build.steps.book import book_of
from dlbuild.ir import codec, weights
from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Profile
from dlbuild.ir.tile_plan import TilePlan
from dlbuild.stages.tables import tables


def run(job: Job) -> Mapping[str, bytes]:
    """Make the tables."""
    settings = job.settings
    name = settings.model
    made = tables(
        codec.decode(job.inputs["graph"], Graph),
        weights.decode(job.inputs["weights"]),
        codec.decode(job.inputs["profile"], Profile),
        book_of(settings.folders),
        settings.target,
        settings.options,
        name,
        codec.decode(job.inputs["tiles"], TilePlan),
    )
    return {
        "weights_source": made[f"{name}_weights.c"],
        "weights_binary": made.get(f"{name}_weights.bin", b""),
    }
