from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from dlbuild.base.errors import UserError
from dlbuild.ir.graph import Op
from dlbuild.rulebook.load import RuleBook, load_rules
from dlbuild.rulebook.read import KEYS

ROOT = Path(__file__).parent.parent.parent.parent
Loader = Callable[..., RuleBook]

ADD = """\
op: Add
summary: y = a + b
inputs:
  a: {shape: [Y...]}
  b: {shape: [Y...]}
outputs:
  y: {shape: [Y...]}
domain:
  i...: Y
read:
  "*": i
steps:
  - y: a + b
"""


def error_of(load: Loader, *texts: str) -> str:
    with pytest.raises(UserError) as caught:
        load(*texts)
    assert caught.value.exit_code == 2
    return str(caught.value)


def changed(old: str, new: str) -> str:
    assert old in ADD
    return ADD.replace(old, new)


def test_a_rule_is_found_by_its_operator(load: Loader) -> None:
    book = load(ADD)
    (rule,) = book.rules_for("", "Add")
    assert rule.name == "ops.yaml#Add"
    assert rule.where == "base/rules/ops/ops.yaml:1"
    assert rule.summary == "y = a + b"
    assert book.rules_for("ai.onnx", "Add") == (rule,)
    assert book.rules_for("com.microsoft", "Add") == ()


def test_two_rules_of_one_operator_have_two_names(load: Loader) -> None:
    book = load(ADD + "---\n" + ADD)
    assert [rule.name for rule in book.rules_for("", "Add")] == ["ops.yaml#Add", "ops.yaml#Add~2"]
    assert book.rule("ops.yaml#Add~2") is book.rules_for("", "Add")[1]


def test_the_rules_of_a_pack_come_first(load: Loader) -> None:
    book = load(ADD, ADD, ADD)
    names = [rule.name for rule in book.rules_for("", "Add")]
    assert names == ["pack2/ops.yaml#Add", "pack1/ops.yaml#Add", "ops.yaml#Add"]


def test_a_rule_that_replaces_another_stands_in_for_it(load: Loader) -> None:
    book = load(ADD, ADD.replace("summary:", "replaces: ops.yaml#Add\nsummary:"))
    assert [rule.name for rule in book.rules_for("", "Add")] == ["pack1/ops.yaml#Add"]


def test_a_rule_cannot_replace_what_is_not_there(load: Loader) -> None:
    text = ADD.replace("summary:", "replaces: ops.yaml#Ad\nsummary:")
    assert error_of(load, ADD, text) == (
        "pack1/rules/ops/ops.yaml:2:11: error: 'ops.yaml#Ad' has no rule for 'Add'\n"
        "  2 | replaces: ops.yaml#Ad\n"
        "    |           ^\n"
        "  fix: did you mean 'ops.yaml#Add'?"
    )


def test_a_pack_adds_variants_in_front(load: Loader) -> None:
    base = ADD + "variants:\n  - {name: plain, when: rank(Y) == 1}\n"
    extension = "op: Add\nextends: ops.yaml\nvariants:\n  - {name: fast, when: rank(Y) == 2}\n"
    (rule,) = load(base, extension).rules_for("", "Add")
    assert [variant.name for variant in rule.variants] == ["fast", "plain"]


def test_the_digest_changes_with_the_rule_and_not_with_a_comment(load: Loader) -> None:
    first = load(ADD).digest_of("ops.yaml#Add")
    assert load("# a comment\n" + ADD).digest_of("ops.yaml#Add") == first
    assert load(changed("a + b\ninputs", "b + a\ninputs")).digest_of("ops.yaml#Add") != first


def test_value_and_all_zero_inputs_are_known_by_position(load: Loader) -> None:
    book = load(
        "op: Odd\nsummary: y = x\ninputs:\n  x: {}\n  axes: {value: AXES, absent: 0}\n"
        "  z: {absent: 0, all_zero: WHOLE}\noutputs: {y: {shape: [Y...]}}\n"
        "template: odd.c.j2\n"
    )
    op = Op("odd", "Odd", ("x", "axes", "z"), ("y",))
    assert book.value_inputs(op) == frozenset({1})
    assert book.all_zero_inputs(op) == frozenset({2})
    assert book.value_inputs(Op("odd", "Odd", ("x",), ("y",))) == frozenset()


def test_a_family_is_one_rule_for_each_line(load: Loader) -> None:
    book = load(
        "family: two\nsummary: y = VALUE\ninputs:\n  a: {shape: [Y...]}\n"
        "outputs: {y: {shape: [Y...]}}\ndomain: {i...: Y}\nread: {a: i}\n"
        "steps: [{y: 2 * VALUE}]\n"
        "ops:\n  Abs: abs(a)\n  Leaky:\n    attributes: {alpha: {ALPHA: 0.01}}\n"
        "    value: a if a > 0 else ALPHA * a\n  Same: a\n"
    )
    (plain,) = book.rules_for("", "Abs")
    (leaky,) = book.rules_for("", "Leaky")
    (same,) = book.rules_for("", "Same")
    assert plain.summary == "y = abs(a)"
    assert plain.steps[0].stores["y"].text == "2 * (abs(a))"
    assert list(leaky.attributes) == ["alpha"]
    assert plain.attributes == {}
    assert same.steps[0].stores["y"].text == "2 * a"
    assert plain.text.line == 10


def test_an_unknown_key_is_refused(load: Loader) -> None:
    assert error_of(load, changed("domain:", "domaim:")) == (
        "base/rules/ops/ops.yaml:8:1: error: a rule has no key 'domaim'\n"
        "  8 | domaim:\n"
        "    | ^\n"
        "  fix: did you mean 'domain'?"
    )


def test_a_duplicate_key_is_refused(load: Loader) -> None:
    assert error_of(load, ADD + "op: Sub\n") == (
        "base/rules/ops/ops.yaml:14:1: error: the key 'op' is given twice\n"
        "  14 | op: Sub\n"
        "     | ^\n"
        "  why: first at base/rules/ops/ops.yaml:1:1"
    )


def test_a_key_of_later_is_refused(load: Loader) -> None:
    assert error_of(load, ADD + "tile: {never: [i]}\n") == (
        "base/rules/ops/ops.yaml:14:1: error: the key 'tile' is not supported yet\n"
        "  14 | tile: {never: [i]}\n"
        "     | ^"
    )


FOUND = """\
op: Find
summary: y = what is found
inputs: {x: {shape: [X...]}}
outputs: {y: {dtype: int64}, count: {dtype: int32}}
run_time_size: {y: {most: pack(prod(X)), axis: 0}}
template: kernels/find.c.j2
"""


def test_a_size_that_only_the_run_knows_is_read(load: Loader) -> None:
    (rule,) = load(FOUND).rules_for("", "Find")
    said = rule.run_time["y"]
    assert (said.most.text, said.axis is not None and said.axis.text) == ("pack(prod(X))", "0")


def test_a_size_that_only_the_run_knows_needs_a_count(load: Loader) -> None:
    assert error_of(load, FOUND.replace(", count: {dtype: int32}", "")) == (
        "base/rules/ops/ops.yaml:5:16: error: the rule has no output for how many there are\n"
        "  5 | run_time_size: {y: {most: pack(prod(X)), axis: 0}}\n"
        "    |                ^\n"
        "  fix: add the last output 'count: {dtype: int32}'"
    )


def test_the_names_of_a_size_that_only_the_run_knows_are_checked(load: Loader) -> None:
    assert error_of(load, FOUND.replace("prod(X)", "prod(Z)")).startswith(
        "base/rules/ops/ops.yaml:5:37: error: 'Z' is not known here"
    )
    assert error_of(load, FOUND.replace("{y: {most", "{z: {most")).startswith(
        "base/rules/ops/ops.yaml:5:27: error: there is no output 'z'"
    )


def test_a_tensor_key_is_checked(load: Loader) -> None:
    assert error_of(load, changed("a: {shape: [Y...]}", "a: {shap: [Y...]}")) == (
        "base/rules/ops/ops.yaml:4:7: error: the tensor 'a' has no key 'shap'\n"
        "  4 |   a: {shap: [Y...]}\n"
        "    |       ^\n"
        "  fix: did you mean 'shape'?"
    )


def test_an_element_type_is_checked(load: Loader) -> None:
    text = changed("a: {shape: [Y...]}", "a: {dtype: flaot32}")
    assert error_of(load, text) == (
        "base/rules/ops/ops.yaml:4:14: error: there is no element type 'flaot32'\n"
        "  4 |   a: {dtype: flaot32}\n"
        "    |              ^\n"
        "  fix: did you mean 'float32'?"
    )


def test_an_unknown_name_has_its_caret_and_a_suggestion(load: Loader) -> None:
    assert error_of(load, changed("- y: a + b", "- y: a + bb")) == (
        "base/rules/ops/ops.yaml:13:12: error: 'bb' is not known here\n"
        "  13 |   - y: a + bb\n"
        "     |            ^\n"
        "  fix: did you mean 'b'?"
    )


def test_an_unknown_name_in_a_map_has_its_caret(load: Loader) -> None:
    assert error_of(load, changed('"*": i', '"*": "i + Z"')) == (
        "base/rules/ops/ops.yaml:11:13: error: 'Z' is not known here\n"
        '  11 |   "*": "i + Z"\n'
        "     |             ^\n"
        "  fix: use one of: " + ", ".join(NAMES_OF_ADD)
    )


NAMES_OF_ADD = [
    *("COUNT", "SELF", "Y", "a", "b", "dtype_a", "dtype_b", "dtype_y", "has_a", "has_b", "has_y"),
    *("i", "opset", "rank_a", "rank_b", "rank_y", "shape_a", "shape_b", "shape_y", "y"),
]


def test_an_unknown_function_is_refused(load: Loader) -> None:
    assert error_of(load, changed("- y: a + b", "- y: a + sqtr(b)")) == (
        "base/rules/ops/ops.yaml:13:12: error: there is no function 'sqtr'\n"
        "  13 |   - y: a + sqtr(b)\n"
        "     |            ^\n"
        "  fix: did you mean 'sqrt'?"
    )


def test_what_is_no_expression_is_refused(load: Loader) -> None:
    assert error_of(load, changed("- y: a + b", "- y: a +* b")) == (
        "base/rules/ops/ops.yaml:13:11: error: this is not an expression: invalid syntax\n"
        "  13 |   - y: a +* b\n"
        "     |           ^"
    )


def test_an_axis_and_a_tensor_of_one_name_are_refused(load: Loader) -> None:
    assert error_of(load, ADD.replace("i...", "a...").replace('"*": i', '"*": a')) == (
        "base/rules/ops/ops.yaml:9:9: error: 'a' is an axis and 'a' a tensor\n"
        "  9 |   a...: Y\n"
        "    |         ^\n"
        "  fix: rename one of them"
    )


def test_a_member_of_a_pack_of_axes_and_a_tensor_of_one_name_are_refused(load: Loader) -> None:
    text = ADD.replace("  b: {", "  i0: {").replace("a + b\n", "a + i0\n")
    assert "'i' is an axis and 'i0' a tensor" in error_of(load, text)


def test_an_axis_begins_with_a_lower_case_letter(load: Loader) -> None:
    assert error_of(load, changed("i...: Y", "I...: Y")) == (
        "base/rules/ops/ops.yaml:9:9: error: 'I' names an axis or tensor, so it must begin with a "
        "lower case letter\n"
        "  9 |   I...: Y\n"
        "    |         ^"
    )


def test_a_size_begins_with_an_upper_case_letter(load: Loader) -> None:
    assert error_of(load, changed("domain:", "let: {half: 3}\ndomain:")) == (
        "base/rules/ops/ops.yaml:8:13: error: 'half' names a size, so it must begin with an upper "
        "case letter\n"
        "  8 | let: {half: 3}\n"
        "    |             ^"
    )


def test_a_size_bound_twice_is_refused(load: Loader) -> None:
    assert error_of(load, changed("domain:", "let: {Y: 3}\ndomain:")) == (
        "base/rules/ops/ops.yaml:8:10: error: 'Y' is bound already\n"
        "  8 | let: {Y: 3}\n"
        "    |          ^\n"
        "  fix: choose another name"
    )


def test_an_attribute_takes_no_name_of_a_shape(load: Loader) -> None:
    assert error_of(load, changed("domain:", "attributes: {axis: {Y: 0}}\ndomain:")) == (
        "base/rules/ops/ops.yaml:8:24: error: 'Y' is bound already\n"
        "  8 | attributes: {axis: {Y: 0}}\n"
        "    |                        ^\n"
        "  fix: choose another name"
    )
    assert error_of(load, changed("a: {shape: [Y...]}", "a: {shape: [Y...], dtype: Y}")) == (
        "base/rules/ops/ops.yaml:1:1: error: 'Y' is a size and an element type\n"
        "  1 | op: Add\n"
        "    | ^\n"
        "  fix: rename one of them"
    )


def test_a_let_may_use_only_those_before_it(load: Loader) -> None:
    assert error_of(load, changed("domain:", "let: {P: Q, Q: 1}\ndomain:")).startswith(
        "base/rules/ops/ops.yaml:8:10: error: 'Q' is not known here\n"
    )


def test_a_tensor_named_like_a_function_is_refused(load: Loader) -> None:
    text = ADD.replace("  b: {", "  exp: {").replace("a + b\n", "a + exp\n")
    assert error_of(load, text) == (
        "base/rules/ops/ops.yaml:5:8: error: 'exp' is the name of a function\n"
        "  5 |   exp: {shape: [Y...]}\n"
        "    |        ^\n"
        "  fix: choose another name"
    )


def test_an_input_without_a_map_cannot_be_read(load: Loader) -> None:
    assert error_of(load, changed('"*": i', "a: i")).startswith(
        "base/rules/ops/ops.yaml:13:12: error: 'b' is not known here\n"
    )


def test_a_step_writes_outputs_only(load: Loader) -> None:
    assert error_of(load, changed("- y: a + b", "- {y: a, ovr: [i]}")).startswith(
        "base/rules/ops/ops.yaml:13:17: error: the value of 'ovr' must be an expression\n"
    )
    assert error_of(load, changed("- y: a + b", "- {y: a, z: b}")) == (
        "base/rules/ops/ops.yaml:13:15: error: a step has no key 'z'\n"
        "  13 |   - {y: a, z: b}\n"
        "     |               ^\n"
        "  fix: use one of: fold, let, over, when, y"
    )


def test_a_loop_is_over_known_axes(load: Loader) -> None:
    text = changed("- y: a + b", "- {over: [r], fold: {acc: [0, acc + a]}}")
    assert error_of(load, text) == (
        "base/rules/ops/ops.yaml:13:5: error: 'r' is no axis under 'reduce'\n"
        "  13 |   - {over: [r], fold: {acc: [0, acc + a]}}\n"
        "     |     ^"
    )


def test_a_variable_is_named_unlike_an_axis(load: Loader) -> None:
    text = changed("- y: a + b", "- let: {i0: b}\n  - y: a")
    assert "'i0' is known already" in error_of(load, text)


def test_two_axes_of_one_name_are_refused(load: Loader) -> None:
    assert error_of(load, changed("i...: Y", "i...: Y\n  i1: 4")) == (
        "base/rules/ops/ops.yaml:9:9: error: 'i' and 'i1' are two axes\n"
        "  9 |   i...: Y\n"
        "    |         ^\n"
        "  fix: rename one of them"
    )


def test_a_rule_computes_something(load: Loader) -> None:
    text = ADD[: ADD.index("steps:")]
    assert error_of(load, text) == (
        "base/rules/ops/ops.yaml:1:1: error: the rule of 'Add' needs 'steps', or a 'template' of "
        "its own\n"
        "  1 | op: Add\n"
        "    | ^"
    )


def test_an_extension_adds_variants_only(load: Loader) -> None:
    assert error_of(load, ADD, "op: Add\nextends: ops.yaml\nrole: copy\n") == (
        "pack1/rules/ops/ops.yaml:3:1: error: a rule that extends another has no key 'role'\n"
        "  3 | role: copy\n"
        "    | ^\n"
        "  fix: use one of: domain_name, extends, kernels, op, variants"
    )


def test_a_summary_has_brackets_only_where_they_bind(load: Loader) -> None:
    text = changed("op: Add", "family: f").replace("a + b\n", "VALUE\n") + "ops: {Add: a + b}\n"
    (rule,) = load(text).rules_for("", "Add")
    assert rule.summary == "y = a + b"
    (rule,) = load(text.replace("y = VALUE", "y = 2 * VALUE")).rules_for("", "Add")
    assert rule.summary == "y = 2 * (a + b)"


def test_a_variable_is_made_once(load: Loader) -> None:
    text = changed("- y: a + b", "- let: {a: b}\n  - y: a")
    assert error_of(load, text) == (
        "base/rules/ops/ops.yaml:13:14: error: 'a' is known already\n"
        "  13 |   - let: {a: b}\n"
        "     |              ^\n"
        "  fix: choose another name"
    )


def test_a_fold_has_a_start_and_an_update(load: Loader) -> None:
    text = changed("- y: a + b", "- {fold: {acc: 0}}")
    assert error_of(load, text) == (
        "base/rules/ops/ops.yaml:13:18: error: the fold 'acc' must be [start, each]\n"
        "  13 |   - {fold: {acc: 0}}\n"
        "     |                  ^"
    )


def test_a_layout_orders_the_names_of_a_shape(load: Loader) -> None:
    assert error_of(load, ADD + "layout: {a: [X...]}\n") == (
        "base/rules/ops/ops.yaml:1:1: error: the layout of 'a' must order the names of its shape "
        "[Y...]\n"
        "  1 | op: Add\n"
        "    | ^"
    )


def test_an_attribute_binds_sizes(load: Loader) -> None:
    assert error_of(load, changed("domain:", "attributes: {axis: {ax: 0}}\ndomain:")) == (
        "base/rules/ops/ops.yaml:8:21: error: 'ax' names a size, so it must begin with an upper "
        "case letter\n"
        "  8 | attributes: {axis: {ax: 0}}\n"
        "    |                     ^"
    )
    assert error_of(load, changed("domain:", "attributes: {axis: 0}\ndomain:")) == (
        "base/rules/ops/ops.yaml:8:20: error: the attribute 'axis' must be 'ignore' or one entry "
        "{NAMES: default}\n"
        "  8 | attributes: {axis: 0}\n"
        "    |                    ^"
    )


def test_each_requirement_says_why(load: Loader) -> None:
    assert error_of(load, changed("domain:", "require: [{that: rank_a == 1}]\ndomain:")) == (
        "base/rules/ops/ops.yaml:8:11: error: a requirement needs the key 'because'\n"
        "  8 | require: [{that: rank_a == 1}]\n"
        "    |           ^"
    )


def test_a_role_and_a_rounding_are_checked(load: Loader) -> None:
    assert error_of(load, ADD + "role: cpy\n").endswith("  fix: did you mean 'copy'?")
    variant = "variants:\n  - {name: v, rounding: exakt}\n"
    assert error_of(load, ADD + variant) == (
        "base/rules/ops/ops.yaml:15:25: error: there is no rounding 'exakt'\n"
        "  15 |   - {name: v, rounding: exakt}\n"
        "     |                         ^\n"
        "  fix: did you mean 'exact'?"
    )


def test_the_variable_tensor_of_for_each_is_declared(load: Loader) -> None:
    assert error_of(load, changed("domain:", "for_each: a\ndomain:")) == (
        "base/rules/ops/ops.yaml:8:11: error: 'a' is not a tensor of any number\n"
        "  8 | for_each: a\n"
        "    |           ^\n"
        "  fix: write 'a*'"
    )


def test_since_is_a_range(load: Loader) -> None:
    (rule,) = load(changed("summary:", "since: 7..12\nsummary:")).rules_for("", "Add")
    assert rule.since == (7, 12)
    (rule,) = load(changed("summary:", "since: 13..\nsummary:")).rules_for("", "Add")
    assert rule.since == (13, None)
    assert error_of(load, changed("summary:", "since: new\nsummary:")) == (
        "base/rules/ops/ops.yaml:2:8: error: since must be a range of opsets\n"
        "  2 | since: new\n"
        "    |        ^\n"
        "  fix: write 13, 13.. or 7..12"
    )


def test_a_family_needs_what_its_skeleton_asks_for(load: Loader) -> None:
    skeleton = changed("op: Add", "family: f").replace("a + b\n", "VALUE\n")
    assert error_of(load, skeleton + "ops:\n  Neg: {role: copy}\n") == (
        "base/rules/ops/ops.yaml:2:10: error: the skeleton has VALUE, but this operator's line has "
        "no expression\n"
        "  2 | summary: y = VALUE\n"
        "    |          ^"
    )


@pytest.mark.parametrize("path", sorted((ROOT / "rules" / "ops").glob("*.yaml")), ids=str)
def test_the_keys_of_each_built_in_rule_are_in_order(path: Path) -> None:
    for document in yaml.safe_load_all(path.read_text()):
        known = ["family", "ops"]
        found = [key for key in document if key not in known]
        assert found == [key for key in KEYS if key in document], path.name


def test_the_built_in_rules_load() -> None:
    book = load_rules([ROOT])
    assert len(book.rules) > 100
    assert book.rules_for("com.microsoft", "QGemm")[0].name == "matmul_q.yaml#QGemm"


def test_only_a_pack_of_axes_can_be_spatial(load: Loader) -> None:
    text = changed("read:", "spatial: [j]\nread:")
    assert error_of(load, text) == (
        "base/rules/ops/ops.yaml:1:1: error: 'spatial' lists 'j', which is no pack of axes\n"
        "  1 | op: Add\n"
        "    | ^\n"
        "  fix: use one of: i"
    )


def test_a_spatial_axis_cannot_have_the_name_of_another(load: Loader) -> None:
    text = changed("read:", "spatial: [i]\nread:").replace("b: {shape", "iw: {shape")
    assert error_of(load, text.replace("a + b", "a + iw")) == (
        "base/rules/ops/ops.yaml:1:1: error: 'iw' is an axis of 'i' already\n  1 | op: Add\n    | ^"
    )


def test_a_template_that_is_not_there_is_refused(load: Loader) -> None:
    body = 'domain:\n  i...: Y\nread:\n  "*": i\nsteps:\n  - y: a + b\n'
    assert error_of(load, ADD, changed(body, "template: t.j2\n")) == (
        "pack1/rules/ops/ops.yaml:8:11: error: there is no template 't.j2'\n"
        "  8 | template: t.j2\n"
        "    |           ^\n"
        "  fix: put it into templates/t.j2 beside the folder 'rules'"
    )


def test_the_work_of_steps_is_counted_and_not_stated(load: Loader) -> None:
    assert error_of(load, ADD + "macs: 3\n").startswith(
        "base/rules/ops/ops.yaml:14:7: error: the 'macs' of 'steps' are counted\n"
    )
