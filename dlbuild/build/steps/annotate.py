"""The model's structure as ONNX again, each node with its cost."""

from collections.abc import Mapping

from dlbuild.build.job import Job
from dlbuild.ir import codec
from dlbuild.ir.costs import Costs
from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Profile
from dlbuild.ir.schedule import Schedule
from dlbuild.stages.annotate import annotate


def run(job: Job) -> Mapping[str, bytes]:
    """Annotate."""
    made = annotate(
        codec.decode(job.inputs["graph"], Graph),
        codec.decode(job.inputs["profile"], Profile),
        codec.decode(job.inputs["costs"], Costs),
        codec.decode(job.inputs["schedule"], Schedule),
        weights_file=_weights_file(job),
    )
    return {"annotated": made}


def _weights_file(job: Job) -> str:
    """Return the file that holds the numbers, which the model names in their place."""
    is_image = job.settings.options.weights == "image"
    return f"{job.settings.model}{'_image.bin' if is_image else '_weights.c'}"
