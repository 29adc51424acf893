"""Plans to C, and to the plan of the tables."""

from collections.abc import Mapping

from dlbuild.build.job import Job
from dlbuild.build.steps.book import book_of
from dlbuild.ir import codec
from dlbuild.ir.graph import Graph
from dlbuild.ir.merged import NOT_MERGED, MergedFunctions
from dlbuild.ir.profile import Profile
from dlbuild.ir.schedule import Schedule
from dlbuild.ir.tile_plan import TilePlan
from dlbuild.run.compile import RefusalError, compile_file
from dlbuild.run.size import size_of
from dlbuild.stages.arena import Places
from dlbuild.stages.functions import Functions, functions
from dlbuild.stages.merging import chosen, with_merged
from dlbuild.stages.render import render_sources
from dlbuild.stages.sources import Sources, sources
from dlbuild.stages.table_plan import encode
from dlbuild.stages.tables import plan_tables


def run(job: Job) -> Mapping[str, bytes]:
    """Render; where flash comes first, count what functions take apart and as one."""
    settings = job.settings
    name = settings.model
    tiles = codec.decode(job.inputs["tiles"], TilePlan)
    schedule = codec.decode(job.inputs["schedule"], Schedule)
    model = sources(
        codec.decode(job.inputs["graph"], Graph),
        codec.decode(job.inputs["profile"], Profile),
        book_of(settings.folders),
        settings.target,
        settings.options,
        name,
        tiles,
    )
    places = Places(model.graph, schedule, model.face, model.options)
    kernels = functions(model, schedule, places, tiles)
    merged = NOT_MERGED
    if settings.options.optimize == "size":
        merged = _chosen(model, tiles, schedule, kernels)
        kernels = with_merged(model, kernels, tiles, merged.merged)
    texts = render_sources(model, tiles, schedule, kernels)
    return {
        "header": texts[f"{name}.h"].encode(),
        "source": texts[f"{name}.c"].encode(),
        "weights_header": texts[f"{name}_weights.h"].encode(),
        "image_layout": texts.get(f"{name}_image.json", "").encode(),
        "merged": codec.encode(merged) if settings.options.optimize == "size" else b"",
        "port_header": texts.get("dlb_port.h", "").encode(),
        "port_source": texts.get("dlb_port_memcpy.c", "").encode(),
        "cores_source": texts.get("dlb_port_cores.c", "").encode(),
        "table_plan": encode(plan_tables(model)),
    }


def _chosen(
    model: Sources, tiles: TilePlan, schedule: Schedule, apart: Functions
) -> MergedFunctions:
    """Decide by what the target's compiler makes of the whole file."""
    name = f"{model.face.prefix}.c"

    def flash(kernels: Functions) -> int | None:
        texts = render_sources(model, tiles, schedule, kernels)
        files = {file: text.encode() for file, text in texts.items()}
        try:
            made = compile_file(name, files, model.target, model.options)
        except RefusalError:
            if kernels is apart:
                raise
            return None
        return size_of("model.o", made.content, model.target).flash_bytes

    return chosen(model, apart, tiles, flash)
