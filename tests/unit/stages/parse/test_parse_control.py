"""Control flow, Einsum and the operators of ai.onnx.ml, written out as ordinary operators."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from dlbuild.base.errors import UserError
from dlbuild.ir.weights import Array
from dlbuild.stages.parse import Parsed

HEAD = '<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]>\n'
X = np.array([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]], np.float32)


class Reader(Protocol):
    def save(self, text: str, constants: Mapping[str, Array] | None = None) -> Path: ...

    def read(self, text: str, constants: Mapping[str, Array] | None = None) -> Parsed: ...

    def parse(self, path: Path) -> Parsed: ...

    def require_equal(
        self,
        text: str,
        constants: Mapping[str, Array] | None,
        feeds: Mapping[str, Array],
        *,
        within: float = 0.0,
    ) -> Parsed: ...


def kinds(parsed: Parsed) -> list[str]:
    return [op.kind for op in parsed.graph.ops]


@pytest.mark.parametrize("truth", [True, False])
def test_where_only_the_run_knows_the_condition_both_branches_are_computed(
    reader: Reader, *, truth: bool
) -> None:
    text = f"""{HEAD} g (bool c, float[2,3] x) => (float[2,3] y) {{
        y = If (c) <
            then_branch = t () => (float[2,3] p) {{ p = Neg(x) }},
            else_branch = e () => (float[2,3] q) {{ q = Abs(x) }}
        > }}"""
    parsed = reader.require_equal(text, None, {"c": np.array(truth), "x": X})
    assert kinds(parsed) == ["Neg", "Abs", "Where"]


def test_branches_of_different_shapes_are_refused(reader: Reader) -> None:
    text = f"""{HEAD} g (bool c, float[2,3] x) => (float[?,3] y) {{
        [pick] y = If (c) <
            then_branch = t () => (float[2,3] p) {{ p = Neg(x) }},
            else_branch = e () => (float[4,3] q) {{ q = Concat<axis=0>(x, x) }}
        > }}"""
    with pytest.raises(UserError) as caught:
        reader.read(text)
    assert str(caught.value).partition("m.onnx: ")[2] == (
        "node 'pick' (If): error: the branches give 'y' the shapes [2, 3] and [4, 3]\n"
        "  why: firmware has fixed buffers, and the condition is only known when it runs\n"
        "  fix: export the model with a fixed condition"
    )


LOOP = """ g (float[2,3] x) => (float[2,3] y, float[T,2,3] each) {
    y, each = Loop (n, go, x) <
        body = b (int64 i, bool c, float[2,3] s) => (bool d, float[2,3] t, float[2,3] u) {
            d = Identity(c)
            k = Cast<to=1>(i)
            t = Add(s, k)
            u = Mul(t, t)
        }
    > }"""


def test_a_loop_of_known_turns_is_unrolled_and_what_it_collects_is_stacked(reader: Reader) -> None:
    constants = {"n": np.array(3, np.int64), "go": np.array([1], np.bool_).reshape(())}
    parsed = reader.require_equal(HEAD + LOOP.replace("[T", "[3"), constants, {"x": X})
    assert kinds(parsed).count("Mul") == 3


def test_a_loop_of_unknown_turns_is_refused(reader: Reader) -> None:
    text = HEAD + LOOP.replace("(float[2,3] x)", "(int64 n, float[2,3] x)", 1).replace("[T", "[?")
    with pytest.raises(UserError) as caught:
        reader.read(text, {"go": np.array([1], np.bool_).reshape(())})
    assert str(caught.value).partition("m.onnx: ")[2] == (
        "node 'y' (Loop): error: the number of turns is not known before the model runs\n"
        "  why: it depends on what the input holds; firmware has fixed buffers\n"
        "  fix: export the model with a fixed number of steps"
    )


def test_a_loop_that_stops_when_a_value_says_so_keeps_its_state_from_there(reader: Reader) -> None:
    text = f"""{HEAD} g (float[1] x) => (float[1] y) {{
        y = Loop (n, go, x) <
            body = b (int64 i, bool c, float[1] s) => (bool d, float[1] t) {{
                t = Add(s, s)
                flat = Squeeze(t)
                d = Less(flat, top)
            }}
        > }}"""
    constants = {
        "n": np.array(6, np.int64),
        "go": np.array([1], np.bool_).reshape(()),
        "top": np.array(10.0, np.float32),
    }
    for start in (1.0, 3.0, 20.0):
        reader.require_equal(text, constants, {"x": np.array([start], np.float32)})


def test_a_scan_is_unrolled_over_its_axis(reader: Reader) -> None:
    text = f"""{HEAD} g (float[2,3] x) => (float[2] y, float[2,3] sums) {{
        y, sums = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [1],
            body = b (float[2] s, float[2] e) => (float[2] t, float[2] u) {{
                t = Add(s, e)
                u = Identity(t)
            }}
        > (start, x) }}"""
    parsed = reader.require_equal(text, {"start": np.zeros(2, np.float32)}, {"x": X})
    assert kinds(parsed).count("Add") == 3


def test_a_scan_of_operator_set_8_is_one_for_each_inference(reader: Reader) -> None:
    text = """<ir_version: 8, opset_import: ["" : 8]>
    g (float[2,1] start, float[2,3,1] x) => (float[2,1] y, float[2,3,1] sums) {
        y, sums = Scan <num_scan_inputs = 1, directions = [1],
            body = b (float[1] s, float[1] e) => (float[1] t, float[1] u) {
                t = Add(s, e)
                u = Identity(t)
            }
        > ("", start, x) }"""
    x = np.arange(6, dtype=np.float32).reshape(2, 3, 1)
    reader.require_equal(text, None, {"start": np.ones((2, 1), np.float32), "x": x})


def test_a_scan_of_inferences_of_different_lengths_is_refused(reader: Reader) -> None:
    text = """<ir_version: 8, opset_import: ["" : 8]>
    g (int64[2] n, float[2,1] start, float[2,3,1] x) => (float[2,1] y) {
        [scan] y = Scan <num_scan_inputs = 1,
            body = b (float[1] s, float[1] e) => (float[1] t) { t = Add(s, e) }
        > (n, start, x) }"""
    with pytest.raises(UserError) as caught:
        reader.read(text)
    assert str(caught.value).partition("m.onnx: ")[2] == (
        "node 'scan' (Scan): error: inferences of different lengths cannot be scanned together\n"
        "  why: the number of turns of each is only known when the model runs\n"
        "  fix: export the model with a newer operator set"
    )


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij->ji", [(2, 3)]),
        ("ij->", [(2, 3)]),
        ("ii->i", [(3, 3)]),
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("ij,jk", [(2, 3), (3, 4)]),
        ("bhqd,bhkd->bhqk", [(2, 2, 3, 4), (2, 2, 5, 4)]),
        ("...ij,...jk->...ik", [(2, 2, 3), (2, 3, 4)]),
        ("i,j->ij", [(2,), (3,)]),
        ("ij,kl->", [(2, 3), (4, 5)]),
        ("ab,bc,cd->ad", [(2, 3), (3, 4), (4, 5)]),
    ],
)
def test_einsum_is_products_and_sums(
    reader: Reader, equation: str, shapes: list[tuple[int, ...]]
) -> None:
    random = np.random.default_rng(3)
    feeds = {f"x{n}": random.normal(size=s).astype(np.float32) for n, s in enumerate(shapes)}
    inputs = ", ".join(f"float[{','.join(map(str, f.shape))}] {n}" for n, f in feeds.items())
    due = np.einsum(equation, *feeds.values())
    result = f"float[{','.join(map(str, due.shape))}] y"
    call = f'Einsum<equation="{equation}">({", ".join(feeds)})'
    text = f"{HEAD} g ({inputs}) => ({result}) {{ y = {call} }}"
    reader.require_equal(text, None, feeds, within=1e-5)


@pytest.mark.parametrize(
    "call",
    [
        "Scaler<offset=[1.0, 2.0, 3.0], scale=[0.5, 2.0, 4.0]>(x)",
        'Normalizer<norm="L1">(x)',
        'Normalizer<norm="L2">(x)',
        "LinearRegressor<coefficients=[1.0, 2.0, 3.0], intercepts=[0.5], targets=1>(x)",
    ],
)
def test_operators_for_tables_become_onnx_operators(reader: Reader, call: str) -> None:
    width = 1 if "Linear" in call else 3
    text = f"{HEAD} g (float[2,3] x) => (float[2,{width}] y) {{ y = ai.onnx.ml.{call} }}"
    parsed = reader.require_equal(text, None, {"x": X}, within=1e-6)
    assert all(not op.domain for op in parsed.graph.ops)


@pytest.mark.parametrize(
    ("call", "due"),
    [
        (
            'Normalizer<norm="L3">',
            "(Normalizer): error: norm is 'L3', it can be MAX, L1, L2",
        ),
        (
            """SVMRegressor<kernel_type="CUBIC", n_supports=1, coefficients=[1.0], rho=[0.0],
            support_vectors=[1.0, 2.0, 3.0], kernel_params=[1.0, 0.0, 3.0]>""",
            "(SVMRegressor): error: kernel_type is 'CUBIC', it can be LINEAR, POLY, RBF, SIGMOID",
        ),
    ],
)
def test_words_that_are_not_known_are_refused(reader: Reader, call: str, due: str) -> None:
    with pytest.raises(UserError) as caught:
        reader.read(f"{HEAD} g (float[2,3] x) => (float[2,3] y) {{ y = ai.onnx.ml.{call}(x) }}")
    assert due in str(caught.value)


@pytest.mark.parametrize("kind", ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"])
def test_words_on_which_a_body_depends_are_known(reader: Reader, kind: str) -> None:
    call = f'{kind}<reduction="median">(x, t)'
    with pytest.raises(UserError) as caught:
        reader.read(f"{HEAD} g (float[2,3] x, int64[2] t) => (float y) {{ y = {call} }}")
    due = f"({kind}): error: reduction is 'median', it can be none, sum, mean"
    assert due in str(caught.value)


def test_a_list_of_labels_is_looked_up(reader: Reader) -> None:
    text = f"""{HEAD} g (int64[4] x) => (float[4] y) {{
        y = ai.onnx.ml.LabelEncoder<keys_int64s=[3, 1], values_floats=[0.5, 2.5],
            default_float=-1.0>(x) }}"""
    reader.require_equal(text, None, {"x": np.array([1, 2, 3, 1], np.int64)})


TREE = """y = ai.onnx.ml.TreeEnsembleRegressor<n_targets=1,
    nodes_treeids=[0, 0, 0], nodes_nodeids=[0, 1, 2], nodes_featureids=[1, 0, 0],
    nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"], nodes_values=[0.5, 0.0, 0.0],
    nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0], target_treeids=[0, 0],
    target_nodeids=[1, 2], target_ids=[0, 0], target_weights=[10.0, 20.0]>(x)"""


def test_trees_become_tables_that_are_weights(reader: Reader) -> None:
    parsed = reader.read(f"{HEAD} g (float[2,3] x) => (float[2,1] y) {{ {TREE} }}")
    assert [op.kind for op in parsed.graph.ops] == ["TreeSum"]
    weights = {name.rpartition("/")[2]: array.tolist() for name, array in parsed.weights.items()}
    assert weights == {
        "mode": [1, 0, 0],
        "feature": [1, 0, 0],
        "limit": [0.5, 0.0, 0.0],
        "yes": [1, 0, 1],
        "no": [2, 1, 2],
        "root": [0],
        "target": [0, 0],
        "weight": [10.0, 20.0],
    }


def test_trees_that_go_in_circles_are_refused(reader: Reader) -> None:
    circle = TREE.replace("nodes_truenodeids=[1", "nodes_truenodeids=[0")
    with pytest.raises(UserError) as caught:
        reader.read(f"{HEAD} g (float[2,3] x) => (float[2,1] y) {{ {circle} }}")
    assert str(caught.value).partition("m.onnx: ")[2] == (
        "node 'y' (TreeEnsembleRegressor): error: the trees share nodes or go in circles\n"
        "  fix: export the model again"
    )


@pytest.mark.parametrize(
    ("old", "new", "due"),
    [
        (
            "n_targets=1",
            'n_targets=1, aggregate_function="MEDIAN"',
            "aggregate_function is 'MEDIAN', it can be AVERAGE, SUM, MIN, MAX\n",
        ),
        (
            '"BRANCH_LEQ"',
            '"BRANCH"',
            "nodes_modes is 'BRANCH', it can be LEAF, BRANCH_LEQ, BRANCH_LT, BRANCH_GTE,",
        ),
    ],
)
def test_trees_in_other_words_are_refused(reader: Reader, old: str, new: str, due: str) -> None:
    with pytest.raises(UserError) as caught:
        reader.read(f"{HEAD} g (float[2,3] x) => (float[2,1] y) {{ {TREE.replace(old, new)} }}")
    message = str(caught.value).partition("m.onnx: ")[2]
    assert message.startswith(f"node 'y' (TreeEnsembleRegressor): error: {due}")


def ensemble(reader: Reader, **changes: list[int] | int) -> Path:
    """Save a TreeEnsemble of one node that tests a set, and two leaves."""
    given: dict[str, list[int] | int] = {
        "n_targets": 1,
        "tree_roots": [0],
        "nodes_featureids": [1],
        "nodes_truenodeids": [1],
        "nodes_falsenodeids": [0],
        "nodes_trueleafs": [1],
        "nodes_falseleafs": [1],
        "leaf_targetids": [0, 0],
        **changes,
    }
    node = helper.make_node("TreeEnsemble", ["x"], ["y"], "trees", domain="ai.onnx.ml")
    node.attribute.extend(helper.make_attribute(*item) for item in given.items())
    for name, values in (
        ("nodes_splits", [0.0]),
        ("leaf_weights", [-1.0, 2.0]),
        ("membership_values", [4.0, 7.0]),
    ):
        held = numpy_helper.from_array(np.array(values, np.float32))
        node.attribute.append(helper.make_attribute(name, held))
    modes = numpy_helper.from_array(np.array([6], np.uint8))
    node.attribute.append(helper.make_attribute("nodes_modes", modes))
    info = helper.make_tensor_value_info
    kind = onnx.TensorProto.FLOAT
    graph = helper.make_graph([node], "g", [info("x", kind, [3, 2])], [info("y", kind, [3, 1])])
    path = reader.save(f"{HEAD} g (float[1] x) => (float[1] y) {{ y = Abs(x) }}")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", 5)]), path)
    return path


def test_a_set_is_tested_member_by_member(reader: Reader) -> None:
    tables = reader.parse(ensemble(reader)).weights
    assert {name.partition("/")[2]: array.tolist() for name, array in tables.items()} == {
        "mode": [5, 5, 0, 0],
        "feature": [1, 1, 0, 0],
        "limit": [4.0, 7.0, 0.0, 0.0],
        "yes": [3, 3, 0, 1],
        "no": [1, 2, 1, 2],
        "root": [0],
        "target": [0, 0],
        "weight": [-1.0, 2.0],
    }


@pytest.mark.parametrize(
    ("changes", "due"),
    [
        ({"nodes_trueleafs": [0], "nodes_truenodeids": [0]}, "the trees go in circles"),
        (
            {"aggregate_function": 4},
            "aggregate_function is 4, it can be 0 (AVERAGE), 1 (SUM), 2 (MIN), 3 (MAX)",
        ),
        ({"post_transform": 1}, "sums are not transformed, but post_transform is 1"),
    ],
)
def test_an_ensemble_that_no_rule_computes_is_refused(
    reader: Reader, changes: dict[str, list[int] | int], due: str
) -> None:
    path = ensemble(reader, **changes)
    with pytest.raises(UserError) as caught:
        reader.parse(path)
    assert (
        str(caught.value)
        .partition("m.onnx: ")[2]
        .startswith(f"node 'trees' (TreeEnsemble): error: {due}\n")
    )
