"""Weights become constant tables: the one C file that holds the model's numbers."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dlbuild.base.digest import sha256
from dlbuild.base.errors import UserError
from dlbuild.emit.comments import block
from dlbuild.emit.literals import (
    COLUMNS,
    Array,
    braces,
    is_uniform,
    number,
    repeated,
    repeated_text,
    repeater,
    text,
)
from dlbuild.ir import weights as numbers
from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Profile
from dlbuild.ir.target import Options, Target
from dlbuild.ir.tile_plan import NO_TILES, TilePlan
from dlbuild.rulebook.interpret import make
from dlbuild.rulebook.load import RuleBook
from dlbuild.stages.constants import Constant
from dlbuild.stages.interface import Port
from dlbuild.stages.sources import Context, Sources, sources, table_note

UNIFORM_COUNT = 256
"""From so many elements on, a table of one value is written as that value and a count."""

MOST_NUMBERS = 1 << 16
"""Up to so many elements such a table is a list of numbers to the compiler, beyond it is text."""

_ALIGN_BYTES = 16


@dataclass(frozen=True, slots=True)
class _Definition:
    """One definition in the C file, and the comment before it."""

    about: str
    definition: str


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
    """Return `<name>_weights.c`, and `<name>_weights.bin` with `weights: incbin`.

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
    model = sources(graph, profile, book, target, options, name, tiles)
    arrays = [(table, _array(model, weights, table)) for table in model.tables.tables]
    definitions, content = _definitions(model, arrays)
    definitions += [_quantized(model, weights, port) for port in model.face.ports if port.quantized]
    macro = f"{model.face.macro}_X16"
    body = "\n".join(d.definition for d in definitions)
    file, binary = f"{name}_weights.c", f"{name}_weights.bin"
    context: Context = {
        "facts": [("weights", sha256(numbers.encode({k: weights[k] for k in graph.constants})))],
        "tables": definitions,
        "needs_math": "NAN" in body or "INFINITY" in body,
        "has_text": any(table.form == "text" for table in model.tables.tables),
        "is_little_endian": any(
            table.form in ("text", "incbin") and table.size_bytes > table.count
            for table in model.tables.tables
        ),
        "macro": repeater(macro) if f"{macro}(" in body else "",
        "bin": binary if content else "",
    }
    text_of_file = model.render("weights.c.j2", file, "tables of numbers", context)
    files = {file: text_of_file.encode("ascii")}
    # Never empty: which files there are is known from the recipe alone, for the build around ours.
    return {**files, binary: content or b"\0"} if options.weights == "incbin" else files


def _array(model: Sources, weights: Mapping[str, Array], table: Constant) -> Array:
    """Return a table's elements in the order of memory."""
    if table.tensor:
        array = weights[table.tensor]
    else:
        instance = model.instances[table.kernel]
        inputs = (o for o in instance.operands if o.role == "input" and o.tensor in weights)
        held = {o.name: weights[o.tensor] for o in inputs}
        array = make(instance, held)[table.operand]
    array = array.reshape(table.shape)
    if array.size and array.dtype != numbers.numpy_dtype(table.dtype):
        raise UserError(
            f"constant '{table.tensor}' holds {array.dtype}, its graph says {table.dtype}",
            where=model.graph.name,
            fix="delete the build folder and build again",
        )
    ordered = array.transpose(table.order) if table.order else array
    return numbers.stored(ordered, table.dtype)


def _definitions(
    model: Sources, arrays: list[tuple[Constant, Array]]
) -> tuple[list[_Definition], bytes]:
    """Return the definition of each table, and the bytes that the incbin form reads."""
    found: list[_Definition] = []
    content = b""
    for table, array in arrays:
        if table.form == "incbin":
            content += bytes(-len(content) % _ALIGN_BYTES)
            definition = _incbin(model, table, len(content))
            content += numbers.little_endian(array).tobytes()
        else:
            definition = _definition(model, table, array)
        found.append(_Definition(table_note(model, table), definition))
    return found, content


def _definition(model: Sources, table: Constant, array: Array) -> str:
    section = f"{model.face.macro}_WEIGHTS_SECTION"
    if table.form == "scalar":
        word = number(array.reshape(-1)[0].item(), table.dtype)
        return _commented(f"{section} const {table.ctype} {table.symbol} = {word};", array)
    is_union = table.form == "text"
    head = (
        f"{section} const {table.symbol}_t {table.symbol} = "
        if is_union
        else f"{section} const {table.ctype} {table.symbol}[{table.count}] = "
    )
    if array.size >= UNIFORM_COUNT and is_uniform(array):
        word = number(array.reshape(-1)[0].item(), table.dtype)
        if not numbers.little_endian(array[(0,) * array.ndim]).tobytes().strip(b"\0"):
            filled = f"{{ {word} }}"  # C sets the rest to zero
        elif is_union and table.count > MOST_NUMBERS:
            element = numbers.little_endian(array.reshape(-1)[:1]).tobytes()
            row = f"{table.symbol}_row".upper()
            macro, filled = repeated_text(element, table.count, f"{model.face.macro}_X16", row)
            return f"{macro}\n{head}{{ {filled} }};\n#undef {row}"
        else:
            filled = repeated(word, table.count, f"{model.face.macro}_X16")
        return f"{head}{{ .at = {filled} }};" if is_union else f"{head}{filled};"
    if is_union:
        return f"{head}{{ {text(numbers.little_endian(array).tobytes())} }};"
    return f"{head}{braces(array, table.dtype)};"


def _commented(definition: str, array: Array) -> str:
    """Return the definition of a number, with the decimal digits of a real as a comment."""
    if array.dtype.kind != "f":
        return definition
    comment = f"/* {array.reshape(-1)[0]!s} */"
    line = f"{definition} {comment}"
    return line if len(line) <= COLUMNS else f"{definition}\n    {comment}"


def _incbin(model: Sources, table: Constant, offset: int) -> str:
    macro, symbol = model.face.macro, table.symbol
    if table is model.tables.tables[0]:
        symbol = f"{symbol}_{model.tag}"
    lines = [
        f'"  .pushsection " {macro}_WEIGHTS_BIN_SECTION ".{symbol}, \\"a\\"\\n"',
        f'"  .balign {_ALIGN_BYTES}\\n"',
        f'"  .global {symbol}\\n"',
        f'"  .type {symbol}, %object\\n"',
        f'"  .size {symbol}, {table.size_bytes}\\n"',
        f'"{symbol}:\\n"',
        f'"  .incbin \\"" {macro}_WEIGHTS_BIN "\\", {offset}, {table.size_bytes}\\n"',
        '"  .popsection\\n"',
    ]
    return "__asm__(\n" + "\n".join(f"    {line}" for line in lines) + ");"


def _quantized(model: Sources, weights: Mapping[str, Array], port: Port) -> _Definition:
    """Define how an interface tensor's integers stand for reals."""
    assert port.quantized is not None
    name = f"{model.face.prefix}_{port.name}"
    section = f"{model.face.macro}_WEIGHTS_SECTION"
    scale = np.asarray(weights[port.quantized.scale]).reshape(-1)
    word = number(float(scale[0]), "float32")
    lines = [_commented(f"{section} const float {name}_scale = {word};", scale)]
    if port.quantized.zero_point:
        zero = int(np.asarray(weights[port.quantized.zero_point]).reshape(-1)[0].item())
        lines.append(f"{section} const int32_t {name}_zero_point = {zero};")
    return _Definition(block(f"{port.name}, for the caller"), "\n".join(lines))
