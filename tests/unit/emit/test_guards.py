from dlbuild.emit.guards import Clamp, Plan, plan
from dlbuild.emit.ranges import Ranges
from dlbuild.rulebook.index import Index
from dlbuild.rulebook.instance import Access, Condition, Fold, Guard, Loop
from dlbuild.rulebook.value import Binary, Local, Number, Read

OUT, K = Index.axis("o"), Index.axis("k")
ZERO = Index()


def planned(index: Index, extent: int, o: int = 4, k: int = 3, *when: Condition) -> Plan:
    """Return the plan of a sum over k that reads at `index` of an axis of `extent`."""
    each = Binary("+", Local("acc", "f32"), Read("x", "f32"), "f32")
    step = Loop(("k",), when, folds=(Fold("acc", Number(0.0, "f32"), each, "f32"),))
    access = Access("x", (extent,), (index,), (Guard(index, extent),), "skip")
    return plan(step, {"x": access}, Ranges({"o": o, "k": k}, {"x": "float32"}))


def test_a_read_that_is_always_inside_needs_no_test() -> None:
    assert planned(OUT + K, 6) == Plan()


def test_an_affine_guard_becomes_the_range_of_the_loop() -> None:
    assert planned(OUT + K - 1, 4).clamps == (
        Clamp("k", is_end=False, index=1 - OUT),
        Clamp("k", is_end=True, index=5 - OUT),
    )


def test_only_the_side_that_can_fail_is_kept() -> None:
    assert planned(OUT + K, 4).clamps == (Clamp("k", is_end=True, index=4 - OUT),)


def test_a_guard_with_a_dilation_is_tested_inside_the_loop() -> None:
    found = planned(OUT + K * 2 - 1, 6)

    assert found.clamps == ()
    assert found.inner == (
        ("k", Condition(">=", OUT + K * 2 - 1, ZERO)),
        ("k", Condition("<", OUT + K * 2 - 1, Index.of(6))),
    )


def test_a_guard_of_the_domain_alone_is_tested_before_the_loops() -> None:
    assert planned(OUT - 1, 4).outer == (Condition(">=", OUT - 1, ZERO),)


def test_a_condition_that_never_holds_makes_the_step_dead() -> None:
    assert planned(OUT, 4, 4, 3, Condition("<", K, ZERO)).is_dead


def test_an_equality_is_tested_inside_the_loop() -> None:
    condition = Condition("==", K % 2, ZERO)

    assert planned(OUT, 4, 4, 3, condition).inner == (("k", condition),)
