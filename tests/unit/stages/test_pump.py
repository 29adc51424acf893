from dataclasses import replace

import pytest

from dlbuild.ir.tile_plan import Layer, RowRead
from dlbuild.stages.pump import INPUT, Pump, Span, StuckError, Turn, distance

K3 = {"stride": 1, "low": -1, "high": 2}
"""A window of three rows with padding."""


def read(tensor: str, extent: int, stride: int = 1, low: int = 0, high: int = 1) -> RowRead:
    return RowRead(tensor, stride, low, high, extent)


def chain(*reads: RowRead, rows: int = 6) -> tuple[Layer, ...]:
    """Layers that write a, b, c... each reading what `reads` says."""
    return tuple(
        Layer(f"k{n}", "oh", rows, (one,), name)
        for n, (name, one) in enumerate(zip("abcd", reads, strict=False))
    )


def test_a_window_of_three_rows_is_kept_between_two_layers() -> None:
    layers = chain(read("x", 6), read("a", 6, **K3))
    pump = Pump(layers, frozenset({1}))

    turns, _ = pump.run({"a": 3})

    assert turns[:4] == [Turn(0, 0, 1), Turn(0, 1, 2), Turn(1, 0, 1), Turn(0, 2, 3)]
    assert pump.windows(turns)["a"] == 3


def test_the_demanded_order_asks_for_a_row_when_it_is_needed() -> None:
    pump = Pump(chain(read("x", 6), read("a", 6, **K3)), frozenset({1}))

    assert pump.demanded()[:4] == [Turn(0, 0, 1), Turn(0, 1, 2), Turn(1, 0, 1), Turn(0, 2, 3)]


def test_a_streamed_input_is_asked_for_when_no_layer_can_go() -> None:
    layers = chain(read("x", 6, **K3))
    pump = Pump(layers, frozenset({0}), "x", 6)

    turns, _ = pump.run({"x": 3})

    assert turns[:4] == [Turn(INPUT, 0, 1), Turn(INPUT, 1, 2), Turn(0, 0, 1), Turn(INPUT, 2, 3)]
    assert pump.windows(turns)["x"] == 3


def test_a_layer_waits_for_room_in_its_ring() -> None:
    # The reader takes each second row; without waiting the writer would run ahead.
    fast = Layer("fast", "oh", 6, (read("x", 6),), "a")
    slow = Layer("slow", "oh", 3, (read("a", 6, stride=2), read("late", 3)), "b")
    late = Layer("late", "oh", 3, (read("a", 6, stride=2, high=2),), "late")
    pump = Pump((fast, late, slow), frozenset({2}))

    _, waited = pump.run({"a": 2, "late": 1})

    assert waited[0] <= {1, 2}


def test_rings_that_are_too_small_are_found() -> None:
    pump = Pump(chain(read("x", 6), read("a", 6, **K3)), frozenset({1}))

    with pytest.raises(StuckError):
        pump.run({"a": 1})


def test_rows_that_only_a_later_step_reads_are_made_as_well() -> None:
    layers = chain(read("x", 6), read("a", 6, stride=2), rows=6)
    short = (layers[0], Layer("k1", "oh", 3, layers[1].reads, "b"))
    pump = Pump(short, frozenset({0, 1}))

    turns, _ = pump.run({})

    assert Turn(0, 5, 6) in turns


def test_an_output_may_not_overwrite_rows_read_in_the_same_turn() -> None:
    pump = Pump(chain(read("x", 6, **K3)), frozenset({0}))
    turns, _ = pump.run({})

    # Row r is written while rows r - 1 to r + 1 are read: it has to end below row r - 1.
    assert distance(pump, turns, ("x", Span(6, 10)), (0, Span(6, 10))) == 20


def test_an_output_half_as_wide_stays_below_what_is_read() -> None:
    pump = Pump(chain(read("x", 6)), frozenset({0}))
    turns, _ = pump.run({})

    assert distance(pump, turns, ("x", Span(6, 10)), (0, Span(6, 5))) == 5


def test_rows_that_are_computed_at_a_time_ask_for_the_input_of_all() -> None:
    layers = chain(read("x", 8), read("a", 8, low=0, high=5), rows=8)
    pump = Pump((replace(layers[0], step=3), replace(layers[1], rows=4, step=3)), frozenset({1}))

    turns, _ = pump.run({"a": 9})

    ends = [(turn.layer, turn.row, turn.end) for turn in turns]
    assert ends == [(0, 0, 3), (0, 3, 6), (0, 6, 8), (1, 0, 3), (1, 3, 4)]
