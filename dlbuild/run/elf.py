"""The symbols of an executable, read from its file (Tool Interface Standard, ELF 1.2)."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_SYMBOLS = 2  # SHT_SYMTAB
_KINDS = (0, 1, 2)  # STT_NOTYPE, STT_OBJECT, STT_FUNC


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name for a place in memory, and how many bytes are there."""

    name: str
    address: int
    size_bytes: int

    @property
    def end(self) -> int:
        """The first address behind it."""
        return self.address + self.size_bytes


def symbols(file: Path) -> tuple[Symbol, ...]:
    """Return the symbols of a little-endian executable of 32 bits, in the order of the file."""
    content = file.read_bytes()
    assert content[:6] == b"\x7fELF\x01\x01", "linked for a target of 32 bits"
    at, size, count = _header(content)
    sections = [struct.unpack_from("<10I", content, at + size * number) for number in range(count)]
    found: list[Symbol] = []
    for section in sections:
        if section[1] == _SYMBOLS:
            names = sections[section[6]]
            found += _table(content, section[4], section[5], names[4])
    return tuple(found)


def _header(content: bytes) -> tuple[int, int, int]:
    """Return where the section headers are, the size of one, and their number."""
    (at,) = struct.unpack_from("<I", content, 0x20)
    size, count = struct.unpack_from("<HH", content, 0x2E)
    return at, size, count


def _table(content: bytes, at: int, size: int, names: int) -> Iterator[Symbol]:
    for entry in range(at, at + size, 16):
        name, address, size_bytes, kind = struct.unpack_from("<IIIB", content, entry)
        text = content[names + name : content.index(b"\0", names + name)].decode()
        if text and not text.startswith("$") and kind & 15 in _KINDS:
            yield Symbol(text, address, size_bytes)
