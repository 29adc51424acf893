"""Placement: no overlap, alignment, given offsets, and heights that reach the bound."""

import csv
import os
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlbuild.stages.branch import Outcome, OutOfNodesError, fit, outcome
from dlbuild.stages.climb import climb
from dlbuild.stages.firstfit import first_fit, greedy_orders
from dlbuild.stages.place import place
from dlbuild.stages.problem import Bytes, Live, Problem, Step, lower_bound


def live(  # noqa: PLR0913 - the fields of a life
    name: str, size: int, first: int, last: int, *, align: int = 1, at: int | None = None
) -> Live:
    offset = None if at is None else Bytes(at)
    return Live(name, Bytes(size), Step(first), Step(last), Bytes(align), offset)


def faults(lives: Sequence[Live], offsets: Sequence[int]) -> list[str]:
    found = []
    for i, one in enumerate(lives):
        if offsets[i] < 0 or offsets[i] % one.align_bytes:
            found.append(f"{one.name} is not aligned")
        if one.offset_bytes is not None and offsets[i] != one.offset_bytes:
            found.append(f"{one.name} is not where it must be")
        for j in range(i):
            other = lives[j]
            if one.first_step < other.last_step and other.first_step < one.last_step:
                below = offsets[i] + one.size_bytes <= offsets[j]
                above = offsets[j] + other.size_bytes <= offsets[i]
                if not below and not above:
                    found.append(f"{one.name} overlaps {other.name}")
    return found


PICTURE = Problem((live("a", 4, 0, 1), live("b", 4, 0, 2), live("c", 4, 1, 2)))
# Size order leaves a gap under the large life that comes late; only another order avoids it.
STAIRS = Problem(
    (
        live("a", 2, 0, 2),
        live("b", 1, 1, 3),
        live("c", 2, 2, 4),
        live("d", 1, 0, 1),
        live("e", 1, 3, 4),
    )
)


def packed(width: int, height: int, cuts: int) -> Problem:
    """Cut a rectangle of steps and bytes into lives, so that a placement without waste exists."""
    random = Random(1)  # noqa: S311 - test data, not a secret
    boxes = [(0, width, 0, height)]
    while len(boxes) < cuts:
        first, last, low, high = boxes.pop(max(range(len(boxes)), key=lambda i: area(boxes[i])))
        at = 0.3 + 0.4 * random.random()
        if last - first > 1 and random.random() < 0.5:
            step = first + max(int((last - first) * at), 1)
            boxes += [(first, step, low, high), (step, last, low, high)]
        else:
            byte = low + max(int((high - low) * at), 1)
            boxes += [(first, last, low, byte), (first, last, byte, high)]
    return Problem(tuple(live(str(i), b[3] - b[2], b[0], b[1]) for i, b in enumerate(boxes)))


def area(box: tuple[int, int, int, int]) -> int:
    return (box[1] - box[0]) * (box[3] - box[2])


HARD = packed(60, 1000, 50)


def test_two_that_never_meet_share_an_offset() -> None:
    solution = place(PICTURE)
    assert faults(PICTURE.lives, solution.offsets) == []
    assert solution.height_bytes == solution.bound_bytes == 8
    assert solution.offsets[0] == solution.offsets[2]


def test_no_lives_need_no_bytes() -> None:
    solution = place(Problem(()))
    assert (solution.offsets, solution.height_bytes, solution.ratio) == ((), 0, 1.0)


def test_starts_are_aligned_and_the_bound_counts_the_padding() -> None:
    problem = Problem((live("a", 5, 0, 2, align=4), live("b", 6, 0, 2, align=4)))
    solution = place(problem)
    assert faults(problem.lives, solution.offsets) == []
    assert (solution.height_bytes, solution.bound_bytes) == (13, 13)


def test_a_byte_aligned_life_may_fill_the_padding() -> None:
    lives = (live("a", 5, 0, 1, align=4), live("b", 8, 0, 1, align=4), live("c", 3, 0, 1))
    assert lower_bound(lives) == 16
    assert place(Problem(lives)).height_bytes == 16


def test_a_given_offset_is_kept_and_counts_in_the_bound() -> None:
    problem = Problem((live("a", 4, 0, 2), live("io", 8, 0, 2, at=16), live("b", 12, 1, 2)))
    solution = place(problem)
    assert faults(problem.lives, solution.offsets) == []
    assert (solution.height_bytes, solution.bound_bytes) == (24, 24)


def test_the_free_bytes_below_the_first_life_are_used() -> None:
    problem = Problem((live("high", 8, 0, 2, at=8), live("low", 8, 1, 2)))
    assert place(problem).offsets == (8, 0)


def test_the_hill_climb_repairs_a_bad_order() -> None:
    problem = STAIRS
    worst = max(
        (order for _, order in greedy_orders(problem)),
        key=lambda order: problem.height_bytes(first_fit(problem, order) or ()),
    )
    offsets, _ = climb(problem, worst, 100)
    assert faults(problem.lives, offsets) == []
    assert problem.height_bytes(offsets) == problem.bound_bytes


def test_branch_and_bound_proves_that_a_capacity_is_too_small() -> None:
    # Two parity classes: a and c force b up, though no step needs more than 4 bytes.
    problem = Problem(
        (
            live("a", 2, 0, 2),
            live("b", 2, 1, 3),
            live("c", 1, 0, 1),
            live("d", 1, 0, 1),
            live("e", 2, 2, 3),
        )
    )
    assert fit(problem, problem.bound_bytes - 1, 1000)[0] is None
    offsets, _ = fit(problem, problem.bound_bytes, 1000)
    assert offsets is not None
    assert faults(problem.lives, offsets) == []


def test_branch_and_bound_says_when_it_ran_out_of_nodes() -> None:
    with pytest.raises(OutOfNodesError):
        fit(PICTURE, 8, 1)


def test_searches_nest_deeper_than_functions_may() -> None:
    def nested(depth: int) -> Outcome:
        return bool((yield nested(depth - 1))) if depth else True

    assert outcome(nested(5000))


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    count = draw(st.integers(0, 9))
    lives = []
    for i in range(count):
        first = draw(st.integers(0, 6))
        last = draw(st.integers(first + 1, 8))
        align = draw(st.sampled_from((1, 1, 2, 4)))
        lives.append(live(f"t{i}", draw(st.integers(0, 9)), first, last, align=align))
    return Problem(tuple(lives))


@given(problems())
@settings(deadline=None, derandomize=True)
def test_every_placement_is_free_of_overlap_and_never_below_the_bound(problem: Problem) -> None:
    solution = place(problem)
    assert faults(problem.lives, solution.offsets) == []
    assert solution.height_bytes == problem.height_bytes(solution.offsets)
    assert solution.height_bytes >= solution.bound_bytes


@given(problems())
@settings(deadline=None, derandomize=True)
def test_branch_and_bound_finds_the_height_that_every_order_together_finds(
    problem: Problem,
) -> None:
    # No search is needed to know a height that fits: what first fit reaches must be found again.
    problem = Problem(tuple(life for life in problem.lives if life.size_bytes))
    if not problem.lives:
        return
    best = min(
        problem.height_bytes(first_fit(problem, order) or ()) for _, order in greedy_orders(problem)
    )
    offsets, _ = fit(problem, best, 10_000)
    assert offsets is not None
    assert faults(problem.lives, offsets) == []
    assert problem.height_bytes(offsets) <= best


@st.composite
def tight_problems(draw: st.DrawFn) -> Problem:
    """Few small lives, some aligned, perhaps one that lies at a given offset."""
    lives = []
    for i in range(draw(st.integers(1, 6))):
        first = draw(st.integers(0, 3))
        last = draw(st.integers(first + 1, 5))
        align = draw(st.sampled_from((1, 1, 2)))
        at = draw(st.sampled_from((None, 0, 2, 4))) if i == 0 else None
        lives.append(live(f"t{i}", draw(st.integers(1, 4)), first, last, align=align, at=at))
    return Problem(tuple(lives))


def fits(lives: Sequence[Live], capacity: int, offsets: tuple[int, ...] = ()) -> bool:
    """Try every offset of every life."""
    if faults(lives[: len(offsets)], offsets):
        return False
    if len(offsets) == len(lives):
        return True
    last = capacity - lives[len(offsets)].size_bytes
    return any(fits(lives, capacity, (*offsets, at)) for at in range(last + 1))


@given(tight_problems(), st.integers(0, 2))
@settings(deadline=None, derandomize=True, max_examples=60)
def test_branch_and_bound_fits_what_trying_every_offset_fits(problem: Problem, more: int) -> None:
    capacity = problem.bound_bytes + more
    found, _ = fit(problem, capacity, 100_000)
    assert (found is not None) == fits(problem.lives, capacity)
    if found is not None:
        assert faults(problem.lives, found) == []
        assert problem.height_bytes(found) <= capacity


def test_a_given_offset_does_not_stop_the_search_for_the_bound() -> None:
    lives = (*STAIRS.lives, live("io", 3, 1, 2, at=3))
    found, _ = fit(Problem(lives), 6, 1000)
    assert found is not None
    assert faults(lives, found) == []


def test_more_effort_never_makes_a_placement_higher() -> None:
    heights = [place(HARD, effort).height_bytes for effort in (0.05, 1.0, 4.0)]
    assert heights == sorted(heights, reverse=True)
    assert heights[-1] == HARD.bound_bytes


def test_the_same_problem_has_the_same_solution() -> None:
    assert place(HARD) == place(Problem(HARD.lives))


CORPUS = os.environ.get("DLBUILD_CORPUS", "")
NETWORKS = sorted(Path(CORPUS, "data/alloc").glob("*.csv")) if CORPUS else []


@pytest.mark.skipif(not CORPUS, reason="DLBUILD_CORPUS is not set")
def test_the_corpus_has_its_twelve_networks() -> None:
    assert len(NETWORKS) == 12


@pytest.mark.parametrize("file", NETWORKS, ids=lambda file: file.stem)
def test_a_real_network_is_placed_at_its_lower_bound(file: Path) -> None:
    with file.open(encoding="utf-8") as lines:
        lives = tuple(
            live(row["id"], int(row["size"]), int(row["lower"]), int(row["upper"]))
            for row in csv.DictReader(lines)
        )
    solution = place(Problem(lives))
    assert faults(lives, solution.offsets) == []
    assert solution.height_bytes == solution.bound_bytes == int(file.stem.rsplit(".", 1)[1])
