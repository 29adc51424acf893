"""What follows a fold, for four neighbours at once: which C, and what has no such form."""

import pytest

from dlbuild.emit.ctext import ValueText
from dlbuild.emit.itext import IndexText, Place
from dlbuild.emit.lanes import NoLanes, lane_lines
from dlbuild.emit.lower import Lowered
from dlbuild.emit.ranges import Ranges
from dlbuild.rulebook.index import Index
from dlbuild.rulebook.instance import Access, Loop, Operand, Store
from dlbuild.rulebook.value import Binary, Call, Cast, Expr, Local, Number, Read

SHAPES = {
    "y": ("int8", (5, 8)),
    "u": ("uint8", (5, 8)),
    "a": ("int8", (5, 8)),
    "turned": ("int8", (8, 5)),
    "multiplier": ("int32", (8,)),
    "shift": ("int8", (8,)),
    "scale": ("float32", (8,)),
    "yz": ("int8", ()),
}
P, M = Index.axis("p"), Index.axis("m")
PLACES = {
    **dict.fromkeys(("y", "u", "a"), Place(((P, 8), (M, 1)))),
    "turned": Place(((M, 5), (P, 1))),
    **dict.fromkeys(("multiplier", "shift", "scale"), Place(((M, 1),))),
    "yz": Place(()),
}
ACC, YZ = Local("acc", "i32"), Read("yz", "i32")
SCALED = Call("scale_fixed", (ACC, Read("multiplier", "i32"), Read("shift", "i32")), "i32")
ONTO = Binary("+", SCALED, YZ, "i32")


def limited(value: Expr, low: int = -128, high: int = 127) -> Expr:
    kind = value.type
    return Call("saturate", (value, Number(low, kind), Number(high, kind)), kind)


def lines(value: Expr, output: str = "y") -> list[str]:
    """Return the body that stores a value."""
    extent = {"p": 5, "m": 8}
    dtypes = {name: dtype for name, (dtype, _) in SHAPES.items()}
    operands = {n: Operand(n, n, dtype, shape, "input") for n, (dtype, shape) in SHAPES.items()}
    ranges = Ranges(extent, dtypes)
    names = {name: name for name in SHAPES}
    indices = IndexText(ranges, dtypes, lambda _: Place(()), names)
    values = ValueText(
        indices,
        ranges,
        names,
        dtypes,
        PLACES.__getitem__,
        lambda _: Index(),
        frozenset(("yz",)),
    )
    nest = Lowered(
        ("p", "m"),
        extent,
        {name: Access(name, shape, ()) for name, (_, shape) in SHAPES.items()},
        PLACES,
        {},
        (Loop((), stores=(Store(output, value),)),),
        {},
        {},
        {},
    )
    return lane_lines(nest, operands, values, "m").splitlines()


def test_a_fixed_scale_and_a_full_range_are_left_to_the_store() -> None:
    loads = "load_i32x4(&multiplier[m]), load_i8x4(&shift[m])"
    assert lines(limited(ONTO)) == [
        f"    const i32x4 scaled = scale_fixed_i32x4(acc, {loads});",
        "    const i32x4 sum = add_i32x4(scaled, repeat_i32x4(yz));",
        "    store_i8x4(&y[(p * 8) + m], sum);",
    ]


def test_a_narrower_range_is_limited_before_the_store() -> None:
    assert lines(limited(ONTO, 0, 6))[-2:] == [
        "    const i32x4 limited = saturate_i32x4(sum, 0, 6);",
        "    store_i8x4(&y[(p * 8) + m], limited);",
    ]


def test_an_exact_scale_is_rounded_by_vectors() -> None:
    product = Binary("*", Cast(ACC, "f32"), Read("scale", "f32"), "f32")
    value = Binary("+", Call("round", (product,), "f32"), Cast(YZ, "f32"), "f32")
    assert lines(Cast(limited(value), "i32")) == [
        "    const f32x4 real = real_i32x4(acc);",
        "    const f32x4 product = mul_f32x4(real, load_f32x4(&scale[m]));",
        "    const f32x4 rounded = round_f32x4(product);",
        "    const f32x4 sum = add_f32x4(rounded, repeat_f32x4((float)yz));",
        "    const f32x4 limited = saturate_f32x4(sum, -128.0F, 127.0F);",
        "    const i32x4 whole = whole_f32x4(limited);",
        "    store_i8x4(&y[(p * 8) + m], whole);",
    ]


def test_another_tensor_that_lies_alike_is_loaded_as_four() -> None:
    found = lines(limited(Binary("+", ACC, Read("a", "i32"), "i32"), 0, 255), "u")
    assert found[-1] == "    store_u8x4(&u[(p * 8) + m], sum);"
    assert "load_i8x4(&a[(p * 8) + m])" in found[0]


@pytest.mark.parametrize(
    "value",
    [
        ACC,  # the store would limit what must keep its low bits
        limited(ACC, -200, 200),
        limited(Binary("+", ACC, Read("turned", "i32"), "i32")),
        limited(Binary("/", ACC, YZ, "i32")),
        limited(Binary("*", SCALED, YZ, "i32")),  # a scaled value beyond what shows
    ],
    ids=["not_limited", "limited_to_more", "not_neighbours", "division", "scaled_again"],
)
def test_what_has_no_vector_form(value: Expr) -> None:
    with pytest.raises(NoLanes):
        lines(value)
