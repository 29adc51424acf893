import pytest

from dlbuild.base.yamlsrc import Table, read_documents
from dlbuild.rulebook.bind import Unfit
from dlbuild.rulebook.index import Index
from dlbuild.rulebook.instance import Condition, Loop
from dlbuild.rulebook.loops import Loops
from dlbuild.rulebook.pack import Term
from dlbuild.rulebook.read import read_rule
from dlbuild.rulebook.steps import loops_for
from dlbuild.rulebook.value import Local
from dlbuild.rulebook.values import Scope

READS = {"x": "float32", "q": "int8", "w": "int64", "t": "bool", "y": "float32", "z": "int8"}
AXES: dict[str, Term] = {"i": Index.axis("i"), "r": Index.axis("r")}
LOOPS = Loops(
    ("i",), ("r",), {"i": 4, "r": 3}, {"i": ("i",), "r": ("r",)}, {"N": 4}, {**AXES, "N": 4}, {}
)
OUTPUTS = {"y": "float32", "z": "int8"}


def steps(text: str) -> tuple[Loop, ...]:
    (document,) = read_documents(f"op: O\nsummary: s\noutputs: {{}}\nsteps:\n{text}", "r.yaml")
    assert isinstance(document, Table)
    rule = read_rule(document, "r.yaml", 0, 1)
    return loops_for(rule.steps, LOOPS, Scope({"N": 4}, LOOPS.scope, READS, {}, {}, {}), OUTPUTS)


@pytest.mark.parametrize(
    ("fold", "types"),
    [
        ("{acc: [0, acc + x]}", ["f32"]),
        ("{acc: [0, acc + q]}", ["i32"]),
        ("{acc: [0, acc + w]}", ["i64"]),
        ("{acc: [0.0, acc + q]}", ["f32"]),
        ("{acc: [i64(0), acc + q]}", ["i64"]),
        ("{n: [0, n + 1]}", ["i32"]),
        ("{n: [5, n]}", ["i32"]),
        ("{seen: [False, seen or t]}", ["bool"]),
        ("{top: [lowest(q), 'max(top, q)']}", ["i32"]),
        (
            "{at: [0, 'index(r) if x > best else at'], best: [lowest(x), 'max(best, x)']}",
            ["i32", "f32"],
        ),
        ("{a: [0, a + b], b: [0, b + x]}", ["f32", "f32"]),
    ],
)
def test_a_fold_variable_has_the_least_type_that_holds_it(fold: str, types: list[str]) -> None:
    (loop,) = steps(f"  - {{over: [r], fold: {fold}}}\n")
    assert [variable.type for variable in loop.folds] == types
    assert all(v.start.type == v.each.type == v.type for v in loop.folds)


def test_folds_keep_the_order_in_which_they_are_written() -> None:
    (loop,) = steps("  - {over: [r], fold: {b: [0, b + x], a: [0, a + b]}}\n")
    assert [fold.name for fold in loop.folds] == ["b", "a"]


def test_a_let_is_known_from_its_step_on() -> None:
    first, second = steps("  - let: {m: x / 2}\n  - y: m\n")
    assert first.lets[0].type == "f32"
    assert second.stores[0].value == Local("m", "f32")


def test_a_value_is_stored_in_the_compute_type_of_its_output() -> None:
    (loop,) = steps("  - {y: q, z: x}\n")
    assert [store.value.type for store in loop.stores] == ["f32", "i32"]


def test_conditions_are_kept_unless_they_always_hold() -> None:
    (loop,) = steps("  - {over: [r], when: 'i + r < N', fold: {n: [0, n + 1]}}\n")
    assert loop.when == (Condition("<", Index.axis("i") + Index.axis("r"), Index.of(4)),)
    (loop,) = steps("  - {over: [r], when: [r < N, r >= 0, r != 3], fold: {n: [0, n + 1]}}\n")
    assert loop.when == ()
    (loop,) = steps("  - {over: [r], when: N > 4, fold: {n: [0, n + 1]}}\n")
    assert loop.when == (Condition("==", Index(), Index.of(1)),)


def test_a_step_that_writes_nothing_is_left_out() -> None:
    assert steps("  - {over: [r], other: x}\n") == ()


def test_a_fault_in_a_step_is_why_the_rule_does_not_fit() -> None:
    with pytest.raises(Unfit, match=r"^'&' needs integers or truths, in 'x & 1' \(r.yaml:5:8\)$"):
        steps("  - y: x & 1\n")
