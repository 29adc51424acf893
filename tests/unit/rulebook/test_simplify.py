from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from dlbuild.rulebook.index import Folded, Index, Quotient, Remainder, Tabled
from dlbuild.rulebook.simplify import simplified

BOX = {"i": (0, 4), "j": (0, 3)}
A, B = Index.axis("i"), Index.axis("j")

MAPS = st.recursive(
    st.one_of(st.sampled_from([A, B]), st.integers(-6, 6).map(Index.of)),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda t: t[0] + t[1]),
        st.tuples(inner, st.integers(-3, 3)).map(lambda t: t[0] * t[1]),
        st.tuples(inner, st.integers(1, 7)).map(lambda t: t[0] // t[1]),
        st.tuples(inner, st.integers(1, 7)).map(lambda t: t[0] % t[1]),
        st.tuples(inner, st.integers(1, 6)).map(lambda t: Index.atom(Folded("clamp", *t))),
        st.tuples(inner, st.integers(1, 6)).map(lambda t: Index.atom(Folded("reflect", *t))),
    ),
    max_leaves=8,
)


def at(place: Index, point: dict[str, int]) -> int:
    """Return a map's value at one point, each form by its meaning."""
    total = place.constant
    for atom, factor in place.terms:
        match atom:
            case str():
                value = point[atom]
            case Quotient(of, by):
                value = at(of, point) // by
            case Remainder(of, by):
                value = at(of, point) % by
            case Folded("clamp", of, extent):
                value = min(max(at(of, point), 0), extent - 1)
            case Folded(_, of, extent):
                period = max(2 * (extent - 1), 1)
                value = at(of, point) % period
                value = min(value, period - value) if extent > 1 else 0
            case Tabled(of, _, numbers):
                value = numbers[at(of, point)]
            case _:
                raise AssertionError(atom)
        total += value * factor
    return total


@given(MAPS)
def test_a_simplified_map_is_the_same_at_every_point(place: Index) -> None:
    short = simplified(place, BOX)
    for i, j in product(range(*BOX["i"]), range(*BOX["j"])):
        point = {"i": i, "j": j}
        assert at(short, point) == at(place, point)


def test_a_division_with_one_result_is_a_number() -> None:
    assert simplified(A // 4, BOX) == Index.of(0)
    assert simplified((A + 8) // 4, BOX) == Index.of(2)
    assert simplified((A + 1) // 4, BOX) == (A + 1) // 4


def test_a_remainder_within_one_block_is_a_difference() -> None:
    assert simplified(A % 4, BOX) == A
    assert simplified((A + 8) % 4, BOX) == A


def test_a_fold_that_stays_inside_goes_away() -> None:
    assert simplified(Index.atom(Folded("clamp", A, 4)), BOX) == A
    assert simplified(Index.atom(Folded("wrap", A - 1, 4)), BOX) != A - 1


def test_a_table_keeps_its_numbers() -> None:
    table = Index.atom(Tabled((A * 2) // 8, "at", (5,)))
    assert simplified(table, BOX) == Index.atom(Tabled(Index.of(0), "at", (5,)))
