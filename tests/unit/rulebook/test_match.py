import re
from collections.abc import Callable
from pathlib import Path

import pytest

from dlbuild.base.errors import UserError
from dlbuild.ir.graph import Attribute, Fact, Graph, Op
from dlbuild.rulebook.cost import cost
from dlbuild.rulebook.index import Index, Quotient
from dlbuild.rulebook.instance import Condition, Guard, Instance, Operand
from dlbuild.rulebook.load import RuleBook, load_rules
from dlbuild.rulebook.match import Wish, match
from dlbuild.rulebook.value import Binary, Call, Cast, Lookup, Number, Read

ROOT = Path(__file__).parent.parent.parent.parent
Loader = Callable[..., RuleBook]
MakeGraph = Callable[..., Graph]

COPY = """\
op: Copy
summary: y = x
inputs: {x: {shape: [X...], dtype: T}}
outputs: {y: {shape: [Y...], dtype: T}}
attributes:
  mode: {MODE: "'plain'"}
  pads: {BEFORE... AFTER...: 0}
require:
  - that: rank(X) == rank(Y)
    because: y has as many axes as x
domain: {o...: Y}
read:
  x: o - BEFORE
outside: {x: 0}
steps:
  - y: x
"""

PACKS_DIFFER = (
    "packs of 1 and 2 axes do not fit together, in 'o - BEFORE' (base/rules/ops/ops.yaml:13:6)"
)

QUANTISED = {
    "x": "int8 1x4x9x9",
    "xs": "float32",
    "xz": "int8",
    "w": "int8 6x4x3x3",
    "ws": "float32 6",
    "wz": "int8 6",
    "ys": "float32",
    "yz": "int8",
    "b": "int32 6",
    "y": "int8 1x6x9x9",
}
QCONV = Op(
    "conv",
    "QLinearConv",
    ("x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"),
    ("y",),
    (("pads", (1, 1, 1, 1)),),
)
PARAMETERS = QCONV.inputs[1:]


@pytest.fixture(scope="module")
def builtin() -> RuleBook:
    return load_rules([ROOT])


def op(kind: str, inputs: str, outputs: str = "y", **attributes: Attribute) -> Op:
    names = tuple(inputs.split()), tuple(outputs.split())
    return Op("node", kind, *names, tuple(attributes.items()))


def why_not(node: Op, graph: Graph, book: RuleBook) -> str:
    with pytest.raises(UserError) as caught:
        match(node, graph, book)
    assert caught.value.exit_code == 1
    return str(caught.value)


def operand(instance: Instance, name: str) -> Operand:
    return next(o for o in instance.operands if o.name == name)


def test_names_are_bound_to_shapes_and_attributes(load: Loader, graph: MakeGraph) -> None:
    node = op("Copy", "a", "b", pads=(1, 0, 0, 2))
    found = match(node, graph(node, {"a": "float32 2x3", "b": "float32 3x5"}), load(COPY))
    assert found.sizes["X"] == (2, 3)
    assert found.sizes["BEFORE"] == (1, 0)
    assert found.sizes["AFTER"] == (0, 2)
    assert found.sizes["MODE"] == "plain"
    assert found.sizes["has_pads"] is True
    assert found.sizes["has_mode"] is False
    assert found.sizes["rank_x"] == 2
    assert found.sizes["dtype_x"] == found.sizes["T"] == "float32"
    assert [(o.name, o.tensor, o.role) for o in found.operands] == [
        ("x", "a", "input"),
        ("y", "b", "output"),
    ]
    assert (found.rule, found.variant, found.kind, found.ops) == (
        "ops.yaml#Copy",
        "",
        "Copy",
        ("node",),
    )
    assert found.template == "kernels/nest.c.j2"


def test_only_what_is_not_proved_is_guarded(load: Loader, graph: MakeGraph) -> None:
    node = op("Copy", "a", "b", pads=(1, 0, 0, 0))
    found = match(node, graph(node, {"a": "float32 2x3", "b": "float32 3x3"}), load(COPY))
    access = found.nests[0].access["x"]
    assert access.guards == (Guard(Index.axis("o0") - 1, 2),)
    assert access.outside == Number(0.0, "f32")
    inside = op("Copy", "a", "b")
    found = match(inside, graph(inside, {"a": "float32 2x3", "b": "float32 2x3"}), load(COPY))
    assert found.nests[0].access["x"].guards == ()
    assert found.nests[0].access["x"].outside is None


def test_a_map_that_may_leave_its_tensor_is_a_fault_of_the_rule(
    load: Loader, graph: MakeGraph
) -> None:
    node = op("Copy", "a", "b", pads=(1, 0, 0, 0))
    text = COPY.replace("outside: {x: 0}\n", "")
    assert why_not(node, graph(node, {"a": "float32 2x3", "b": "float32 3x3"}), load(text)) == (
        "base/rules/ops/ops.yaml:13:6: error: the map of 'x' may take index -1..1 of an axis of 2\n"
        "  13 |   x: o - BEFORE\n"
        "     |      ^\n"
        "  why: for the node 'node' (Copy)\n"
        "  fix: correct the map, or say under 'outside' what 'x' is there"
    )


def test_each_rule_says_why_it_does_not_fit(load: Loader, graph: MakeGraph) -> None:
    node = op("Copy", "a", "b")
    other = COPY.replace("rank(X) == rank(Y)", "rank(X) == 7").replace(
        "y has as many axes as x", "x has seven axes"
    )
    tensors = {"a": "float32 2x3", "b": "float32 6"}
    assert why_not(node, graph(node, tensors), load(f"{COPY}---\n{other}")) == (
        "model: node 'node' (Copy): error: no rule fits it\n"
        "  base/rules/ops/ops.yaml:1: y has as many axes as x (rank(X) == rank(Y))\n"
        "  base/rules/ops/ops.yaml:18: x has seven axes (rank(X) == 7)"
    )


def test_extents_of_a_result_are_those_that_are_due(load: Loader, graph: MakeGraph) -> None:
    node, book = op("Copy", "a", "b"), load(COPY.replace("require:", "let: {Y: X}\nrequire:"))
    assert match(node, graph(node, {"a": "int8 2x3", "b": "int8 2x3"}), book).sizes["Y"] == (2, 3)
    assert "Y of the result is [3, 3], but [2, 3] is due" in why_not(
        node, graph(node, {"a": "int8 2x3", "b": "int8 3x3"}), book
    )


@pytest.mark.parametrize(
    ("node", "tensors", "reason"),
    [
        (op("Copy", "a", "b", x=1), {}, "the attribute 'x' is not in the rule"),
        (op("Copy", "a a", "b"), {}, "it has 2 inputs, the rule 1"),
        (op("Copy", "", "b"), {}, "the input 'x' is missing"),
        (op("Copy", "a", "b"), {"b": "int8 2x3"}, "y is int8, but T is float32"),
        (
            op("Copy", "a", "b", pads=(1, 0, 0)),
            {},
            "the attribute 'pads' must hold 2 equal parts: (1, 0, 0)",
        ),
        (
            op("Copy", "a", "b", pads=(1, 0)),
            {},
            PACKS_DIFFER,
        ),
    ],
)
def test_a_node_of_another_form_does_not_fit(
    load: Loader, graph: MakeGraph, node: Op, tensors: dict[str, str], reason: str
) -> None:
    made = graph(node, {"a": "float32 2x3", "b": "float32 2x3", **tensors})
    assert why_not(node, made, load(COPY)).splitlines()[1] == (
        f"  base/rules/ops/ops.yaml:1: {reason}"
    )


def test_an_attribute_whose_default_is_no_choice_must_be_given(
    load: Loader, graph: MakeGraph
) -> None:
    book = load(COPY.replace("{MODE: \"'plain'\"}", "{MODE: \"''\", choices: [plain, odd]}"))
    node = op("Copy", "a", "b")
    made = graph(node, {"a": "float32 2x3", "b": "float32 2x3"})
    assert why_not(node, made, book).splitlines()[1] == (
        "  base/rules/ops/ops.yaml:1: the attribute 'mode' is missing"
    )
    assert match(op("Copy", "a", "b", mode="odd"), made, book).sizes["MODE"] == "odd"


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("[A, B, C]", "x (a) needs 3 axes [A, B, C], but it is [2, 3]"),
        ("[A, B, C, D...]", "x (a) needs at least 3 axes [A, B, C, D...], but it is [2, 3]"),
        ("[2, 4]", "x needs an axis of 4, but it is [2, 3]"),
        ("[A, A]", "A is 2, but 3 in x"),
    ],
)
def test_a_shape_of_another_form_does_not_fit(
    load: Loader, graph: MakeGraph, pattern: str, reason: str
) -> None:
    text = (
        f"op: Copy\nsummary: y = x\ninputs: {{x: {pattern}}}\noutputs: {{y: {{}}}}\ntemplate: c\n"
    )
    node = op("Copy", "a", "b")
    made = graph(node, {"a": "float32 2x3", "b": "float32 2x3"})
    assert why_not(node, made, load(text)).splitlines()[1] == (
        f"  base/rules/ops/ops.yaml:1: {reason}"
    )


def test_an_operator_without_a_rule_is_named(load: Loader, graph: MakeGraph) -> None:
    node = Op("node", "Fancy", ("a",), ("b",), domain="my.ops")
    assert why_not(node, graph(node, {"a": "float32 2", "b": "float32 2"}), load(COPY)) == (
        "model: node 'node' (Fancy): error: no rule computes the operator 'Fancy' of the domain "
        "'my.ops'\n"
        "  fix: add a pack with a rule for it under 'packs:'"
    )


def test_two_packs_that_fit_equally_are_refused(load: Loader, graph: MakeGraph) -> None:
    node = op("Copy", "a", "b")
    made = graph(node, {"a": "float32 2x3", "b": "float32 2x3"})
    assert why_not(node, made, load(COPY, COPY)) == (
        "model: node 'node' (Copy): error: two rules fit it equally\n"
        "  pack1/rules/ops/ops.yaml:1\n"
        "  base/rules/ops/ops.yaml:1\n"
        "  fix: write 'replaces: ops.yaml#Copy' in the first"
    )


def test_an_opset_outside_the_rule_does_not_fit(load: Loader, graph: MakeGraph) -> None:
    node = Op("node", "Copy", ("a",), ("b",), opset=12)
    made = graph(node, {"a": "float32 2", "b": "float32 2"})
    book = load(COPY.replace("summary:", "since: 13..\nsummary:"))
    assert "it is for opset 13 to the newest" in why_not(node, made, book)


def test_a_view_keeps_the_number_of_elements(load: Loader, graph: MakeGraph) -> None:
    node = op("Copy", "a", "b")
    book = load(COPY.replace("read:", "view: {y: pack(3)}\nread:"))
    made = graph(node, {"a": "float32 2", "b": "float32 2"})
    assert why_not(node, made, book).splitlines()[1] == (
        "  base/rules/ops/ops.yaml:1: y has the shape [2], but the rule sees it as [3]"
    )


def test_a_value_input_is_bound_to_its_numbers(builtin: RuleBook, graph: MakeGraph) -> None:
    node = op("Slice", "x starts ends")
    tensors = {"x": "float32 7", "starts": "int64 1", "ends": "int64 1", "y": "float32 3"}
    made = graph(node, tensors, values={"starts": (2,), "ends": (5,)})
    found = match(node, made, builtin)
    assert found.nests[0].access["x"].index == (Index.axis("o0") + 2,)
    assert [o.name for o in found.operands] == ["x", "y"]
    assert "the input 'starts' (starts) must be known at build time" in why_not(
        node, graph(node, tensors), builtin
    )


def test_an_absent_input_leaves_no_trace(builtin: RuleBook, graph: MakeGraph) -> None:
    node = op("Conv", "x w")
    tensors = {"x": "float32 1x4x9", "w": "float32 6x4x3", "y": "float32 1x6x7"}
    found = match(node, graph(node, tensors), builtin)
    (store,) = found.nests[0].steps[1].stores
    assert not isinstance(store.value, Binary)
    assert [o.name for o in found.operands] == ["x", "w", "y"]


def test_a_division_that_is_constant_over_the_loops_goes_away(
    builtin: RuleBook, graph: MakeGraph
) -> None:
    node = op("Conv", "x w")
    tensors = {"x": "float32 1x4x9", "w": "float32 6x4x3", "y": "float32 1x6x7"}
    found = match(node, graph(node, tensors), builtin)
    assert found.nests[0].access["x"].index[1] == Index.axis("c")
    grouped = op("Conv", "x w", group=2)
    tensors = {"x": "float32 1x4x9", "w": "float32 6x2x3", "y": "float32 1x6x7"}
    found = match(grouped, graph(grouped, tensors), builtin)
    group = Index.atom(Quotient(Index.axis("m"), 3))
    assert found.nests[0].access["x"].index[1] == group * 2 + Index.axis("c")


def test_a_layout_names_the_axes_slowest_first(builtin: RuleBook, graph: MakeGraph) -> None:
    node = op("Conv", "x w b")
    tensors = {"x": "float32 1x4x9x9", "w": "float32 6x4x3x3", "b": "float32 6"}
    found = match(node, graph(node, {**tensors, "y": "float32 1x6x7x7"}), builtin)
    orders = {o.name: o.order for o in found.operands}
    assert orders == {"x": (0, 2, 3, 1), "w": (0, 2, 3, 1), "b": (), "y": (0, 2, 3, 1)}


def test_the_first_variant_that_fits_is_taken(builtin: RuleBook, graph: MakeGraph) -> None:
    node = op("Conv", "x w", group=4)
    tensors = {"x": "float32 1x4x9x9", "w": "float32 4x1x3x3", "y": "float32 1x4x7x7"}
    found = match(node, graph(node, tensors), builtin)
    assert found.variant == "depthwise"
    assert operand(found, "w").order == (1, 2, 3, 0)


def test_a_variant_needs_the_features_of_its_target(load: Loader, graph: MakeGraph) -> None:
    book = load(COPY + "variants:\n  - {name: fast, target: [dsp, mve], template: fast.c.j2}\n")
    node = op("Copy", "a", "b")
    made = graph(node, {"a": "float32 2", "b": "float32 2"})
    assert match(node, made, book, Wish(frozenset({"dsp"}))).variant == ""
    found = match(node, made, book, Wish(frozenset({"dsp", "mve", "fpu"})))
    assert (found.variant, found.template) == ("fast", "fast.c.j2")


def test_a_variant_may_bind_names_of_its_own(load: Loader, graph: MakeGraph) -> None:
    book = load(COPY + "variants:\n  - {name: big, when: COUNT_Y > 5, let: {COUNT_Y: prod(Y)}}\n")
    node = op("Copy", "a", "b")
    small = graph(node, {"a": "float32 2", "b": "float32 2"})
    large = graph(node, {"a": "float32 9", "b": "float32 9"})
    assert match(node, small, book).variant == ""
    assert match(node, large, book).variant == "big"
    assert match(node, large, book).sizes["COUNT_Y"] == 9


def test_scales_are_made_by_the_build(builtin: RuleBook, graph: MakeGraph) -> None:
    made = graph(QCONV, QUANTISED, constants=PARAMETERS)
    found = match(QCONV, made, builtin)
    assert operand(found, "scale") == Operand("scale", "scale", "float32", (6,), "constant")
    (scale,) = found.made
    assert (scale.operand, scale.nest.domain, scale.nest.extent) == ("scale", ("m",), {"m": 6})
    assert scale.nest.access["ws"].index == (Index.axis("m"),)
    assert found.nests[0].access["scale"].index == (Index.axis("m"),)
    assert "ws" not in found.nests[0].access


def test_one_scale_for_the_tensor_is_one_number(builtin: RuleBook, graph: MakeGraph) -> None:
    tensors = {**QUANTISED, "ws": "float32", "wz": "int8"}
    found = match(QCONV, graph(QCONV, tensors, constants=PARAMETERS), builtin)
    assert operand(found, "scale").shape == ()
    assert found.made[0].nest.domain == ()
    assert found.nests[0].access["scale"].index == ()


def test_a_fixed_rounding_has_no_float_at_run_time(builtin: RuleBook, graph: MakeGraph) -> None:
    made = graph(QCONV, QUANTISED, constants=PARAMETERS)
    found = match(QCONV, made, builtin, Wish(rounding="fixed"))
    assert found.variant == "fixed"
    assert [m.operand for m in found.made] == ["multiplier", "shift"]
    (store,) = found.nests[0].steps[1].stores
    assert isinstance(store.value, Call)
    assert (store.value.function, store.value.type) == ("saturate", "i32")
    assert store.value.arguments[1:] == (Number(-128, "i32"), Number(127, "i32"))


def test_a_zero_point_known_to_be_zero_is_not_subtracted(
    builtin: RuleBook, graph: MakeGraph
) -> None:
    fact = (Fact("all_zero", ("wz",)),)
    found = match(QCONV, graph(QCONV, QUANTISED, constants=PARAMETERS, facts=fact), builtin)
    assert "wz" not in found.nests[0].access
    found = match(QCONV, graph(QCONV, QUANTISED, constants=PARAMETERS), builtin)
    assert "wz" in found.nests[0].access


def test_a_scale_that_is_known_at_run_time_only_has_a_rule_of_its_own(
    builtin: RuleBook, graph: MakeGraph
) -> None:
    made = graph(QCONV, QUANTISED, constants=PARAMETERS[1:])
    assert match(QCONV, made, builtin).rule == "conv.yaml#QLinearConv~2"


def test_what_a_table_is_made_of_must_be_constant(builtin: RuleBook, graph: MakeGraph) -> None:
    names = ("a", "sa", "az", "b", "sb", "bz", "sy", "yz")
    node = Op("mul", "QLinearMul", names, ("y",), domain="com.microsoft")
    tensors = {n: "float32" if n.startswith("s") else "int8 4" for n in (*names, "y")}
    made = graph(node, tensors | dict.fromkeys(("az", "bz", "yz"), "int8"), constants=names[2:])
    with pytest.raises(UserError) as caught:
        match(node, made, builtin)
    reason = str(caught.value).splitlines()[1]
    assert re.search(r"elementwise_q.yaml:\d+: the input 'sa' \(sa\) must be a constant$", reason)


def test_a_table_of_the_build_is_looked_up(builtin: RuleBook, graph: MakeGraph) -> None:
    node = Op(
        "soft",
        "QLinearSoftmax",
        ("x", "xs", "xz", "ys", "yz"),
        ("y",),
        (("opset", 13),),
        "com.microsoft",
    )
    tensors = {"x": "int8 2x5", "y": "int8 2x5", "xs": "float32", "ys": "float32"}
    tensors |= {"xz": "int8", "yz": "int8"}
    made = graph(node, tensors, constants=("xs", "xz", "ys", "yz"))
    found = match(node, made, builtin, Wish(rounding="fixed"))
    assert operand(found, "power").shape == (256,)
    assert found.nests[0].access["power"].index == (Index(),)
    each = found.nests[0].steps[1].folds[0].each
    assert isinstance(each, Binary)
    assert isinstance(each.right, Cast)
    assert isinstance(each.right.value, Lookup)
    assert each.right.value.access == "power"


def test_a_constant_lists_the_axes_that_it_depends_on(load: Loader, graph: MakeGraph) -> None:
    book = load(
        "op: Scale\nsummary: y = x * s\ninputs: {x: {shape: [X...]}, s: {}}\n"
        "outputs: {y: {shape: [X...]}}\ndomain: {i...: X}\nread: {x: i, s: 'i[-1]'}\n"
        "constants: {t: {dtype: float32, value: s * 2}}\nsteps: [{y: x * t}]\n"
    )
    node = op("Scale", "x s")
    made = graph(node, {"x": "float32 2x3", "s": "float32 3", "y": "float32 2x3"}, constants=("s",))
    assert why_not(node, made, book).splitlines()[1] == (
        "  base/rules/ops/ops.yaml:1: the constant 't' depends on the axis 'i1', which its 'at' "
        "does not list (base/rules/ops/ops.yaml:7:40)"
    )


def test_each_member_has_a_nest(builtin: RuleBook, graph: MakeGraph) -> None:
    node = op("Concat", "a b", axis=1)
    tensors = {"a": "float32 2x3", "b": "float32 2x4", "y": "float32 2x7"}
    found = match(node, graph(node, tensors), builtin)
    assert [nest.access["x"].operand for nest in found.nests] == ["x0", "x1"]
    assert [nest.access["y"].index[1] for nest in found.nests] == [
        Index.axis("i1"),
        Index.axis("i1") + 3,
    ]
    assert found.role == "copy"


def test_any_number_of_inputs_is_combined_from_left_to_right(
    builtin: RuleBook, graph: MakeGraph
) -> None:
    node = op("Max", "a b a")
    found = match(node, graph(node, dict.fromkeys("aby", "float32 2")), builtin)
    (store,) = found.nests[0].steps[0].stores
    x0, x1, x2 = (Read(f"x{j}", "f32") for j in range(3))
    assert store.value == Call("max", (Call("max", (x0, x1), "f32"), x2), "f32")


def test_an_output_that_is_not_asked_for_is_not_computed(
    builtin: RuleBook, graph: MakeGraph
) -> None:
    node = op("MaxPool", "x", kernel_shape=(2,))
    found = match(node, graph(node, {"x": "float32 1x1x4", "y": "float32 1x1x3"}), builtin)
    assert found.variant == "value"
    assert [f.name for f in found.nests[0].steps[0].folds] == ["acc"]
    node = op("MaxPool", "x", "y at", kernel_shape=(2,))
    tensors = {"x": "float32 1x1x4", "y": "float32 1x1x3", "at": "int64 1x1x3"}
    found = match(node, graph(node, tensors), builtin)
    assert [f.name for f in found.nests[0].steps[0].folds] == ["place", "acc"]
    assert [f.type for f in found.nests[0].steps[0].folds] == ["i32", "f32"]


def test_a_condition_that_always_holds_is_left_out(builtin: RuleBook, graph: MakeGraph) -> None:
    node = op("AveragePool", "x", kernel_shape=(2,), strides=(2,), pads=(1, 1))
    found = match(node, graph(node, {"x": "float32 1x1x5", "y": "float32 1x1x3"}), builtin)
    place = Index.axis("ow") * 2 + Index.axis("kw")
    assert found.nests[0].steps[0].when == (Condition(">=", place, Index.of(1)),)


def test_spatial_axes_are_called_depth_height_and_width(
    builtin: RuleBook, graph: MakeGraph
) -> None:
    def domain(space: str) -> tuple[str, ...]:
        node = op("MaxPool", "x", kernel_shape=(1,) * (space.count("x") + 1))
        shape = f"float32 1x1x{space}"
        return match(node, graph(node, {"x": shape, "y": shape}), builtin).nests[0].domain

    assert domain("5") == ("n", "c", "ow")
    assert domain("5x6") == ("n", "c", "oh", "ow")
    assert domain("5x6x7") == ("n", "c", "od", "oh", "ow")
    assert domain("5x6x7x8") == ("n", "c", "o0", "o1", "o2", "o3")


def test_numbers_of_a_table_are_worked_out_for_each_axis(load: Loader, graph: MakeGraph) -> None:
    book = load(
        "op: Pick\nsummary: y[o] = sum over t of x[AT] * WEIGHT\n"
        "inputs: {x: {shape: [X...]}}\noutputs: {y: {shape: [Y...]}}\n"
        "let: {TAPS: 'repeat(2, rank(X))'}\ndomain: {o...: Y}\nreduce: {t...: TAPS}\n"
        "tables:\n"
        "  AT: {for: {o: Y, t: TAPS}, value: 'min(2 * o + t, X - 1)', index: true}\n"
        "  WEIGHT: {for: {o: Y, t: TAPS}, let: {HALF: 0.5}, value: HALF + t}\n"
        "read: {x: AT}\n"
        "steps:\n  - {over: [t], fold: {acc: [0, acc + x * WEIGHT]}}\n  - y: acc\n"
    )
    node = op("Pick", "x")
    found = match(node, graph(node, {"x": "float32 3", "y": "float32 2"}), book)
    (nest,) = found.nests
    assert nest.tables == {"at0": (0, 1, 2, 2), "weight0": (0.5, 1.5, 0.5, 1.5)}
    assert nest.access["x"].guards == ()
    each = nest.steps[0].folds[0].each
    assert isinstance(each, Binary)
    assert isinstance(each.right, Binary)
    assert isinstance(each.right.right, Lookup)
    assert each.right.right.access == "weight0"


def test_an_empty_tensor_needs_no_proof(load: Loader, graph: MakeGraph) -> None:
    node = op("Copy", "a", "b", pads=(1, 0))
    found = match(
        node, graph(node, {"a": "float32 0", "b": "float32 0"}), load(COPY.replace("outside", "#"))
    )
    assert found.nests[0].access["x"].guards == ()


def test_matching_twice_gives_equal_instances(builtin: RuleBook, graph: MakeGraph) -> None:
    made = graph(QCONV, QUANTISED, constants=PARAMETERS)
    assert match(QCONV, made, builtin) == match(QCONV, made, load_rules([ROOT]))


@pytest.mark.parametrize(("kind", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_a_template_of_its_own_has_the_work_that_its_rule_states(
    builtin: RuleBook, graph: MakeGraph, kind: str, gates: int
) -> None:
    # 7 turns, 2 sequences, 5 inputs, 3 states.
    tensors = {
        "x": "float32 7x2x5",
        "w": f"float32 1x{gates * 3}x5",
        "r": f"float32 1x{gates * 3}x3",
        "y": "float32 7x1x2x3",
        "yh": "float32 1x2x3",
        "yc": "float32 1x2x3",
    }
    node = op(kind, "x w r", "y yh yc" if kind == "LSTM" else "y yh")
    found = cost(match(node, graph(node, tensors, constants=("w", "r")), builtin))
    assert found.macs == 7 * 2 * gates * 3 * (5 + 3)
    assert found.macs_of == (("float32", found.macs),)
