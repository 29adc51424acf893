"""Intel HEX (Intel, Hexadecimal Object File Format Specification, revision A): bytes at addresses
of 32 bits as text, which programmers of flash read.
"""

from collections.abc import Iterator

RECORD_BYTES = 32
_PAGE_BYTES = 1 << 16
_DATA, _END, _UPPER = 0, 1, 4


def intel_hex(content: bytes, address: int) -> str:
    """Return the text of `content` from `address` on; its last byte has an address of 32 bits."""
    return "".join(f"{record}\n" for record in _records(content, address))


def _records(content: bytes, address: int) -> Iterator[str]:
    upper = -1
    at, end = address, address + len(content)
    while at < end:
        if at // _PAGE_BYTES != upper:
            upper = at // _PAGE_BYTES
            yield _record(_UPPER, 0, upper.to_bytes(2, "big"))
        page_end = (upper + 1) * _PAGE_BYTES
        size = min(RECORD_BYTES, end - at, page_end - at)
        yield _record(_DATA, at % _PAGE_BYTES, content[at - address : at - address + size])
        at += size
    yield _record(_END, 0, b"")


def _record(kind: int, offset: int, part: bytes) -> str:
    body = bytes([len(part)]) + offset.to_bytes(2, "big") + bytes([kind]) + part
    return f":{(body + bytes([-sum(body) % 256])).hex().upper()}"
