from collections.abc import Mapping

from dlbuild.rulebook.cost import Cost, cost
from dlbuild.rulebook.derive import (
    View,
    in_place,
    is_once_each,
    parallel_axes,
    splittable_axes,
    view_of,
)
from dlbuild.rulebook.index import Index, Loaded
from dlbuild.rulebook.instance import (
    Access,
    Condition,
    Fold,
    Guard,
    Instance,
    Loop,
    Nest,
    Operand,
    Store,
)
from dlbuild.rulebook.rule import NEST_TEMPLATE
from dlbuild.rulebook.value import Binary, Call, Expr, Local, Number, Read

Shape = tuple[int, ...]


def axes(*names: str) -> tuple[Index, ...]:
    return tuple(Index.axis(n) for n in names)


def f32(name: str) -> Read:
    return Read(name, "f32")


def plus(left: Expr, right: Expr) -> Binary:
    return Binary("+", left, right, "f32")


def times(left: Expr, right: Expr) -> Binary:
    return Binary("*", left, right, "f32")


def build(
    nest: Nest,
    shapes: Mapping[str, Shape],
    dtypes: Mapping[str, str] = {},
) -> Instance:
    operands = tuple(
        Operand(n, n.upper(), dtypes.get(n, "float32"), s, "output" if n == "y" else "input")
        for n, s in shapes.items()
    )
    return Instance("r", "", "K", "", "", NEST_TEMPLATE, ("k",), operands, {}, (nest,))


def pointwise(
    shape: Shape, reads: Mapping[str, Access], value: Expr, dtypes: Mapping[str, str] = {}
) -> Instance:
    names = tuple(f"i{k}" for k in range(len(shape)))
    access = {**reads, "y": Access("y", shape, axes(*names))}
    steps = (Loop((), stores=(Store("y", value),)),)
    nest = Nest(names, (), dict(zip(names, shape, strict=True)), access, steps)
    shapes = {a.operand: a.view for a in reads.values()} | {"y": shape}
    return build(nest, shapes, dtypes)


def softmax() -> Instance:
    exp = Call("exp", (Binary("-", f32("x"), Local("top", "f32"), "f32"),), "f32")
    top = Fold(
        "top", Number(-1e30, "f32"), Call("max", (Local("top", "f32"), f32("x")), "f32"), "f32"
    )
    total = Fold("total", Number(0.0, "f32"), plus(Local("total", "f32"), exp), "f32")
    at = axes("a", "r")
    nest = Nest(
        ("a",),
        ("r",),
        {"a": 2, "r": 5},
        {"x": Access("x", (2, 5), at), "y": Access("y", (2, 5), at)},
        (
            Loop(("r",), folds=(top,)),
            Loop(("r",), folds=(total,)),
            Loop(("r",), stores=(Store("y", Binary("/", exp, Local("total", "f32"), "f32")),)),
        ),
    )
    return build(nest, {"x": (2, 5), "y": (2, 5)})


def convolution(step: int = 1) -> Instance:
    rows = Index.axis("h") * step + Index.axis("k") - 1
    extent = 8 // step
    nest = Nest(
        ("n", "m", "h"),
        ("c", "k"),
        {"n": 1, "m": 4, "h": extent, "c": 2, "k": 3},
        {
            "x": Access("x", (1, 2, 8), (*axes("n", "c"), rows), (Guard(rows, 8),), "skip"),
            "w": Access("w", (4, 2, 3), axes("m", "c", "k")),
            "b": Access("b", (4,), axes("m")),
            "y": Access("y", (1, 4, extent), axes("n", "m", "h")),
        },
        (
            Loop(
                ("c", "k"),
                folds=(
                    Fold(
                        "acc",
                        Number(0, "f32"),
                        plus(Local("acc", "f32"), times(f32("x"), f32("w"))),
                        "f32",
                    ),
                ),
            ),
            Loop((), stores=(Store("y", plus(Local("acc", "f32"), f32("b"))),)),
        ),
    )
    return build(nest, {"x": (1, 2, 8), "w": (4, 2, 3), "b": (4,), "y": (1, 4, extent)})


def test_relu_shares_the_buffer_of_its_input() -> None:
    relu = pointwise((2, 3), {"x": Access("x", (2, 3), axes("i0", "i1"))}, f32("x"))
    assert in_place(relu, {}) == (("X", "Y"),)


def test_an_operand_in_another_order_is_not_shared() -> None:
    relu = pointwise((2, 3), {"x": Access("x", (2, 3), axes("i0", "i1"))}, f32("x"))
    assert in_place(relu, {"x": (1, 0)}) == ()
    assert in_place(relu, {"x": (1, 0), "y": (1, 0)}) == (("X", "Y"),)


def test_elements_of_another_size_are_not_shared() -> None:
    at = Access("x", (4,), axes("i0"))
    assert in_place(pointwise((4,), {"x": at}, f32("x"), {"x": "int8"}), {}) == ()


def test_types_that_a_compiler_may_take_for_two_arrays_are_not_shared() -> None:
    at = Access("x", (4,), axes("i0"))
    floats = {"x": "int32"}
    bytes_ = {"x": "int8", "y": "uint8"}
    truths = {"x": "int8", "y": "bool"}
    assert in_place(pointwise((4,), {"x": at}, f32("x"), floats), {}) == ()
    assert in_place(pointwise((4,), {"x": at}, f32("x"), bytes_), {}) == (("X", "Y"),)
    assert in_place(pointwise((4,), {"x": at}, f32("x"), truths), {}) == (("X", "Y"),)


def test_a_broadcast_operand_is_not_shared() -> None:
    reads = {"a": Access("a", (2, 3), axes("i0", "i1")), "b": Access("b", (3,), axes("i1"))}
    assert in_place(pointwise((2, 3), reads, plus(f32("a"), f32("b"))), {}) == (("A", "Y"),)


def test_a_tensor_read_at_another_place_too_is_not_shared() -> None:
    reads = {
        "a": Access("a", (3, 3), axes("i0", "i1")),
        "a2": Access("a", (3, 3), axes("i1", "i0")),
    }
    assert in_place(pointwise((3, 3), reads, plus(f32("a"), f32("a2"))), {}) == ()


def test_a_tensor_that_decides_an_address_is_not_shared() -> None:
    at = Index.atom(Loaded("a", axes("i0"), 4))
    reads = {"a": Access("a", (4,), axes("i0")), "b": Access("b", (4,), (at,))}
    assert in_place(pointwise((4,), reads, plus(f32("a"), f32("b"))), {}) == ()


def test_softmax_shares_since_each_pass_stays_in_its_row() -> None:
    assert in_place(softmax(), {}) == (("X", "Y"),)


def test_a_convolution_shares_nothing() -> None:
    assert in_place(convolution(), {}) == ()


def test_a_reshape_is_its_input() -> None:
    nest = Nest(
        ("i", "k"),
        (),
        {"i": 2, "k": 6},
        {"x": Access("x", (2, 6), axes("i", "k")), "y": Access("y", (2, 6), axes("i", "k"))},
        (Loop((), stores=(Store("y", f32("x")),)),),
    )
    assert view_of(build(nest, {"x": (3, 4), "y": (2, 6)}), {}) == View("y", "x", 0)


def test_a_slice_of_the_outermost_axis_is_a_part_of_its_input() -> None:
    part = pointwise(
        (2, 3), {"x": Access("x", (5, 3), (Index.axis("i0") + 2, Index.axis("i1")))}, f32("x")
    )
    assert view_of(part, {}) == View("y", "x", 24)


def test_a_transpose_is_its_input_in_the_order_that_undoes_it() -> None:
    moved = pointwise((2, 3), {"x": Access("x", (3, 2), axes("i1", "i0"))}, f32("x"))
    assert view_of(moved, {}) is None
    assert view_of(moved, {"y": (1, 0)}) == View("y", "x", 0)
    assert view_of(moved, {"x": (1, 0)}) == View("y", "x", 0)


def test_a_value_that_changes_is_no_view() -> None:
    changed = pointwise((4,), {"x": Access("x", (4,), axes("i0"))}, plus(f32("x"), f32("x")))
    assert view_of(changed, {}) is None


def test_macs_are_the_turns_of_the_multiplying_fold() -> None:
    assert cost(convolution()) == Cost(
        macs=4 * 8 * 6,
        macs_of=(("float32", 4 * 8 * 6),),
        flops=4 * 8 * 6 * 2 + 4 * 8,
        further_flops=4 * 8,
        bytes_read=4 * (16 + 24 + 4),
        bytes_written=4 * 32,
    )


def test_rows_that_no_window_reaches_are_not_read() -> None:
    part = pointwise(
        (2, 3), {"x": Access("x", (5, 3), (Index.axis("i0") * 2, Index.axis("i1")))}, f32("x")
    )
    assert cost(part).bytes_read == 3 * 3 * 4


def test_turns_that_a_condition_skips_are_no_work() -> None:
    turn = Index.axis("o") + Index.axis("k")
    nest = Nest(
        ("o",),
        ("k",),
        {"o": 6, "k": 4},
        {
            "x": Access("x", (5,), (turn // 2,)),
            "w": Access("w", (4,), axes("k")),
            "y": Access("y", (6,), axes("o")),
        },
        (
            Loop(
                ("k",),
                (Condition("==", turn % 2, Index()),),
                folds=(
                    Fold(
                        "acc",
                        Number(0, "f32"),
                        plus(Local("acc", "f32"), times(f32("x"), f32("w"))),
                        "f32",
                    ),
                ),
            ),
            Loop((), stores=(Store("y", Local("acc", "f32")),)),
        ),
    )
    assert cost(build(nest, {"x": (5,), "w": (4,), "y": (6,)})).macs == 12


def test_work_of_softmax_has_no_macs() -> None:
    found = cost(softmax())
    assert found.macs == 0
    assert found.flops == found.further_flops == 10 * (1 + 3 + 3)


def test_domain_axes_are_parallel_and_sums_may_be_split() -> None:
    (nest,) = convolution().nests
    assert parallel_axes(nest) == ("m", "h")
    assert splittable_axes(nest) == ("c", "k")


def test_a_reduction_that_is_read_again_is_not_split() -> None:
    assert splittable_axes(softmax().nests[0]) == ()


def test_maps_that_meet_are_not_once_each() -> None:
    window = Index.axis("o") * 2 + Index.axis("k")
    assert is_once_each(window, {"o": 4, "k": 2})
    assert not is_once_each(window, {"o": 4, "k": 3})
    assert not is_once_each(Index.axis("o"), {"o": 4, "k": 2})
