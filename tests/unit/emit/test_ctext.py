from typing import Literal

import pytest

from dlbuild.emit.ctext import ValueText
from dlbuild.emit.itext import IndexText, Place
from dlbuild.emit.ranges import Ranges
from dlbuild.rulebook.index import Folded, Index, Loaded, Quotient, Remainder
from dlbuild.rulebook.value import (
    COMPUTE_TYPE,
    Binary,
    Call,
    Cast,
    Choose,
    Compare,
    Expr,
    Local,
    Logic,
    Number,
    Position,
    Read,
    Type,
    Unary,
)

DTYPES = {
    "x": "int8",
    "w": "int8",
    "q": "int32",
    "f": "float32",
    "g": "float32",
    "u": "uint32",
    "t": "bool",
    "i": "int64",
}
EXTENT = {"a": 4, "b": 8}


def axis(name: str) -> Index:
    return Index.axis(name)


def indices() -> IndexText:
    return IndexText(
        ranges=Ranges(EXTENT, DTYPES),
        dtype=DTYPES,
        place=lambda atom: Place(tuple((i, 1) for i in atom.at)),
        names={n: n for n in DTYPES},
    )


def printer() -> ValueText:
    index = indices()
    return ValueText(
        index=index,
        ranges=index.ranges,
        operand={n: n for n in DTYPES},
        dtype=DTYPES,
        place=lambda _: Place(((axis("a"), 1),)),
        model_place=lambda _: axis("a"),
        by_value=frozenset(("g",)),
    )


def read(name: str) -> Read:
    return Read(name, COMPUTE_TYPE[DTYPES[name]])


def op(operator: Literal["+", "-", "*", "/", "//", "%", ">>"], left: Expr, right: Expr) -> Expr:
    return Binary(operator, left, right, left.type)


X, W, Q, F, G = read("x"), read("w"), read("q"), read("f"), read("g")
TWO = Number(2, "i32")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (op("*", op("-", X, TWO), W), "(x[a] - 2) * w[a]"),
        (op("+", op("*", X, W), W), "(x[a] * w[a]) + w[a]"),
        (op("*", op("*", F, F), F), "f[a] * f[a] * f[a]"),
        (op("*", F, op("*", F, F)), "f[a] * (f[a] * f[a])"),
        (op("/", op("*", F, F), F), "(f[a] * f[a]) / f[a]"),
        (op("-", F, op("-", F, F)), "f[a] - (f[a] - f[a])"),
        (op("-", F, Number(-2.0, "f32")), "f[a] - (-2.0F)"),
        (op("+", F, G), "f[a] + g"),
        (op("+", Q, X), "wrap_add_i32(q[a], x[a])"),
        (op("*", Q, Q), "wrap_mul_i32(q[a], q[a])"),
        (op("+", read("u"), Number(1, "u32")), "u[a] + 1U"),
        (op("//", X, TWO), "floor_div_i32(x[a], 2)"),
        (op("/", X, TWO), "x[a] / 2"),
        (op("/", X, W), "divide_i32(x[a], w[a])"),
        (op("%", F, F), "floor_mod_f32(f[a], f[a])"),
        (op(">>", X, TWO), "x[a] >> 2"),
        (op(">>", X, W), "shift_right_i32(x[a], w[a])"),
        (Unary("-", X, "i32"), "-x[a]"),
        (Unary("-", Q, "i32"), "wrap_sub_i32(0, q[a])"),
        (Unary("not", read("t"), "bool"), "!t[a]"),
        (Unary("~", X, "i32"), "~x[a]"),
        (Cast(Q, "f32"), "(float)q[a]"),
        (Cast(op("+", X, W), "f32"), "(float)(x[a] + w[a])"),
        (Cast(F, "i32"), "f32_to_i32(f[a])"),
        (Cast(X, "bool"), "x[a] != 0"),
        (Cast(read("t"), "i32"), "(int32_t)t[a]"),
        (Call("round", (F,), "f32"), "rintf(f[a])"),
        (Call("round", (X,), "i32"), "x[a]"),
        (Call("max", (F, G), "f32"), "max_f32(f[a], g)"),
        (Call("min", (read("t"), read("t")), "bool"), "t[a] && t[a]"),
        (Call("abs", (F,), "f32"), "fabsf(f[a])"),
        (Call("abs", (X,), "i32"), "abs_i32(x[a])"),
        (Call("exp", (F,), "f32"), "expf(f[a])"),
        (Call("fmod", (Q, Q), "i32"), "fmod_i32(q[a], q[a])"),
        (Position(axis("a") * 2 - 1), "(a * 2) - 1"),
        (Position(axis("a"), "i64"), "(int64_t)a"),
        (Local("acc", "i32"), "acc"),
        (
            Choose(Compare("<", X, W), F, op("+", F, F), "f32"),
            "(x[a] < w[a]) ? f[a] : f[a] + f[a]",
        ),
        (
            Logic("and", (Compare("<", X, W), Compare(">", X, TWO))),
            "(x[a] < w[a]) && (x[a] > 2)",
        ),
    ],
)
def test_a_value_in_c(value: Expr, text: str) -> None:
    assert printer().code(value) == text


SATURATED = Call("saturate", (F, Number(-128.0, "f32"), Number(127.0, "f32")), "f32")


ONTO = Binary("+", Call("round", (F,), "f32"), Cast(X, "f32"), "f32")
ROUNDED = Call("saturate", (ONTO, Number(-128.0, "f32"), Number(127.0, "f32")), "f32")


@pytest.mark.parametrize(
    ("value", "dtype", "kind", "text"),
    [
        (ROUNDED, "int8", "i32", "(int8_t)round_onto(x[a], f[a], -128, 127)"),
        (X, "int8", "i32", "(int8_t)x[a]"),
        (Q, "int32", "i32", "q[a]"),
        (F, "float32", "f32", "f[a]"),
        (Q, "float32", "f32", "(float)q[a]"),
        (F, "int8", "i32", "(int8_t)f32_to_i32(f[a])"),
        (SATURATED, "int8", "i32", "(int8_t)saturate_f32(f[a], -128.0F, 127.0F)"),
        (Cast(SATURATED, "i32"), "int8", "i32", "(int8_t)saturate_f32(f[a], -128.0F, 127.0F)"),
        (Compare("<", X, W), "bool", "bool", "x[a] < w[a]"),
    ],
)
def test_a_store_converts_once(value: Expr, dtype: str, kind: Type, text: str) -> None:
    assert printer().stored(value, dtype, kind) == text


A, B = axis("a"), axis("b")


@pytest.mark.parametrize(
    ("index", "text"),
    [
        (Index.of(0), "0"),
        (A * 8 + B, "(a * 8) + b"),
        (1 - A, "1 - a"),
        (-A, "-a"),
        (B - A * 2 + 3, "b - (a * 2) + 3"),
        (Index.atom(Quotient(A, 2)) + B, "(a / 2) + b"),
        (Index.atom(Quotient(A - 1, 2)), "floor_div_i32(a - 1, 2)"),
        (Index.atom(Remainder(A + B, 3)) * 4, "((a + b) % 3) * 4"),
        (Index.atom(Folded("clamp", A - 1, 3)), "clamp_index(a - 1, 3)"),
        (Index.atom(Folded("clamp", A, 9)), "(a)"),
        (Index.atom(Loaded("i", (A,))) * 8, "(int32_t)i[a] * 8"),
        (Index.atom(Loaded("x", (A,))), "x[a]"),
    ],
)
def test_an_index_map_in_c(index: Index, text: str) -> None:
    assert indices().index(index) == text


def test_an_address_keeps_the_map_of_each_axis_together() -> None:
    place = Place(((A * 2 + B - 1, 80), (B, 8), (A - 3, 1)))

    assert indices().address(place) == "(((a * 2) + b - 1) * 80) + (b * 8) + a - 3"


@pytest.mark.parametrize(
    ("operator", "left", "right", "text"),
    [
        (">=", A - 1, Index.of(0), "a >= 1"),
        ("<", A + B - 1, Index.of(8), "a + b < 9"),
        ("<", 3 - A, Index.of(0), "a > 3"),
        ("==", Index.atom(Remainder(A, 2)), Index.of(0), "(a % 2) == 0"),
    ],
)
def test_a_condition_has_its_constant_on_the_right(
    operator: Literal[">=", "<", "=="], left: Index, right: Index, text: str
) -> None:
    assert indices().holds(operator, left, right) == text
