import re
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlbuild.emit.literals import (
    STRING_LIMIT,
    braces,
    chunks,
    is_uniform,
    number,
    repeated,
    repeater,
    text,
)


def test_int8_braces_stand_in_columns() -> None:
    values = np.array([-128, 0, 127, 5] * 4 + [1], np.int8)

    assert braces(values, "int8") == (
        "{\n"
        "    -128,    0,  127,    5, -128,    0,  127,    5,"
        " -128,    0,  127,    5, -128,    0,  127,    5,\n"
        "       1,\n"
        "}"
    )


def test_float_braces_are_hexadecimal_and_aligned() -> None:
    values = np.array([0.5, -1.0, 0.0, -0.0, 0.1], np.float32)

    assert braces(values, "float32") == (
        "{\n"
        "           0x1p-1F,       -0x1p+0F,           0.0F,          -0.0F,\n"
        "    0x1.99999ap-4F,\n"
        "}"
    )


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (-(1 << 31), "int32", "(-2147483647 - 1)"),
        (-(1 << 63), "int64", "(-9223372036854775807LL - 1)"),
        (7, "int64", "7"),
        (1 << 40, "int64", "1099511627776LL"),
        (4294967295, "uint32", "4294967295U"),
        ((1 << 64) - 1, "uint64", "18446744073709551615ULL"),
        (1, "bool", "true"),
        (0x3C00, "float16", "0x3c00U"),
        (0x7, "float8e5m2", "0x07U"),
        (float("nan"), "float32", "NAN"),
        (float("-inf"), "float64", "-INFINITY"),
        (2.0**-149, "float32", "0x1p-149F"),
        (0.1, "float64", "0x1.999999999999ap-4"),
    ],
)
def test_a_number_is_exact(value: float, dtype: str, expected: str) -> None:
    assert number(value, dtype) == expected


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_hexadecimal_double_reads_back_equal(value: float) -> None:
    word = number(value, "float64")

    assert float.fromhex(word).hex() == value.hex()


@given(st.integers(1, 3_000_000))
def test_chunks_cover_the_table_within_the_limit(size_bytes: int) -> None:
    shape = chunks(size_bytes)

    assert shape.columns <= STRING_LIMIT
    assert 0 <= shape.rows * shape.columns - size_bytes < shape.rows
    assert (shape.rows - 1) * shape.columns < size_bytes


def test_chunks_leave_no_rest_where_the_size_divides() -> None:
    assert chunks(36_864).rows * chunks(36_864).columns == 36_864


@given(st.binary(min_size=1, max_size=9000))
def test_string_literals_read_back_equal(content: bytes) -> None:
    lines = text(content)[2:-2].split("\n")
    ends = [line.endswith('",') for line in lines]
    bodies = [
        line.rstrip(",")[1:-1] if end else line[1:-1] for line, end in zip(lines, ends, strict=True)
    ]

    assert sum(ends) == chunks(len(content)).rows - 1
    assert all(len(line) <= 100 for line in text(content).splitlines())
    assert not re.search(r'"|\?|\\(?![0-7]{3})', "".join(bodies))
    found = re.findall(r"\\([0-7]{3})|([^\\])", "".join(bodies))
    assert bytes(int(octal, 8) if octal else ord(itself) for octal, itself in found) == content


@given(st.integers(1, 100_000))
def test_a_repeated_number_has_the_count_asked_for(count: int) -> None:
    items = repeated("7", count, "X16")[1:-1].split(",")[:-1]

    assert sum(16 ** item.count("X16") for item in items) == count
    assert len(items) <= 15 * 5


def test_a_repeated_number_starts_with_the_largest_part() -> None:
    assert repeated("3", 290, "X16") == "{\n    X16(X16(3)),\n    X16(3), X16(3),\n    3, 3,\n}"


def test_the_repeating_macro_stands_for_sixteen() -> None:
    assert repeater("X16") == "#define X16(v) v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v"


def test_a_table_of_one_value_is_uniform_by_its_bits() -> None:
    assert is_uniform(np.zeros(3, np.float32))
    assert is_uniform(np.full(3, np.nan, np.float32))
    assert not is_uniform(np.array([0.0, -0.0], np.float32))


def test_a_million_int8_elements_take_a_tenth_of_a_second() -> None:
    values = np.arange(1 << 20, dtype=np.int64).astype(np.int8)
    braces(values[:1000], "int8")

    start = time.process_time()
    braces(values, "int8")

    assert time.process_time() - start < 0.3  # 0.03 s alone; CI machines are busy
