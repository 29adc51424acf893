"""Plans to C."""

from collections.abc import Mapping

from dlbuild.build.job import Job
from dlbuild.build.steps.book import book_of
from dlbuild.ir import codec
from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Profile
from dlbuild.ir.schedule import Schedule
from dlbuild.ir.tile_plan import TilePlan
from dlbuild.stages.render import render


def run(job: Job) -> Mapping[str, bytes]:
    """Render."""
    settings = job.settings
    name = settings.model
    texts = render(
        codec.decode(job.inputs["graph"], Graph),
        codec.decode(job.inputs["profile"], Profile),
        codec.decode(job.inputs["tiles"], TilePlan),
        codec.decode(job.inputs["schedule"], Schedule),
        book_of(settings.folders),
        settings.target,
        settings.options,
        name,
    )
    return {
        "header": texts[f"{name}.h"].encode(),
        "source": texts[f"{name}.c"].encode(),
        "weights_header": texts[f"{name}_weights.h"].encode(),
        "port_header": texts.get("dlb_port.h", "").encode(),
        "port_source": texts.get("dlb_port_memcpy.c", "").encode(),
        "cores_source": texts.get("dlb_port_cores.c", "").encode(),
    }
