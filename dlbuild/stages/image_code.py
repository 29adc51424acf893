"""The C of images of weights: the structure of one, and the functions that check and use it."""

from dlbuild.ir.image import FORMAT, HEAD, MAGIC, ImageLayout
from dlbuild.stages.declaration import assertion
from dlbuild.stages.image_layout import image_members
from dlbuild.stages.sources import Context, Sources, includes_for

_CRC_POLYNOMIAL = 0xEDB88320
"""Of IEEE 802.3, its bits reversed."""


def image_header(model: Sources, layout: ImageLayout) -> str:
    """Return `<m>_weights.h`: the structure of an image."""
    context: Context = {
        "includes": includes_for([table.dtype for table in layout.tables]),
        "members": image_members(model, layout),
    }
    file = f"{model.face.prefix}_weights.h"
    return model.render("image.h.j2", file, "what an image of weights is", context)


def image_source(model: Sources, layout: ImageLayout) -> str:
    """Return `<m>_weights.c`: it checks images and knows which one is in use. It has no weights."""
    kind, macro = f"{model.face.prefix}_image_t", model.face.macro
    context: Context = {
        "tables": layout.tables,
        "head_bytes": HEAD.size,
        "size_check": assertion("image_has_its_size", f"sizeof({kind}) == {macro}_IMAGE_BYTES"),
        "magic": ", ".join(f"'{chr(letter)}'" for letter in MAGIC),
        "format": FORMAT,
        "digest": [f"0x{byte:02x}" for byte in bytes.fromhex(layout.structure)],
        "crc_table": [f"0x{_crc_of_nibble(n):08x}U" for n in range(16)],
        "ports": [
            {"name": port.name, "zero_point": port.quantized.zero_point != ""}
            for port in model.face.ports
            if port.quantized is not None
        ],
    }
    about = "which image of weights is used"
    return model.render("image.c.j2", f"{model.face.prefix}_weights.c", about, context)


def _crc_of_nibble(number: int) -> int:
    for _ in range(4):
        number = (number >> 1) ^ (_CRC_POLYNOMIAL if number & 1 else 0)
    return number
