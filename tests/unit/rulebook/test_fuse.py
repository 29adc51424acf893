from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from dlbuild.ir.weights import Array
from dlbuild.rulebook.fuse import NoFusion, fuse_epilogue, fuse_prologue
from dlbuild.rulebook.index import Index
from dlbuild.rulebook.instance import (
    Access,
    Fold,
    Guard,
    Instance,
    Loop,
    Made,
    Nest,
    Operand,
    Store,
)
from dlbuild.rulebook.interpret import interpret
from dlbuild.rulebook.rule import NEST_TEMPLATE
from dlbuild.rulebook.value import COMPUTE_TYPE, Binary, Call, Cast, Expr, Local, Number, Read, Type


def axes(*names: str) -> tuple[Index, ...]:
    return tuple(Index.axis(n) for n in names)


def instance(
    kind: str,
    operands: tuple[Operand, ...],
    nest: Nest,
    *,
    made: tuple[Made, ...] = (),
    name: str = "",
) -> Instance:
    return Instance(
        rule=f"{kind.lower()}.yaml#{kind}",
        variant="",
        kind=kind,
        summary=f"y = {kind.lower()}",
        source="",
        template=NEST_TEMPLATE,
        ops=(name or kind.lower(),),
        operands=operands,
        sizes={},
        nests=(nest,),
        made=made,
    )


def fitted(shape: tuple[int, ...], names: tuple[str, ...]) -> tuple[Index, ...]:
    """Broadcast as ONNX does: axes aligned at the end, an axis of one point is read at 0."""
    used = names[len(names) - len(shape) :]
    return tuple(Index.axis(a) if n > 1 else Index() for a, n in zip(used, shape, strict=True))


def elementwise(
    kind: str,
    value: Expr,
    inputs: Mapping[str, tuple[str, str, tuple[int, ...]]],
    output: tuple[str, str, tuple[int, ...]],
) -> Instance:
    """inputs: operand name -> (tensor, dtype, shape)."""
    names = tuple(f"i{k}" for k in range(len(output[2])))
    operands = tuple(Operand(n, t, d, s, "input") for n, (t, d, s) in inputs.items())
    written = Operand("y", *output, "output")
    access = {n: Access(n, s, fitted(s, names)) for n, (_, _, s) in inputs.items()}
    access["y"] = Access("y", output[2], axes(*names))
    nest = Nest(
        domain=names,
        reduce=(),
        extent=dict(zip(names, output[2], strict=True)),
        access=access,
        steps=(Loop((), stores=(Store("y", value),)),),
    )
    return instance(kind, (*operands, written), nest)


def read(name: str, dtype: str = "float32") -> Read:
    return Read(name, COMPUTE_TYPE[dtype])


def binary(
    operator: Literal["+", "-", "*", "/"], left: Expr, right: Expr, type_: Type = "f32"
) -> Binary:
    return Binary(operator, left, right, type_)


def relu(x: str, y: str, shape: tuple[int, ...], dtype: str = "float32") -> Instance:
    zero = Number(0, COMPUTE_TYPE[dtype])
    value = Call("max", (read("a", dtype), zero), COMPUTE_TYPE[dtype])
    return elementwise("Relu", value, {"a": (x, dtype, shape)}, (y, dtype, shape))


def add(a: str, b: str, y: str, shape: tuple[int, ...], b_shape: tuple[int, ...] = ()) -> Instance:
    value = binary("+", read("a"), read("b"))
    inputs = {"a": (a, "float32", shape), "b": (b, "float32", b_shape or shape)}
    return elementwise("Add", value, inputs, (y, "float32", shape))


def dequantize(x: str, y: str, shape: tuple[int, ...]) -> Instance:
    difference = binary("-", read("x", "int8"), read("xz", "int8"), "i32")
    value = binary("*", Cast(difference, "f32"), read("xs"))
    inputs = {"x": (x, "int8", shape), "xs": ("s", "float32", ()), "xz": ("zp", "int8", ())}
    return elementwise("Dequantize", value, inputs, (y, "float32", shape))


def quantize(x: str, y: str, shape: tuple[int, ...]) -> Instance:
    scaled = Call("round", (binary("/", read("x"), read("ys")),), "f32")
    shifted = binary("+", scaled, Cast(read("yz", "int8"), "f32"))
    value = Call("saturate", (shifted, Number(-128, "f32"), Number(127, "f32")), "f32")
    inputs = {"x": (x, "float32", shape), "ys": ("qs", "float32", ()), "yz": ("qz", "int8", ())}
    return elementwise("Quantize", value, inputs, (y, "int8", shape))


def convolution(x: str, y: str, *, dtype: str = "float32", out: str = "") -> Instance:
    """x[1,2,5,5], w[3,2,3,3], 3x3 with a padding of 1."""
    type_ = COMPUTE_TYPE[dtype]
    out = out or dtype
    rows = Index.axis("h") + Index.axis("i") - 1
    columns = Index.axis("v") + Index.axis("j") - 1
    guards = (Guard(rows, 5), Guard(columns, 5))
    access = {
        "x": Access("x", (1, 2, 5, 5), (*axes("n", "c"), rows, columns), guards, "skip"),
        "w": Access("w", (3, 2, 3, 3), axes("m", "c", "i", "j")),
        "b": Access("b", (3,), axes("m")),
        "y": Access("y", (1, 3, 5, 5), axes("n", "m", "h", "v")),
    }
    product = binary("*", read("x", dtype), read("w", dtype), type_)
    fold = Fold("acc", Number(0, type_), binary("+", Local("acc", type_), product, type_), type_)
    value: Expr = binary("+", Local("acc", type_), Read("b", type_), type_)
    if out == "int8":
        value = Call("saturate", (value, Number(-128, type_), Number(127, type_)), type_)
    nest = Nest(
        domain=("n", "m", "h", "v"),
        reduce=("c", "i", "j"),
        extent={"n": 1, "m": 3, "h": 5, "v": 5, "c": 2, "i": 3, "j": 3},
        access=access,
        steps=(
            Loop(("c", "i", "j"), folds=(fold,)),
            Loop((), stores=(Store("y", value),)),
        ),
    )
    order = (0, 2, 3, 1)
    operands = (
        Operand("x", x, dtype, (1, 2, 5, 5), "input", order),
        Operand("w", "w", dtype, (3, 2, 3, 3), "input", order),
        Operand("b", "b", "int32" if dtype == "int8" else dtype, (3,), "input"),
        Operand("y", y, out, (1, 3, 5, 5), "output", order),
    )
    return instance("Conv", operands, nest)


OUT = (1, 3, 5, 5)


def numbers(*shape: int) -> Array:
    rng = np.random.default_rng(sum(shape) + 1)
    return rng.normal(size=shape).astype(np.float32)


FEEDS: Mapping[str, Array] = {
    "x": numbers(1, 2, 5, 5),
    "w": numbers(3, 2, 3, 3),
    "b": numbers(3),
    "skip": numbers(1, 3, 5, 5),
    "slope": numbers(3, 1, 1),
    "qs": np.array(0.05, np.float32),
    "qz": np.array(3, np.int8),
    "s": np.array(0.05, np.float32),
    "zp": np.array(-7, np.int8),
}


def run(fused: Instance, given: Mapping[str, Array]) -> Array:
    arrays = {o.name: given[o.tensor] for o in fused.operands if o.role == "input"}
    (result,) = interpret(fused, arrays).values()
    return result


def chain(
    instances: list[Instance],
    given: Mapping[str, Array],
) -> Array:
    held = dict(given)
    for one in instances:
        output = next(o for o in one.operands if o.role == "output")
        held[output.tensor] = run(one, held)
    return held[output.tensor]


def test_an_activation_is_computed_where_the_convolution_writes() -> None:
    first, second = convolution("x", "c"), relu("c", "z", OUT)
    fused = fuse_epilogue(first, second, "c")
    assert fused.ops == ("conv", "relu")
    assert fused.operand("y") == Operand("y", "z", "float32", OUT, "output", (0, 2, 3, 1))
    assert fused.summary == "y = conv, then Relu"
    np.testing.assert_array_equal(run(fused, FEEDS), chain([first, second], FEEDS))


def test_several_epilogues_are_computed_one_after_another() -> None:
    parts = [
        convolution("x", "c"),
        add("c", "skip", "t", OUT),
        relu("t", "u", OUT),
        quantize("u", "z", OUT),
    ]
    fused = fuse_epilogue(parts[0], parts[1], "c")
    fused = fuse_epilogue(fused, parts[2], "t")
    fused = fuse_epilogue(fused, parts[3], "u")
    assert fused.operand("y").dtype == "int8"
    assert [o.tensor for o in fused.operands] == ["x", "w", "b", "skip", "qs", "qz", "z"]
    np.testing.assert_array_equal(run(fused, FEEDS), chain(parts, FEEDS))


def test_a_name_that_the_producer_uses_is_not_taken() -> None:
    fused = fuse_epilogue(convolution("x", "c"), add("c", "skip", "z", OUT), "c")
    assert fused.operand("b").tensor == "b"
    assert fused.operand("b_2").tensor == "skip"


def test_a_broadcast_operand_keeps_its_map() -> None:
    parts = [convolution("x", "c"), add("c", "slope", "z", OUT, (3, 1, 1))]
    fused = fuse_epilogue(parts[0], parts[1], "c")
    np.testing.assert_array_equal(run(fused, FEEDS), chain(parts, FEEDS))


def test_an_operand_of_both_is_one_parameter() -> None:
    parts = [add("x", "k", "t", (2, 3)), add("t", "x", "z", (2, 3))]
    fused = fuse_epilogue(parts[0], parts[1], "t")
    assert [o.tensor for o in fused.operands] == ["x", "k", "z"]
    assert set(fused.nests[0].access) == {"a", "b", "y"}
    feeds = {"x": numbers(2, 3), "k": numbers(2, 3) + 1}
    np.testing.assert_array_equal(run(fused, feeds), chain(parts, feeds))


def test_a_value_used_twice_is_computed_once() -> None:
    square = elementwise(
        "Square",
        binary("*", read("a"), read("a")),
        {"a": ("c", "float32", OUT)},
        ("z", "float32", OUT),
    )
    first = convolution("x", "c")
    fused = fuse_epilogue(first, square, "c")
    (let,) = fused.nests[0].steps[1].lets
    assert let.name == "v_2"
    assert fused.nests[0].steps[1].stores == (
        Store("y", binary("*", Local("v_2", "f32"), Local("v_2", "f32"))),
    )
    np.testing.assert_array_equal(run(fused, FEEDS), chain([first, square], FEEDS))


def test_unit_axes_between_the_two_do_not_matter() -> None:
    total = Fold("acc", Number(0, "f32"), binary("+", Local("acc", "f32"), read("x")), "f32")
    access = {
        "x": Access("x", (1, 3, 4), axes("n", "c", "k")),
        "y": Access("y", (1, 3), axes("n", "c")),
    }
    nest = Nest(
        ("n", "c"),
        ("k",),
        {"n": 1, "c": 3, "k": 4},
        access,
        (Loop(("k",), folds=(total,)), Loop((), stores=(Store("y", Local("acc", "f32")),))),
    )
    operands = (
        Operand("x", "x", "float32", (1, 3, 4), "input"),
        Operand("y", "c", "float32", (1, 3, 1), "output"),
    )
    parts = [instance("Sum", operands, nest), relu("c", "z", (1, 3, 1))]
    fused = fuse_epilogue(parts[0], parts[1], "c")
    feeds = {"x": numbers(1, 3, 4)}
    np.testing.assert_array_equal(run(fused, feeds), chain(parts, feeds))


def test_integers_that_are_saturated_may_stay_unstored() -> None:
    parts = [convolution("x", "c", dtype="int8"), relu("c", "z", OUT, "int8")]
    rng = np.random.default_rng(1)
    feeds: dict[str, Array] = {
        "x": rng.integers(-128, 128, (1, 2, 5, 5)).astype(np.int8),
        "w": rng.integers(-9, 9, (3, 2, 3, 3)).astype(np.int8),
        "b": rng.integers(-99, 99, 3).astype(np.int32),
    }
    fused = fuse_epilogue(parts[0], parts[1], "c")
    np.testing.assert_array_equal(run(fused, feeds), chain(parts, feeds))


def test_integers_that_wrap_when_stored_are_stored() -> None:
    sum_ = elementwise(
        "Add",
        binary("+", read("a", "int8"), read("b", "int8"), "i32"),
        {"a": ("p", "int8", (4,)), "b": ("q", "int8", (4,))},
        ("c", "int8", (4,)),
    )
    with pytest.raises(NoFusion, match=r"^a value between Add and the next may not fit int8$"):
        fuse_epilogue(sum_, relu("c", "z", (4,), "int8"), "c")


def test_half_precision_between_the_two_is_stored() -> None:
    first = relu("x", "c", (4,), "float16")
    with pytest.raises(NoFusion, match=r"^storing the tensor rounds it to float16$"):
        fuse_epilogue(first, relu("c", "z", (4,), "float16"), "c")


def test_a_consumer_that_moves_elements_is_no_epilogue() -> None:
    transpose = elementwise(
        "Transpose", read("a"), {"a": ("c", "float32", (4, 3))}, ("z", "float32", (3, 4))
    )
    nest = transpose.nests[0]
    moved = {**nest.access, "a": Access("a", (4, 3), axes("i1", "i0"))}
    transpose = replace(transpose, nests=(replace(nest, access=moved),))
    with pytest.raises(NoFusion, match=r"^Transpose does not read the value where it writes$"):
        fuse_epilogue(relu("x", "c", (4, 3)), transpose, "c")


def test_a_consumer_that_repeats_the_value_is_no_epilogue() -> None:
    with pytest.raises(NoFusion, match=r"^Add does not read the value where it writes$"):
        fuse_epilogue(relu("x", "c", (3,)), add("skip", "c", "z", (2, 3), (3,)), "c")


def test_a_dequantisation_is_computed_where_the_convolution_reads() -> None:
    parts = [dequantize("q", "x", (1, 2, 5, 5)), convolution("x", "z")]
    fused = fuse_prologue(parts[0], parts[1], "x")
    rng = np.random.default_rng(1)
    feeds = {**FEEDS, "q": rng.integers(-128, 128, (1, 2, 5, 5)).astype(np.int8)}
    assert [o.name for o in fused.operands] == ["x", "xs", "xz", "w", "b", "y"]
    assert fused.operand("x") == Operand("x", "q", "int8", (1, 2, 5, 5), "input", (0, 2, 3, 1))
    assert fused.nests[0].access["x"].outside == "skip"
    assert fused.nests[0].access["xs"].outside is None
    np.testing.assert_array_equal(run(fused, feeds), chain(parts, feeds))


def test_a_prologue_is_read_in_every_step_and_computed_once_in_each() -> None:
    square = Fold(
        "acc",
        Number(0, "f32"),
        binary("+", Local("acc", "f32"), binary("*", read("x"), read("x"))),
        "f32",
    )
    access = {"x": Access("x", (3, 4), axes("n", "k")), "y": Access("y", (3, 4), axes("n", "k"))}
    nest = Nest(
        ("n",),
        ("k",),
        {"n": 3, "k": 4},
        access,
        (
            Loop(("k",), folds=(square,)),
            Loop(("k",), stores=(Store("y", binary("/", read("x"), Local("acc", "f32"))),)),
        ),
    )
    operands = (
        Operand("x", "x", "float32", (3, 4), "input"),
        Operand("y", "z", "float32", (3, 4), "output"),
    )
    parts = [dequantize("q", "x", (3, 4)), instance("Norm", operands, nest)]
    fused = fuse_prologue(parts[0], parts[1], "x")
    assert [len(s.lets) for s in fused.nests[0].steps] == [1, 0]
    feeds = {**FEEDS, "q": np.arange(12, dtype=np.int8).reshape(3, 4)}
    np.testing.assert_array_equal(run(fused, feeds), chain(parts, feeds))


def test_two_reads_of_one_tensor_have_two_prologues() -> None:
    parts = [dequantize("q", "x", (4,)), add("x", "x", "z", (4,))]
    fused = fuse_prologue(parts[0], parts[1], "x")
    assert [o.tensor for o in fused.operands] == ["q", "s", "zp", "z"]
    feeds = {"q": np.arange(4, dtype=np.int8), "s": FEEDS["s"], "zp": FEEDS["zp"]}
    np.testing.assert_array_equal(run(fused, feeds), chain(parts, feeds))


def test_a_prologue_is_computed_through_another_view() -> None:
    vector = relu("x", "z", (4,))
    nest = vector.nests[0]
    viewed = {
        **nest.access,
        "a": Access("a", (2, 2), (Index.axis("i0") // 2, Index.axis("i0") % 2)),
    }
    vector = replace(
        vector,
        operands=(Operand("a", "x", "float32", (4,), "input"), vector.operands[1]),
        nests=(replace(nest, access=viewed),),
    )
    parts = [dequantize("q", "x", (4,)), vector]
    fused = fuse_prologue(parts[0], parts[1], "x")
    feeds = {"q": np.arange(-2, 2, dtype=np.int8), "s": FEEDS["s"], "zp": FEEDS["zp"]}
    np.testing.assert_array_equal(run(fused, feeds), chain(parts, feeds))


def test_a_value_outside_the_tensor_is_not_put_through_a_prologue() -> None:
    pad = relu("x", "z", (6,))
    nest = pad.nests[0]
    at = Index.axis("i0") - 1
    outside = Access("a", (4,), (at,), (Guard(at, 4),), Number(0, "f32"))
    pad = replace(pad, nests=(replace(nest, access={**nest.access, "a": outside}),))
    with pytest.raises(NoFusion, match=r"^the consumer reads another value outside the tensor$"):
        fuse_prologue(dequantize("q", "x", (4,)), pad, "x")


def test_a_constant_made_for_the_epilogue_comes_along() -> None:
    first = convolution("x", "c")
    scale = add("c", "half", "z", OUT, (3, 1, 1))
    made = Made(
        "b",
        Nest(
            ("i",),
            (),
            {"i": 3},
            {"k": Access("k", (3,), axes("i")), "b": Access("b", (3,), axes("i"))},
            (Loop((), stores=(Store("b", binary("*", read("k"), Number(0.5, "f32"))),)),),
        ),
    )
    operands = (
        scale.operands[0],
        Operand("k", "slope", "float32", (3,), "input"),
        Operand("b", "b", "float32", (3,), "constant"),
        scale.operands[2],
    )
    nest = scale.nests[0]
    access = {**nest.access, "b": Access("b", (3,), axes("i1"))}
    scale = replace(scale, operands=operands, made=(made,), nests=(replace(nest, access=access),))
    fused = fuse_epilogue(first, scale, "c")
    assert fused.operand("b_2") == Operand("b_2", "b_2", "float32", (3,), "constant")
    feeds = {**FEEDS, "slope": numbers(3)}
    held = {o.name: feeds[o.tensor] for o in fused.operands if o.role == "input"}
    (result,) = interpret(fused, held).values()
    half = np.divide(numbers(3).reshape(3, 1, 1), 2)
    np.testing.assert_allclose(result, np.add(run(first, feeds), half), rtol=1e-6)
