"""Costs of kernels: measured, or predicted in the unit of what was measured."""

import pytest

from dlbuild.ir.costs import Costs, KernelCost, Measurement, Measurements
from dlbuild.ir.profile import Alias, Kernel, Profile
from dlbuild.stages.costs import costs, missing
from dlbuild.stages.predicted import predicted


def kernel(name: str, cycles: int, alias: Alias | None = None) -> Kernel:
    empty: tuple[str, ...] = ()
    work = (8, 16, 4, 4, cycles)
    return Kernel(name, name, empty, empty, "r#R", "", empty, empty, empty, *work, alias)


PROFILE = Profile((kernel("a", 100), kernel("b", 300), kernel("view", 50, Alias("x"))))
SIGNATURES = {"a": "1", "b": "2", "view": "3"}


def measured(*entries: tuple[str, str, int]) -> Measurements:
    found = (Measurement(target, "", signature, "ns", cost) for target, signature, cost in entries)
    return Measurements(tuple(found))


def test_without_measurements_the_targets_table_predicts() -> None:
    assert predicted(PROFILE) == Costs(
        "cycles", (KernelCost("a", 100), KernelCost("b", 300), KernelCost("view", 0))
    )


def test_what_is_missing_is_predicted_in_the_unit_of_what_is_known() -> None:
    found = costs(PROFILE, SIGNATURES, measured(("t", "1", 700)), "t")
    assert (found.unit, found.of["a"].cost, found.of["b"].cost) == ("ns", 700, 2100)
    assert missing(PROFILE, found) == ("b",)


def test_a_measurement_of_another_target_counts_for_nothing() -> None:
    found = costs(PROFILE, SIGNATURES, measured(("other", "1", 700)), "t")
    assert (found.unit, missing(PROFILE, found)) == ("cycles", ("a", "b"))


def test_a_view_needs_no_measurement() -> None:
    found = costs(PROFILE, SIGNATURES, measured(("t", "1", 7), ("t", "2", 8)), "t")
    assert (missing(PROFILE, found), found.total) == ((), 15)


def test_a_new_measurement_replaces_that_of_its_signature() -> None:
    found = measured(("t", "2", 1), ("t", "1", 5)).with_entries(measured(("t", "1", 9)).entries)
    assert [(e.signature, e.cost) for e in found.entries] == [("1", 9), ("2", 1)]


@pytest.mark.parametrize(("targets", "left"), [("t", ["2", "4"]), ("u", ["1", "2"])])
def test_only_what_the_own_targets_no_longer_have_goes(targets: str, left: list[str]) -> None:
    found = measured(("t", "1", 1), ("t", "2", 2), ("u", "4", 3))
    kept = found.only(frozenset({"2"}), frozenset({targets}))
    assert [e.signature for e in kept.entries] == left
