"""Orders of tensors in small networks under the built-in rules, and the copies they spare."""

from collections.abc import Sequence
from functools import cache

import pytest

from dlbuild.base.errors import UserError
from dlbuild.base.paths import builtin_folder
from dlbuild.ir.graph import Attribute, Graph, Op, Tensor, Value
from dlbuild.ir.profile import Profile
from dlbuild.ir.target import Options, Target
from dlbuild.rulebook.load import RuleBook, load_rules
from dlbuild.stages.layout import channels_last, is_own, usual
from dlbuild.stages.profile import profile

NHWC = (0, 2, 3, 1)
PADS = (1, 1, 1, 1)

Shapes = dict[str, tuple[int, ...]]


@cache
def rules() -> RuleBook:
    return load_rules([builtin_folder()])


def op(kind: str, inputs: str, outputs: str, **attributes: Attribute) -> Op:
    given = tuple(sorted(attributes.items()))
    return Op(f"node_{outputs}", kind, tuple(inputs.split()), tuple(outputs.split()), given, "", 17)


def profiled(shapes: Shapes, ops: Sequence[Op], options: Options | None = None) -> Profile:
    """All tensors are float32; `x` is the input, `y` the output, `to_*` the shape of a Reshape."""
    written = {name for one in ops for name in one.outputs}
    targets = {n: shapes[n[3:]] for one in ops for n in one.inputs if n.startswith("to_")}
    tensors = [Tensor(n, "float32", s) for n, s in shapes.items()]
    tensors += [Tensor(n, "int64", (len(s),)) for n, s in targets.items()]
    constants = [t.name for t in tensors if t.name not in written and t.name != "x"]
    values = tuple(Value(n, (len(s),), s) for n, s in targets.items())
    graph = Graph("net", ("x",), ("y",), tuple(tensors), tuple(ops), tuple(constants), values)
    return profile(graph, rules(), Target("host"), options or Options())


def copies(found: Profile) -> list[str]:
    """The kernels that only move elements and are code."""
    moves = ("transpose", "reshape", "flatten", "squeeze", "unsqueeze")
    return [k.name for k in found.kernels if k.alias is None and k.name.startswith(moves)]


def two_convolutions() -> tuple[Shapes, list[Op]]:
    shapes: Shapes = {
        "x": (1, 3, 8, 8),
        "v": (4, 3, 3, 3),
        "w": (4, 4, 3, 3),
        "a": (1, 4, 8, 8),
        "y": (1, 4, 8, 8),
    }
    return shapes, [op("Conv", "x v", "a", pads=PADS), op("Conv", "a w", "y", pads=PADS)]


def test_convolutions_hand_each_other_channels_last() -> None:
    found = profiled(*two_convolutions())
    assert found.order_of == {"a": NHWC, "v": NHWC, "w": NHWC}


def test_the_interface_keeps_the_order_of_the_model() -> None:
    found = profiled(*two_convolutions())
    assert "x" not in found.order_of
    assert "y" not in found.order_of


def test_the_recipe_may_give_the_interface_channels_last() -> None:
    found = profiled(*two_convolutions(), Options(layout=(("x", "nhwc"), ("y", "onnx"))))
    assert found.order_of == {"a": NHWC, "v": NHWC, "w": NHWC, "x": NHWC}


def test_an_order_for_an_inner_tensor_is_refused() -> None:
    with pytest.raises(UserError) as caught:
        profiled(*two_convolutions(), Options(layout=(("a", "nhwc"),)))
    assert str(caught.value) == (
        "net: error: 'layout' names 'a', which is neither an input nor an output\n"
        "  fix: name one of x, y"
    )


def channels_last_model() -> tuple[Shapes, list[Op]]:
    shapes: Shapes = {
        "x": (1, 8, 8, 3),
        "t": (1, 3, 8, 8),
        "v": (4, 3, 3, 3),
        "a": (1, 4, 8, 8),
        "u": (1, 8, 8, 4),
        "y": (1, 256),
    }
    ops = [
        op("Transpose", "x", "t", perm=(0, 3, 1, 2)),
        op("Conv", "t v", "a", pads=PADS),
        op("Transpose", "a", "u", perm=(0, 2, 3, 1)),
        op("Reshape", "u to_y", "y"),
    ]
    return shapes, ops


def test_transposes_of_a_channels_last_model_are_names_only() -> None:
    found = profiled(*channels_last_model())
    assert copies(found) == []
    assert found.order_of == {"t": NHWC, "a": NHWC, "v": NHWC}


def test_a_transpose_to_the_output_is_written_by_its_producer() -> None:
    shapes, ops = two_convolutions()
    shapes |= {"b": (1, 4, 8, 8), "y": (1, 8, 4, 8)}
    ops[1] = op("Conv", "a w", "b", pads=PADS)
    ops.append(op("Transpose", "b", "y", perm=(0, 2, 1, 3)))
    found = profiled(shapes, ops)
    assert copies(found) == []
    assert found.order_of["b"] == (0, 2, 1, 3)


def test_a_flattened_tensor_is_written_in_the_order_of_the_model() -> None:
    shapes, ops = two_convolutions()
    shapes |= {"b": (1, 4, 8, 8), "y": (1, 256)}
    ops = [ops[0], op("Conv", "a w", "b", pads=PADS), op("Flatten", "b", "y")]
    found = profiled(shapes, ops)
    assert copies(found) == []
    assert found.order_of == {"a": NHWC, "v": NHWC, "w": NHWC}


def test_axes_of_one_point_may_come_and_go_in_any_order() -> None:
    shapes, ops = two_convolutions()
    shapes |= {"b": (4, 8, 8), "e": (4, 8, 8), "c": (1, 4, 8, 8)}
    ops = [
        ops[0],
        op("Reshape", "a to_b", "b"),
        op("Exp", "b", "e"),
        op("Reshape", "e to_c", "c"),
        op("Conv", "c w", "y", pads=PADS),
    ]
    found = profiled(shapes, ops)
    assert copies(found) == []
    assert [found.order_of[t] for t in "abec"] == [NHWC, (1, 2, 0), (1, 2, 0), NHWC]


def test_a_nest_without_a_preference_follows_its_largest_operand() -> None:
    shapes, ops = two_convolutions()
    shapes |= {"m": (1, 4, 8, 8)}
    ops = [
        ops[0],
        op("Softmax", "a", "m", axis=1),
        op("Conv", "m w", "y", pads=PADS),
    ]
    found = profiled(shapes, ops)
    assert found.order_of["m"] == NHWC


def test_a_constant_lies_like_what_is_computed_from_it() -> None:
    shapes, ops = two_convolutions()
    shapes |= {"k": (1, 4, 8, 8), "b": (1, 4, 8, 8)}
    ops = [ops[0], op("Add", "a k", "b"), op("Conv", "b w", "y", pads=PADS)]
    assert profiled(shapes, ops).order_of["k"] == NHWC


def test_a_vector_has_no_order() -> None:
    shapes, ops = two_convolutions()
    shapes |= {"g": (1, 4, 1, 1), "y": (1, 4)}
    ops = [ops[0], op("GlobalAveragePool", "a", "g"), op("Flatten", "g", "y")]
    found = profiled(shapes, ops)
    assert "g" not in found.order_of
    assert copies(found) == []


def test_orders_that_place_alike_are_one() -> None:
    assert channels_last(5) == (0, 2, 3, 4, 1)
    assert channels_last(2) == (0, 1)
    assert is_own((0, 2, 3, 1), (2, 7, 1, 1))
    assert not is_own((0, 2, 3, 1), (2, 7, 2, 1))
    assert usual((0, 3, 2, 1), (1, 40, 30, 1)) == NHWC
    assert usual((1, 0), (2, 3)) == (1, 0)
