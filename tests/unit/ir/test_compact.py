from dataclasses import dataclass
from math import inf, isnan, nan

import pytest

from dlbuild.base.errors import UserError
from dlbuild.ir.compact import pack, unpack


@dataclass(frozen=True)
class Inner:
    numbers: tuple[float, ...]
    named: dict[str, "Inner"]


@dataclass(frozen=True)
class Outer:
    inner: tuple[Inner, ...]
    text: str
    nothing: None = None
    is_true: bool = True


VALUE = Outer((Inner((1, -0.0, 0.1, inf), {"b": Inner((), {}), "a": Inner((2,), {})}),), "ä\n")


def test_a_value_comes_back() -> None:
    assert unpack(pack(VALUE), Outer, (Inner,)) == VALUE


def test_types_order_and_signs_come_back() -> None:
    (inner,) = unpack(pack(VALUE), Outer, (Inner,)).inner
    assert list(inner.named) == ["b", "a"]
    assert [repr(number) for number in inner.numbers] == ["1", "-0.0", "0.1", "inf"]
    assert isnan(unpack(pack(Inner((nan,), {})), Inner).numbers[0])


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b'["Other"]', b'["Inner",1]', b'["Inner",["",1],{},3]', b"\xff"]
)
def test_other_files_are_refused(content: bytes) -> None:
    with pytest.raises(UserError, match="not a file of Inner"):
        unpack(content, Inner)


def test_a_class_that_was_not_named_is_not_made() -> None:
    with pytest.raises(UserError, match="not a file of Outer"):
        unpack(pack(VALUE), Outer)
