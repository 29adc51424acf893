"""Operators that parse gives another form, or of which onnx has no case, against ONNX Runtime."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from dlbuild.base.errors import UserError
from dlbuild.stages.rewrites.activations import spell_activations
from dlbuild.stages.rewrites.draft import Draft, Node
from tests.run.conftest import Verifies

NGRAMS = """ngram_counts = [0, 4], ngram_indexes = [0, 3, 2, 1, 4, 5, 6],
 pool_int64s = [2, 3, 5, 4, 5, 6, 7, 8, 6, 7], weights = [1.5, 0.5, 2.0, 1.0, 3.0, 0.25, 4.0],
 min_gram_length = 1, max_gram_length = 2, max_skip_count = 2"""
MODELS = {
    "determinants": """g (float[3,4,4] x) => (float[3] y) { y = Det(x) }""",
    "determinant": """g (float[1,1] x) => (float y) { y = Det(x) }""",
    "singular": """g (float[2,2] x) => (float y) <float z = {0}>
        { o = Mul(x, z) y = Det(o) }""",
    "regions": """g (float[2,3,9,8] x) => (float[3,3,2,3] y)
        <float[3,5] rois = {0, 0.4, 1.6, 5.2, 7.7, 1, 2, 2, 2, 2, 1, -3, 4, 30, 50}>
        { y = MaxRoiPool <pooled_shape = [2, 3], spatial_scale = 0.75> (x, rois) }""",
    **{
        mode: f"""g (float[2,9] x) => (float[2,7] y) <float nine = {{9}}> {{
            a = Abs(x) b = Mul(a, nine) w = Cast <to = 6> (b)
            y = TfIdfVectorizer <mode = "{mode}", {NGRAMS}> (w) }}"""
        for mode in ("TF", "IDF", "TFIDF")
    },
}


@pytest.mark.parametrize("name", MODELS)
def test_the_c_computes_what_the_operator_does(name: str, verifies: Verifies) -> None:
    head = '<ir_version: 8, opset_import: ["" : 17]>\n'
    verifies(onnx.parser.parse_model(head + MODELS[name]))


ACTIVATIONS = {
    "RNN": (["LeakyRelu", "HardSigmoid"], [0.3, 0.15], [0.4]),
    "GRU": (["Sigmoid", "Tanh", "HardSigmoid", "Softsign"], [], []),
    "LSTM": (["sigmoid", "LEAKYRELU", "Tanh", "Sigmoid", "Elu", "Affine"], [0.2, 0.7, 1.5], [0.1]),
}


@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_each_direction_has_activations_of_its_own(kind: str, verifies: Verifies) -> None:
    names, alphas, betas = ACTIVATIONS[kind]
    gates = len(names) // 2 + (kind != "RNN")
    random = np.random.default_rng(5)
    weights = {
        name: random.normal(0, 0.8, (2, gates * 4, size)).astype(np.float32)
        for name, size in (("w", 3), ("r", 4))
    }
    numbers = {"activation_alpha": alphas, "activation_beta": betas}
    node = helper.make_node(
        kind, ["x", "w", "r"], ["y"], hidden_size=4, direction="bidirectional", activations=names
    )
    node.attribute.extend(helper.make_attribute(key, n) for key, n in numbers.items() if n)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [5, 1, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [5, 2, 1, 4])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    verifies(model)


@pytest.mark.parametrize(
    ("names", "what"),
    [
        (["Tanhh"], "there is no activation 'Tanhh'"),
        (["Tanh", "Relu"], "there are 2 activations, not 1"),
    ],
)
def test_activations_that_are_none_are_refused(names: list[str], what: str, tmp_path: Path) -> None:
    node = Node("RNN", ["x"], ["y"], {"activations": tuple(names)})
    with pytest.raises(UserError) as caught:
        spell_activations(Draft(str(tmp_path)), node)
    assert caught.value.what == what


@pytest.mark.parametrize("axes", [(1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 0, 1)])
def test_a_product_of_transposed_matrices_needs_no_shape(
    axes: tuple[int, int, int, int], verifies: Verifies
) -> None:
    """FusedMatMul as ONNX Runtime writes it: without a value_info of its result."""
    left, right, first, second = axes
    one, other = [4, 3] if left else [3, 4], [5, 4] if right else [4, 5]
    shapes = {
        "a": [one[0], 2, one[1]] if first else [2, *one],
        "b": [other[0], 2, other[1]] if second else other,
    }
    node = helper.make_node(
        "FusedMatMul", ["a", "b"], ["t"], domain="com.microsoft", transA=left, transB=right,
        transBatchA=first, transBatchB=second,
    )  # fmt: skip
    graph = helper.make_graph(
        [node, helper.make_node("Relu", ["t"], ["y"])],
        "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in shapes.items()],
        [helper.make_empty_tensor_value_info("y")],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    verifies(model)
