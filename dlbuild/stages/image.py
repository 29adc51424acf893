"""Weights become an image: a file that is flashed apart from the code that reads it."""

from collections.abc import Iterator, Mapping

import numpy as np

from dlbuild.base.errors import UserError
from dlbuild.emit.intel_hex import intel_hex
from dlbuild.ir import weights as numbers
from dlbuild.ir.image import ImageLayout, encode_image
from dlbuild.ir.weights import Array
from dlbuild.stages.table_plan import TablePlan
from dlbuild.stages.table_text import arrays_of

_ADDRESSES = 2**32


def image_files(
    plan: TablePlan,
    weights: Mapping[str, Array],
    digest: str,
    version: int = 0,
    address: int | None = None,
) -> tuple[bytes, bytes]:
    """Return the image and, if its address is known, the same as Intel HEX; else empty files.

    Args:
        plan: the tables, and how they lie if there is to be an image.
        weights: the numbers of the model's constants, in the model's own axis order.
        digest: that of the weights' file.
        version: what the user calls the image.
        address: where it will lie in flash.

    Raises:
        UserError: the image cannot lie at its address.
    """
    layout = plan.image
    if layout is None:
        return b"", b""
    content = encode_image(layout, dict(_held(plan, weights)), digest, version)
    if address is None:
        return content, b""
    _check_address(layout, address)
    return content, intel_hex(content, address).encode("ascii")


def _held(plan: TablePlan, weights: Mapping[str, Array]) -> Iterator[tuple[str, bytes]]:
    """Yield the bytes of each table by its name; and how integers of the interface are reals."""
    for table, array in zip(plan.tables, arrays_of(plan, weights), strict=True):
        yield table.symbol, numbers.little_endian(array).tobytes()
    for scaling in plan.scalings:
        scale = np.asarray(weights[scaling.scale], np.float32).reshape(-1)[:1]
        yield f"{scaling.name}_scale", numbers.little_endian(scale).tobytes()
        if scaling.zero_point:
            zero = int(np.asarray(weights[scaling.zero_point]).reshape(-1)[0].item())
            yield f"{scaling.name}_zero_point", zero.to_bytes(4, "little", signed=True)


def _check_address(layout: ImageLayout, address: int) -> None:
    if address % layout.align_bytes:
        raise UserError(
            f"image_address: {address:#010x} is no multiple of {layout.align_bytes}",
            where=layout.model,
            why="the tables of the image lie at multiples of their alignment",
            fix=f"set image_address: {address - address % layout.align_bytes:#010x}",
        )
    if address + layout.size_bytes > _ADDRESSES:
        raise UserError(
            f"image_address: {address:#010x} has no room for {layout.size_bytes:,} B behind it",
            where=layout.model,
            why="addresses have 32 bits",
            fix="set a lower image_address",
        )
