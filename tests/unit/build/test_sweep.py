"""Points of a sweep, and which of them no other is better than."""

import pytest

from dlbuild.base.errors import UserError
from dlbuild.build.sweep import Axis, Outcome, Point, best, read_axis
from dlbuild.report.sweep import sweep_text


def outcome(name: str, *figures: int, model: str = "net", fault: str = "") -> Outcome:
    point = Point("/dlbuild.yaml", model, "pc", (("optimize", name),), "")
    arena, flash, macs, cost = figures or (0, 0, 0, 0)
    return Outcome(point, arena, flash, 64, macs, cost, "cycles", fault)


def front(*outcomes: Outcome) -> list[str]:
    points = best(outcomes)
    return [dict(o.point.settings)["optimize"] for o in outcomes if o.point in points]


def test_an_axis_is_an_option_and_its_values() -> None:
    assert read_axis("optimize=speed, ram") == Axis("optimize", ("speed", "ram"))


def test_an_axis_may_be_the_size_of_a_memory() -> None:
    assert read_axis("memory.sram=4 KiB,8 KiB") == Axis("memory.sram", ("4 KiB", "8 KiB"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("optimize", "--over: error: 'optimize' gives no values\n  fix: write optimize=A,B"),
        ("optimise=ram", "--over:1:1: error: a build has no option 'optimise'"),
        ("optimize=ram,rom", "'optimize' cannot be 'rom'"),
        ("memory.sram=8", "--over:1:13: error: 'memory.sram': the size '8' has no unit"),
    ],
)
def test_a_wrong_axis_is_refused(text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        read_axis(text)
    assert message in str(caught.value)


def test_a_point_that_another_beats_is_not_on_the_front() -> None:
    assert front(outcome("a", 10, 10, 5, 5), outcome("b", 9, 10, 5, 5)) == ["b"]


def test_points_that_trade_are_both_on_the_front() -> None:
    assert front(outcome("a", 10, 9, 5, 5), outcome("b", 9, 10, 5, 5)) == ["a", "b"]


def test_equal_points_are_both_on_the_front() -> None:
    assert front(outcome("a", 1, 1, 1, 1), outcome("b", 1, 1, 1, 1)) == ["a", "b"]


def test_models_do_not_compete() -> None:
    small = outcome("b", 1, 1, 1, 1, model="other")
    assert front(outcome("a", 2, 2, 2, 2), small) == ["a", "b"]


def test_a_point_that_cannot_be_built_beats_nobody() -> None:
    assert front(outcome("a", 2, 2, 2, 2), outcome("b", fault="too large")) == ["a"]


def test_the_table_marks_the_front_and_says_what_failed() -> None:
    good, bad = outcome("a", 2000, 20, 2, 2), outcome("b", fault="too large")
    assert list(sweep_text([good, bad], best([good, bad])))[:4] == [
        "model@target       point  arena  flash  stack  MACs      cost",
        "net@pc        optimize=a  2,000     20     64     2  2 cycles  *",
        "net@pc        optimize=b      -      -      -     -         -",
        "net@pc optimize=b: too large",
    ]
