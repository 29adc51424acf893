from collections.abc import Mapping

import pytest

from dlbuild.base.yamlsrc import Scalar, Source
from dlbuild.rulebook.index import Index
from dlbuild.rulebook.known import Typed
from dlbuild.rulebook.pack import ExpressionError, Term
from dlbuild.rulebook.value import (
    Binary,
    Call,
    Cast,
    Choose,
    Compare,
    Expr,
    Local,
    Logic,
    Lookup,
    Number,
    Offset,
    Position,
    Read,
    Type,
    Unary,
)
from dlbuild.rulebook.values import Scope, typed_value

SIZES: Mapping[str, Term] = {"K": 3, "ALPHA": 0.25, "MODE": "tanh", "IS": True, "X": (2, 3)}
READS = {"x": "float32", "d": "float64", "q": "int8", "u": "uint32", "w": "int64", "t": "bool"}
READS |= {"h": "float16", "v": "uint64", "p": "uint8"}
LOCALS: Mapping[str, Typed] = {"acc": Local("acc", "i32"), "sum": Local("sum", "f32")}
AXES: Mapping[str, Term] = {
    "i": Index.axis("i"),
    "o": (Index.axis("o0"), Index.axis("o1")),
    "one": Index(),
}
x, d, q = Read("x", "f32"), Read("d", "f64"), Read("q", "i32")
u, w, t = Read("u", "u32"), Read("w", "i64"), Read("t", "bool")


POSITIVE = Call("max", (q, Number(0, "i32")), "i32")


def typed(text: str, want: Type | None = None, output: str = "float32") -> Expr:
    scope = Scope(SIZES, {**SIZES, **AXES}, READS, {"b": 0, "c": 1}, LOCALS, {"lut": "i32"}, output)
    return typed_value(Scalar(Source("rules.yaml", (text,)), 1, 1, text), scope, want)


def number(value: float, type_: Type = "f32") -> Number:
    return Number(value, type_)


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("x + 1", Binary("+", x, number(1.0), "f32")),
        ("d * 0.5", Binary("*", d, number(0.5, "f64"), "f64")),
        ("q + 2", Binary("+", q, number(2, "i32"), "i32")),
        ("q * 0.5", Binary("*", Cast(q, "f32"), number(0.5), "f32")),
        ("q + x", Binary("+", Cast(q, "f32"), x, "f32")),
        ("q + w", Binary("+", Cast(q, "i64"), w, "i64")),
        ("x + d", Binary("+", Cast(x, "f64"), d, "f64")),
        ("t + t", Binary("+", Cast(t, "i32"), Cast(t, "i32"), "i32")),
        ("t + 1", Binary("+", Cast(t, "i32"), number(1, "i32"), "i32")),
        ("t & t", Binary("&", t, t, "bool")),
        ("q / 2", Binary("/", q, number(2, "i32"), "i32")),
        ("q // 2", Binary("//", q, number(2, "i32"), "i32")),
        ("x ** 2", Call("pow", (x, number(2.0)), "f32")),
        ("q << w", Binary("<<", q, Cast(w, "i32"), "i32")),
        ("q + 5000000000", Binary("+", Cast(q, "i64"), number(5000000000, "i64"), "i64")),
        ("-x", Unary("-", x, "f32")),
        ("~q", Unary("~", q, "i32")),
        ("-t", Unary("-", Cast(t, "i32"), "i32")),
        ("not q", Unary("not", Compare("!=", q, number(0, "i32")), "bool")),
    ],
)
def test_a_literal_takes_its_partners_type_and_the_wider_type_wins(text: str, due: Expr) -> None:
    assert typed(text) == due


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("q < u", Compare("<", Cast(q, "i64"), Cast(u, "i64"))),
        ("x >= 0", Compare(">=", x, number(0.0))),
        ("t and q", Logic("and", (t, Compare("!=", q, number(0, "i32"))))),
        ("x > 0 or True", number(1, "bool")),
        ("x > 0 and IS", Compare(">", x, number(0.0))),
        ("x > 0 and not IS", number(0, "bool")),
        ("MODE == 'tanh'", number(1, "bool")),
        ("'tan' in MODE", number(1, "bool")),
        ("K > 2 and rank(X) == 2", number(1, "bool")),
    ],
)
def test_what_is_known_at_build_time_folds_away(text: str, due: Expr) -> None:
    assert typed(text) == due


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("x if MODE == 'tanh' else missing", x),
        ("x if x > 0 else 0", Choose(Compare(">", x, number(0.0)), x, number(0.0), "f32")),
        ("q if t else x", Choose(t, Cast(q, "f32"), x, "f32")),
        ("1 if t else 0", Choose(t, number(1, "i32"), number(0, "i32"), "i32")),
        ("True if t else False", Choose(t, number(1, "bool"), number(0, "bool"), "bool")),
    ],
)
def test_a_choice_known_at_build_time_drops_the_other_branch(text: str, due: Expr) -> None:
    assert typed(text) == due


def test_a_choice_of_literals_takes_the_type_that_is_wanted() -> None:
    assert typed("1 if t else 0", "f32") == Choose(t, number(1.0), number(0.0), "f32")


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("x * 1", x),
        ("1.0 * x", x),
        ("x / 1", x),
        ("x - 0", x),
        ("q + 0", q),
        ("0 + q", q),
        ("x + b", x),
        ("b + x", x),
        ("x * c", x),
        ("x + ALPHA * b", x),
        ("x + 0", Binary("+", x, number(0.0), "f32")),
        ("x - -0.0", Binary("-", x, number(-0.0), "f32")),
        ("q / 1.0", Binary("/", Cast(q, "f32"), number(1.0), "f32")),
        ("t * 1", Cast(t, "i32")),
        ("x * 0", Binary("*", x, number(0.0), "f32")),
    ],
)
def test_only_what_changes_no_bit_is_left_out(text: str, due: Expr) -> None:
    assert typed(text) == due


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("exp(q)", Call("exp", (Cast(q, "f32"),), "f32")),
        ("exp(d)", Call("exp", (d,), "f64")),
        ("exp(ALPHA)", Call("exp", (number(0.25),), "f32")),
        ("abs(x)", Call("abs", (x,), "f32")),
        ("abs(u)", u),
        ("floor(q)", q),
        ("round(x)", Call("round", (x,), "f32")),
        ("isnan(q)", number(0, "bool")),
        ("isinf(x)", Call("isinf", (x,), "bool")),
        ("max(x, 0)", Call("max", (x, number(0.0)), "f32")),
        ("max(q, 0, w)", Call("max", (Cast(POSITIVE, "i64"), w), "i64")),
        ("max(K, 5)", number(5, "i32")),
        ("min(2.5, ALPHA)", number(0.25)),
        ("pow(q, 2)", Call("pow", (Cast(q, "f64"), number(2.0, "f64")), "f64")),
        ("pow(x, q)", Call("pow", (x, Cast(q, "f32")), "f32")),
        ("fmod(q, 3)", Call("fmod", (q, number(3, "i32")), "i32")),
        ("f64(x)", Cast(x, "f64")),
        ("f32(3)", number(3.0)),
        ("i32(2.7)", number(2, "i32")),
        ("bool(x)", Compare("!=", x, number(0.0))),
        ("scale_fixed(acc, q, q)", Call("scale_fixed", (Local("acc", "i32"), q, q), "i32")),
        ("divide_round(w, 2)", Call("divide_round", (w, number(2, "i64")), "i64")),
        ("fixed_shift(x)", Call("fixed_shift", (Cast(x, "f64"),), "i32")),
        ("prod(X) * q", Binary("*", number(6, "i32"), q, "i32")),
        ("x * X[1]", Binary("*", x, number(3.0), "f32")),
    ],
)
def test_functions_take_and_give_the_types_they_should(text: str, due: Expr) -> None:
    assert typed(text) == due


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("index(i * 2 + 1)", Position(Index.axis("i") * 2 + 1)),
        ("index(o[1])", Position(Index.axis("o1"))),
        ("i", Position(Index.axis("i"))),
        ("one", number(0, "i32")),
        ("offset(x)", Offset("x")),
        ("lowest(x)", number(float("-inf"))),
        ("highest(q)", number(127, "i32")),
        ("lowest(p)", number(0, "i32")),
        ("highest(w)", number(2**63 - 1, "i64")),
        ("lowest(h)", number(float("-inf"))),
        ("lut[255 + q]", Lookup("lut", Binary("+", number(255, "i32"), q, "i32"), "i32")),
    ],
)
def test_places_and_limits_are_numbers(text: str, due: Expr) -> None:
    assert typed(text) == due


def test_saturation_is_to_the_range_of_the_output() -> None:
    low, high = number(-128.0), number(127.0)
    assert typed("saturate(x)", output="int8") == Call("saturate", (x, low, high), "f32")
    low, high = number(0, "i32"), number(255, "i32")
    assert typed("saturate(q)", output="uint8") == Call("saturate", (q, low, high), "i32")
    assert typed("saturate(x)", output="float16") == x


def test_saturation_stays_within_the_type_of_the_value() -> None:
    low, high = number(0, "i32"), number(2**31 - 1, "i32")
    assert typed("saturate(q)", output="uint32") == Call("saturate", (q, low, high), "i32")


def test_the_result_is_converted_to_what_is_wanted() -> None:
    assert typed("x", "i32") == Cast(x, "i32")
    assert typed("1", "f32") == number(1.0)
    assert typed("300", "bool") == number(1, "bool")
    assert typed("0.5") == number(0.5)
    assert typed("K") == number(3, "i32")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x + zz", "'zz' is not known here"),
        ("foo(x)", "there is no function 'foo'"),
        ("exp(x, x)", "exp() takes 1 values, not 2"),
        ("x & 1", "'&' needs integers or truths"),
        ("x + MODE", "a number is needed here, not the text 'tanh'"),
        ("x + X", "a number is needed here, not a pack of 2"),
        ("x in X", "'in' is for texts and packs known at build time"),
        ("offset(K)", "an operand that is there is needed here"),
    ],
)
def test_a_fault_in_a_value_is_named(text: str, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        typed(text)
    assert caught.value.what == message


def test_saturation_needs_an_output() -> None:
    with pytest.raises(ExpressionError, match="is for the value of an output"):
        typed("saturate(x)", output="")
