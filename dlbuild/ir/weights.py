"""The numbers of a model's constants, apart from its structure, as one deterministic file.

The file is a line of text, a line of JSON that says what each tensor is and where it begins, and
the tensors' bytes, little endian, in the model's own axis order. Elements narrower than a byte
take one byte each here; they are packed where a table is written.
"""

import json
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from dlbuild.base.errors import UserError
from dlbuild.ir.dtype import DTYPES

Array = npt.NDArray[np.generic]

MAGIC = b"dlbuild weights 1\n"
ALIGN_BYTES = 16
BYTE_BITS = 8

# The names that ml_dtypes gives to the types which numpy does not have.
NARROW: dict[str, str] = {
    "bfloat16": "bfloat16",
    "float8e4m3fn": "float8_e4m3fn",
    "float8e4m3fnuz": "float8_e4m3fnuz",
    "float8e5m2": "float8_e5m2",
    "float8e5m2fnuz": "float8_e5m2fnuz",
    "float8e8m0": "float8_e8m0fnu",
    "float4e2m1": "float4_e2m1fn",
    "int2": "int2",
    "int4": "int4",
    "uint2": "uint2",
    "uint4": "uint4",
}
NAMES: dict[str, str] = {theirs: ours for ours, theirs in NARROW.items()}


def numpy_dtype(name: str) -> np.dtype[np.generic]:
    """Return numpy's type (or ml_dtypes', for the narrow ones) for an element type of ours."""
    if name in NARROW:
        import ml_dtypes  # noqa: PLC0415 - needed by models with narrow types alone

        found: np.dtype[np.generic] = np.dtype(getattr(ml_dtypes, NARROW[name]))
        return found
    return np.dtype(name)


def dtype_name(array: Array) -> str:
    """Return our name of an array's element type."""
    name = array.dtype.name
    return NAMES.get(name, name)


def encode(weights: Mapping[str, Array]) -> bytes:
    """Write the tensors, in the order of their names."""
    entries: list[dict[str, object]] = []
    chunks: list[bytes] = []
    offset = 0
    for name in sorted(weights):
        array = weights[name]
        content = little_endian(array).tobytes()
        padding = -len(content) % ALIGN_BYTES
        entries.append(
            {
                "name": name,
                "dtype": dtype_name(array),
                "shape": list(array.shape),
                "offset_bytes": offset,
                "size_bytes": len(content),
            }
        )
        chunks.append(content + bytes(padding))
        offset += len(content) + padding
    header = json.dumps(entries, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
    return MAGIC + header + b"".join(chunks)


def decode(content: bytes) -> dict[str, Array]:
    """Read what `encode` wrote.

    Raises:
        UserError: these are not bytes that `encode` of this version wrote.
    """
    if not content.startswith(MAGIC):
        raise UserError(
            "this is not a weights file of this version of dlbuild",
            fix="delete the build folder and build again",
        )
    end = content.index(b"\n", len(MAGIC))
    start = end + 1
    found: dict[str, Array] = {}
    for entry in json.loads(content[len(MAGIC) : end]):
        dtype = numpy_dtype(entry["dtype"])
        if dtype.itemsize > 1:
            dtype = dtype.newbyteorder("<")
        first = start + entry["offset_bytes"]
        part = content[first : first + entry["size_bytes"]]
        array = np.frombuffer(part, dtype=dtype).reshape(entry["shape"])
        found[entry["name"]] = array.astype(array.dtype.newbyteorder("="), copy=False)
    return found


def stored(array: Array, dtype: str) -> Array:
    """Return elements as memory holds them: numbers, or the bits of what has no C type.

    Elements narrower than a byte lie several in a byte, the first in the low bits (ONNX).
    """
    bits = DTYPES[dtype].bits
    if bits < BYTE_BITS:
        per_byte = BYTE_BITS // bits
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8) & ((1 << bits) - 1)
        padded = np.append(flat, np.zeros(-len(flat) % per_byte, np.uint8)).reshape(-1, per_byte)
        shifts = np.arange(per_byte, dtype=np.uint8) * bits
        return np.asarray(np.bitwise_or.reduce(padded << shifts, axis=1).astype(np.uint8))
    if DTYPES[dtype].kind == "float" and dtype not in {"float32", "float64"}:
        return np.ascontiguousarray(array).view(f"u{bits // BYTE_BITS}")
    return array


def loaded(content: bytes, dtype: str, count: int) -> Array:
    """Return `count` elements from the bytes that hold them in memory."""
    bits = DTYPES[dtype].bits
    if bits >= BYTE_BITS:
        return np.frombuffer(content, numpy_dtype(dtype))
    shifts = np.arange(0, BYTE_BITS, bits, dtype=np.uint8)
    parts = (np.frombuffer(content, np.uint8)[:, None] >> shifts) & ((1 << bits) - 1)
    flat = parts.reshape(-1)[:count].astype(np.uint8)
    if DTYPES[dtype].kind == "int":
        sign = 1 << (bits - 1)
        return ((flat ^ sign).astype(np.int8) - np.int8(sign)).astype(numpy_dtype(dtype))
    if DTYPES[dtype].kind == "uint":
        return flat.astype(numpy_dtype(dtype))
    return flat.view(numpy_dtype(dtype))


def little_endian(array: Array) -> Array:
    """Return the array contiguous, its elements in little endian order."""
    # numpy's ascontiguousarray gives a scalar one axis; the bytes are the same.
    contiguous = np.asarray(array, order="C")
    if contiguous.dtype.itemsize == 1:
        return contiguous
    return contiguous.astype(contiguous.dtype.newbyteorder("<"), copy=False)
