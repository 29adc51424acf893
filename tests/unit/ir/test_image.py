"""Images of weights: what they say, and that nothing that is wrong with one passes."""

import zlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlbuild.base.errors import UserError
from dlbuild.ir.image import (
    FORMAT,
    HEAD,
    ImageLayout,
    ImageTable,
    decode_head,
    encode_image,
    fault_of,
    layout_of,
)

LAYOUT = ImageLayout(
    "net",
    "ab" * 32,
    16,
    112,
    (ImageTable("scale", "float32", 0, 84, 4), ImageTable("w", "int8", 5, 92, 5)),
)
TABLES = {"scale": b"\1\2\3\4", "w": b"abcde"}
IMAGE = encode_image(LAYOUT, TABLES, "cd" * 32, 7)


def test_tables_lie_where_the_layout_says_and_gaps_are_zero() -> None:
    assert IMAGE[84:] == b"\1\2\3\4" + bytes(4) + b"abcde" + bytes(15)


def test_the_head_says_what_the_image_is() -> None:
    head = decode_head(IMAGE)

    assert (head.size_bytes, head.version, head.format) == (112, 7, FORMAT)
    assert (head.structure, head.weights) == ("ab" * 32, "cd" * 32)


def test_the_crc_is_that_of_ieee_over_all_other_bytes() -> None:
    assert decode_head(IMAGE).crc == zlib.crc32(IMAGE[:80] + IMAGE[84:])


def test_a_whole_image_passes_with_more_bytes_behind_it() -> None:
    assert fault_of(IMAGE, LAYOUT) is None
    assert fault_of(IMAGE + b"\xff" * 40, LAYOUT) is None


@given(st.integers(0, len(IMAGE) * 8 - 1))
def test_no_single_bit_may_be_flipped(bit: int) -> None:
    content = bytearray(IMAGE)
    content[bit // 8] ^= 1 << (bit % 8)

    assert fault_of(bytes(content), LAYOUT) is not None
    assert fault_of(bytes(content)) is not None


@given(st.integers(0, len(IMAGE) - 1))
def test_no_byte_may_be_missing(size: int) -> None:
    assert fault_of(IMAGE[:size], LAYOUT) == "truncated"


@given(st.binary(max_size=200))
def test_other_bytes_are_no_image(content: bytes) -> None:
    assert fault_of(content, LAYOUT) in {"truncated", "foreign"}


def test_erased_flash_is_foreign() -> None:
    assert fault_of(b"\xff" * 4096, LAYOUT) == "foreign"


def test_an_image_of_another_structure_is_stale() -> None:
    other = replace(LAYOUT, structure="ac" * 32)

    assert fault_of(encode_image(other, TABLES, "cd" * 32, 7), LAYOUT) == "stale"
    assert fault_of(encode_image(other, TABLES, "cd" * 32, 7)) is None


def test_a_size_that_is_not_the_layouts_does_not_pass() -> None:
    longer = encode_image(replace(LAYOUT, size_bytes=128), TABLES, "cd" * 32, 7)

    assert fault_of(longer, LAYOUT) == "damaged"


def test_a_size_below_the_heads_does_not_pass() -> None:
    content = bytearray(IMAGE)
    content[8:12] = (HEAD.size - 1).to_bytes(4, "little")

    assert fault_of(bytes(content), LAYOUT) == "damaged"


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"DLBW", "a weight image has at least 84 B, this has 4 B"),
        (b"ELF" + bytes(100), "this is no weight image"),
        (b"DLBW\2" + bytes(100), "its format is 2"),
    ],
)
def test_what_has_no_head_is_named(content: bytes, what: str) -> None:
    with pytest.raises(UserError) as caught:
        decode_head(content)

    assert str(caught.value).startswith(f"error: {what}\n")


def test_a_build_without_images_has_no_layout() -> None:
    assert layout_of(b"") is None
