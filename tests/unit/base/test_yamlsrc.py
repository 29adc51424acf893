from pathlib import Path

import pytest

from dlbuild.base.errors import UserError
from dlbuild.base.yamlsrc import (
    Items,
    Node,
    Scalar,
    Table,
    flag,
    integer,
    items,
    number,
    read_documents,
    read_file,
    table,
    text,
    word,
)


def one(source: str) -> Node:
    (node,) = read_documents(source, "f.yaml")
    return node


def scalar(source: str) -> Scalar:
    node = one(source)
    assert isinstance(node, Scalar)
    return node


def error_of(source: str) -> str:
    with pytest.raises(UserError) as caught:
        read_documents(source, "f.yaml")
    assert caught.value.exit_code == 2
    return str(caught.value)


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("true", True),
        ("false", False),
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("True", "True"),
        ("12", 12),
        ("-3", -3),
        ("0x10", 16),
        ("010", "010"),
        ("1_000", "1_000"),
        ("3.10", 3.1),
        ("1e3", 1000.0),
        ("-1.5e-3", -0.0015),
        ("12:30:00", "12:30:00"),
        ("2026-11-29", "2026-11-29"),
        ("64K", "64K"),
        ("~", None),
        ("null", None),
        ("'12'", "12"),
        ('"true"', "true"),
        ("48 KiB", "48 KiB"),
    ],
)
def test_a_scalar_means_what_it_says(source: str, value: object) -> None:
    found = scalar(source).value
    assert found == value
    assert type(found) is type(value)


def test_every_word_has_its_place() -> None:
    node = one("a:\n  - x\n  - b: 1\n")
    assert isinstance(node, Table)
    inner = node["a"]
    assert isinstance(inner, Items)
    second = inner.items[1]
    assert isinstance(second, Table)
    assert [(n.line, n.column) for n in (node, inner, second, second["b"])] == [
        (1, 1),
        (2, 3),
        (3, 5),
        (3, 8),
    ]
    assert second["b"].where == "f.yaml:3:8"


def test_a_duplicate_key_is_refused() -> None:
    assert error_of("a: 1\nb: 2\na: 3\n") == (
        "f.yaml:3:1: error: the key 'a' is given twice\n"
        "  3 | a: 3\n"
        "    | ^\n"
        "  why: first at f.yaml:1:1"
    )


def test_an_unknown_key_is_refused_with_the_likely_one() -> None:
    node = table(one("targets:\n  board:\n    memorys: {sram: 48 KiB}\n"), "it")
    board = table(table(node["targets"], "it")["board"], "it")
    with pytest.raises(UserError) as caught:
        board.check_keys(["memories", "stack"], "target 'board'")
    assert str(caught.value) == (
        "f.yaml:3:5: error: target 'board' has no key 'memorys'\n"
        "  3 |     memorys: {sram: 48 KiB}\n"
        "    |     ^\n"
        "  fix: did you mean 'memories'?"
    )


def test_an_unknown_key_like_no_other_lists_them_all() -> None:
    with pytest.raises(UserError) as caught:
        table(one("qqq: 1"), "it").check_keys(["b", "a"], "it")
    assert caught.value.fix == "use one of: a, b"


def test_a_missing_key_is_named() -> None:
    with pytest.raises(UserError) as caught:
        table(one("a: 1"), "it").require("source", "model 'kws'", "source: kws.onnx")
    assert str(caught.value) == (
        "f.yaml:1:1: error: model 'kws' needs the key 'source'\n"
        "  1 | a: 1\n"
        "    | ^\n"
        "  fix: add source: kws.onnx"
    )


def test_a_fault_of_the_syntax_has_its_place() -> None:
    assert error_of("a: [1, 2\nb: 3\n") == (
        "f.yaml:2:2: error: did not find expected ',' or ']'\n  2 | b: 3\n    |  ^"
    )


def test_a_tab_before_the_caret_stays_a_tab() -> None:
    assert error_of("a: {b: 1,\tb: 2}") == (
        "f.yaml:1:11: error: the key 'b' is given twice\n"
        "  1 | a: {b: 1,\tb: 2}\n"
        "    |          \t^\n"
        "  why: first at f.yaml:1:5"
    )


def test_a_tag_is_refused() -> None:
    assert error_of("a: !include b.yaml").splitlines()[0] == (
        "f.yaml:1:4: error: the tag '!include' is not used here"
    )


def test_an_anchor_in_itself_is_refused() -> None:
    assert error_of("a: &x [*x]").splitlines()[0] == (
        "f.yaml:1:4: error: this anchor contains itself"
    )


def test_an_anchor_may_be_used_twice() -> None:
    node = table(one("a: &x {n: 1}\nb: *x\n"), "it")
    assert integer(table(node["b"], "it")["n"], "it") == 1


def test_anchors_of_anchors_take_no_longer_than_their_text() -> None:
    steps = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 40))
    document = read_documents("a0: &a0 [x]\n" + steps, "f.yaml")[0]
    assert isinstance(document, Table)
    assert len(document.values) == 40


def test_a_key_must_be_one_word() -> None:
    assert error_of("[a, b]: 1").splitlines()[0] == "f.yaml:1:1: error: a key must be one word"


def test_empty_documents_are_left_out() -> None:
    assert read_documents("# nothing\n", "f.yaml") == ()
    assert len(read_documents("---\na: 1\n---\n---\nb: 2\n", "f.yaml")) == 2


def test_a_file_holds_one_document(tmp_path: Path) -> None:
    path = tmp_path / "two.yaml"
    path.write_text("a: 1\n---\nb: 2\n")
    with pytest.raises(UserError) as caught:
        read_file(path, "two.yaml")
    assert str(caught.value) == (
        "two.yaml:3:1: error: a second document begins here\n"
        "  3 | b: 2\n"
        "    | ^\n"
        "  fix: keep one per file"
    )


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_bytes(b"a: \xff")
    with pytest.raises(UserError) as caught:
        read_file(path, "bad.yaml")
    assert str(caught.value) == "bad.yaml: error: byte 3 is not UTF-8\n  fix: save it as UTF-8"


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        read_file(tmp_path / "none.yaml", "none.yaml")
    assert str(caught.value) == "none.yaml: error: cannot read it: No such file or directory"


def refused(call: object, source: str) -> tuple[str, str]:
    assert callable(call)
    with pytest.raises(UserError) as caught:
        call(one(source), "'key'")
    return caught.value.what, caught.value.fix


def test_what_is_of_another_kind_is_said() -> None:
    assert refused(table, "[1]") == ("'key' must be a table of keys, this is a list", "")
    assert refused(items, "a") == ("'key' must be a list, this is 'a'", "write [a]")
    assert refused(text, "12") == (
        "'key' must be a text, this is the number 12",
        'write "12"',
    )
    assert refused(text, "{a: 1}") == ("'key' must be a text, this is a table", "")
    assert refused(word, "null") == ("'key' must be one word or text, this is empty", "")
    assert refused(flag, "yes") == ("'key' must be true or false, this is 'yes'", "write true")
    assert refused(flag, "Off") == ("'key' must be true or false, this is 'Off'", "write false")
    assert refused(flag, "1") == ("'key' must be true or false, this is the number 1", "")
    assert refused(integer, "1.5") == (
        "'key' must be a whole number, this is the number 1.5",
        "",
    )
    assert refused(number, "true") == ("'key' must be a number, this is the boolean true", "")


@pytest.mark.parametrize("text", ["1e400", "-1e400", "9" * 400, "9" * 5000])
def test_a_number_that_no_double_holds_is_refused(text: str) -> None:
    assert refused(number, text) == ("'key' is too great", "give a smaller number")


def test_a_whole_number_of_thousands_of_digits_is_refused() -> None:
    what, _ = refused(integer, "9" * 5000)
    assert what.startswith("'key' must be a whole number, this is the number 99999")


def test_a_number_below_the_least_is_refused() -> None:
    with pytest.raises(UserError, match="'key' must be at least 1, this is 0"):
        integer(one("0"), "'key'", 1)
