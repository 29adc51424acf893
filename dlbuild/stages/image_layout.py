"""Where each table lies in an image of weights, and the digest of all that fixes what it means.

Structure only: a retrained model has the same layout, and so the same firmware.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dlbuild.base.digest import digest
from dlbuild.base.errors import UserError
from dlbuild.emit.comments import block
from dlbuild.emit.ctypes import storage
from dlbuild.ir.image import FORMAT, HEAD, ImageLayout, ImageTable
from dlbuild.ir.target import weights_memory
from dlbuild.stages.arena import MEMBER
from dlbuild.stages.constant import Constant
from dlbuild.stages.sources import Sources, table_note

MARGIN = "    "

MEANING = 1
"""Raised when the same formula of a rule comes to give other numbers: images made before that no
longer fit kernels made after it.
"""

ALIGN_BYTES = 16
"""An image lies at a multiple of this at least, as linkers and programmers of flash have it."""

WORD_BYTES = 4
"""Arrays lie at multiples of this at least, since kernels read several elements at once."""

LIMIT_BYTES = 2**31
"""From this size on, an image has more bytes than an `int32_t` counts."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One table before it has a place. constant: None for a number that only callers read."""

    name: str
    dtype: str
    length: int
    size_bytes: int
    align_bytes: int
    meaning: str
    about: str
    constant: Constant | None = None


def image_layout(model: Sources) -> ImageLayout:
    """Return how the images of a model lie.

    Raises:
        UserError: an image would be too large.
    """
    entries = image_entries(model)
    offset = HEAD.size
    tables = []
    for entry in entries:
        offset = _rounded(offset, entry.align_bytes)
        tables.append(ImageTable(entry.name, entry.dtype, entry.length, offset, entry.size_bytes))
        offset += entry.size_bytes
    align = max([ALIGN_BYTES, *(entry.align_bytes for entry in entries)])
    size_bytes = _rounded(offset, align)
    if size_bytes >= LIMIT_BYTES:
        raise UserError(
            f"the weight image would have {size_bytes:,} B",
            where=f"{model.face.prefix}@{model.target.name}",
            why="its C counts bytes with 32 bits",
            fix="leave weights: image out",
        )
    structure = digest(
        {
            "format": FORMAT,
            "meaning": MEANING,
            "model": model.face.prefix,
            "structure": model.structure,
            "tables": [
                [table.name, table.dtype, table.length, table.offset_bytes, entry.meaning]
                for table, entry in zip(tables, entries, strict=True)
            ],
        }
    )
    return ImageLayout(model.face.prefix, structure, align, size_bytes, tuple(tables))


def image_entries(model: Sources) -> tuple[Entry, ...]:
    """Return the tables in their order: numbers by size, so that none needs a gap, then arrays."""
    entries = [_of_constant(model, table) for table in model.tables.tables]
    entries += _of_ports(model)
    numbers = [entry for entry in entries if not entry.length]
    arrays = [entry for entry in entries if entry.length]
    return (*sorted(numbers, key=lambda entry: -entry.size_bytes), *arrays)


def _rounded(offset: int, align: int) -> int:
    return -(-offset // align) * align


def _of_constant(model: Sources, table: Constant) -> Entry:
    unit = int(MEMBER[table.ctype][1:]) // 8
    memory = weights_memory(model.target.memories)
    is_array = table.form != "scalar"
    wanted = (WORD_BYTES, memory.align_bytes if memory else WORD_BYTES) if is_array else ()
    return Entry(
        table.symbol,
        table.dtype,
        table.count if is_array else 0,
        table.size_bytes,
        max([unit, *wanted]),
        _meaning(model, table),
        table_note(model, table, MARGIN),
        table,
    )


def _meaning(model: Sources, table: Constant) -> str:
    """Return what a table holds: which constant in which order, or the formula that makes it."""
    if table.tensor:
        return f"{table.tensor} {table.shape} {table.order}"
    instance = model.instances[table.kernel]
    made = (*instance.made, *(instance.handwritten.made if instance.handwritten else ()))
    # A constant may be made from constants that are in no table themselves.
    return f"{table.operand} {table.order} {[(one.operand, one.nest) for one in made]!r}"


def _of_ports(model: Sources) -> Iterator[Entry]:
    """Yield what turns the integers of interface tensors into reals."""
    for port in model.face.ports:
        if port.quantized is None:
            continue
        about = block(f"{port.name}, for the caller", MARGIN)
        scale, zero_point = port.quantized.scale, port.quantized.zero_point
        yield Entry(f"{port.name}_scale", "float32", 0, 4, 4, scale, about)
        if zero_point:
            yield Entry(f"{port.name}_zero_point", "int32", 0, 4, 4, zero_point, about)


@dataclass(frozen=True, slots=True)
class ImageMember:
    """One member of the C structure. gap: bytes before it that hold nothing. length: see above."""

    name: str
    ctype: str
    length: int
    offset_bytes: int
    gap: int
    about: str


def image_members(model: Sources, layout: ImageLayout) -> Sequence[ImageMember]:
    """Return the members behind the head; the last one may be a gap alone, without a name."""
    found = []
    end = HEAD.size
    for table, entry in zip(layout.tables, image_entries(model), strict=True):
        found.append(
            ImageMember(
                table.name,
                storage(table.dtype),
                table.length,
                table.offset_bytes,
                table.offset_bytes - end,
                entry.about,
            )
        )
        end = table.offset_bytes + table.size_bytes
    if layout.size_bytes > end:
        found.append(ImageMember("", "", 0, end, layout.size_bytes - end, ""))
    return found
