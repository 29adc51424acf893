"""Operators of ai.onnx.ml give the numbers that ONNX Runtime gives."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

from dlbuild.base.errors import UserError
from dlbuild.base.paths import builtin_folder
from dlbuild.ir.graph import Graph
from dlbuild.ir.weights import Array
from dlbuild.rulebook.load import RuleBook, load_rules
from dlbuild.run.reference import Model, computed
from dlbuild.stages.parse import parse

KINDS = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.int64): TensorProto.INT64}
KERNELS = ["LINEAR", "POLY", "RBF", "SIGMOID"]


@cache
def book() -> RuleBook:
    return load_rules([builtin_folder()])


def saved(folder: Path, node: NodeProto, inputs: Mapping[str, Array]) -> Path:
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(n, KINDS[a.dtype], a.shape) for n, a in inputs.items()],
        [
            helper.make_tensor_value_info(
                name, TensorProto.INT64 if name in ("label", "i") else TensorProto.FLOAT, None
            )
            for name in node.output
        ],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 4)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), folder / "m.onnx")
    return folder / "m.onnx"


def parsed(file: Path) -> tuple[Graph, dict[str, Array]]:
    found = parse(file, {}, book(), "net")
    return found.graph, dict(found.weights)


def require_same(folder: Path, node: NodeProto, inputs: Mapping[str, Array]) -> Graph:
    """Compare the steps of the rules with ONNX Runtime."""
    node.domain = "ai.onnx.ml"
    file = saved(folder, node, inputs)
    graph, weights = parsed(file)
    values: dict[str, Array] = {**weights, **inputs}
    for op in graph.ops:
        values |= computed(op, Model(file, graph, weights, book()), values)
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    for name, due in zip(node.output, session.run(None, dict(inputs)), strict=True):
        assert values[name].shape == due.shape
        assert values[name].dtype == due.dtype
        np.testing.assert_allclose(values[name].astype(np.float64), due, rtol=1e-4, atol=1e-5)
    return graph


def machine(classes: int, kernel: str, how: str = "NONE", prob: list[float] = []) -> NodeProto:  # noqa: B006 - not changed
    """Return a support vector machine of 3 columns with other numbers for each kernel."""
    rng = np.random.default_rng(len(kernel) + classes)
    sizes = [2, 3, 1, 4][:classes]
    vectors, n_pairs = sum(sizes), classes * (classes - 1) // 2
    node = helper.make_node(
        "SVMClassifier",
        ["x"],
        ["label", "scores"],
        "svm",
        kernel_type=kernel,
        kernel_params=[0.5, 0.25, 3.0],
        support_vectors=rng.normal(size=vectors * 3).tolist(),
        coefficients=rng.normal(size=(classes - 1) * vectors).tolist(),
        rho=rng.normal(size=n_pairs).tolist(),
        vectors_per_class=sizes,
        classlabels_ints=[10 + number for number in range(classes)],
        post_transform=how,
    )
    for name in ("prob_a", "prob_b") if prob else ():
        node.attribute.append(helper.make_attribute(name, prob))
    return node


def table(seed: int = 3) -> dict[str, Array]:
    return {"x": np.random.default_rng(seed).normal(size=(16, 3)).astype(np.float32)}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("classes", [2, 3, 4])
def test_support_vectors_vote_for_classes(classes: int, kernel: str, tmp_path: Path) -> None:
    require_same(tmp_path, machine(classes, kernel), table())


@pytest.mark.parametrize(("classes", "how"), [(2, "LOGISTIC"), (3, "LOGISTIC"), (3, "SOFTMAX")])
def test_scores_of_support_vectors_are_transformed(classes: int, how: str, tmp_path: Path) -> None:
    require_same(tmp_path, machine(classes, "RBF", how), table())


@pytest.mark.parametrize(
    ("node", "what", "why"),
    [
        (
            machine(3, "RBF", prob=[1.0, 2.0]),
            "3 pairs of classes have 2 and 2 numbers",
            "'prob_a' and 'prob_b' have one for each pair",
        ),
        (
            machine(2, "RBF", "SOFTMAX"),
            "SOFTMAX of the scores of two classes is not supported",
            "runtimes leave out the transformation",
        ),
    ],
)
def test_what_runtimes_do_otherwise_is_refused(
    node: NodeProto, what: str, why: str, tmp_path: Path
) -> None:
    node.domain = "ai.onnx.ml"
    file = saved(tmp_path, node, table())
    with pytest.raises(UserError) as caught:
        parsed(file)
    assert str(caught.value) == (
        f"{file}: node 'svm' (SVMClassifier): error: {what}\n  why: {why}\n"
        "  fix: export the model without it, and do this step in your own code"
    )


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("one_class", [0, 1])
@pytest.mark.parametrize("n_supports", [0, 5])
def test_support_vectors_give_a_number(
    kernel: str, one_class: int, n_supports: int, tmp_path: Path
) -> None:
    rng = np.random.default_rng(n_supports)
    node = helper.make_node(
        "SVMRegressor",
        ["x"],
        ["y"],
        "svm",
        kernel_type=kernel if n_supports else "LINEAR",
        kernel_params=[0.5, 0.25, 2.0],
        **({"support_vectors": rng.normal(size=n_supports * 3).tolist()} if n_supports else {}),
        coefficients=rng.normal(size=n_supports or 3).tolist(),
        n_supports=n_supports,
        one_class=one_class,
        rho=[0.3],
    )
    require_same(tmp_path, node, table())


def test_a_vector_distance_needs_no_table_of_differences(tmp_path: Path) -> None:
    graph = require_same(tmp_path, machine(3, "RBF"), table())
    assert max(t.count for t in graph.tensors) <= 16 * 6


@pytest.mark.parametrize("missing", [float("nan"), -1.0])
@pytest.mark.parametrize("values", [[7.0], [7.0, 8.0, 9.0]])
def test_missing_numbers_are_filled_in(missing: float, values: list[float], tmp_path: Path) -> None:
    x = np.array(table()["x"], np.float32)
    x[::3, 1] = missing
    node = helper.make_node(
        "Imputer", ["x"], ["y"], imputed_value_floats=values, replaced_value_float=missing
    )
    require_same(tmp_path, node, {"x": x})


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_categories_are_told_apart(dtype: type, tmp_path: Path) -> None:
    x: Array = np.array([[1, 5], [9, 2], [5, 5]], dtype)
    node = helper.make_node("OneHotEncoder", ["x"], ["y"], cats_int64s=[5, 1, 2])
    require_same(tmp_path, node, {"x": x})


def test_columns_of_several_inputs_stand_side_by_side(tmp_path: Path) -> None:
    inputs: dict[str, Array] = {"x": table()["x"], "z": table(4)["x"][:, :2].copy()}
    node = helper.make_node("FeatureVectorizer", ["x", "z"], ["y"], inputdimensions=[3, 2])
    require_same(tmp_path, node, inputs)


@pytest.mark.parametrize("keys", [np.array([3, 1, 2]), np.array([3, 1, np.nan], np.float32)])
def test_labels_are_looked_up_in_tensors(keys: Array, tmp_path: Path) -> None:
    values = np.array([0.5, 1.5, 2.5], np.float32)
    node = helper.make_node(
        "LabelEncoder",
        ["x"],
        ["y"],
        keys_tensor=numpy_helper.from_array(keys, "k"),
        values_tensor=numpy_helper.from_array(values, "v"),
        default_tensor=numpy_helper.from_array(np.array([9.0], np.float32), "d"),
    )
    x: Array = np.array([[1, 2, 3, 4]]).astype(keys.dtype)
    if keys.dtype == np.float32:
        x = np.array([[1, 2, 3, np.nan]], np.float32)
    require_same(tmp_path, node, {"x": x})
