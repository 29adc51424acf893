import math

import pytest

from dlbuild.emit.ctypes import number, storage, units
from dlbuild.rulebook.value import Type


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (0, "f32", "0.0F"),
        (0.1, "f32", "0.1F"),
        (1e-5, "f32", "1e-05F"),
        (1 / 3, "f32", "0.33333334F"),
        (1 / 3, "f64", "0.3333333333333333"),
        (-math.inf, "f32", "-INFINITY"),
        (math.inf, "f64", "(double)INFINITY"),
        (math.nan, "f32", "NAN"),
        (-128, "i32", "-128"),
        (-(2**31), "i32", "INT32_MIN"),
        (2**31 - 1, "i32", "INT32_MAX"),
        (-5, "i64", "-INT64_C(5)"),
        (-(2**63), "i64", "INT64_MIN"),
        (7, "u32", "7U"),
        (7, "u64", "UINT64_C(7)"),
        (1, "bool", "true"),
    ],
)
def test_a_literal_gives_exactly_its_number(value: float, kind: Type, text: str) -> None:
    assert number(value, kind) == text


@pytest.mark.parametrize(
    ("dtype", "ctype", "units_of_5"),
    [("bfloat16", "uint16_t", 5), ("float8e5m2", "uint8_t", 5), ("int4", "uint8_t", 3)],
)
def test_what_has_no_c_type_is_stored_as_bits(dtype: str, ctype: str, units_of_5: int) -> None:
    assert storage(dtype) == ctype
    assert units(dtype, 5) == units_of_5
