"""Operators that a pack defines and ONNX does not."""

from pathlib import Path
from typing import Protocol

import pytest

from dlbuild.base.errors import UserError
from dlbuild.base.paths import builtin_folder
from dlbuild.ir.graph import Tensor
from dlbuild.rulebook.load import RuleBook, load_rules
from dlbuild.stages.parse import parse

RULE = """op: Halve
domain_name: com.acme
summary: y = x / 2
source: https://example.org/halve
inputs:
  x: {shape: [X...]}
outputs:
  y: {shape: [X...]}
domain:
  i...: X
read:
  x: i
steps:
  - y: x / 2
"""
MODEL = """<ir_version: 8, opset_import: ["" : 13, "com.acme" : 1]>
g (float[1,3] x) => (float[1,3] y) STATED { [half] a = com.acme.Halve(x) y = Neg(a) }"""
FUNCTION = """<domain: "com.acme", opset_import: ["" : 13]> Halve (p) => (q)
{ two = Constant <value_float = 2.0> () q = Div(p, two) }"""


class Reader(Protocol):
    folder: Path

    def save(self, text: str, constants: object = None, name: str = "m.onnx") -> Path: ...


@pytest.fixture
def pack(tmp_path: Path) -> RuleBook:
    folder = tmp_path / "pack" / "rules" / "ops"
    folder.mkdir(parents=True)
    (folder / "halve.yaml").write_text(RULE)
    return load_rules([builtin_folder(), tmp_path / "pack"])


def test_an_operator_of_a_pack_takes_its_shape_from_the_model(
    reader: Reader, pack: RuleBook
) -> None:
    path = reader.save(MODEL.replace("STATED", "<float[1,3] a>"))
    graph = parse(path, {}, pack, "m").graph
    assert [(op.domain, op.kind) for op in graph.ops] == [("com.acme", "Halve"), ("", "Neg")]


def test_an_operator_of_a_pack_takes_its_shape_from_its_rule(
    reader: Reader, tmp_path: Path
) -> None:
    folder = tmp_path / "tied" / "rules" / "ops"
    folder.mkdir(parents=True)
    (folder / "halve.yaml").write_text(RULE.replace("[X...]}", "[X...], dtype: T}"))
    path = reader.save(MODEL.replace("STATED", ""))
    graph = parse(path, {}, load_rules([builtin_folder(), tmp_path / "tied"]), "m").graph
    assert graph.tensor["a"] == Tensor("a", "float32", (1, 3))


def test_an_operator_whose_rule_does_not_tie_its_result_needs_it_stated(
    reader: Reader, pack: RuleBook
) -> None:
    path = reader.save(MODEL.replace("STATED", ""))
    with pytest.raises(UserError) as caught:
        parse(path, {}, pack, "m")
    assert str(caught.value).replace(str(path.parent), "FOLDER") == (
        "FOLDER/m.onnx: node 'half' (Halve): error: the shape of 'a' is not known\n"
        "  why: ONNX does not define the operator, and its rule does not tie its results to its"
        " operands\n"
        "  fix: add a value_info with the type and shape of each result to the model"
    )


def test_a_function_that_a_pack_computes_is_not_expanded(
    reader: Reader, pack: RuleBook, book: RuleBook
) -> None:
    path = reader.save(MODEL.replace("STATED", "<float[1,3] a>") + FUNCTION)
    ours = [op.kind for op in parse(path, {}, pack, "m").graph.ops]
    expanded = [op.kind for op in parse(path, {}, book, "m").graph.ops]
    assert ours == ["Halve", "Neg"]
    assert expanded == ["Div", "Neg"]
