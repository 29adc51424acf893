"""Models with odd but valid content: many in one library of C, against what ONNX says of them."""

import subprocess
from collections.abc import Mapping
from ctypes import CDLL, c_void_p
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest

from dlbuild.base.paths import builtin_folder
from dlbuild.build.targets import TargetBook, read_target_files, target_files
from dlbuild.ir.target import Options, Target
from dlbuild.ir.weights import Array
from dlbuild.rulebook.load import RuleBook, load_rules
from dlbuild.run.compile import WARNINGS
from dlbuild.stages.parse import parse
from dlbuild.stages.profile import profile
from dlbuild.stages.render import render
from dlbuild.stages.schedule import schedule
from dlbuild.stages.tables import tables
from dlbuild.stages.tile import tile

NAN, INF = np.float32(np.nan), np.float32(np.inf)
COLUMNS = 100


@dataclass(frozen=True)
class Case:
    """A model in ONNX's text form, the numbers of its inputs, and the outputs due."""

    text: str
    inputs: Mapping[str, Array]
    due: Mapping[str, Array]
    opset: int = 17
    domains: Mapping[str, int] = field(default_factory=dict)


def f32(*values: object) -> Array:
    return np.array(values, np.float32)


def i64(*values: object) -> Array:
    return np.array(values, np.int64)


ROWS = f32([1, NAN, 3, NAN], [INF, 1, INF, 0], [-INF] * 4, [2, 2, 1, NAN])
SIX = np.arange(12, dtype=np.float32).reshape(6, 2)

# As ONNX Runtime 1.32 gives them.
PROBABILITIES = {
    "NONE": ([0.235258, 0.608332, 0.156411], [0.228965, 0.414735, 0.356300]),
    "SOFTMAX_ZERO": ([0.296176, 0.430104, 0.273720], [0.299406, 0.360529, 0.340065]),
    "PROBIT": ([-0.721739, 0.274982, -1.009495], [-0.742364, -0.215385, -0.368384]),
}

# Two trees of two leaves each, and a third that is a leaf; as ONNX Runtime 1.32 gives them. The
# first leaf of the second tree has a weight for one of the targets only.
TREES = """nodes_treeids = [0, 0, 0, 1, 1, 1, 2], nodes_nodeids = [0, 1, 2, 0, 1, 2, 0],
  nodes_modes = ["BRANCH_LEQ", "LEAF", "LEAF", "BRANCH_GT", "LEAF", "LEAF", "LEAF"],
  nodes_values = [0.5, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0], nodes_featureids = [0, 0, 0, 1, 0, 0, 0],
  nodes_truenodeids = [1, 0, 0, 1, 0, 0, 0], nodes_falsenodeids = [2, 0, 0, 2, 0, 0, 0],
  target_treeids = [0, 0, 0, 0, 1, 1, 1, 2], target_nodeids = [1, 1, 2, 2, 1, 2, 2, 0],
  target_ids = [0, 1, 0, 1, 1, 0, 1, 0],
  target_weights = [-3.0, -1.0, 5.0, 4.0, -2.0, -7.0, 6.0, -4.0]"""
AGGREGATES = {
    "AVERAGE": (
        [-4.166667, 1.666667, 0.000000],
        [-1.833333, -1.000000, 0.000000],
        [-1.500000, 3.333333, 0.000000],
        [0.833333, 0.666667, 0.000000],
    ),
    "MIN": ([-6.5, -1, 0], [-3.5, -2, 0], [-6.5, 4, 0], [-3.5, -2, 0]),
    "MAX": ([-2.5, 6, 0], [-2.5, -1, 0], [5.5, 6, 0], [5.5, 4, 0]),
}

CASES = {
    "the sign of no number is none": Case(
        "(float[4] x) => (float[4] y) { y = Sign(x) }",
        {"x": f32(NAN, -INF, 0, 3)},
        {"y": f32(NAN, -1, 0, 1)},
    ),
    "what is no number is never the greatest": Case(
        "(float[4,4] x) => (int64[4] y) { y = ArgMax <axis = 1, keepdims = 0> (x) }",
        {"x": ROWS},
        {"y": i64(2, 0, 0, 0)},
    ),
    "nor the last of the greatest": Case(
        """(float[4,4] x) => (int64[4] y)
        { y = ArgMax <axis = 1, keepdims = 0, select_last_index = 1> (x) }""",
        {"x": ROWS},
        {"y": i64(2, 2, 3, 1)},
    ),
    "nor hard": Case(
        "(float[4,4] x) => (float[4,4] y) { y = Hardmax(x) }",
        {"x": ROWS},
        {"y": np.eye(4, dtype=np.float32)[[2, 0, 0, 0]]},
    ),
    "the least are numbers": Case(
        """(float[4,4] x) => (float[4,3] y, int64[4,3] at) <int64[1] k = {3}>
        { y, at = TopK <largest = 0> (x, k) }""",
        {"x": ROWS},
        {
            "y": f32([1, 3, NAN], [0, 1, INF], [-INF] * 3, [1, 2, 2]),
            "at": i64([0, 2, 1], [3, 1, 0], [0, 1, 2], [2, 0, 1]),
        },
    ),
    "a sum with an infinity has a logarithm": Case(
        "(float[3,2] x) => (float[3] y) { y = ReduceLogSumExp <axes = [1], keepdims = 0> (x) }",
        {"x": f32([INF, 1], [-INF, -INF], [0, -INF])},
        {"y": f32(INF, -INF, 0)},
    ),
    "what counts nothing is not read": Case(
        "(float[1,2] a, float[2,1] b, float c) => (float[1,1] y) { y = Gemm <beta = 0.0> (a,b,c) }",
        {"a": f32([1, 2]), "b": f32([3], [4]), "c": np.asarray(NAN)},
        {"y": f32([11])},
    ),
    "a remainder without signs": Case(
        "(uint32[3] a, uint32[3] b) => (uint32[3] y) { y = Mod <fmod = 1> (a, b) }",
        {
            "a": np.array([7, 2**32 - 1, 5], np.uint32),
            "b": np.array([4, 10, 2**32 - 1], np.uint32),
        },
        {"y": np.array([3, 5, 5], np.uint32)},
    ),
    "what is cut off is not wrapped": Case(
        """(float[5] x) => (float[6] y) <int64[2] p = {3, -2}>
        { y = Pad <mode = "wrap"> (x, p) }""",
        {"x": f32(1, 2, 3, 4, 5)},
        {"y": f32(1, 2, 3, 1, 2, 3)},
        19,
    ),
    "parts without a name": Case(
        """(float[6,2] x) => (float[1,2] a, float[2,2] c) <int64[3] s = {1, 3, 2}>
        { a, _, c = Split(x, s) }""",
        {"x": SIX},
        {"a": SIX[:1], "c": SIX[4:]},
    ),
    "equal parts without a name": Case(
        "(float[6,2] x) => (float[2,2] c) { _, _, c = Split(x) }", {"x": SIX}, {"c": SIX[4:]}, 13
    ),
    "how many, as an attribute": Case(
        "(float[2,3] x) => (float[2,2] y, int64[2,2] at) { y, at = TopK <k = 2> (x) }",
        {"x": f32([3, 1, 2], [4, 6, 5])},
        {"y": f32([3, 2], [6, 5]), "at": i64([0, 2], [1, 2])},
        9,
    ),
    "a mean for each point": Case(
        """(float[1,2,2] x) => (float[1,2,2] y)
        <float[2,2] s = {1, 2, 3, 4}, float[2,2] b = {0, 1, 0, 1}, float[2,2] m = {1, 1, 2, 2},
         float[2,2] v = {4, 1, 1, 4}>
        { y = BatchNormalization <epsilon = 0.0, spatial = 0> (x, s, b, m, v) }""",
        {"x": f32([[3, 4], [5, 6]])},
        {"y": f32([[1, 7], [9, 9]])},
        7,
    ),
    "choices too long for a line": Case(
        """(float16[4] x) => (float16[4] y)
        { y = Shrink <lambd = 1.5, bias = 0.5> (x) }""",
        {"x": np.array([-2, -1, 1.25, 4], np.float16)},
        {"y": np.array([-1.5, 0, 0, 3.5], np.float16)},
    ),
    "choices of sums too long for a line": Case(
        "(float16[3] x) => (float16[3] y) { y = Selu <gamma = 2.0, alpha = 1.5> (x) }",
        {"x": np.array([1, -np.inf, 0], np.float16)},
        {"y": np.array([2, -3, 0], np.float16)},
    ),
    "reads too long for a line": Case(
        """(float[2,1,3,2,1,2,2] x) => (float[3,2,4,3,2,3,3] y)
        <int64[14] p = {1, 0, 1, 0, 1, 0, 1, 1, 1, 0, 1, 0, 1, 0}> { y = Pad(x, p) }""",
        {"x": np.arange(48, dtype=np.float32).reshape(2, 1, 3, 2, 1, 2, 2)},
        {
            "y": np.pad(
                np.arange(48, dtype=np.float32).reshape(2, 1, 3, 2, 1, 2, 2),
                [(1, 1), (0, 1), (1, 0), (0, 1), (1, 0), (0, 1), (1, 0)],
            )
        },
    ),
    **{
        f"probabilities of pairs become those of classes, {how}": Case(
            f"""(float[2,2] x) => (int64[2] label, float[2,3] p) {{
            label, p = ai.onnx.ml.SVMClassifier <kernel_type = "LINEAR", post_transform = "{how}",
              kernel_params = [0.0, 0.0, 0.0], rho = [0.1, -0.2, 0.3], classlabels_ints = [4, 5, 9],
              support_vectors = [1.0, 0.0, 0.0, 1.0, -1.0, 0.5], vectors_per_class = [1, 1, 1],
              coefficients = [1.0, -1.0, 0.5, 0.5, 1.0, -1.0],
              prob_a = [-1.0, -2.0, -0.5], prob_b = [0.1, 0.0, -0.1]> (x) }}""",
            {"x": f32([1, 2], [-0.5, 0.25])},
            {"label": i64(5, 9), "p": f32(*due)},
            domains={"ai.onnx.ml": 1},
        )
        for how, due in PROBABILITIES.items()
    },
    "a tree may be a leaf": Case(
        """(float[2,3] x) => (float[2,1] y) { y = ai.onnx.ml.TreeEnsembleRegressor <n_targets = 1,
          nodes_treeids = [0], nodes_nodeids = [0], nodes_modes = ["LEAF"], nodes_values = [0.0],
          nodes_featureids = [0], nodes_truenodeids = [0], nodes_falsenodeids = [0],
          target_treeids = [0], target_nodeids = [0], target_ids = [0], target_weights = [2.5]>
          (x) }""",
        {"x": f32([1, 2, 3], [NAN, 5, 6])},
        {"y": f32([2.5], [2.5])},
        domains={"ai.onnx.ml": 1},
    ),
    **{
        f"trees are combined by {how}": Case(
            f"""(float[4,2] x) => (float[4,3] y) {{
            y = ai.onnx.ml.TreeEnsembleRegressor <n_targets = 3, aggregate_function = "{how}",
              base_values = [0.5, 0.0, 0.0], {TREES}> (x) }}""",
            {"x": f32([0, 0], [0, 3], [1, 0], [1, 3])},
            {"y": f32(*due)},
            domains={"ai.onnx.ml": 3},
        )
        for how, due in AGGREGATES.items()
    },
    "a pair has probabilities": Case(
        """(float[1,1] x) => (int64[1] label, float[1,2] p) {
        label, p = ai.onnx.ml.SVMClassifier <kernel_type = "LINEAR", classlabels_ints = [1, 2],
          kernel_params = [0.0, 0.0, 0.0], rho = [0.0], vectors_per_class = [1, 1],
          support_vectors = [1.0, -1.0], coefficients = [1.0, -1.0], prob_a = [-0.5],
          prob_b = [0.0]> (x) }""",
        {"x": f32([1])},
        {"label": i64(1), "p": f32([1 / (1 + np.exp(-1.0)), 1 / (1 + np.exp(1.0))])},
        domains={"ai.onnx.ml": 1},
    ),
    "tables of one number": Case(
        """(float[1,1,1] x) => (float[1,1,1,1] y, float[1,1,1] h)
        <float[1,1,1] w = {2}, float[1,1,1] r = {1}>
        { y, h = RNN <hidden_size = 1, activations = ["Relu"]> (x, w, r) }""",
        {"x": f32([[3]])},
        {"y": f32([[[6]]]), "h": f32([[6]])},
    ),
    "the greatest number may be negative, or 0": Case(
        '(float[3,2] x) => (float[3,2] y) { y = ai.onnx.ml.Normalizer <norm = "MAX"> (x) }',
        {"x": f32([-3, -1], [0, -2], [4, 2])},
        {"y": f32([3, 1], [0, -2], [1, 0.5])},
        domains={"ai.onnx.ml": 1},
    ),
    "points far out": Case(
        "(float[1,1,1,2] x, float[1,1,3,2] g) => (float[1,1,1,3] y) { y = GridSample(x, g) }",
        {"x": f32([[[1, 2]]]), "g": f32([[[1e30, 0], [-1e30, 1e30], [0.5, 0]]])},
        {"y": f32([[[0, 0, 2]]])},
    ),
    "extents of 1 are repeated": Case(
        """(float[2,1] a, float[1,3] b) => (float[2,3] y)
        { y = Einsum <equation = "...,...->..."> (a, b) }""",
        {"a": f32([2], [3]), "b": f32([1, 10, 100])},
        {"y": f32([2, 20, 200], [3, 30, 300])},
    ),
    "what a window has behind the last point is no pad": Case(
        """(float[1,1,3] x) => (float[1,1,2] y) { y = AveragePool <kernel_shape = [2],
           strides = [2], auto_pad = "VALID", ceil_mode = 1, count_include_pad = 1> (x) }""",
        {"x": f32([[1, 3, 8]])},
        {"y": f32([[2, 8]])},
    ),
    "the middles of an old resize": Case(
        """(float[1,1,1,3] x) => (float[1,1,1,6] y) <float[0] r = {}, float[4] s = {1, 1, 1, 2}>
        { y = Resize <mode = "nearest", nearest_mode = "floor",
          coordinate_transformation_mode = "tf_half_pixel_for_nn"> (x, r, s) }""",
        {"x": f32([[[1, 2, 3]]])},
        {"y": f32([[[1, 1, 2, 2, 3, 3]]])},
        11,
    ),
    "places that are none": Case(
        """(float[2] x, int64[0,1] i, float[0] u) => (float[2] y) { y = ScatterND(x, i, u) }""",
        {"x": f32(1, 2), "i": np.zeros((0, 1), np.int64), "u": f32()},
        {"y": f32(1, 2)},
    ),
    "the greatest of narrow floats": Case(
        """(float16[2,2] x, int64[2,1] i, float16[2,2] u) => (float16[2,2] y)
        { y = ScatterND <reduction = "max"> (x, i, u) }""",
        {
            "x": np.array([[1, 2], [3, 4]], np.float16),
            "i": i64([1], [1]),
            "u": np.array([[5, 0], [4, 4.5]], np.float16),
        },
        {"y": np.array([[1, 2], [5, 4.5]], np.float16)},
        18,
    ),
    "activations too long for a line": Case(
        """(float[1,1,1] x) => (float[1,2,1,1] y)
        <float[2,4,1] w = {0, 0, 0, 3, 0, 0, 0, -3}, float[2,4,1] r = {0, 0, 0, 0, 0, 0, 0, 0}>
        { y = LSTM <hidden_size = 1, direction = "bidirectional", clip = 2.1,
            activations = ["HardSigmoid", "Elu", "LeakyRelu", "HardSigmoid", "Elu", "LeakyRelu"],
            activation_alpha = [0.2, 1.1, 0.01, 0.2, 0.5, 0.1], activation_beta = [0.5, 0.5]>
          (x, w, r) }""",
        {"x": f32([[1]])},
        {"y": f32([[[0.5 * 0.5 * 2.1]], [[0.5 * 0.1 * 0.5 * 0.5 * np.expm1(-2.1)]]])},
    ),
    "channels that lie last have a mean": Case(
        """(int8[1,2,2,3] x) => (int8[1,1,1,3] y) <float s = {1.0}, int8 z = {0}>
        { y = com.microsoft.QLinearGlobalAveragePool <channels_last = 1> (x, s, z, s, z) }""",
        {"x": np.array([[[[1, 8, 4], [2, 8, -4]], [[3, 8, -8], [6, 12, -9]]]], np.int8)},
        {"y": np.array([[[[3, 9, -4]]]], np.int8)},
        domains={"com.microsoft": 1},
    ),
    "channels that lie last have means": Case(
        """(int8[1,2,2,3] x) => (int8[1,1,2,3] y) <float s = {1.0}, int8 z = {0}>
        { y = com.microsoft.QLinearAveragePool <kernel_shape = [2, 1], channels_last = 1>
          (x, s, z, s, z) }""",
        {"x": np.array([[[[1, 8, 4], [2, 8, -4]], [[3, 8, -8], [6, 12, -8]]]], np.int8)},
        {"y": np.array([[[[2, 8, -2], [4, 10, -6]]]], np.int8)},
        domains={"com.microsoft": 1},
    ),
    "a batch of one matrix": Case(
        """(float[1,2,3] m) => (float[1,2,3,2] y) <int64[4] s = {1, 1, 2, 3}>
        { y = AffineGrid <align_corners = 1> (m, s) }""",
        {"m": f32([[1, 2, 0.5], [-1, 0.25, 3]])},
        {
            "y": f32(
                [
                    [[-2.5, 3.75], [-1.5, 2.75], [-0.5, 1.75]],
                    [[1.5, 4.25], [2.5, 3.25], [3.5, 2.25]],
                ]
            )
        },
        20,
    ),
    "one number is found": Case(
        "(float[3] x) => (y) <int64[1] i = {2}> { g = GatherND(x, i) y = Neg(g) }",
        {"x": f32(1, 2, 3)},
        {"y": f32(-3)},
    ),
    "where the greatest were, in a shape that is said": Case(
        """(float[1,1,2] x, int64[1,1,2] i) => (y) <int64[3] s = {1, 1, 4}>
        { u = MaxUnpool <kernel_shape = [2], strides = [2]> (x, i, s) y = Neg(u) }""",
        {"x": f32([[1, 2]]), "i": i64([[1, 2]])},
        {"y": f32([[0, -1, -2, 0]])},
    ),
    "a product and what follows, without shapes": Case(
        """(float[2,1] a, float[2,2] b, float[2] c) => (y) {
        p = com.microsoft.FusedGemm <activation = "Relu", transA = 1> (a, b, c) y = Neg(p) }""",
        {"a": f32([1], [2]), "b": f32([3, 1], [4, -8]), "c": f32(1, 1)},
        {"y": f32([-12, 0])},
        domains={"com.microsoft": 1},
    ),
    "a norm of sums, without shapes": Case(
        """(float[1,2] x, float[1,2] s, float[2] g, float[2] b) => (y) {
        n = com.microsoft.SkipLayerNormalization <epsilon = 0.0> (x, s, g, b) y = Neg(n) }""",
        {"x": f32([1, 2]), "s": f32([0, 1]), "g": f32(1, 1), "b": f32(0.5, 0.5)},
        {"y": f32([0.5, -1.5])},
        domains={"com.microsoft": 1},
    ),
    **{
        f"8-bit floats {what}": Case(
            f"""(float[3] x) => (float[3] y) <float s = {{0.5}}> {{
            z = Constant <value = float8e4m3fn {{0}}> ()
            q = QuantizeLinear <saturate = {saturate}> (x, s, z)
            one = Constant <value_float = 1.0> ()
            y = DequantizeLinear(q, one) }}""",
            {"x": f32(NAN, 400, -3)},
            {"y": f32(NAN, most, -6)},
            21,
        )
        for what, saturate, most in (("end at their greatest", 1, 448), ("have no end", 0, NAN))
    },
}


@cache
def rules() -> RuleBook:
    return load_rules([builtin_folder()])


@cache
def host() -> Target:
    targets = read_target_files(target_files((builtin_folder(),)), Path.as_posix)
    return TargetBook({}, targets).resolve("host").target


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> CDLL:
    """Return all models in one library."""
    folder = tmp_path_factory.mktemp("odd")
    for number, case in enumerate(CASES.values()):
        build(case, f"m{number}", folder)
    flags = ["-std=c99", "-O1", *WARNINGS, "-Werror", "-fPIC", "-shared", "-o", "odd.so"]
    trap = ["-fsanitize=undefined,float-cast-overflow", "-fsanitize-undefined-trap-on-error"]
    files = sorted(file.name for file in folder.glob("*.c"))
    done = subprocess.run(
        ["gcc", *flags, *trap, *files, "-lm"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.stderr
    for file in files:
        assert max(map(len, (folder / file).read_text().splitlines())) <= COLUMNS, file
    return CDLL(str(folder / "odd.so"))


def build(case: Case, name: str, folder: Path) -> None:
    """Write the C files of a model; its results lie in the caller's memory."""
    domains = "".join(f', "{domain}" : {version}' for domain, version in case.domains.items())
    head = f'<ir_version: 8, opset_import: ["" : {case.opset}{domains}]>\ng '
    model = onnx.parser.parse_model(head + case.text)
    for node in model.graph.node:  # the text form has no way to leave out a result
        node.output[:] = ["" if result == "_" else result for result in node.output]
    file = folder / f"{name}.onnx"
    onnx.save(model, file)
    book, target, options = rules(), host(), Options(requantize="exact")
    shapes = {key: array.shape for key, array in case.inputs.items()}
    parsed = parse(file, shapes, book, name)
    kernels = profile(parsed.graph, book, target, options)
    tiles = tile(parsed.graph, kernels, target, options)
    plan = schedule(parsed.graph, kernels, tiles, target, options)
    texts = render(parsed.graph, kernels, tiles, plan, book, target, options, name)
    for path, text in texts.items():
        (folder / path).write_text(text, encoding="ascii")
    numbers = tables(parsed.graph, parsed.weights, kernels, book, target, options, name)
    for path, content in numbers.items():
        (folder / path).write_bytes(content)


@pytest.mark.parametrize("what", CASES)
def test_the_c_computes_it(what: str, library: CDLL) -> None:
    case = CASES[what]
    name = f"m{list(CASES).index(what)}"
    given = [np.array(array, order="C") for array in case.inputs.values()]
    found = {key: np.full_like(array, 85) for key, array in case.due.items()}
    arrays = [*given, *found.values()]

    code = library[f"{name}_run"](*(c_void_p(array.ctypes.data) for array in arrays if array.size))

    assert code == 0
    for key, due in case.due.items():
        np.testing.assert_allclose(found[key].astype(float), due.astype(float), 1e-5, 1e-6)
