import numpy as np
import pytest

from dlbuild.ir.graph import Tensor
from dlbuild.ir.weights import Array, numpy_dtype
from dlbuild.run.verify_compare import Comparison, Tolerance, compare, limit_for


def compared(
    actual: list[float], reference: list[float], dtype: str, tolerance: Tolerance | None = None
) -> Comparison:
    kind = numpy_dtype(dtype)
    pair: tuple[Array, Array] = (np.array(actual).astype(kind), np.array(reference).astype(kind))
    limit = limit_for(dtype, tolerance or Tolerance(), 1)
    return compare(Tensor("y", dtype, (len(actual),)), "k", [pair], limit)


@pytest.mark.parametrize(
    ("dtype", "text"),
    [
        ("float32", "rtol 0.0001, atol 1e-05"),
        ("float64", "rtol 1e-09, atol 1e-12"),
        ("bfloat16", "rtol 0.01 of the range, atol 0.001"),
        ("float8e4m3fn", "rtol 0.01 of the range, atol 0.001"),
        ("int8", "1 LSB"),
        ("int32", "0 LSB"),
        ("bool", "0 LSB"),
    ],
)
def test_each_type_has_the_limit_of_the_manual(dtype: str, text: str) -> None:
    assert str(limit_for(dtype, Tolerance(), 1)) == text


def test_each_kernel_on_the_way_may_add_a_last_bit() -> None:
    assert str(limit_for("int8", Tolerance(), 5)) == "5 LSB"


def test_a_recipe_may_set_every_limit() -> None:
    tolerance = Tolerance(rtol=0.5, atol=0.25, lsb=3)
    assert str(limit_for("float32", tolerance, 9)) == "rtol 0.5, atol 0.25"
    assert str(limit_for("int8", tolerance, 9)) == "3 LSB"


def test_exact_allows_nothing() -> None:
    assert not compared([1.0], [1.0 + 1e-7], "float32", Tolerance(exact=True)).passed
    assert compared([1.0], [1.0], "float32", Tolerance(exact=True)).passed


def test_a_float_within_the_limit_passes_and_the_distance_is_reported() -> None:
    found = compared([1.0, 2.0], [1.0, 2.0001], "float32")
    assert found.passed
    assert found.n_differing == 1
    assert found.max_abs == pytest.approx(1e-4, rel=1e-2)
    assert found.max_rel == pytest.approx(5e-5, rel=1e-2)


def test_a_narrow_float_is_judged_by_the_range_of_the_output() -> None:
    assert compared([100.0, 0.5], [100.0, 0.0], "float16").passed
    assert not compared([100.0, 2.0], [100.0, 0.0], "float16").passed


def test_integers_are_counted_in_last_bits() -> None:
    assert compared([1, 2], [1, 3], "int8").passed
    found = compared([1, 2], [1, 4], "int8")
    assert not found.passed
    assert (found.max_abs, found.n_outside) == (2.0, 1)


def test_not_a_number_equals_itself_only() -> None:
    assert compared([np.nan, np.inf], [np.nan, np.inf], "float32").passed
    assert not compared([np.nan], [1.0], "float32").passed
    assert not compared([1.0], [np.inf], "float32").passed
    assert not compared([np.inf], [1.0], "float32").passed


def test_large_integers_that_round_to_one_float_still_differ() -> None:
    pair: tuple[Array, Array] = (np.array([2**60 + 1]), np.array([2**60]))
    found = compare(Tensor("y", "int64", (1,)), "", [pair], limit_for("int64", Tolerance(), 1))
    assert not found.passed


def test_the_greatest_element_may_be_any_of_equal_ones() -> None:
    assert compared([5, 6], [6, 6], "int8").argmax_agrees is True
    assert compared([5, 6], [6, 5], "int8").argmax_agrees is False
    assert compared([5], [6], "int8").argmax_agrees is None


def test_the_element_furthest_beyond_its_limit_is_named() -> None:
    assert compared([1.0, 2.5, 9.0], [1.0, 2.0, 3.0], "float32").worst == (
        "[2] of sample 0: 9.0, should be 3.0"
    )
    assert compared([1.0, float("nan")], [9.0, 2.0], "float32").worst == (
        "[1] of sample 0: nan, should be 2.0"
    )
    assert compared([1.0], [1.0], "float32").worst == ""
    assert compared([1_234_567], [1_234_568], "int32").worst == (
        "[0] of sample 0: 1234567, should be 1234568"
    )


def test_what_is_no_number_on_both_sides_is_counted() -> None:
    nan = float("nan")
    found = compared([nan, nan, 1.0], [nan, 2.0, 1.0], "float32")
    assert (found.n_nan, found.n_outside) == (1, 1)
