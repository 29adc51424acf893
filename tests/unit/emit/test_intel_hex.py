"""Intel HEX as programmers of flash read it."""

from hypothesis import given
from hypothesis import strategies as st

from dlbuild.emit.intel_hex import intel_hex


def read_back(text: str) -> dict[int, int]:
    """Return each byte by its address; check every record's sum."""
    found: dict[int, int] = {}
    upper = 0
    for line in text.splitlines():
        record = bytes.fromhex(line.removeprefix(":"))
        assert sum(record) % 256 == 0
        size, offset, kind, part = record[0], record[1] << 8 | record[2], record[3], record[4:-1]
        assert len(part) == size
        if kind == 4:
            upper = int.from_bytes(part, "big") << 16
        elif kind == 0:
            assert offset + size <= 1 << 16
            found |= {upper + offset + n: byte for n, byte in enumerate(part)}
    return found


def test_a_short_file() -> None:
    assert intel_hex(b"\x01\x02", 0x08060000) == (
        ":020000040806EC\n"  # addresses from 0x08060000
        ":020000000102FB\n"
        ":00000001FF\n"
    )


@given(st.binary(max_size=300), st.integers(0, 2**32 - 300))
def test_every_byte_is_at_its_address(content: bytes, address: int) -> None:
    assert read_back(intel_hex(content, address)) == {
        address + n: byte for n, byte in enumerate(content)
    }


def test_a_page_border_begins_a_new_page() -> None:
    assert read_back(intel_hex(bytes(range(64)), 0x0001FFF0)) == {
        0x0001FFF0 + n: n for n in range(64)
    }
