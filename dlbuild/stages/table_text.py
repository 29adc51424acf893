"""Numbers and their plan become the C file of the tables, without rules and templates."""

from collections.abc import Mapping, Sequence
from itertools import chain, zip_longest

import numpy as np

from dlbuild.base.errors import UserError
from dlbuild.emit.literals import (
    COLUMNS,
    Array,
    braces,
    is_uniform,
    number,
    repeated,
    repeated_text,
    text,
)
from dlbuild.ir import weights as numbers
from dlbuild.rulebook.interpret import computed
from dlbuild.stages.constant import Constant
from dlbuild.stages.table_plan import DIGEST, Scaling, TablePlan, form

UNIFORM_COUNT = 256
"""From so many elements on, a table of one value is written as that value and a count."""

MOST_NUMBERS = 1 << 16
"""Up to so many elements such a table is a list of numbers to the compiler, beyond it is text."""

_ALIGN_BYTES = 16


def table_files(plan: TablePlan, weights: Mapping[str, Array], digest: str) -> tuple[bytes, bytes]:
    """Return the C file of the tables, and the file that it embeds, empty unless it does.

    Args:
        plan: the file but for its numbers.
        weights: the numbers of the model's constants, in the model's own axis order.
        digest: that of the weights' file.

    Raises:
        UserError: a constant has another element type than the graph says.
    """
    if plan.image is not None:
        (source,) = plan.texts[form(needs_math=False, repeats=False)]
        return source.encode("ascii"), b""
    definitions, content = _definitions(plan, arrays_of(plan, weights))
    definitions += [_scaling(plan, weights, scaling) for scaling in plan.scalings]
    needs_math = any("NAN" in one or "INFINITY" in one for one in definitions)
    repeats = any(f"{plan.macro}_X16(" in one for one in definitions)
    pieces = plan.texts[form(needs_math=needs_math, repeats=repeats)]
    framed = chain.from_iterable(zip_longest(pieces, definitions, fillvalue=""))
    # Never empty: which files there are is known from the recipe alone, for the build around ours.
    binary = content or b"\0" if plan.is_embedded else b""
    return "".join(framed).replace(DIGEST, digest).encode("ascii"), binary


def arrays_of(plan: TablePlan, weights: Mapping[str, Array]) -> list[Array]:
    """Return each table's elements in the order of memory; those to be computed are so once."""
    made: dict[str, Mapping[str, Array]] = {}
    for kernel, making in plan.makings.items():
        inputs = (o for o in making.operands if o.role == "input" and o.tensor in weights)
        held = {o.name: weights[o.tensor] for o in inputs}
        made[kernel] = computed(making.operands, making.made, held)
    found = (
        weights[table.tensor] if table.tensor else made[table.kernel][table.operand]
        for table in plan.tables
    )
    return [_in_memory(plan, table, one) for table, one in zip(plan.tables, found, strict=True)]


def _in_memory(plan: TablePlan, table: Constant, array: Array) -> Array:
    array = array.reshape(table.shape)
    if array.size and array.dtype != numbers.numpy_dtype(table.dtype):
        raise UserError(
            f"constant '{table.tensor}' holds {array.dtype}, its graph says {table.dtype}",
            where=plan.model,
            fix="delete the build folder and build again",
        )
    ordered = array.transpose(table.order) if table.order else array
    return numbers.stored(ordered, table.dtype)


def _definitions(plan: TablePlan, arrays: Sequence[Array]) -> tuple[list[str], bytes]:
    """Return the definition of each table, and the bytes that the incbin form reads."""
    found: list[str] = []
    content = b""
    for table, array in zip(plan.tables, arrays, strict=True):
        if table.form == "incbin":
            content += bytes(-len(content) % _ALIGN_BYTES)
            found.append(_incbin(plan, table, len(content)))
            content += numbers.little_endian(array).tobytes()
        else:
            found.append(_definition(plan, table, array))
    return found, content


def _definition(plan: TablePlan, table: Constant, array: Array) -> str:
    section = plan.sections[table.cluster]
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
            macro, filled = repeated_text(element, table.count, f"{plan.macro}_X16", row)
            return f"{macro}\n{head}{{ {filled} }};\n#undef {row}"
        else:
            filled = repeated(word, table.count, f"{plan.macro}_X16")
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


def _incbin(plan: TablePlan, table: Constant, offset: int) -> str:
    macro, symbol = plan.macro, table.symbol
    if table is plan.tables[0]:
        symbol = f"{symbol}_{plan.tag}"
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


def _scaling(plan: TablePlan, weights: Mapping[str, Array], scaling: Scaling) -> str:
    """Define how an interface tensor's integers stand for reals."""
    section = f"{plan.macro}_WEIGHTS_SECTION"
    scale = np.asarray(weights[scaling.scale]).reshape(-1)
    word = number(float(scale[0]), "float32")
    lines = [_commented(f"{section} const float {scaling.name}_scale = {word};", scale)]
    if scaling.zero_point:
        zero = int(np.asarray(weights[scaling.zero_point]).reshape(-1)[0].item())
        lines.append(f"{section} const int32_t {scaling.name}_zero_point = {zero};")
    return "\n".join(lines)
