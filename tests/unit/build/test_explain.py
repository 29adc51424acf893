import json
from collections.abc import Mapping

import pytest

from dlbuild.base.digest import sha256
from dlbuild.build.explain import fact_changes, outcome, reasons
from dlbuild.build.ledger import Record


def record(parts: Mapping[str, str], **fields: object) -> Record:
    outputs = fields.get("outputs", {})
    changed = fields.get("changed", ())
    assert isinstance(outputs, dict)
    assert isinstance(changed, tuple)
    return Record(parts, outputs, (), changed, 1, was_run=True)


def why(then: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    return reasons(record(then), now, lambda _: None)


def test_what_has_no_record_was_not_made() -> None:
    assert reasons(None, {}, lambda _: None) == ("it was not made before",)


def test_an_equal_key_means_that_the_result_was_lost() -> None:
    assert why({"stage": "a 1"}, {"stage": "a 1"}) == ("its result was no longer in the store",)


@pytest.mark.parametrize(
    ("name", "then", "now", "sentence"),
    [
        ("input weights", "1", "2", "the weights changed"),
        ("input graph", "1", "2", "the structure of the model changed"),
        ("source kws.onnx", "1", "2", "kws.onnx changed"),
        ("source extra.bin", None, "2", "extra.bin is new"),
        ("source extra.bin", "1", None, "extra.bin is gone"),
        ("file rules/ops/conv.yaml", "1", "2", "rule ops/conv.yaml changed"),
        ("file templates/net.c.j2 of pack 1", "1", "2", "template net.c.j2 of pack 1 changed"),
        ("code dlbuild.stages.tile", "1", "2", "dlbuild's own code changed (stages.tile)"),
        ("library numpy", "1.26", "2.0", "numpy changed from 1.26 to 2.0"),
        ("program cc", "1", "2", "the program cc changed"),
        ("python", "3.11", "3.12", "Python changed from 3.11 to 3.12"),
        ("option hook", "false", "true", "option hook changed from false to true"),
        ("setting shapes", '{"x":[1]}', '{"x":[2]}', "setting shapes x changed from [1] to [2]"),
        ("stage", "a 1", "a 2", "the stage changed"),
    ],
)
def test_each_part_of_a_key_has_its_words(
    name: str, then: str | None, now: str | None, sentence: str
) -> None:
    old = {} if then is None else {name: then}
    new = {} if now is None else {name: now}
    assert why(old, new) == (sentence,)


def test_of_a_memory_the_part_that_changed_is_named() -> None:
    def memories(size: int) -> str:
        return json.dumps([{"name": "sram", "size_bytes": size}, {"name": "flash"}])

    assert why({"target memories": memories(1)}, {"target memories": memories(2)}) == (
        "target memories sram size_bytes changed from 1 to 2",
    )


def test_many_modules_of_ours_are_counted() -> None:
    then = {"code a": "1", "code b": "1", "library numpy": "1"}
    now = {"code a": "2", "code b": "2", "library numpy": "2"}
    assert why(then, now) == (
        "numpy changed from 1 to 2",
        "dlbuild's own code changed (2 modules)",
    )


def test_a_fact_that_came_or_went_is_named() -> None:
    then = json.dumps({"facts": [{"kind": "all_zero", "tensors": ["w_zp"]}]}).encode()
    now = json.dumps({"facts": [{"kind": "equal", "tensors": ["a", "b"]}]}).encode()
    found = reasons(record({"input graph": "1"}), {"input graph": "2"}, {"1": then, "2": now}.get)
    assert found == (
        "the structure of the model changed",
        "no longer a fact: all_zero(w_zp)",
        "new fact: equal(a, b)",
    )


def test_graphs_that_are_lost_name_no_fact() -> None:
    assert list(fact_changes(None, b"{}")) == []
    assert list(fact_changes(b"junk", b"{}")) == []


def test_an_outcome_says_what_changed_and_what_did_not() -> None:
    outputs = {"graph": "1", "weights": "2"}
    assert outcome(record({}, outputs=outputs, changed=("weights",))) == (
        "weights changed, structure of the model did not"
    )
    assert outcome(record({}, outputs=outputs, changed=("graph", "weights"))) == (
        "structure of the model and weights changed"
    )
    assert outcome(record({}, outputs=outputs)) == (
        "same result as before, so nothing after it had to run for it"
    )


def test_what_a_build_has_not_is_not_told_of() -> None:
    outputs = {"header": "1", "cores_source": sha256(b"")}
    assert outcome(record({}, outputs=outputs, changed=("header", "cores_source"))) == (
        "header changed"
    )
