import ast
from itertools import product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlbuild.rulebook.expr import evaluate, parse, parse_map
from dlbuild.rulebook.index import Folded, Index, Loaded
from dlbuild.rulebook.instance import Condition
from dlbuild.rulebook.pack import ExpressionError, TensorName, Term

NAMES = {"A": 3, "B": -7, "C": 1, "D": 12}
PACKS: dict[str, Term] = {"X": (2, 3, 4), "Y": (5, 3, 1), "N": 2, "E": ()}


def size(text: str, **names: Term) -> Term:
    return evaluate(parse(text), names)


def packed(text: str) -> Term:
    return evaluate(parse(text), PACKS)


def axes(**extents: int) -> dict[str, Term]:
    return {name: Index.axis(name) for name in extents}


def trees() -> st.SearchStrategy[str]:
    leaves = st.sampled_from([*NAMES, "0", "1", "2", "5", "2.5", "True"])
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.tuples(
                inner,
                st.sampled_from(["+", "-", "*", "/", "//", "%", "&", "|", "^"]),
                inner,
            ).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
            st.tuples(inner, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), inner).map(
                lambda t: f"({t[0]} {t[1]} {t[2]})"
            ),
            st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(
                lambda t: f"({t[0]} {t[1]} {t[2]})"
            ),
            st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} if {t[1]} else {t[2]})"),
            st.tuples(st.sampled_from(["-", "not "]), inner).map(lambda t: f"({t[0]}{t[1]})"),
            st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(
                lambda t: f"{t[0]}({t[1]}, {t[2]})"
            ),
        ),
        max_leaves=12,
    )


@given(trees())
def test_a_size_expression_equals_what_python_computes(text: str) -> None:
    tree = ast.parse(text, mode="eval")
    code = compile(tree, "test", "eval")
    try:
        due = eval(code, {"min": min, "max": max}, dict(NAMES))  # noqa: S307 - the oracle
    except (ArithmeticError, TypeError):
        with pytest.raises(ExpressionError):
            size(text, **NAMES)
        return
    found = size(text, **NAMES)
    assert type(found) is type(due)
    assert found == due


MAPS = st.recursive(
    st.one_of(
        st.sampled_from(["i", "j", "k"]),
        st.integers(-9, 9).map(str),
    ),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-"]), inner).map(
            lambda t: f"({t[0]} {t[1]} {t[2]})"
        ),
        st.tuples(inner, st.integers(-4, 4)).map(lambda t: f"({t[0]} * {t[1]})"),
        st.tuples(inner, st.sampled_from(["//", "%"]), st.integers(1, 5)).map(
            lambda t: f"({t[0]} {t[1]} {t[2]})"
        ),
        st.tuples(st.sampled_from(["clamp", "reflect"]), inner, st.integers(1, 6)).map(
            lambda t: f"{t[0]}({t[1]}, {t[2]})"
        ),
    ),
    max_leaves=8,
)


def clamp(value: int, extent: int) -> int:
    return min(max(value, 0), extent - 1)


def reflect(value: int, extent: int) -> int:
    while extent > 1 and not 0 <= value < extent:
        value = -value if value < 0 else 2 * (extent - 1) - value
    return value if extent > 1 else 0


def python_values(text: str, box: dict[str, tuple[int, int]]) -> dict[tuple[int, ...], int]:
    code = compile(ast.parse(text, mode="eval"), "test", "eval")
    ranges = [range(*bounds) for bounds in box.values()]
    return {
        point: eval(  # noqa: S307 - the oracle
            code, {"clamp": clamp, "reflect": reflect}, dict(zip(box, point, strict=True))
        )
        for point in product(*ranges)
    }


BOXES = st.fixed_dictionaries(
    {a: st.tuples(st.integers(-3, 3), st.integers(1, 4)) for a in "ijk"}
).map(lambda box: {axis: (first, first + count) for axis, (first, count) in box.items()})


@given(MAPS, BOXES)
def test_the_interval_of_a_map_holds_its_values_at_every_point(
    text: str, box: dict[str, tuple[int, int]]
) -> None:
    term = size(text, **axes(i=1, j=1, k=1))
    place = term if isinstance(term, Index) else Index.of(int(str(term)))
    values = python_values(text, box)
    low, high = place.interval(box)
    assert low <= min(values.values())
    assert high >= max(values.values())
    if all(isinstance(atom, str) for atom, _ in place.terms):
        assert (low, high) == (min(values.values()), max(values.values()))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("X + Y", (7, 6, 5)),
        ("X * 2", (4, 6, 8)),
        ("X // N", (1, 1, 2)),
        ("X == Y", (False, True, False)),
        ("X * (Y == 1)", (0, 0, 4)),
        ("X[1]", 3),
        ("X[-1]", 4),
        ("X[:2]", (2, 3)),
        ("X[::-1]", (4, 3, 2)),
        ("X[pack(2, 0)]", (4, 2)),
        ("X[[2, 0]]", (4, 2)),
        ("E == E", ()),
        ("all(E == E)", True),
        ("any(X == 3)", True),
        ("prod(X)", 24),
        ("prod(N)", 2),
        ("sum(X)", 9),
        ("rank(X)", 3),
        ("min(X)", 2),
        ("max(X, 3)", (3, 3, 4)),
        ("min(X, Y)", (2, 3, 1)),
        ("sort(Y)", (1, 3, 5)),
        ("order(Y)", (2, 1, 0)),
        ("norm(-1, 3)", (2,)),
        ("norm(pack(-1, 0), 3)", (2, 0)),
        ("without(X, pack(1))", (2, 4)),
        ("weave(pack(2, 4), pack(9), pack(1))", (2, 9, 4)),
        ("inverse(pack(2, 0, 1))", (1, 2, 0)),
        ("broadcast(pack(3, 1), pack(5))", (3, 5)),
        ("repeat(0, 2)", (0, 0)),
        ("range(3)", (0, 1, 2)),
        ("range(1, 3)", (1, 2)),
        ("ceil_div(7, 2)", 4),
        ("ceil_div(X, 2)", (1, 2, 2)),
        ("floor(2.7) + ceil(2.2)", 5),
        ("abs(-3)", 3),
        ("clip(9, 0, 4)", 4),
        ("put(X, 1, 8)", (2, 8, 4)),
        ("along(pack(0), 0, 0)", 0),
        ("-X", (-2, -3, -4)),
        ("2 ** 5", 32),
        ("'float' in 'float16'", True),
        ("'int' not in 'float16'", True),
        ("3 in X", True),
        ("'SAME_UPPER'[:4]", "SAME"),
    ],
)
def test_packs_compute_axis_by_axis(text: str, value: Term) -> None:
    assert packed(text) == value


def test_along_sums_the_extents_of_the_members_before() -> None:
    assert size("along(XS, 1, 2)", XS=((2, 3), (2, 4), (2, 5))) == 7


def test_fit_takes_the_last_axes_and_drops_those_of_extent_one() -> None:
    i = tuple(Index.axis(f"i{j}") for j in range(3))
    assert size("fit(i, S)", i=i, S=(1, 4)) == (0, Index.axis("i2"))


def test_a_map_lists_one_index_for_each_axis() -> None:
    scope: dict[str, Term] = {"n": Index.axis("n"), "o": (Index.axis("o0"), Index.axis("o1"))}
    found = evaluate(parse_map("n, o * 2 - 1"), scope)
    assert found == (Index.axis("n"), Index.axis("o0") * 2 - 1, Index.axis("o1") * 2 - 1)


def test_an_empty_map_is_that_of_a_scalar() -> None:
    assert evaluate(parse_map(" "), {}) == ()


def test_a_tensor_in_a_map_is_an_index_from_its_content() -> None:
    scope: dict[str, Term] = {"i": TensorName("i"), "j": (Index.axis("j0"),)}
    due = Index.atom(Folded("wrap", Index.atom(Loaded("i", (Index.axis("j0"),))), 5))
    assert evaluate(parse("wrap(i[j], 5)"), scope) == due


def test_each_reads_the_last_axis_of_an_index_tensor() -> None:
    scope: dict[str, Term] = {"i": TensorName("i"), "t": Index.axis("t")}
    due = tuple(Index.atom(Loaded("i", (Index.axis("t"), Index.of(j)))) for j in range(2))
    assert evaluate(parse("each(i, t, 2)"), scope) == due


def test_a_comparison_of_maps_is_a_condition_and_of_numbers_a_truth() -> None:
    scope: dict[str, Term] = {"i": Index.axis("i"), "N": 4}
    assert evaluate(parse("i < N"), scope) == Condition("<", Index.axis("i"), Index.of(4))
    assert evaluate(parse("i - i < N"), scope) is True


def test_conditions_joined_by_and_all_hold() -> None:
    scope: dict[str, Term] = {"i": Index.axis("i"), "N": 4}
    assert evaluate(parse("N > 1 and i >= 1 and i < N"), scope) == (
        Condition(">=", Index.axis("i"), Index.of(1)),
        Condition("<", Index.axis("i"), Index.of(4)),
    )


@pytest.mark.parametrize(
    ("text", "message", "offset"),
    [
        ("X + pack(1, 2)", "packs of 2 and 3 axes do not fit together", 0),
        ("1 + Q", "'Q' is not known here", 4),
        ("1 + prud(X)", "there is no function 'prud'", 4),
        ("N // 0", "a division by zero", 0),
        ("X[7]", "there is no such axis", 0),
        ("N[0]", "a part of 2", 0),
        ("rank(N)", "rank() needs a pack, not 2", 0),
        ("X and N", "a pack is not a truth: compare it, or take its rank()", 0),
        ("max(E)", "max() of an empty pack", 0),
        ("norm(4, 3)", "axis 4 is not an axis of a tensor of rank 3", 0),
        ("broadcast(X, Y)", "extents 2 and 5 do not broadcast", 0),
        ("inverse(X)", "inverse() needs a permutation", 0),
        ("fit(E, X)", "fit() needs 3 axes, but there are 0", 0),
        ("X + 'a'", "these values do not go together", 0),
        ("2 ** 999", "an exponent above 64", 5),
        ("prod()", "prod() does not take these values", 0),
        ("weave(X, pack(1), pack(9))", "weave() puts 1 values at 1 axes of 4", 0),
    ],
)
def test_a_fault_says_what_and_where(text: str, message: str, offset: int) -> None:
    with pytest.raises(ExpressionError) as caught:
        packed(text)
    assert (caught.value.what, caught.value.offset) == (message, offset)


def test_a_product_of_two_axes_is_refused() -> None:
    with pytest.raises(ExpressionError, match="a product of two axes is not an index map"):
        size("i * j", **axes(i=2, j=2))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("X.real", "'Attribute' is not part of the rule language"),
        ("lambda: 1", "'Lambda' is not part of the rule language"),
        ("[i for i in X]", "'ListComp' is not part of the rule language"),
        ("f(x=1)", "a call of this form is not part of the rule language"),
        ("1 < N < 3", "a chain of comparisons is not part of the rule language"),
        ("None", "the constant None is not part of the rule language"),
        ("X[0](1)", "a call of this form is not part of the rule language"),
        ("x + * y", "this is not an expression: invalid syntax"),
    ],
)
def test_what_is_not_in_the_language_is_refused(text: str, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert caught.value.what == message


def test_prod_of_a_pack_is_a_number() -> None:
    assert packed("prod(X)") == prod((2, 3, 4))
