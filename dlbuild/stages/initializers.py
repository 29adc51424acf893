"""The numbers in an ONNX file and the structure around them, read without onnx.

What is not understood to the last bit is part of the structure, so that a change of it is seen.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Protocol

from dlbuild.base.wire import WireError, fields

if TYPE_CHECKING:
    from dlbuild.ir.weights import Array

# Field numbers of onnx.proto.
_MODEL_TEXTS = frozenset({2, 3, 6})
"""Of ModelProto: producer_name, producer_version, doc_string, which nothing depends on."""
_GRAPH, _INITIALIZER = 7, 5
_DIMS, _DATA_TYPE, _NAME, _LOCATION = 1, 2, 8, 14
_PLAIN = frozenset({12, 13, 16})
"""Of TensorProto: doc_string, external_data (unless the location says so), metadata_props."""
_FLOAT, _DOUBLE = 1, 11
_HOLDS: Mapping[int, int | None] = {9: None, 4: _FLOAT, 10: _DOUBLE}
"""Fields of TensorProto with numbers: raw_data, float_data, double_data; of which type alone."""

_TYPES: Mapping[int, tuple[str, int]] = {
    _FLOAT: ("<f4", 4),
    _DOUBLE: ("<f8", 8),
    10: ("<f2", 2),
    2: ("u1", 1),
    4: ("<u2", 2),
    12: ("<u4", 4),
    13: ("<u8", 8),
    3: ("i1", 1),
    5: ("<i2", 2),
    6: ("<i4", 4),
    7: ("<i8", 8),
}
"""TensorProto.DataType of elements that lie as numpy has them: its name of them, and bytes."""


class Unreadable(Exception):  # noqa: N818 - no fault: the model is read another way
    """A file that only onnx can read: damaged, or with numbers in other files."""


class _Digest(Protocol):
    def update(self, content: bytes | memoryview, /) -> None: ...


@dataclass(frozen=True)
class Initializer:
    """Numbers of a constant. dtype: numpy's name, with the order of bytes."""

    dtype: str
    shape: tuple[int, ...]
    content: memoryview

    @property
    def digest(self) -> str:
        """SHA-256 of the bytes."""
        return hashlib.sha256(self.content, usedforsecurity=False).hexdigest()

    @property
    def array(self) -> Array:
        """The numbers."""
        import numpy as np  # noqa: PLC0415 - 100 ms, and the structure needs it not

        array = np.frombuffer(self.content, self.dtype).reshape(self.shape)
        return array.astype(array.dtype.newbyteorder("="), copy=False)


@dataclass(frozen=True)
class Sketch:
    """A model file in two parts. structure: the digest of all that `initializers` do not hold."""

    structure: str
    initializers: Mapping[str, Initializer]


def sketch_of(content: bytes) -> Sketch:
    """Read the bytes of a model file.

    Raises:
        Unreadable: only onnx can tell what is in it, or what is wrong with it.
    """
    structure = hashlib.sha256(usedforsecurity=False)
    found: dict[str, Initializer] = {}
    n_graphs = 0
    try:
        for number, value in fields(content):
            if number == _GRAPH and isinstance(value, memoryview):
                n_graphs += 1
                _read_graph(value, structure, found)
            elif number in _MODEL_TEXTS and isinstance(value, memoryview):
                bytes(value).decode()
            else:
                _note(structure, "model", number, value)
    except (WireError, UnicodeDecodeError) as fault:
        raise Unreadable(str(fault)) from None
    if n_graphs != 1:
        raise Unreadable("it has not one graph")
    return Sketch(structure.hexdigest(), found)


def _read_graph(graph: memoryview, structure: _Digest, found: dict[str, Initializer]) -> None:
    for number, value in fields(graph):
        made = None
        if number == _INITIALIZER and isinstance(value, memoryview):
            made = _initializer(value, structure)
        if made is None:
            _note(structure, "graph", number, value)
            continue
        name, initializer = made
        if name in found:
            raise Unreadable(f"'{name}' is given twice")
        found[name] = initializer


def _initializer(tensor: memoryview, structure: _Digest) -> tuple[str, Initializer] | None:
    """Return name and numbers, and note the rest; None, with nothing noted, if all is structure."""
    parts = list(fields(tensor))
    kinds = {number for number, _ in parts}
    holding = [number for number, _ in parts if number in _HOLDS]
    if any(number == _LOCATION and value != 0 for number, value in parts):
        raise Unreadable("its numbers are in another file")
    if len(holding) != 1 or kinds - _HOLDS.keys() - _PLAIN - {_DIMS, _DATA_TYPE, _NAME, _LOCATION}:
        return None
    last = dict(parts)
    content, kind, name = last[holding[0]], last.get(_DATA_TYPE), last.get(_NAME)
    if not (isinstance(content, memoryview) and isinstance(name, memoryview)):
        return None
    if not isinstance(kind, int) or kind not in _TYPES or _HOLDS[holding[0]] not in (None, kind):
        return None
    dtype, size_bytes = _TYPES[kind]
    shape = [extent for number, value in parts if number == _DIMS for extent in _whole(value)]
    if len(content) != prod(shape) * size_bytes:
        return None
    for number, value in parts:
        if number == holding[0]:
            _note(structure, "numbers", number, len(content))
        else:
            _note(structure, "initializer", number, value)
    return bytes(name).decode(), Initializer(dtype, tuple(shape), content)


def _whole(value: int | memoryview) -> list[int]:
    """Return a whole number, or several that stand one behind the other."""
    if isinstance(value, int):
        return [value]
    numbers, current, shift = [], 0, 0
    for byte in value:
        current |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:  # noqa: PLR2004 - the last byte of a number
            numbers.append(current)
            current = shift = 0
    return numbers


def _note(structure: _Digest, where: str, number: int, value: int | memoryview) -> None:
    """Add a field to the digest, with its length before it."""
    content = str(value).encode() if isinstance(value, int) else value
    structure.update(f"{where} {number} {type(value).__name__} {len(content)}\n".encode())
    structure.update(content)
