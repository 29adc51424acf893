"""A file of weights that is flashed apart from the firmware: how it lies, its head, its faults.

An image is what the C structure `<m>_image_t` says: a head of fixed form, then the tables, each at
its offset. Numbers are little endian. What is between the tables is zero.
"""

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from dlbuild.base.errors import UserError
from dlbuild.ir import codec

MAGIC = b"DLBW"
FORMAT = 1
"""Raised when the head gets another form."""

HEAD = struct.Struct("<4sIII32s32sI")
"""Magic, format, size in bytes, version, structure, weights, CRC."""

_CRC_AT = HEAD.size - 4

Fault = Literal["truncated", "foreign", "damaged", "stale"]


@dataclass(frozen=True, slots=True)
class ImageTable:
    """One table, a member of the C structure. length: stored units of an array; 0 = a number."""

    name: str
    dtype: str
    length: int
    offset_bytes: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ImageLayout:
    """How the images of one model lie.

    structure: SHA-256 of all that fixes what the tables mean and where they lie.
    align_bytes: what the address of an image is a multiple of.
    """

    model: str
    structure: str
    align_bytes: int
    size_bytes: int
    tables: tuple[ImageTable, ...]


@dataclass(frozen=True, slots=True)
class ImageHead:
    """What an image says of itself. structure, weights: SHA-256, in hexadecimal digits."""

    size_bytes: int
    version: int
    structure: str
    weights: str
    crc: int = 0
    format: int = FORMAT


def layout_of(content: bytes) -> ImageLayout | None:
    """Return the layout that a file of a build says, None if the build makes no image."""
    return codec.decode(content, ImageLayout) if content else None


def encode_image(
    layout: ImageLayout, tables: Mapping[str, bytes], weights: str, version: int
) -> bytes:
    """Return an image.

    Args:
        layout: where each table lies.
        tables: the bytes of each, little endian.
        weights: SHA-256 of the model's constants, in hexadecimal digits.
        version: what the user calls them.
    """
    content = bytearray(layout.size_bytes)
    for table in layout.tables:
        part = tables[table.name]
        assert len(part) == table.size_bytes, f"{table.name} has {len(part)} bytes"
        content[table.offset_bytes : table.offset_bytes + table.size_bytes] = part
    head = ImageHead(layout.size_bytes, version, layout.structure, weights)
    content[: HEAD.size] = _packed(head)
    content[: HEAD.size] = _packed(replace(head, crc=crc_of(bytes(content))))
    return bytes(content)


def crc_of(content: bytes) -> int:
    """Return the CRC-32 (IEEE 802.3) of an image: of all its bytes but those of the CRC itself."""
    return zlib.crc32(content[HEAD.size :], zlib.crc32(content[:_CRC_AT]))


def decode_head(content: bytes) -> ImageHead:
    """Return the head of an image, whatever is wrong behind it.

    Raises:
        UserError: these bytes begin with no such head.
    """
    if len(content) < HEAD.size:
        what = f"a weight image has at least {HEAD.size} B, this has {len(content)} B"
        raise UserError(what, fix="name the file that a build wrote or that was flashed")
    magic, number, size_bytes, version, structure, weights, crc = HEAD.unpack(content[: HEAD.size])
    if magic != MAGIC or number != FORMAT:
        what = "this is no weight image" if magic != MAGIC else f"its format is {number}"
        raise UserError(
            what,
            why=f"an image begins with the letters {MAGIC.decode()} and the number {FORMAT}",
            fix="build it with this version of dlbuild and weights: image",
        )
    return ImageHead(size_bytes, version, structure.hex(), weights.hex(), crc, number)


def fault_of(content: bytes, layout: ImageLayout | None = None) -> Fault | None:
    """Return what `<m>_check` of the firmware says of bytes, None if it takes them.

    layout: what the firmware was built for; None = whatever the image was built for.
    """
    if len(content) < HEAD.size:
        return "truncated"
    try:
        head = decode_head(content)
    except UserError:
        return "foreign"
    if head.size_bytes > len(content):
        return "truncated"
    if head.size_bytes < HEAD.size or crc_of(content[: head.size_bytes]) != head.crc:
        return "damaged"
    if layout is not None and head.structure != layout.structure:
        return "stale"
    is_whole = layout is None or head.size_bytes == layout.size_bytes
    return None if is_whole else "damaged"


def _packed(head: ImageHead) -> bytes:
    return HEAD.pack(
        MAGIC,
        head.format,
        head.size_bytes,
        head.version,
        bytes.fromhex(head.structure),
        bytes.fromhex(head.weights),
        head.crc,
    )
