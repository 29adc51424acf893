from dlbuild.rulebook.index import Index
from dlbuild.rulebook.instance import Access, Fold, Instance, Let, Loop, Nest, Operand
from dlbuild.rulebook.range import fits, range_of, range_of_dtype
from dlbuild.rulebook.rule import NEST_TEMPLATE
from dlbuild.rulebook.value import Binary, Call, Cast, Choose, Compare, Expr, Local, Number, Read

X = Read("x", "i32")
TOP = Local("top", "i32")


def number(value: float) -> Number:
    return Number(value, "f32")


def ranged(expr: Expr, step: Loop | None = None) -> tuple[float, float] | None:
    instance, nest = over_int8(step)
    return range_of(expr, instance, nest)


def over_int8(step: Loop | None = None) -> tuple[Instance, Nest]:
    access = {"x": Access("x", (4,), (Index.axis("i"),))}
    nest = Nest(("i",), (), {"i": 4}, access, (step or Loop(()),))
    operands = (Operand("x", "x", "int8", (4,), "input"),)
    instance = Instance("", "", "K", "", "", NEST_TEMPLATE, ("k",), operands, {}, (nest,))
    return instance, nest


def test_an_integer_type_bounds_what_is_read() -> None:
    assert ranged(X) == (-128, 127)
    assert range_of_dtype("uint4") == (0, 15)
    assert range_of_dtype("float32") is None


def test_saturation_bounds_what_is_unknown() -> None:
    unknown = Call("exp", (number(1.0),), "f32")
    assert ranged(unknown) is None
    saturated = Call("saturate", (unknown, number(0), number(255)), "f32")
    assert ranged(Cast(saturated, "i32")) == (0, 255)
    assert ranged(Call("round", (saturated,), "f32")) == (0, 255)


def test_the_greater_of_two_is_not_below_either() -> None:
    assert ranged(Call("max", (X, Number(3, "i32")), "i32")) == (3, 127)
    assert ranged(Call("min", (X, Number(3, "i32")), "i32")) == (-128, 3)


def test_a_sum_may_leave_the_type() -> None:
    total = Binary("+", X, X, "i32")
    instance, nest = over_int8()
    assert ranged(total) == (-256, 254)
    assert not fits(total, "int8", instance, nest)
    assert fits(total, "int16", instance, nest)


def test_what_wraps_has_no_bounds() -> None:
    most = Number(2**31 - 1, "i32")
    assert ranged(Binary("+", X, most, "i32")) is None
    assert ranged(Cast(Binary("+", Number(2**31, "i64"), Cast(X, "i64"), "i64"), "i32")) is None


def test_a_choice_is_one_of_two() -> None:
    test = Compare(">", X, Number(0, "i32"))
    assert ranged(Choose(test, X, Number(500, "i32"), "i32")) == (-128, 500)


def test_a_maximum_over_a_loop_stays_among_what_it_has_seen() -> None:
    fold = Fold("top", Number(-128, "i32"), Call("max", (TOP, X), "i32"), "i32")
    assert ranged(TOP, Loop(("i",), folds=(fold,))) == (-128, 127)


def test_a_sum_over_a_loop_has_no_bounds() -> None:
    fold = Fold("top", Number(0, "i32"), Binary("+", TOP, X, "i32"), "i32")
    assert ranged(TOP, Loop(("i",), folds=(fold,))) is None


def test_a_local_constant_has_the_bounds_of_its_value() -> None:
    let = Let("top", Binary("-", Number(0, "i32"), X, "i32"), "i32")
    assert ranged(TOP, Loop((), lets=(let,))) == (-127, 128)
