import pytest

from dlbuild.rulebook.address import address, strides, view_strides
from dlbuild.rulebook.index import Index
from dlbuild.rulebook.instance import Access, Operand


def test_strides_follow_the_order_in_memory() -> None:
    assert strides((1, 64, 25, 5)) == (8000, 125, 5, 1)
    assert strides((1, 64, 25, 5), (0, 2, 3, 1)) == (8000, 1, 320, 64)


def test_a_view_may_merge_axes_that_are_neighbours_in_memory() -> None:
    assert view_strides((2, 12), (2, 3, 4)) == (12, 1)
    assert view_strides((2, 12), (2, 3, 4), (1, 2, 0)) == (1, 2)


def test_a_view_may_split_an_axis_in_any_order() -> None:
    assert view_strides((2, 3, 4), (6, 4), (1, 0)) == (3, 1, 6)


def test_a_view_that_merges_axes_apart_in_memory_has_no_strides() -> None:
    assert view_strides((2, 12), (2, 3, 4), (0, 2, 1)) is None


def test_unit_axes_of_a_view_change_nothing() -> None:
    assert view_strides((2, 3), (2, 1, 3, 1), (3, 1, 2, 0)) == (1, 2)


def test_an_address_is_the_sum_of_maps_times_strides() -> None:
    x = Operand("x", "X", "int8", (8, 10), "input")
    at = Access("x", (8, 10), (Index.axis("c"), Index.axis("h") * 2 - 1))

    assert address(at, x) == Index((("c", 10), ("h", 2)), -1)
    assert address(at, x, (1, 0)) == Index((("c", 1), ("h", 16)), -8)


def test_an_address_of_a_view_without_strides_is_refused() -> None:
    x = Operand("x", "X", "int8", (3, 4), "input")

    with pytest.raises(ValueError, match="is not a grid"):
        address(Access("x", (12,), (Index.axis("i"),)), x, (1, 0))
