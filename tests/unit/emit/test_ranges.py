from math import inf
from typing import Literal

import pytest

from dlbuild.emit.ranges import Ranges
from dlbuild.rulebook.instance import Fold, Loop
from dlbuild.rulebook.value import Binary, Call, Expr, Local, Number, Read

DTYPES = {"x": "int8", "w": "int8", "q": "int32", "f": "float32"}
X, W, Q = Read("x", "i32"), Read("w", "i32"), Read("q", "i32")


def op(operator: Literal["+", "-", "*"], left: Expr, right: Expr) -> Expr:
    return Binary(operator, left, right, left.type)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (X, (-128, 127)),
        (op("-", X, W), (-255, 255)),
        (op("*", op("-", X, W), W), (-32640, 32640)),
        (op("+", Q, X), (-(2**31), 2**31 - 1)),
        (Read("f", "f32"), (-inf, inf)),
        (Call("max", (X, Number(0, "i32")), "i32"), (0, 127)),
        (Call("saturate", (Q, Number(-8, "i32"), Number(7, "i32")), "i32"), (-8, 7)),
    ],
)
def test_the_range_of_a_value(value: Expr, expected: tuple[float, float]) -> None:
    assert Ranges({}, DTYPES).of(value) == expected


def test_the_products_of_int8_are_summed_without_a_check() -> None:
    product = op("*", op("-", X, W), W)
    fold = Fold("acc", Number(0, "i32"), op("+", Local("acc", "i32"), product), "i32")
    ranges = Ranges({"k": 576}, DTYPES)

    ranges.enter(Loop(("k",), folds=(fold,)))

    assert ranges.is_exact_fold(fold)
    assert ranges.of_local(fold) == (-32640 * 576, 32640 * 576)


def test_too_many_products_may_overflow() -> None:
    fold = Fold("acc", Number(0, "i32"), op("+", Local("acc", "i32"), op("*", X, W)), "i32")
    ranges = Ranges({"k": 200_000}, DTYPES)

    ranges.enter(Loop(("k",), folds=(fold,)))

    assert not ranges.is_exact_fold(fold)


def test_a_running_maximum_stays_in_the_range_of_what_it_reads() -> None:
    each = Call("max", (Local("top", "i32"), X), "i32")
    fold = Fold("top", Number(-128, "i32"), each, "i32")
    ranges = Ranges({"k": 9}, DTYPES)

    ranges.enter(Loop(("k",), folds=(fold,)))

    assert ranges.of_local(fold) == (-128, 127)
