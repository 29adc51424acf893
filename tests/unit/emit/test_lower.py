from collections.abc import Mapping

from dlbuild.emit.lower import Lowered, lower, simplified
from dlbuild.rulebook.index import Folded, Index, Quotient, Remainder
from dlbuild.rulebook.instance import Access, Fold, Guard, Loop, Nest, Operand, Store
from dlbuild.rulebook.value import Binary, Expr, Local, Number, Position, Read

Order = tuple[int, ...]


def axis(name: str) -> Index:
    return Index.axis(name)


def axes(*names: str) -> tuple[Index, ...]:
    return tuple(axis(n) for n in names)


def copied(
    shape: tuple[int, ...], value: Expr | None = None, orders: Mapping[str, Order] | None = None
) -> Lowered:
    """Return the lowered nest of y[i...] = x[i...]."""
    names = tuple(f"i{n}" for n in range(len(shape)))
    access = {n: Access(n, shape, axes(*names)) for n in ("x", "y")}
    step = Loop((), stores=(Store("y", value or Read("x", "f32")),))
    nest = Nest(names, (), dict(zip(names, shape, strict=True)), access, (step,))
    operands = {
        "x": Operand("x", "x", "float32", shape, "input"),
        "y": Operand("y", "y", "float32", shape, "output"),
    }
    return lower(nest, operands, orders or {}, frozenset())


def summed(each: Expr, orders: Mapping[str, Order]) -> Lowered:
    """Return the lowered nest of y = the fold of x[a, b] over a and b."""
    nest = Nest(
        (),
        ("a", "b"),
        {"a": 3, "b": 4},
        {"x": Access("x", (3, 4), axes("a", "b")), "y": Access("y", (), ())},
        (
            Loop(("a", "b"), folds=(Fold("acc", Number(0.0, "f32"), each, "f32"),)),
            Loop((), stores=(Store("y", Local("acc", "f32")),)),
        ),
    )
    operands = {
        "x": Operand("x", "x", "float32", (3, 4), "input"),
        "y": Operand("y", "y", "float32", (), "output"),
    }
    return lower(nest, operands, orders, frozenset())


ACC, X = Local("acc", "f32"), Read("x", "f32")


def test_a_copy_is_one_loop() -> None:
    found = copied((2, 1, 3, 4))

    assert found.domain == ("i",)
    assert found.extent == {"i": 24}


def test_a_copy_between_equal_layouts_is_one_loop() -> None:
    order = (0, 2, 3, 1)

    assert copied((2, 3, 4, 5), orders={"x": order, "y": order}).extent == {"i": 120}


def test_a_copy_between_layouts_follows_the_output() -> None:
    found = copied((2, 3, 4, 5), orders={"y": (0, 2, 3, 1)})

    assert found.domain == ("i0", "i", "i1")
    assert found.extent == {"i0": 2, "i": 20, "i1": 3}


def test_an_axis_whose_number_is_used_stays() -> None:
    found = copied((2, 3, 4), Position(axis("i0"), "f32"))

    assert found.extent == {"i0": 2, "i": 12}


def test_the_loops_of_a_sum_follow_what_it_reads() -> None:
    found = summed(Binary("+", ACC, X, "f32"), {"x": (1, 0)})

    assert found.steps[0].over == ("ba",)
    assert found.extent == {"ba": 12}


def test_the_loops_of_a_fold_that_may_not_be_reordered_stay() -> None:
    found = summed(Binary("-", X, ACC, "f32"), {"x": (1, 0)})

    assert found.steps[0].over == ("a", "b")


def test_proved_guards_go() -> None:
    place = axis("i") + 1
    access = {
        "x": Access("x", (5,), (place,), (Guard(place, 5),), "skip"),
        "y": Access("y", (4,), axes("i")),
    }
    nest = Nest(("i",), (), {"i": 4}, access, (Loop((), stores=(Store("y", X),)),))
    operands = {
        "x": Operand("x", "x", "float32", (5,), "input"),
        "y": Operand("y", "y", "float32", (4,), "output"),
    }

    found = lower(nest, operands, {}, frozenset())

    assert found.access["x"].guards == ()
    assert found.access["x"].outside is None


def test_divisions_with_one_result_go() -> None:
    box = {"m": (0, 8), "o": (0, 4)}

    assert simplified(Index.atom(Quotient(axis("m"), 8)), box) == Index()
    assert simplified(Index.atom(Remainder(axis("m"), 8)), box) == axis("m")
    assert simplified(Index.atom(Folded("clamp", axis("o"), 4)), box) == axis("o")
    inside = Index.atom(Folded("clamp", axis("o"), 3))
    assert simplified(inside, box) == inside
