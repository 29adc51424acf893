from functools import cache
from pathlib import Path

from dlbuild.base.yamlsrc import file_text
from dlbuild.rulebook.load import _rules_of, load_rules
from dlbuild.rulebook.rule import OpRule
from dlbuild.rulebook.sound import SoundRules

ROOT = Path(__file__).resolve().parents[3]


@cache
def rules_of(path: Path, text: str) -> tuple[OpRule, ...]:
    return tuple(_rules_of(path, text, "", 0, is_checked=False))


def test_an_operator_asked_for_alone_has_all_its_rules() -> None:
    texts = {path: file_text(path, path.name) for path in (ROOT / "rules" / "ops").glob("*.yaml")}
    texts = dict(sorted(texts.items()))
    whole = load_rules([ROOT]).rules
    for key in whole:
        alone = SoundRules(texts, rules_of)
        assert [rule.name for rule in alone[key]] == [rule.name for rule in whole[key]]
    assert list(SoundRules(texts, rules_of)) == list(whole)


def test_the_built_in_rules_are_the_same_read_when_asked_for_as_read_at_once() -> None:
    whole, parts = load_rules([ROOT]), load_rules([ROOT], trusted=ROOT)
    assert parts.rules_for("", "Conv") == whole.rules_for("", "Conv")
    assert parts.rules_for("ai.onnx", "Gemm") == whole.rules_for("", "Gemm")
    assert parts.rules_for("", "Nothing") == ()
    assert dict(parts.rules) == dict(whole.rules)


def test_only_the_files_that_may_name_an_operator_are_read() -> None:
    read: list[str] = []

    def noted(path: Path, text: str) -> tuple[OpRule, ...]:
        read.append(f"{path.name}: {text}")
        return ()

    rules = SoundRules({Path("a"): "op: Add\n", Path("b"): "family: f\nops:\n  Mul: a\n"}, noted)
    assert ("", "Mul") not in rules
    assert read == ["b: family: f\nops:\n  Mul: a\n"]
    assert ("", "Sub") not in rules
    assert len(read) == 1


def test_a_pack_puts_its_rules_before_those_that_are_not_read_yet(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    (folder / "rules" / "ops").mkdir(parents=True)
    text = "op: Relu\nsummary: y = x\noutputs: {y: {shape: [N]}}\ninputs: {x: {shape: [N]}}\n"
    text += "domain: {n: N}\nread: {x: n}\nsteps:\n  - y: x\n"
    (folder / "rules" / "ops" / "relu.yaml").write_text(text)
    book = load_rules([ROOT, folder], trusted=ROOT)
    assert [rule.file for rule in book.rules_for("", "Relu")] == [
        "own/relu.yaml",
        "elementwise.yaml",
    ]
