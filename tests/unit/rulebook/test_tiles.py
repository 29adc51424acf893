from dataclasses import replace

import numpy as np

from dlbuild.rulebook.index import Index
from dlbuild.rulebook.instance import Access, Fold, Guard, Instance, Loop, Nest, Operand, Store
from dlbuild.rulebook.interpret import interpret
from dlbuild.rulebook.substitution import Substitution
from dlbuild.rulebook.tiles import Window, at, partial, shifted, window
from dlbuild.rulebook.value import Binary, Local, Number, Read

X = Index.axis("o") * 2 + Index.axis("k") - 1
"""Stride 2, padding 1: a map that leaves its tensor at both ends."""

ACC = Local("acc", "f32")
SUM = Binary("+", ACC, Read("x", "f32"), "f32")


def strided(x: int, o: int, k: int) -> Nest:
    return Nest(
        ("o",),
        ("k",),
        {"o": o, "k": k},
        {
            "x": Access("x", (x,), (X,), (Guard(X, x),), "skip"),
            "y": Access("y", (o,), (Index.axis("o"),)),
        },
        (
            Loop(("k",), folds=(Fold("acc", Number(0.0, "f32"), SUM, "f32"),)),
            Loop((), stores=(Store("y", ACC),)),
        ),
    )


NEST = strided(x=8, o=5, k=3)


def test_a_window_is_clipped_to_what_exists_and_counts_the_padding() -> None:
    x = NEST.access["x"]

    assert window(NEST, x, {"o": (0, 2)}) == (Window(0, 4, 1, 0),)
    assert window(NEST, x, {"o": (1, 3)}) == (Window(1, 6, 0, 0),)
    assert window(NEST, x, {}) == (Window(0, 8, 1, 2),)


def test_a_window_of_padding_alone_is_empty() -> None:
    assert window(NEST, NEST.access["x"], {"o": (0, 1), "k": (0, 1)}) == (Window(0, 0, 1, 0),)


def test_a_point_of_an_axis_is_given_by_the_caller() -> None:
    row = at(NEST, "o", "row")

    assert row.domain == ()
    assert row.given == {"row": (0, 4)}
    assert row.access["x"].index == (Index.axis("row") * 2 + Index.axis("k") - 1,)
    assert window(row, row.access["y"], {}) == (Window(0, 5, 0, 0),)


def test_a_tile_begins_where_the_caller_says_and_addresses_a_window() -> None:
    tile = shifted(NEST, {"o": 2}, [("x", 0)])

    assert tile.extent == {"o": 2, "k": 3}
    assert tile.count == {"o": "o_count"}
    assert tile.given == {"o_first": (0, 4), "o_count": (1, 2), "x_first0": (0, 7)}
    place = Index.axis("o_first") * 2 + Index.axis("o") * 2 + Index.axis("k") - 1
    assert tile.access["x"].index == (place - Index.axis("x_first0"),)
    assert tile.access["x"].guards == (Guard(place, 8),)


def test_parts_of_a_reduction_add_up_to_the_whole() -> None:
    parts = partial(NEST, "k", Index.axis("turn"))
    assert parts is not None
    x = np.arange(8, dtype=np.float32)
    whole = _run(NEST, {"x": x}, "y")

    sums = np.full(5, 99.0, np.float32)
    for turn in range(3):
        add = _told(at(parts.add, "k", "turn"), turn)
        sums = _run(add, {"x": x, "acc_sums": sums}, "sums")

    assert np.array_equal(_run(parts.finish, {"x": x, "acc_sums": sums}, "y"), whole)


def test_a_fold_whose_order_matters_is_not_cut() -> None:
    (fold, store) = NEST.steps
    running = replace(fold, folds=(Fold("acc", Number(0.0, "f32"), Read("x", "f32"), "f32"),))

    assert partial(replace(NEST, steps=(running, store)), "k", Index.axis("k")) is None


def _told(nest: Nest, turn: int) -> Nest:
    """Return a nest of one given number, stored apart from what it reads."""
    change = Substitution(axes={"turn": Index((), turn)})
    access = {name: change.access(found) for name, found in nest.access.items()}
    access["sums"] = replace(access["acc_sums"], operand="sums")
    (folding, _) = nest.steps
    (fold,) = folding.folds
    told = replace(fold, start=change.expr(fold.start), each=change.expr(fold.each))
    steps = (replace(folding, folds=(told,)), Loop((), stores=(Store("sums", ACC),)))
    return replace(nest, access=access, steps=steps, given={})


def _run(nest: Nest, arrays: dict[str, np.ndarray], output: str) -> np.ndarray:
    operands = tuple(
        Operand(a.operand, a.operand, "float32", a.view, "output" if n == output else "input")
        for n, a in nest.access.items()
    )
    instance = Instance("r", "", "K", "", "", "", ("k",), operands, {}, (nest,))
    return interpret(instance, arrays)[output]
