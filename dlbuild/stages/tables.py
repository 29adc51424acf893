"""Which tables the C file of a model's numbers has, and its text around them."""

from collections.abc import Mapping

from dlbuild.base.digest import sha256
from dlbuild.base.errors import UserError
from dlbuild.emit.comments import block
from dlbuild.emit.literals import Array, repeater
from dlbuild.ir import weights as numbers
from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Profile
from dlbuild.ir.target import Options, Target, weights_memory
from dlbuild.ir.tile_plan import NO_TILES, TilePlan
from dlbuild.rulebook.load import RuleBook
from dlbuild.stages.constants import memory_of_tables
from dlbuild.stages.image import image_files
from dlbuild.stages.image_code import image_source
from dlbuild.stages.image_layout import image_layout
from dlbuild.stages.memory_lines import section_attribute
from dlbuild.stages.sources import Context, Sources, sources, table_note
from dlbuild.stages.table_plan import DIGEST, Making, Scaling, TablePlan, form
from dlbuild.stages.table_text import table_files

_TEMPLATE = "weights.c.j2"


def plan_tables(model: Sources) -> TablePlan:
    """Return the C file of a model's tables, all but its numbers.

    Raises:
        UserError: the template of the file changes definitions.
    """
    tables = model.tables.tables
    layout = image_layout(model) if model.options.weights == "image" else None
    prefix = "" if layout else f"{model.face.prefix}_"
    makers = dict.fromkeys(table.kernel for table in tables if not table.tensor)
    ports = [(port.name, port.quantized) for port in model.face.ports]
    return TablePlan(
        model=model.graph.name,
        macro=model.face.macro,
        tag=model.tag,
        tables=tables,
        sections={table.cluster: section_macro(model, table.cluster) for table in tables},
        makings={
            kernel: Making(model.instances[kernel].operands, model.instances[kernel].made)
            for kernel in makers
        },
        scalings=tuple(
            Scaling(f"{prefix}{name}", pair.scale, pair.zero_point)
            for name, pair in ports
            if pair is not None
        ),
        texts={"": (image_source(model, layout),)} if layout else _texts(model),
        is_embedded=model.options.weights == "incbin",
        image=layout,
    )


def _texts(model: Sources) -> dict[str, tuple[str, ...]]:
    """Return the forms of the file."""
    return {
        form(needs_math=needs_math, repeats=repeats): _pieces(
            model, needs_math=needs_math, repeats=repeats
        )
        for needs_math in (False, True)
        for repeats in (False, True)
    }


def section_macro(model: Sources, cluster: str) -> str:
    """Return the macro that says where tables lie: all, or those of a cluster."""
    return "_".join(
        word.upper() for word in (model.face.macro, "weights", cluster, "section") if word
    )


def _sections(model: Sources) -> list[Context]:
    """Return the macros of the sections of tables, and what they are unless a build says it."""
    used = {table.cluster for table in model.tables.tables}
    memories = {"": weights_memory(model.target.memories)}
    memories |= {c.name: memory_of_tables(c) for c in model.target.clusters if c.name in used}
    return [
        {
            "macro": section_macro(model, cluster),
            "attribute": section_attribute(memory.section) if memory else "",
        }
        for cluster, memory in memories.items()
        if memory or not cluster
    ]


def _pieces(model: Sources, *, needs_math: bool, repeats: bool) -> tuple[str, ...]:
    """Return the file in the pieces between which its definitions stand."""
    abouts = [table_note(model, table) for table in model.tables.tables]
    abouts += [block(f"{port.name}, for the caller") for port in model.face.ports if port.quantized]
    # Two lines, so that a template that indents definitions is noticed.
    marks = [f"@definition {number}@\n@of {DIGEST}@" for number in range(len(abouts))]
    is_embedded = any(table.form == "incbin" for table in model.tables.tables)
    context: Context = {
        "facts": [("weights", DIGEST)],
        "tables": [
            {"about": about, "definition": mark} for about, mark in zip(abouts, marks, strict=True)
        ],
        "sections": _sections(model),
        "needs_math": needs_math,
        "has_text": any(table.form == "text" for table in model.tables.tables),
        "is_little_endian": any(
            table.form in ("text", "incbin") and table.size_bytes > table.count
            for table in model.tables.tables
        ),
        "macro": repeater(f"{model.face.macro}_X16") if repeats else "",
        "bin": f"{model.face.prefix}_weights.bin" if is_embedded else "",
    }
    rest = model.render(_TEMPLATE, f"{model.face.prefix}_weights.c", "tables of numbers", context)
    pieces: list[str] = []
    for mark in marks:
        piece, found, rest = rest.partition(mark)
        pieces.append(piece)
        if not found or mark in rest:
            raise UserError(
                "the template must write each definition once, in order and as it is",
                where=_TEMPLATE,
                why="its numbers are filled in when all else is known",
            )
    return (*pieces, rest)


def tables(  # noqa: PLR0913, PLR0917 - the inputs of the stage
    graph: Graph,
    weights: Mapping[str, Array],
    profile: Profile,
    book: RuleBook,
    target: Target,
    options: Options,
    name: str,
    tiles: TilePlan = NO_TILES,
) -> Mapping[str, bytes]:
    """Return `<name>_weights.c`, and what else holds numbers: with `weights: incbin`
    `<name>_weights.bin`, with `weights: image` `<name>_image.bin`, of version 0.

    Args:
        graph: the model's structure.
        weights: the numbers of its constants, in the model's own axis order.
        profile: its kernels and layouts.
        book: rules, whose `constants:` are computed here, and the folders of templates.
        target: the chip.
        options: the build's options.
        name: the model's name, prefix of all external names.
        tiles: the tasks of each kernel; they decide which kernels are hand-written.
    """
    plan = plan_tables(sources(graph, profile, book, target, options, name, tiles))
    digest = sha256(numbers.encode({tensor: weights[tensor] for tensor in graph.constants}))
    source, binary = table_files(plan, weights, digest)
    image, _ = image_files(plan, weights, digest)
    files = {
        f"{name}_weights.c": source,
        f"{name}_weights.bin": binary,
        f"{name}_image.bin": image,
    }
    return {file: content for file, content in files.items() if content}
