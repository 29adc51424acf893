"""Plans become C: the public header, the code, and the header of the tables.

Nothing here sees a weight: equal structures give equal bytes.
"""

from collections.abc import Mapping
from dataclasses import replace

from dlbuild.base.errors import UserError
from dlbuild.emit.comments import block, wrapped
from dlbuild.emit.ctypes import units
from dlbuild.emit.helpers import VECTORS, helper_text, helpers_of
from dlbuild.emit.literals import COLUMNS, chunks
from dlbuild.emit.names import identifier
from dlbuild.ir import codec
from dlbuild.ir.graph import Graph
from dlbuild.ir.image import MAGIC, ImageLayout
from dlbuild.ir.merged import NOT_MERGED, MergedFunctions
from dlbuild.ir.profile import Profile
from dlbuild.ir.schedule import Schedule
from dlbuild.ir.target import Options, Target, is_tiled
from dlbuild.ir.tile_plan import TilePlan
from dlbuild.rulebook.load import RuleBook
from dlbuild.stages.arena import (
    Arena,
    Member,
    Places,
    arena,
    arenas,
)
from dlbuild.stages.body import StripCall, body
from dlbuild.stages.cluster_memory import cores_of
from dlbuild.stages.cluster_tables import check_tables
from dlbuild.stages.core_code import core_entries, job, last, stream_declaration
from dlbuild.stages.declaration import (
    accessors,
    assertion,
    declaration,
    fetching,
    parameter_docs,
    parameters,
    taken_image,
)
from dlbuild.stages.functions import Functions, functions, united
from dlbuild.stages.image_code import image_header
from dlbuild.stages.image_layout import image_layout
from dlbuild.stages.interface import Port
from dlbuild.stages.kernel_code import kernel_code, rounds
from dlbuild.stages.memory_lines import memory_lines, near_texts, section_attribute, section_of
from dlbuild.stages.merging import with_merged
from dlbuild.stages.passes import again_macs
from dlbuild.stages.sources import (
    Context,
    Sources,
    axes_note,
    element_type,
    includes_for,
    sources,
    table_note,
)
from dlbuild.stages.state import params_bytes, state_functions, state_includes
from dlbuild.stages.streaming import BEGUN, begin_declaration, entries, push_declaration, streaming
from dlbuild.stages.strip_code import StripCode, counter_lines, strip_code


def render(  # noqa: PLR0913, PLR0917 - the inputs of the stage
    graph: Graph,
    profile: Profile,
    tiles: TilePlan,
    schedule: Schedule,
    book: RuleBook,
    target: Target,
    options: Options,
    name: str,
    merged: MergedFunctions = NOT_MERGED,
) -> Mapping[str, str]:
    """Return the text of `<name>.h`, `<name>.c` and `<name>_weights.h`, and more as is needed.

    With `weights: image` there is `<name>_image.json`, which says how images lie; `dlb_port.h` and
    its kin where kernels run through a near memory or on several cores.

    Args:
        graph: the model's structure.
        profile: its kernels and layouts.
        tiles: the tasks of each kernel.
        schedule: order and place of everything.
        book: rules, and the folders of templates.
        target: the chip.
        options: the build's options.
        name: the model's name, prefix of all external names.
        merged: which of its functions are one.

    Raises:
        UserError: an element type has no C yet, or a static arena should share its memory, or an
            image of weights is asked for where a run cannot keep it.
    """
    model = sources(graph, profile, book, target, options, name, tiles)
    places = Places(graph, schedule, model.face, options)
    kernels = functions(model, schedule, places, tiles)
    if merged.merged:
        kernels = with_merged(model, kernels, tiles, merged.merged)
    return render_sources(model, tiles, schedule, kernels)


def render_sources(
    model: Sources, tiles: TilePlan, schedule: Schedule, kernels: Functions
) -> Mapping[str, str]:
    """Return the texts as `render` does. kernels: the functions that compute.

    Raises:
        UserError: as `render`.
    """
    options, name = model.options, model.face.prefix
    _check_share(model.target, options, name)
    _check_image(model.target, options, name)
    check_tables(model, schedule)
    rooms = _rooms(model, tiles, schedule)
    if options.arena == "caller" and not rooms[0].members:
        # C has no empty union, and the signature is to stay the same.
        unused = (Member("uint8_t", "unused", 1),)
        rooms = (replace(rooms[0], members=unused, size_bytes=1),)
    layout = image_layout(model) if options.weights == "image" else None
    tables = {f"{name}_weights.h": _declarations(model)}
    if layout is not None:
        tables = {
            f"{name}_weights.h": image_header(model, layout),
            f"{name}_image.json": codec.encode(layout).decode("ascii"),
        }
    return {
        **_port_files(model),
        **tables,
        f"{name}.h": _header(model, tiles, schedule, rooms, layout),
        f"{name}.c": _code(model, tiles, schedule, rooms, kernels),
    }


def _rooms(model: Sources, tiles: TilePlan, schedule: Schedule) -> tuple[Arena, ...]:
    """Return the arenas, with the counters of a streamed input as a structure in the one."""
    for strip in tiles.strips:
        if strip.counters:
            room = arena(model.graph, schedule, strip.counters)
            return (replace(room, counters=tuple(counter_lines(model, schedule, strip))),)
    return arenas(model.graph, schedule)


def _port_files(model: Sources) -> Mapping[str, str]:
    """Return what generated code asks of a firmware, and how a core or several do it.

    Written for every model of such a target, so that the files are known before there is a plan.
    """
    names = ["dlb_port_memcpy.c"] if is_tiled(model.target.memories) else []
    names += ["dlb_port_cores.c"] if model.target.resources[1] > 1 else []
    if not names:
        return {}
    loader = model.environment.loader
    assert loader is not None
    names.insert(0, "dlb_port.h")
    return {name: loader.get_source(model.environment, f"port/{name}")[0] for name in names}


def _check_share(target: Target, options: Options, name: str) -> None:
    if options.share and options.arena == "static":
        raise UserError(
            f"the arenas of group '{options.share}' must be the caller's to share memory",
            where=f"{name}@{target.name}",
            why="a linker gives each static arena bytes of its own",
            fix="set arena: caller, and pass all models of the group one union of their arenas",
        )


def _check_image(target: Target, options: Options, name: str) -> None:
    is_streamed = (options.input, options.arena) == ("streamed", "caller")
    if options.weights == "image" and is_streamed:
        raise UserError(
            "weights: image does not go with input: streamed and arena: caller",
            where=f"{name}@{target.name}",
            why="an inference ends with the image it began with, which no arena has a place for",
            fix="set arena: static, or another input",
        )


def _header(
    model: Sources,
    tiles: TilePlan,
    schedule: Schedule,
    rooms: tuple[Arena, ...],
    layout: ImageLayout | None,
) -> str:
    face, options = model.face, model.options
    ports = [_port(model, p) for p in face.ports if p.tensor.name not in model.graph.carried]
    is_callers = options.arena == "caller"
    found = streaming(model, tiles.strips)
    context: Context = {
        "includes": includes_for([p.tensor.dtype for p in face.ports]),
        "ports": ports,
        "arena": rooms[0],
        "arena_bytes": sum(room.size_bytes for room in rooms),
        "rooms": rooms if len(rooms) > 1 else (),
        "weights_bytes": model.tables.size_bytes,
        "macs": sum(model.profile.kernel[step.kernel].macs for step in schedule.steps)
        + again_macs(model.profile, tiles),
        "is_callers_arena": is_callers,
        "accessors": accessors(model, schedule),
        "hook": options.hook,
        "reentrancy": _reentrancy(model, schedule),
        "overlap": len(parameters(model, schedule)) > 1,
        "parameter_docs": parameter_docs(model, schedule),
        "declaration": declaration(model, schedule),
        "resources": model.target.resources,
        "clusters": _clusters(model),
        "most_count": (1 << 31) // last(schedule) - 1,
        "pipeline": stream_declaration(model, schedule) if model.graph.clusters.is_stream else "",
        "stream": found,
        "push": push_declaration(model, found) if found else "",
        "fetch": fetching(model, tiles.strips),
        "begin": begin_declaration(model) if found else "",
        "replicas": bool(model.graph.replicas),
        "state": state_functions(model, Places(model.graph, schedule, face, options)),
        "params_bytes": params_bytes(model),
        "image": layout,
        "image_magic": MAGIC.decode(),
    }
    about = "how to run the model"
    return model.render("net.h.j2", f"{face.prefix}.h", about, context)


def _clusters(model: Sources) -> list[str]:
    """Return the lines that say which cores are of which cluster."""
    if not model.graph.clusters.is_several:
        return []
    found = [
        f"{name} ({cores[0]})" if len(cores) == 1 else f"{name} ({cores[0]} to {cores[-1]})"
        for name, cores in cores_of(model.graph, model.target).items()
    ]
    prefix, (kind, _) = model.face.prefix, model.target.resources
    about = (
        f"How many {kind} a run needs: {prefix}_run is called on core 0, {prefix}_worker on all "
        f"others. Clusters and their cores: {', '.join(found)}."
    )
    return wrapped(about, COLUMNS - len(" * "))


def _reentrancy(model: Sources, schedule: Schedule) -> str:
    """Say whether several runs may be under way."""
    if model.options.arena != "caller":
        return "Not reentrant (static arena)."
    if model.target.resources[1] > 1:
        return "One run at a time, since it uses all cores."
    for use in schedule.near:
        return f"One run at a time, since all use the same bytes of {use.memory}."
    return "Reentrant, with an arena for each instance."


def _port(model: Sources, port: Port) -> Context:
    tensor, name = port.tensor, f"{model.face.prefix}_{port.name}"
    shown = element_type(tensor.dtype, port.memory_shape) + axes_note(port.order)
    has_zero_point = port.quantized is not None and port.quantized.zero_point != ""
    is_image = model.options.weights == "image"
    call, note = ("()", " Of the image in use; 0 if there is none.") if is_image else ("", "")
    stored = f"(q - {name}_zero_point{call})" if has_zero_point else "q"
    meaning = block(f"{port.name}: real = {stored} * {name}_scale{call}.{note}", opener="/**")
    return {
        "name": port.name,
        "about": block(f"Elements of {port.name}: {shown}.", opener="/**"),
        "count": units(tensor.dtype, tensor.count),
        "meaning": meaning if port.quantized else "",
        "zero_point": has_zero_point,
    }


def _code(
    model: Sources,
    tiles: TilePlan,
    schedule: Schedule,
    rooms: tuple[Arena, ...],
    kernels: Functions,
) -> str:
    face, options = model.face, model.options
    places = Places(model.graph, schedule, face, options)
    strips = strip_code(model, tiles, schedule, places)
    texts = (*kernels.texts, *strips.kernels)
    is_static = options.arena == "static" and any(room.members for room in rooms)
    pumped = helpers_of(model.environment, [found.text for found in strips.strips])
    helpers = united([*(text.helpers for text in texts), pumped])
    is_image = options.weights == "image"
    standard = {"stdint.h", "stddef.h"} if is_image else {"stdint.h"}
    context: Context = {
        "near": near_texts(model, schedule),
        "job": job(model, schedule),
        "includes": sorted(
            standard.union(*(text.includes for text in texts), state_includes(model))
        ),
        "vectors": VECTORS,
        "tables": model.tables.tables or is_image,
        "begun": BEGUN if is_image and options.input == "streamed" else "",
        "is_exact": any(
            rounds(model.instances[step.kernel]) for step in schedule.steps if step.is_code
        ),
        "has_static_arena": is_static,
        "is_aligned": any(room.align_bytes > room.natural_align_bytes for room in rooms),
        "rooms": [_room(model, schedule, room) for room in rooms if room.members],
        "checks": [check for room in rooms for check in _checks(model, room)],
        "helpers": [helper_text(model.environment, helper).rstrip("\n") for helper in helpers],
        "kernels": [kernel_code(text, face.macro) for text in texts],
        "strips": [found.text for found in strips.strips],
        "accessors": accessors(model, schedule),
        "entries": [
            *_entries(model, tiles, schedule, kernels, strips, places),
            *state_functions(model, places),
        ],
    }
    about = "arena, kernels and schedule"
    return model.render("net.c.j2", f"{face.prefix}.c", about, context)


def _room(model: Sources, schedule: Schedule, room: Arena) -> Context:
    """Return how an arena is declared."""
    return {
        "arena": room,
        "section_macro": f"{_bytes_macro(model, room).removesuffix('_BYTES')}_SECTION",
        "section": section_attribute(section_of(model, room.use.memory)),
        "is_aligned": room.align_bytes > room.natural_align_bytes,
        "memory_lines": memory_lines(model, schedule, room),
    }


def _bytes_macro(model: Sources, room: Arena) -> str:
    """Return the macro of an arena's size."""
    return f"{model.face.macro}_{room.name.upper()}_BYTES"


def _entries(  # noqa: PLR0913, PLR0917 - all that the functions of the user are made of
    model: Sources,
    tiles: TilePlan,
    schedule: Schedule,
    kernels: Functions,
    strips: StripCode,
    places: Places,
) -> list[Context]:
    """Return the functions that users call: one that runs the model, or one that takes rows."""
    streamed = {n for n, strip in enumerate(tiles.strips, start=1) if strip.streamed}
    calls = {
        found.number: StripCall(found.name, found.arguments)
        for found in strips.strips
        if found.number not in streamed
    }
    if model.target.resources[1] > 1:
        return core_entries(model, tiles, schedule, kernels)
    lines = body(model, schedule, kernels, calls)
    if streamed:
        (number,) = streamed
        first = strips.strips[number - 1]
        last = max(step.number for step in schedule.steps if step.strip == number)
        return entries(model, tiles.strips[number - 1], first, places, lines, last)
    lines = [*taken_image(model), *lines, f"    return {model.face.macro}_OK;"]
    return [{"declaration": declaration(model, schedule), "lines": lines}]


def _checks(model: Sources, room: Arena) -> list[str]:
    """Return what keeps a C file from compiling if the arena is not as planned."""
    face, use, checks = model.face, room.use, []
    size = _bytes_macro(model, room)
    if room.members:
        measured = room.name if model.options.arena == "static" else f"{face.prefix}_arena_t"
        checks.append(assertion(f"{room.name}_has_its_size", f"sizeof({measured}) == {size}"))
    if use.budget_bytes is not None:
        name = f"{room.name}_fits_{identifier(use.memory.rpartition('.')[2])}"
        checks.append(assertion(name, f"{size} <= {use.budget_bytes}"))
    return checks


def _declarations(model: Sources) -> str:
    context: Context = {
        "includes": includes_for([table.dtype for table in model.tables.tables]),
        "tables": [
            {
                "about": table_note(model, table),
                "symbol": table.symbol,
                "form": table.form,
                "ctype": table.ctype,
                "count": table.count,
                "chunks": chunks(table.size_bytes),
            }
            for table in model.tables.tables
        ],
        "has_text": any(table.form == "text" for table in model.tables.tables),
    }
    file = f"{model.face.prefix}_weights.h"
    return model.render("weights.h.j2", file, "what the tables of numbers are", context)
