import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlbuild.base.units import (
    CLOCK,
    COST,
    RATE,
    SIZE,
    TIME,
    QuantityError,
    Unit,
    bytes_text,
    read_quantity,
    whole,
)


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("48 KiB", SIZE, 49152),
        ("48KiB", SIZE, 49152),
        ("21.5 KiB", SIZE, 22016),
        ("100 B", SIZE, 100),
        ("2 MiB", SIZE, 2097152),
        ("4 B/cycle", RATE, 4),
        ("0.5 B/cycle", RATE, 0.5),
        ("64 MHz", CLOCK, 64_000_000),
        ("1.3 /MAC", COST, 1.3),
        ("40 cycles", TIME, 40),
        ("1 cycle", TIME, 1),
    ],
)
def test_a_quantity_has_a_number_and_a_unit(text: str, unit: Unit, value: float) -> None:
    assert read_quantity(text, unit) == value


@pytest.mark.parametrize(
    ("text", "unit", "what", "fix"),
    [
        ("48", SIZE, "the size '48' has no unit", "write 48 KiB"),
        ("49152", SIZE, "the size '49152' has no unit", "write 49152 B"),
        ("64", CLOCK, "the clock '64' has no unit", "write 64 MHz"),
        ("4", RATE, "the rate '4' has no unit", "write 4 B/cycle"),
        ("1.3", COST, "the cost '1.3' has no unit", "write 1.3 /MAC"),
        ("40", TIME, "the time '40' has no unit", "write 40 cycles"),
        ("48 kib", SIZE, "'kib' is not a unit of size", "write 48 KiB"),
        ("48 KB", SIZE, "'KB' is not a unit of size", "use one of: B, KiB, MiB, GiB"),
        ("many", SIZE, "'many' is not a size", "write it like 48 KiB"),
        ("-1 KiB", SIZE, "'-1 KiB' is not a size", "write it like 48 KiB"),
        ("0.3 B", SIZE, "'0.3 B' is not a whole number of B", "round it"),
        (f"1{'0' * 400} B", SIZE, f"the size '1{'0' * 400} B' is too great", "write fewer digits"),
    ],
)
def test_what_is_no_quantity_is_refused_with_the_right_form(
    text: str, unit: Unit, what: str, fix: str
) -> None:
    with pytest.raises(QuantityError) as caught:
        read_quantity(text, unit)
    assert (str(caught.value), caught.value.fix) == (what, fix)


@given(st.integers(0, 2**40))
def test_bytes_are_read_exactly(count: int) -> None:
    assert whole(f"{count} B", SIZE) == count


def test_bytes_are_printed_in_groups() -> None:
    assert bytes_text(22016) == "22,016 B"
