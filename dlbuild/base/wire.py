"""The wire format of protocol buffers: numbered fields, without a schema.

https://protobuf.dev/programming-guides/encoding
"""

from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_MORE = 0x80


class WireError(ValueError):
    """Bytes that are not a message."""


def fields(message: bytes | memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield each field: its number, and a whole number or the bytes of anything else.

    Raises:
        WireError: the message ends within a field, or has one of an unknown kind.
    """
    view = memoryview(message)
    place = 0
    while place < len(view):
        tag, place = _varint(view, place)
        number, kind = tag >> 3, tag & 7
        if kind == VARINT:
            value, place = _varint(view, place)
            yield number, value
            continue
        if kind == BYTES:
            size, place = _varint(view, place)
        elif kind in (FIXED64, FIXED32):
            size = 8 if kind == FIXED64 else 4
        else:
            raise WireError(f"a field of kind {kind}")
        if place + size > len(view):
            raise WireError("the message is cut")
        yield number, view[place : place + size]
        place += size


def field(number: int, value: int | bytes) -> bytes:
    """Return one field: a whole number that is not negative, or bytes."""
    if isinstance(value, int):
        return _encoded(number << 3 | VARINT) + _encoded(value)
    return _encoded(number << 3 | BYTES) + _encoded(len(value)) + value


def _varint(view: memoryview, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if place >= len(view):
            raise WireError("the message is cut")
        byte = view[place]
        place += 1
        value |= (byte & ~_MORE) << shift
        if byte < _MORE:
            return value, place
        shift += 7


def _encoded(value: int) -> bytes:
    found = bytearray()
    while value >= _MORE:
        found.append(value & ~_MORE & 0xFF | _MORE)
        value >>= 7
    found.append(value)
    return bytes(found)
