"""Plans to C, and to the plan of the tables."""

from collections.abc import Mapping

from dlbuild.build.job import Job
from dlbuild.build.steps.book import book_of
from dlbuild.ir import codec
from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Profile
from dlbuild.ir.schedule import Schedule
from dlbuild.ir.tile_plan import TilePlan
from dlbuild.stages.render import render_sources
from dlbuild.stages.sources import sources
from dlbuild.stages.table_plan import encode
from dlbuild.stages.tables import plan_tables


def run(job: Job) -> Mapping[str, bytes]:
    """Render."""
    settings = job.settings
    name = settings.model
    tiles = codec.decode(job.inputs["tiles"], TilePlan)
    model = sources(
        codec.decode(job.inputs["graph"], Graph),
        codec.decode(job.inputs["profile"], Profile),
        book_of(settings.folders),
        settings.target,
        settings.options,
        name,
        tiles,
    )
    texts = render_sources(model, tiles, codec.decode(job.inputs["schedule"], Schedule))
    return {
        "header": texts[f"{name}.h"].encode(),
        "source": texts[f"{name}.c"].encode(),
        "weights_header": texts[f"{name}_weights.h"].encode(),
        "image_layout": texts.get(f"{name}_image.json", "").encode(),
        "port_header": texts.get("dlb_port.h", "").encode(),
        "port_source": texts.get("dlb_port_memcpy.c", "").encode(),
        "cores_source": texts.get("dlb_port_cores.c", "").encode(),
        "table_plan": encode(plan_tables(model)),
    }
