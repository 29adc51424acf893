"""Frozen dataclasses behave as those of the standard library."""

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field, replace
from typing import Any

import pytest

from dlbuild.base.record import dataclass as ours

KINDS = pytest.mark.parametrize("slots", [False, True])


def made(decorator: Callable[..., Any], *, slots: bool) -> tuple[Any, Any, Any]:
    """Return a class with defaults, one derived from it, and one without fields."""
    frozen = decorator(frozen=True, slots=slots)

    @frozen
    class Point:
        """A point."""

        x: int
        label: str = "p"
        parts: tuple[int, ...] = field(default_factory=tuple)
        secret: int = field(default=0, repr=False)

    @frozen
    class Deep(Point):  # noqa: PLW1641 - the hash is made
        z: float = 0.5

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Deep) and other.z == self.z

    @frozen
    class Empty:
        pass

    return Point, Deep, Empty


@dataclasses.dataclass
class Count:
    """How often a default was made."""

    number: int = 0

    def __call__(self) -> int:
        """Count one more."""
        self.number += 1
        return self.number


@ours(frozen=True, slots=True)
class Slotted:
    """At the top of a module, so that it can be pickled."""

    x: int
    y: tuple[int, ...] = ()


@KINDS
def test_prints_compares_and_hashes_as_the_standard_library(*, slots: bool) -> None:
    mine_all, theirs_all = made(ours, slots=slots), made(dataclasses.dataclass, slots=slots)
    for values in ((1,), (1, "q"), (2, "p", (3,)), (2, "p", (3,), 9)):
        for mine, theirs in zip(mine_all[:2], theirs_all[:2], strict=True):
            one, other = mine(*values), theirs(*values)
            assert repr(one) == repr(other)
            assert hash(one) == hash(other)
            assert dataclasses.asdict(one) == dataclasses.asdict(other)
            assert one.__match_args__ == other.__match_args__
            assert (one == mine(1, "q")) == (other == theirs(1, "q"))
    assert mine_all[0](1) != mine_all[1](1)
    assert hash(mine_all[2]()) == hash(theirs_all[2]())
    assert mine_all[2]() == mine_all[2]()
    assert mine_all[0](1).__eq__(1) is NotImplemented


@KINDS
def test_an_attribute_is_neither_set_nor_deleted(*, slots: bool) -> None:
    point = made(ours, slots=slots)[0](1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 2
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
        del point.x
    with pytest.raises(FrozenInstanceError):
        point.unknown = 2
    assert replace(point, x=5).x == 5
    assert hasattr(point, "__dict__") != slots


def test_a_default_is_made_for_each_object() -> None:
    count = Count()

    @ours(frozen=True)
    class Made:
        number: int = field(default_factory=count)

    assert [Made().number, Made(7).number, Made(number=8).number, Made().number] == [1, 7, 8, 2]
    with pytest.raises(TypeError, match="unexpected keyword"):
        Made(other=1)  # type: ignore[call-arg]


def test_what_follows_the_fields_is_run() -> None:
    @ours(frozen=True)
    class Checked:
        number: int

        def __post_init__(self) -> None:
            if self.number < 0:
                raise ValueError(self.number)

    assert Checked(1).number == 1
    with pytest.raises(ValueError, match="-1"):
        Checked(-1)


def test_slots_are_copied_and_pickled() -> None:
    one = Slotted(1, (2, 3))
    assert pickle.loads(pickle.dumps(one)) == one  # noqa: S301 - its own
    assert copy.deepcopy(one) == one
    assert copy.copy(one) == one


def test_a_field_that_is_not_compared_is_refused() -> None:
    with pytest.raises(AssertionError, match=r"Odd\.number"):

        @ours(frozen=True)
        class Odd:
            number: int = field(compare=False)


def test_other_options_are_the_standard_library_s() -> None:
    @ours(frozen=True, order=True)
    class Ordered:
        number: int

    @ours
    class Open:
        number: int

    assert Ordered(1) < Ordered(2)
    one = Open(1)
    one.number = 2
    assert one == Open(2)
