import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlbuild.rulebook.arithmetic import (
    BINARY,
    FUNCTIONS,
    Array,
    convert,
    divide_round,
    fixed_point,
    saturate,
    scale_fixed,
    shift_round,
)
from dlbuild.rulebook.value import FUNCTIONS as DECLARED

INT32 = st.integers(-(2**31), 2**31 - 1)


def i32(*values: int) -> Array:
    return np.array(values, np.int32)


def f32(*values: float) -> Array:
    return np.array(values, np.float32)


def test_each_function_of_the_language_is_there() -> None:
    assert FUNCTIONS.keys() == DECLARED.keys()


def test_a_float_becomes_an_integer_without_its_fraction_and_saturated() -> None:
    found = convert(f32(-1.9, 1.9, 3e9, -3e9, np.nan, np.inf), "i32")

    assert found.tolist() == [-1, 1, 2**31 - 1, -(2**31), 0, 2**31 - 1]


def test_a_wider_integer_keeps_its_low_bits() -> None:
    assert convert(np.array([2**32 + 5], np.int64), "i32").tolist() == [5]


def test_integer_division_truncates_and_floor_division_does_not() -> None:
    a, b = i32(7, -7, 7, -7, 5), i32(2, 2, -2, -2, 0)

    with np.errstate(divide="ignore"):
        assert BINARY["/"](a, b).tolist() == [3, -3, -3, 3, 0]
        assert BINARY["//"](a, b).tolist() == [3, -4, -4, 3, 0]
        assert BINARY["%"](a, b).tolist() == [1, 1, -1, -1, 0]


def test_a_shift_by_the_width_or_more_leaves_the_sign() -> None:
    a, b = i32(-8, 4, -8, 1), i32(32, 33, -1, 3)

    assert BINARY[">>"](a, b).tolist() == [-1, 0, -1, 0]
    assert BINARY["<<"](a, b).tolist() == [0, 0, 0, 8]


def test_saturate_gives_the_low_bound_for_nan() -> None:
    found = saturate(f32(np.nan, 200, -200, 3), f32(-128), f32(127))

    assert found.tolist() == [-128, 127, -128, 3]


@given(INT32, INT32, st.integers(1, 62))
def test_scale_fixed_rounds_once_and_half_up(value: int, multiplier: int, shift: int) -> None:
    exact = math.floor(Fraction(value * multiplier, 2**shift) + Fraction(1, 2))

    found = scale_fixed(i32(value), i32(multiplier), i32(shift))

    assert found.tolist() == [min(max(exact, -(2**30)), 2**30)]


@given(INT32, st.integers(1, 2**31 - 1))
def test_divide_round_rounds_half_away_from_zero(numerator: int, denominator: int) -> None:
    magnitude = math.floor(Fraction(abs(numerator), denominator) + Fraction(1, 2))

    found = divide_round(i32(numerator), i32(denominator))

    assert found.tolist() == [magnitude if numerator >= 0 else -magnitude]


def test_shift_round_rounds_half_up() -> None:
    assert shift_round(i32(5, -5, 6, -6), i32(1)).tolist() == [3, -2, 3, -3]


@given(st.floats(1e-9, 1e8) | st.floats(-1e8, -1e-9))
def test_a_fixed_point_number_has_31_significant_bits(real: float) -> None:
    multiplier, shift = fixed_point(real)

    assert 1 <= shift <= 62
    assert abs(multiplier / 2.0**shift - real) <= max(abs(real) * 2.0**-31, 2.0**-63)


@pytest.mark.parametrize(("real", "expected"), [(0.0, (0, 1)), (1e30, (2**31 - 1, 1))])
def test_fixed_point_numbers_at_the_ends(real: float, expected: tuple[int, int]) -> None:
    assert fixed_point(real) == expected


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("exp", (1000.0,), math.inf),
        ("log", (0.0,), -math.inf),
        ("log", (-1.0,), math.nan),
        ("sinh", (-1000.0,), -math.inf),
        ("atanh", (-1.0,), -math.inf),
        ("pow", (0.0, -1.0), math.inf),
        ("pow", (-10.0, 401.0), -math.inf),
        ("pow", (-10.0, 0.5), math.nan),
    ],
)
def test_a_function_at_its_pole_gives_what_c_gives(
    name: str, arguments: tuple[float, ...], expected: float
) -> None:
    found = FUNCTIONS[name](*(np.array([a]) for a in arguments))

    np.testing.assert_array_equal(found, [expected])
