"""Placement of lives that may lie on part of one another."""

from itertools import combinations, product

from hypothesis import given, settings
from hypothesis import strategies as st

from dlbuild.stages.overlap import place_overlapping
from dlbuild.stages.problem import Apart, Bytes, Live, Problem, Step


def live(name: str, size: int, first: int, last: int, align: int = 1) -> Live:
    return Live(name, Bytes(size), Step(first), Step(last), Bytes(align))


def collides(problem: Problem, offsets: tuple[int, ...]) -> bool:
    """Say whether two lives that meet share a byte they may not share."""
    distance = {(a.lower, a.upper): a.distance_bytes for a in problem.apart}
    for (one, at), (other, there) in combinations(zip(problem.lives, offsets, strict=True), 2):
        if not one.meets(other):
            continue
        if at + one.size_bytes <= there or there + other.size_bytes <= at:
            continue
        above = distance.get((other.name, one.name))
        below = distance.get((one.name, other.name))
        if above is not None and at >= there + above:
            continue
        if below is not None and there >= at + below:
            continue
        return True
    return False


WALK = Problem(
    (
        live("a", 30976, 0, 9, 4),
        live("a3", 14784, 0, 6, 4),
        live("a0", 4224, 0, 6, 4),
        live("a1", 1408, 0, 6, 4),
        live("a4", 1056, 0, 6, 4),
        live("b", 30976, 6, 12, 4),
        live("b6", 10560, 6, 9, 4),
        live("b7", 3520, 6, 9, 4),
        live("c", 30976, 9, 15, 4),
        live("c10", 24640, 9, 12, 4),
        live("c11", 3520, 9, 12, 4),
        live("d", 30976, 12, 17, 4),
        live("d14", 14080, 12, 15, 4),
        live("d15", 2816, 12, 15, 4),
        live("e", 38720, 15, 18, 4),
        live("e18", 17600, 15, 17, 4),
    ),
    (Apart("a", "b", 704), Apart("b", "c", 704), Apart("c", "d", 704), Apart("d", "e", 7744)),
)
"""Tensors between the strips of a network, each walking down over the one before it."""


def test_tensors_that_walk_down_the_arena_leave_gaps_that_hold_the_rings() -> None:
    # 59,840 cannot be reached: c would have to lie above conv10's place and below a's end.
    solution = place_overlapping(WALK)

    assert not collides(WALK, solution.offsets)
    assert (solution.height_bytes, solution.bound_bytes) == (60544, 59840)


def test_a_long_tail_of_small_lives_hides_no_walk_from_the_search() -> None:
    # With the working memory of kernels, and counters that live throughout; then layer by layer.
    small = [("s1", 2160, 0, 6), ("s2", 1104, 6, 9), ("s3", 480, 9, 12), ("s4", 1920, 12, 15)]
    tail = [live(f"t{n}", 29040, 17 + n, 19 + n, 4) for n in range(30)]
    works = [live(f"w{n}", 240 + n * 720 % 1680, 18 + n, 19 + n, 4) for n in range(30)]
    scratch = [live(name, size, first, last, 4) for name, size, first, last in small]
    lives = (*WALK.lives, live("done", 14, 0, 50, 4), *scratch, *tail, *works)
    problem = Problem(lives, WALK.apart)

    solution = place_overlapping(problem)

    assert not collides(problem, solution.offsets)
    # Of the counters' 14 bytes the bound counts no padding.
    assert solution.height_bytes <= solution.bound_bytes + 16 == 67790


def test_two_lives_at_a_distance_of_nothing_share_their_beginning() -> None:
    lives = (live("upper", 8, 0, 2), live("lower", 8, 1, 3), live("both", 4, 0, 3))
    problem = Problem(lives, (Apart("upper", "lower", 0),))

    assert place_overlapping(problem).height_bytes == 12


@st.composite
def problems(draw: st.DrawFn, most: int, largest: int) -> Problem:
    lives = []
    for number in range(draw(st.integers(2, most))):
        first = draw(st.integers(0, 4))
        last = first + draw(st.integers(1, 3))
        size = draw(st.integers(1, largest))
        lives.append(live(f"t{number}", size, first, last, draw(st.sampled_from([1, 1, 4]))))
    apart = []
    for upper, lower in combinations(lives, 2):
        if upper.meets(lower) and draw(st.booleans()):
            distance = draw(st.integers(0, lower.size_bytes))
            if distance < lower.size_bytes:
                apart.append(Apart(upper.name, lower.name, distance))
    return Problem(tuple(lives), tuple(apart))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(problems(8, 40))
def test_no_byte_is_shared_that_may_not_be(problem: Problem) -> None:
    solution = place_overlapping(problem)

    assert not collides(problem, solution.offsets)
    assert all(
        at % life.align_bytes == 0 for at, life in zip(solution.offsets, problem.lives, strict=True)
    )
    assert solution.bound_bytes <= solution.height_bytes == problem.height_bytes(solution.offsets)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(problems(4, 5))
def test_no_placement_of_a_small_problem_is_lower(problem: Problem) -> None:
    height = place_overlapping(problem).height_bytes
    for offsets in product(range(height), repeat=len(problem.lives)):
        if problem.height_bytes(offsets) >= height:
            continue
        if any(at % v.align_bytes for at, v in zip(offsets, problem.lives, strict=True)):
            continue
        assert collides(problem, offsets), offsets
