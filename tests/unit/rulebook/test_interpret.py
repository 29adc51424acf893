import math

import numpy as np
import pytest

from dlbuild.rulebook import places as module
from dlbuild.rulebook.arithmetic import Array
from dlbuild.rulebook.index import Atom, Folded, Index, Loaded, Quotient, Remainder, Tabled
from dlbuild.rulebook.instance import (
    Access,
    Condition,
    Fold,
    Guard,
    Instance,
    Let,
    Loop,
    Made,
    Nest,
    Operand,
    Store,
)
from dlbuild.rulebook.interpret import interpret, make
from dlbuild.rulebook.value import (
    Binary,
    Call,
    Cast,
    Choose,
    Compare,
    Expr,
    Local,
    Lookup,
    Number,
    Offset,
    Position,
    Read,
    Type,
)


def axis(name: str) -> Index:
    return Index.axis(name)


def add(left: Expr, right: Expr) -> Expr:
    return Binary("+", left, right, left.type)


def total(name: str, each: Expr) -> Fold:
    return Fold(name, Number(0, each.type), add(Local(name, each.type), each), each.type)


def operand(name: str, dtype: str, *shape: int) -> Operand:
    return Operand(name, name.upper(), dtype, shape, "output" if name[0] == "y" else "input")


def instance(operands: list[Operand], *nests: Nest, made: tuple[Made, ...] = ()) -> Instance:
    return Instance("", "", "", "", "", "", ("op",), tuple(operands), {}, nests, made)


def line(count: int, value: Expr, *reads: Access, name: str = "y") -> Nest:
    """Return a nest that writes `value` along one axis."""
    access = {a.operand: a for a in reads} | {name: Access(name, (count,), (axis("i"),))}
    return Nest(("i",), (), {"i": count}, access, (Loop((), stores=(Store(name, value),)),))


def computed(value: Expr, dtype: str, **arrays: Array) -> Array:
    """Return a value at each element of one-dimensional operands."""
    operands = [operand(n, a.dtype.name, len(a)) for n, a in arrays.items()]
    count = operands[0].shape[0]
    reads = [Access(o.name, o.shape, (axis("i"),)) for o in operands]
    whole = instance([*operands, operand("y", dtype, count)], line(count, value, *reads))
    return interpret(whole, arrays)["y"]


def read(name: str, kind: Type) -> Read:
    return Read(name, kind)


def test_int32_arithmetic_wraps_around() -> None:
    a = np.array([2**31 - 1, -(2**31)], np.int32)

    found = computed(add(read("a", "i32"), Number(1, "i32")), "int32", a=a)

    assert found.tolist() == [-(2**31), -(2**31) + 1]


def test_int8_computes_in_int32_and_stores_its_low_bits() -> None:
    a = np.array([100, -100], np.int8)

    found = computed(add(read("a", "i32"), read("a", "i32")), "int8", a=a)

    assert found.tolist() == [-56, 56]


def test_float32_arithmetic_rounds_to_float32() -> None:
    a = np.array([16777216.0], np.float32)

    found = computed(add(read("a", "f32"), Number(1.0, "f32")), "float32", a=a)

    assert found.tolist() == [16777216.0]


def test_a_store_of_a_float_truncates_and_saturates() -> None:
    a = np.array([1.9, -1.9, 3e9], np.float32)

    assert computed(read("a", "f32"), "int32", a=a).tolist() == [1, -1, 2**31 - 1]


def test_choose_and_cast() -> None:
    a = np.array([-3, 4], np.int32)
    positive = Compare(">", read("a", "i32"), Number(0, "i32"))
    value = Choose(positive, Cast(read("a", "i32"), "f32"), Number(0.5, "f32"), "f32")

    assert computed(value, "float32", a=a).tolist() == [0.5, 4.0]


def test_a_guarded_read_skips_iterations() -> None:
    x = Access("x", (4,), (axis("o") + axis("k") - 1,), (Guard(axis("o") + axis("k") - 1, 4),))
    nest = Nest(
        ("o",),
        ("k",),
        {"o": 4, "k": 3},
        {
            "x": Access("x", x.view, x.index, x.guards, "skip"),
            "y": Access("y", (4,), (axis("o"),)),
        },
        (
            Loop(("k",), folds=(total("acc", read("x", "i32")), total("n", Number(1, "i32")))),
            Loop((), stores=(Store("y", add(Local("acc", "i32"), Local("n", "i32"))),)),
        ),
    )
    whole = instance([operand("x", "int32", 4), operand("y", "int32", 4)], nest)

    found = interpret(whole, {"x": np.array([10, 20, 30, 40], np.int32)})["y"]

    assert found.tolist() == [32, 63, 93, 72]


def test_a_guarded_read_has_its_value_outside() -> None:
    place = axis("i") - 1
    x = Access("x", (2,), (place,), (Guard(place, 2),), Number(7, "i32"))
    whole = instance(
        [operand("x", "int32", 2), operand("y", "int32", 4)], line(4, read("x", "i32"), x)
    )

    found = interpret(whole, {"x": np.array([1, 2], np.int32)})["y"]

    assert found.tolist() == [7, 1, 2, 7]


def test_a_condition_decides_whether_an_iteration_happens() -> None:
    nest = Nest(
        ("i",),
        ("k",),
        {"i": 3, "k": 3},
        {"y": Access("y", (3,), (axis("i"),))},
        (
            Loop(
                ("k",),
                when=(Condition("<", axis("k"), axis("i")),),
                folds=(total("n", Number(1, "i32")),),
            ),
            Loop((), stores=(Store("y", Local("n", "i32")),)),
        ),
    )

    assert interpret(instance([operand("y", "int32", 3)], nest), {})["y"].tolist() == [0, 1, 2]


def test_folds_of_a_step_see_the_new_values_of_those_before() -> None:
    first = Fold("a", Number(0, "i32"), add(Local("a", "i32"), Number(1, "i32")), "i32")
    second = Fold("b", Number(0, "i32"), add(Local("b", "i32"), Local("a", "i32")), "i32")
    nest = Nest(
        (),
        ("k",),
        {"k": 3},
        {"y": Access("y", (), ())},
        (Loop(("k",), folds=(first, second)), Loop((), stores=(Store("y", Local("b", "i32")),))),
    )

    assert interpret(instance([operand("y", "int32")], nest), {})["y"].tolist() == 6


def test_a_store_with_a_fold_runs_along() -> None:
    at = (axis("a"), axis("r"))
    nest = Nest(
        ("a",),
        ("r",),
        {"a": 2, "r": 3},
        {"x": Access("x", (2, 3), at), "y": Access("y", (2, 3), at)},
        (
            Loop(
                ("r",),
                folds=(total("acc", read("x", "f32")),),
                stores=(Store("y", Local("acc", "f32")),),
            ),
        ),
    )
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    whole = instance([operand("x", "float32", 2, 3), operand("y", "float32", 2, 3)], nest)

    np.testing.assert_array_equal(interpret(whole, {"x": x})["y"], np.cumsum(x, axis=1))


def test_lets_hold_for_later_steps() -> None:
    nest = Nest(
        ("i",),
        (),
        {"i": 2},
        {"x": Access("x", (2,), (axis("i"),)), "y": Access("y", (2,), (axis("i"),))},
        (
            Loop((), lets=(Let("d", add(read("x", "i32"), Number(1, "i32")), "i32"),)),
            Loop((), stores=(Store("y", add(Local("d", "i32"), Local("d", "i32"))),)),
        ),
    )
    whole = instance([operand("x", "int32", 2), operand("y", "int32", 2)], nest)

    assert interpret(whole, {"x": np.array([1, 2], np.int32)})["y"].tolist() == [4, 6]


def test_an_index_is_loaded_from_a_tensor() -> None:
    row = Index.atom(Folded("wrap", Index.atom(Loaded("i", (axis("j"),), None)), 3))
    nest = Nest(
        ("j", "b"),
        (),
        {"j": 2, "b": 2},
        {
            "x": Access("x", (3, 2), (row, axis("b"))),
            "y": Access("y", (2, 2), (axis("j"), axis("b"))),
        },
        (Loop((), stores=(Store("y", read("x", "f32")),)),),
    )
    operands = [operand("x", "float32", 3, 2), operand("i", "int64", 2)]
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    whole = instance([*operands, operand("y", "float32", 2, 2)], nest)

    found = interpret(whole, {"x": x, "i": np.array([-1, 0])})["y"]

    np.testing.assert_array_equal(found, x[[-1, 0]])


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (Folded("clamp", axis("i") - 1, 3), [0, 0, 1, 2, 2, 2]),
        (Folded("reflect", axis("i") - 2, 3), [2, 1, 0, 1, 2, 1]),
        (Folded("reflect", axis("i") - 2, 1), [0, 0, 0, 0, 0, 0]),
        (Folded("wrap", axis("i") - 3, 3), [0, 1, 2, 0, 1, 2]),
        (Quotient(axis("i") - 2, 2), [-1, -1, 0, 0, 1, 1]),
        (Remainder(axis("i") - 2, 3), [1, 2, 0, 1, 2, 0]),
        (Tabled(axis("i"), "t", (5, 3, 1, 0, 2, 4)), [5, 3, 1, 0, 2, 4]),
    ],
)
def test_an_index_need_not_be_affine(place: Atom, expected: list[int]) -> None:
    whole = instance([operand("y", "int32", 6)], line(6, Position(Index.atom(place))))

    assert interpret(whole, {})["y"].tolist() == expected


def test_several_nests_write_parts_of_one_output() -> None:
    def part(name: str, start: int) -> Nest:
        access = {
            name: Access(name, (2,), (axis("i"),)),
            "y": Access("y", (4,), (axis("i") + start,)),
        }
        step = Loop((), stores=(Store("y", read(name, "i32")),))
        return Nest(("i",), (), {"i": 2}, access, (step,))

    operands = [operand(n, "int32", 2) for n in ("a", "b")] + [operand("y", "int32", 4)]
    arrays = {"a": np.array([1, 2], np.int32), "b": np.array([3, 4], np.int32)}

    found = interpret(instance(operands, part("a", 0), part("b", 2)), arrays)["y"]

    assert found.tolist() == [1, 2, 3, 4]


def test_an_offset_counts_elements_in_the_order_of_the_model() -> None:
    at = (axis("i"), axis("j"))
    nest = Nest(
        ("i", "j"),
        (),
        {"i": 2, "j": 3},
        {"x": Access("x", (2, 3), at), "y": Access("y", (2, 3), at)},
        (Loop((), stores=(Store("y", Offset("x")),)),),
    )
    whole = instance([operand("x", "int32", 2, 3), operand("y", "int32", 2, 3)], nest)

    found = interpret(whole, {"x": np.zeros((2, 3), np.int32)})["y"]

    assert found.ravel().tolist() == [0, 1, 2, 3, 4, 5]


def made_table() -> Instance:
    squares = Made("t", line(4, Call("exp", (Position(axis("i"), "f64"),), "f64"), name="t"))
    table = Operand("t", "t", "float64", (4,), "constant")
    looked_up = Lookup("t", read("x", "i32"), "f64")
    nest = line(2, looked_up, Access("x", (2,), (axis("i"),)))
    operands = [operand("x", "int8", 2), table, operand("y", "float64", 2)]
    return instance(operands, nest, made=(squares,))


def test_a_made_constant_is_computed_first() -> None:
    x = np.array([3, 0], np.int8)

    found = interpret(made_table(), {"x": x})["y"]

    np.testing.assert_array_equal(found, np.array([math.exp(3.0), 1.0]))


def test_make_needs_no_activation() -> None:
    assert make(made_table(), {})["t"].shape == (4,)


def test_a_made_constant_that_is_given_stays() -> None:
    given = np.arange(4, dtype=np.float64)

    found = interpret(made_table(), {"x": np.array([3, 1], np.int8), "t": given})["y"]

    assert found.tolist() == [3.0, 1.0]


def test_a_great_domain_is_computed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POINTS_AT_ONCE", 3)
    a = np.arange(10, dtype=np.int32)

    assert computed(add(read("a", "i32"), Number(1, "i32")), "int32", a=a).tolist() == [
        *range(1, 11)
    ]
