from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from dlbuild.emit.environment import environment
from dlbuild.emit.kernel import KernelText, render_kernel
from dlbuild.emit.parameter import Parameter
from dlbuild.rulebook.index import Index
from dlbuild.rulebook.instance import (
    Access,
    Fold,
    Guard,
    Instance,
    Let,
    Loop,
    Nest,
    Operand,
    Store,
)
from dlbuild.rulebook.value import (
    COMPUTE_TYPE,
    Binary,
    Call,
    Choose,
    Compare,
    Expr,
    Local,
    Logic,
    Number,
    Read,
)

ENVIRONMENT = environment([Path(__file__).parents[3] / "templates"])


def axis(name: str) -> Index:
    return Index.axis(name)


def operand(name: str, dtype: str, *shape: int) -> Operand:
    return Operand(name, f"net/{name}", dtype, shape, "output" if name == "y" else "input")


def read(name: str, dtype: str = "float32") -> Read:
    return Read(name, COMPUTE_TYPE[dtype])


def instance(operands: list[Operand], *nests: Nest) -> Instance:
    name = "kernels/nest.c.j2"
    return Instance("", "", "Kind", "y = f(x)", "", name, ("/op",), tuple(operands), {}, nests)


def rendered(
    what: Instance,
    orders: Mapping[str, tuple[int, ...]] | None = None,
    restrict: str = "",
    constants: str = "",
) -> KernelText:
    return render_kernel(
        what,
        "f",
        orders or {},
        restrict=frozenset(restrict.split()),
        constants=frozenset(constants.split()),
        environment=ENVIRONMENT,
    )


def add(dtype: str = "float32") -> Instance:
    """Return y[i, j] = a[i, j] + b[j]."""
    i, j = axis("i"), axis("j")
    value: Expr = Binary("+", read("a", dtype), read("b", dtype), COMPUTE_TYPE[dtype])
    access = {
        "a": Access("a", (2, 3), (i, j)),
        "b": Access("b", (3,), (j,)),
        "y": Access("y", (2, 3), (i, j)),
    }
    step = Loop((), stores=(Store("y", value),))
    nest = Nest(("i", "j"), (), {"i": 2, "j": 3}, access, (step,))
    operands = [operand("a", dtype, 2, 3), operand("b", dtype, 3), operand("y", dtype, 2, 3)]
    return instance(operands, nest)


def relu() -> Instance:
    at = tuple(axis(n) for n in ("i0", "i1", "i2"))
    shape = (2, 1, 3)
    access = {n: Access(n, shape, at) for n in ("x", "y")}
    value = Call("max", (read("x"), Number(0.0, "f32")), "f32")
    step = Loop((), stores=(Store("y", value),))
    nest = Nest(("i0", "i1", "i2"), (), {"i0": 2, "i1": 1, "i2": 3}, access, (step,))
    return instance([operand("x", "float32", *shape), operand("y", "float32", *shape)], nest)


def convolution() -> Instance:
    """Return an int8 convolution along h with a pad of one on either side, NCH."""
    m, c, h, k = (axis(n) for n in "mchk")
    place = h + k - 1
    product = Binary("*", read("x", "int8"), read("w", "int8"), "i32")
    access = {
        "x": Access("x", (4, 10), (c, place), (Guard(place, 10),), "skip"),
        "w": Access("w", (8, 4, 3), (m, c, k)),
        "y": Access("y", (8, 10), (m, h)),
    }
    acc = Fold("acc", Number(0, "i32"), Binary("+", Local("acc", "i32"), product, "i32"), "i32")
    steps = (Loop(("c", "k"), folds=(acc,)), Loop((), stores=(Store("y", Local("acc", "i32")),)))
    nest = Nest(("m", "h"), ("c", "k"), {"m": 8, "h": 10, "c": 4, "k": 3}, access, steps)
    operands = [
        operand("x", "int8", 4, 10),
        operand("w", "int8", 8, 4, 3),
        operand("y", "int32", 8, 10),
    ]
    return instance(operands, nest)


def test_an_operand_that_is_repeated_keeps_two_loops() -> None:
    assert rendered(add()).text == (
        "static void f(const float *a, const float *b, float *y)\n"
        "{\n"
        "    enum { I = 2, J = 3 };\n"
        "\n"
        "    for (int32_t i = 0; i < I; ++i) {\n"
        "        for (int32_t j = 0; j < J; ++j) {\n"
        "            y[(i * 3) + j] = a[(i * 3) + j] + b[j];\n"
        "        }\n"
        "    }\n"
        "}\n"
    )


def test_unit_axes_go_and_neighbours_become_one_loop() -> None:
    text = rendered(relu())

    assert text.text == (
        "static void f(const float *x, float *y)\n"
        "{\n"
        "    enum { I = 6 };\n"
        "\n"
        "    for (int32_t i = 0; i < I; ++i) {\n"
        "        y[i] = max_f32(x[i], 0.0F);\n"
        "    }\n"
        "}\n"
    )
    assert text.helpers == ("max_f32",)
    assert text.includes == ("math.h", "stdint.h")


def test_a_layout_of_channels_last_orders_the_loops_and_clamps_them_early() -> None:
    orders = {"x": (1, 0), "w": (0, 2, 1), "y": (1, 0)}

    assert rendered(convolution(), orders, "x w y").text == (
        "static void f(const int8_t *restrict x, const int8_t *restrict w, int32_t *restrict y)\n"
        "{\n"
        "    enum { H = 10, M = 8, K = 3, C = 4 };\n"
        "\n"
        "    for (int32_t h = 0; h < H; ++h) {\n"
        "        const int32_t k_first = max_i32(1 - h, 0);\n"
        "        const int32_t k_end = min_i32(11 - h, K);\n"
        "        for (int32_t m = 0; m < M; ++m) {\n"
        "            int32_t acc = 0;\n"
        "            for (int32_t k = k_first; k < k_end; ++k) {\n"
        "                const int32_t x_at = (h + k - 1) * 4;\n"
        "                const int32_t w_at = (m * 12) + (k * 4);\n"
        "                for (int32_t c = 0; c < C; ++c) {\n"
        "                    acc += x[x_at + c] * w[w_at + c];\n"
        "                }\n"
        "            }\n"
        "            y[(h * 8) + m] = acc;\n"
        "        }\n"
        "    }\n"
        "}\n"
    )


def test_the_comment_names_nodes_layouts_and_the_greatest_sum() -> None:
    assert rendered(convolution(), {"x": (1, 0)}).comment == (
        "/* Kind: y = f(x)\n"
        " * nodes: '/op'\n"
        " *\n"
        " * reads x: int8[4][10], in memory [10][4] (axes 1, 0)\n"
        " * reads w: int8[8][4][3]\n"
        " * writes y: int32[8][10]\n"
        " * acc: at most 196,608 in magnitude, no overflow\n"
        " */"
    )


def test_the_text_is_that_of_the_sizes_alone() -> None:
    other = replace(add(), ops=("/another",), kind="Other", summary="other")

    assert rendered(other).text == rendered(add()).text
    assert rendered(other).comment != rendered(add()).comment


def add_number() -> Instance:
    """Return y[i, j] = a[i, j] + b."""
    nest = add().nests[0]
    access = {**nest.access, "b": Access("b", (), ())}
    a, _, y = add().operands
    operands = (a, operand("b", "float32"), y)
    return replace(add(), operands=operands, nests=(replace(nest, access=access),))


def test_one_number_of_the_weight_table_is_passed_by_value() -> None:
    text = rendered(add_number(), constants="b")

    assert text.parameters == (
        Parameter("a", "float", by_value=False, is_const=True),
        Parameter("b", "float", by_value=True, is_const=True),
        Parameter("y", "float", by_value=False, is_const=False),
    )
    assert "y[ij] = a[ij] + b;" in text.text


def test_one_number_that_is_an_activation_is_read_through_its_pointer() -> None:
    assert "y[ij] = a[ij] + b[0];" in rendered(add_number()).text


def test_what_no_result_needs_is_not_computed() -> None:
    nest = convolution().nests[0]
    unused = Fold(
        "n", Number(0, "i32"), Binary("+", Local("n", "i32"), Number(1, "i32"), "i32"), "i32"
    )
    first = replace(nest.steps[0], folds=(unused, *nest.steps[0].folds))

    changed = replace(convolution(), nests=(replace(nest, steps=(first, nest.steps[1])),))

    assert rendered(changed).text == rendered(convolution()).text


def test_int32_wraps_where_it_may_overflow() -> None:
    assert "y[(i * 3) + j] = wrap_add_i32(a[(i * 3) + j], b[j]);" in rendered(add("int32")).text


def test_several_nests_have_a_block_each() -> None:
    nest = add().nests[0]

    text = rendered(replace(add(), nests=(nest, nest))).text

    assert text.count("    {\n        enum { I = 2, J = 3 };\n") == 2


def test_a_nest_without_points_is_not_printed() -> None:
    nest = replace(add().nests[0], extent={"i": 0, "j": 3})

    text = rendered(replace(add(), nests=(nest,)))

    assert text.text == "static void f(void)\n{\n}\n"
    assert text.parameters == ()


def test_a_name_that_c_needs_gets_an_underscore() -> None:
    at = (axis("i"),)
    access = {"short": Access("short", (3,), at), "y": Access("y", (3,), at)}
    step = Loop((), stores=(Store("y", read("short")),))
    operands = [operand("short", "float32", 3), operand("y", "float32", 3)]

    text = rendered(instance(operands, Nest(("i",), (), {"i": 3}, access, (step,))))

    assert "const float *short_" in text.text
    assert "y[i] = short_[i];" in text.text


def test_a_statement_that_does_not_fit_a_line_is_cut_at_a_part() -> None:
    value: Expr = read("a")
    for _ in range(5):
        value = Call("max", (Call("tanh", (value,), "f32"), read("b")), "f32")
    nest = add().nests[0]
    step = Loop((), stores=(Store("y", value),))

    text = rendered(replace(add(), nests=(replace(nest, steps=(step,)),))).text

    assert max(map(len, text.splitlines())) <= 100
    assert "            const float part = " in text


def test_one_number_passed_by_value_has_no_address_to_name() -> None:
    nest = add_number().nests[0]
    access = {**nest.access, "a": Access("a", (2, 3), (axis("i"), axis("j")))}
    test = Let("t", Compare("<", read("a"), read("b")), "bool")
    # Nothing after the first term may be computed before: addresses are named instead.
    terms = [Compare("<", read("b"), Binary("*", read("a"), read("b"), "f32")) for _ in range(9)]
    tests = (test, Let("u", Logic("or", (Local("t", "bool"), *terms)), "bool"))
    value = Choose(Local("u", "bool"), read("a"), read("b"), "f32")
    step = Loop((), lets=tests, stores=(Store("y", value),))
    what = replace(add_number(), nests=(replace(nest, access=access, steps=(step,)),))

    text = rendered(what, orders={"a": (1, 0)}, constants="b").text

    assert "const int32_t a_at = " in text
    assert "b_at" not in text
