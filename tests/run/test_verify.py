"""Verify finds what is wrong with the C, and only that. The models are those of the examples."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

from dlbuild.base.errors import UserError
from dlbuild.base.paths import builtin_folder
from dlbuild.ir.target import Memory, Options, Target, Toolchain
from dlbuild.ir.weights import Array
from dlbuild.rulebook.load import load_rules
from dlbuild.run.runner import Built
from dlbuild.run.samples import Sample, samples_of
from dlbuild.run.verify import Checks, Verdict, verify
from dlbuild.run.verify_compare import Tolerance
from dlbuild.stages.parse import parse
from dlbuild.stages.profile import profile
from dlbuild.stages.render import render
from dlbuild.stages.schedule import schedule
from dlbuild.stages.tables import tables
from dlbuild.stages.tile import tile
from tests.conftest import Needs

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
HOST = Target("host", memories=(Memory("sram"),), features=("fpu",))


@dataclass
class Case:
    """A model built into a folder of its own, and its samples."""

    built: Built
    weights: Mapping[str, Array]
    file: Path
    samples: tuple[Sample, ...]

    def verdict(self, checks: Checks | None = None) -> Verdict:
        return verify(
            self.built, self.weights, self.file, self.samples, checks or Checks(layers=True)
        )


@pytest.fixture
def digits(tmp_path: Path) -> Callable[..., Case]:
    def made(name: str = "digits", options: Options | None = None, n_samples: int = 4) -> Case:
        chosen = options or Options()
        file = EXAMPLES / "digits" / f"{name}.onnx"
        book = load_rules([builtin_folder()])
        parsed = parse(file, {}, book, name)
        graph = parsed.graph
        kernels = profile(graph, book, HOST, chosen)
        tiles = tile(graph, kernels, HOST, chosen)
        plan = schedule(graph, kernels, tiles, HOST, chosen)
        texts = render(graph, kernels, tiles, plan, book, HOST, chosen, name)
        for path, text in texts.items():
            (tmp_path / path).write_text(text, encoding="ascii")
        binary = tables(graph, parsed.weights, kernels, book, HOST, chosen, name, tiles)
        for path, content in binary.items():
            (tmp_path / path).write_bytes(content)
        built = Built(name, graph, kernels, plan, book, HOST, chosen, tmp_path, tiles)
        samples = samples_of(EXAMPLES / "digits" / f"{name}_samples.npz", graph)
        return Case(built, parsed.weights, file, samples[:n_samples])

    return made


@pytest.mark.parametrize("name", ["digits", "digits_int8"])
def test_the_examples_pass_as_a_whole_and_kernel_by_kernel(
    digits: Callable[..., Case], name: str
) -> None:
    verdict = digits(name).verdict()
    assert verdict.passed
    assert verdict.is_repeatable
    assert [c.tensor for c in verdict.outputs] == ["probabilities"]
    assert len(verdict.layers) == 6
    assert all(c.argmax_agrees for c in verdict.outputs)


def test_the_int8_example_is_exact(digits: Callable[..., Case]) -> None:
    checks = Checks(layers=True, tolerance=Tolerance(exact=True))
    assert digits("digits_int8").verdict(checks).passed


def test_one_rounding_is_within_one_last_bit_of_each_kernel(digits: Callable[..., Case]) -> None:
    assert digits("digits_int8", Options(requantize="fixed")).verdict().passed


@pytest.mark.parametrize(
    "options",
    [
        Options(arena="caller"),
        Options(input="arena", output="arena"),
        Options(arena="caller", input="arena"),
        Options(layout=(("image", "nhwc"),)),
        Options(hook=True),
        Options(weights="braces"),
        Options(optimize="size"),
    ],
    ids=str,
)
def test_every_interface_can_be_verified(digits: Callable[..., Case], options: Options) -> None:
    assert digits("digits", options).verdict().passed


def test_expected_outputs_need_no_reference(digits: Callable[..., Case]) -> None:
    verdict = digits().verdict(Checks())
    assert verdict.reference == "expected outputs of the samples"
    assert verdict.passed


def test_without_onnx_runtime_the_evaluator_speaks_and_the_rules_are_checked(
    digits: Callable[..., Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)  # importing it fails
    verdict = digits("digits_int8", n_samples=1).verdict()
    assert verdict.passed
    assert verdict.reference.endswith("reference evaluator")
    assert verdict.notes == (
        "ONNX Runtime is not installed",
        "the rules agree with onnx's evaluator on 7 of 7 ops",
    )


def test_an_operator_that_no_other_program_knows_is_computed_by_its_rule(tmp_path: Path) -> None:
    folder = EXAMPLES / "own_operator"
    book = load_rules([builtin_folder(), folder / "pack"])
    parsed = parse(folder / "squash.onnx", {}, book, "squash")
    graph, options = parsed.graph, Options()
    kernels = profile(graph, book, HOST, options)
    tiles = tile(graph, kernels, HOST, options)
    plan = schedule(graph, kernels, tiles, HOST, options)
    for path, text in render(graph, kernels, tiles, plan, book, HOST, options, "squash").items():
        (tmp_path / path).write_text(text, encoding="ascii")
    for path, content in tables(
        graph, parsed.weights, kernels, book, HOST, options, "squash"
    ).items():
        (tmp_path / path).write_bytes(content)
    built = Built("squash", graph, kernels, plan, book, HOST, options, tmp_path)
    samples = samples_of(folder / "squash_samples.npz", graph)
    case = Case(built, parsed.weights, folder / "squash.onnx", samples)
    verdict = case.verdict()
    assert verdict.reference == (
        "expected outputs of the samples, else the steps of the rules (numpy)"
    )
    assert verdict.passed


def of_file(file: Path, folder: Path, options: Options = Options()) -> Case:  # noqa: B008 - frozen
    """Build a model file whose shapes are fixed into a folder, with seeded samples."""
    book = load_rules([builtin_folder()])
    parsed = parse(file, {}, book, "net")
    graph = parsed.graph
    kernels = profile(graph, book, HOST, options)
    tiles = tile(graph, kernels, HOST, options)
    plan = schedule(graph, kernels, tiles, HOST, options)
    for path, text in render(graph, kernels, tiles, plan, book, HOST, options, "net").items():
        (folder / path).write_text(text, encoding="ascii")
    for path, content in tables(graph, parsed.weights, kernels, book, HOST, options, "net").items():
        (folder / path).write_bytes(content)
    built = Built("net", graph, kernels, plan, book, HOST, options, folder)
    return Case(built, parsed.weights, file, samples_of(None, graph))


def saved(folder: Path, node: NodeProto, constants: Mapping[str, Array]) -> Path:
    """Write a model of one operator that reads x of [3, 1, 4] or [3, 4] and writes y."""
    shape = [3, 1, 4] if node.op_type == "LSTM" else [3, 4]
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), folder / "net.onnx")
    return folder / "net.onnx"


@pytest.mark.parametrize("has_runtime", [True, False])
def test_a_kernel_without_steps_is_run_alone_by_who_knows_its_operator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_runtime: bool
) -> None:
    """Its other results have no names in the file, so nobody was asked for them."""
    if not has_runtime:
        monkeypatch.setitem(sys.modules, "onnxruntime", None)  # importing it fails
    rng = np.random.default_rng(1)
    weights = {"w": (1, 20, 4), "r": (1, 20, 5)}
    node = helper.make_node("LSTM", ["x", "w", "r"], ["", "", "y"], "cell", hidden_size=5)
    constants = {n: rng.normal(0, 0.5, s).astype(np.float32) for n, s in weights.items()}
    verdict = of_file(saved(tmp_path, node, constants), tmp_path).verdict()
    assert verdict.passed
    names = [f"y_state_{number}" for number in (0, 1)]
    assert [c.tensor for c in verdict.layers] == [*names, "y"]
    assert not any("alone" in note for note in verdict.notes)


@pytest.mark.parametrize("is_known", [True, False])
def test_a_kernel_that_cannot_round_as_asked_is_named(tmp_path: Path, *, is_known: bool) -> None:
    """Its multiplier would have to be computed by the build, of a scale that only the run knows."""
    names = ["x", "s", "z", "w", "s", "z", "t", "z"]
    given = {"x": (TensorProto.INT8, [2, 4])}
    constants = {"z": np.array(0, np.int8), "w": np.ones((4, 3), np.int8)}
    constants |= {"t": np.array(0.5, np.float32)}
    if is_known:
        constants["s"] = np.array(0.25, np.float32)
    else:
        given["s"] = (TensorProto.FLOAT, [])
    graph = helper.make_graph(
        [helper.make_node("QLinearMatMul", names, ["y"], "dense")],
        "g",
        [helper.make_tensor_value_info(name, *kind) for name, kind in given.items()],
        [helper.make_tensor_value_info("y", TensorProto.INT8, [2, 3])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "net.onnx")
    case = of_file(tmp_path / "net.onnx", tmp_path, Options(requantize="fixed"))
    said = [note for note in case.verdict(Checks()).notes if "requantize" in note]
    assert said == (
        []
        if is_known
        else [
            (
                "requantize is fixed, but no rule rounds in integers what these kernels compute"
                " (scales that only the run knows, functions of reals, a template): matmul1"
            )
        ]
    )


def test_a_template_that_rounds_in_floats_is_named_too(tmp_path: Path) -> None:
    constants: dict[str, Array] = {"s": np.array(0.5, np.float32), "z": np.array(0, np.int8)}
    graph = helper.make_graph(
        [
            helper.make_node(
                "QLinearConcat",
                ["s", "z", "x", "s", "z"],
                ["y"],
                "join",
                domain="com.microsoft",
                axis=0,
            )
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.INT8, [4])],
        [helper.make_tensor_value_info("y", TensorProto.INT8, [4])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "net.onnx")
    case = of_file(tmp_path / "net.onnx", tmp_path, Options(requantize="fixed"))
    assert [note for note in case.verdict(Checks()).notes if "requantize" in note] == [
        (
            "requantize is fixed, but no rule rounds in integers what these kernels compute"
            " (scales that only the run knows, functions of reals, a template): concat1"
        )
    ]


def test_a_kernel_that_nobody_else_computes_is_named(tmp_path: Path) -> None:
    node = helper.make_node(
        "TreeEnsembleRegressor",
        ["x"],
        ["y"],
        "trees",
        domain="ai.onnx.ml",
        n_targets=2,
        post_transform="SOFTMAX",
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
        nodes_values=[0.25, 0.0, 0.0],
        target_treeids=[0, 0],
        target_nodeids=[1, 2],
        target_ids=[0, 1],
        target_weights=[0.5, 1.5],
        nodes_treeids=[0] * 3,
        nodes_nodeids=[0, 1, 2],
        nodes_featureids=[1, 0, 0],
        nodes_truenodeids=[1, 0, 0],
        nodes_falsenodeids=[2, 0, 0],
    )
    verdict = of_file(saved(tmp_path, node, {}), tmp_path).verdict()
    assert verdict.passed
    assert "not compared alone, because nobody else computes what they do: treesum1, softmax2" in (
        verdict.notes
    )


@pytest.mark.reported("c21_esp_result_mismatch_shape")
def test_a_wrong_number_shows_in_its_kernel_alone(digits: Callable[..., Case]) -> None:
    case = digits()
    path = case.built.folder / "digits.c"
    text = path.read_text()
    assert " + b[m]" in text
    path.write_text(text.replace(" + b[m]", " - b[m]", 1))
    verdict = case.verdict()
    assert not verdict.passed
    assert [c.kernel for c in verdict.layers if not c.passed] == ["conv1"]


def test_what_depends_on_an_old_arena_is_not_repeatable(digits: Callable[..., Case]) -> None:
    case = digits()
    path = case.built.folder / "digits.c"
    lines = path.read_text().splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith("    conv1(")]
    assert len(kept) == len(lines) - 1
    path.write_text("".join(kept))
    verdict = case.verdict(Checks(flags=("-Wno-unused-function",)))
    assert not verdict.is_repeatable
    assert not verdict.passed


def test_a_cross_compiler_is_replaced_by_the_machines_own(
    digits: Callable[..., Case], needs: Needs
) -> None:
    needs("arm-none-eabi-gcc")
    case = digits()
    tools = Toolchain("arm-none-eabi-gcc", "arm-none-eabi-ar", "arm-none-eabi-size")
    case.built = replace(case.built, target=replace(HOST, name="board", toolchain=tools))
    verdict = case.verdict(Checks())
    assert verdict.passed
    note = (
        "target 'board' has no runner: its C was compiled and run here with cc, not with"
        " arm-none-eabi-gcc"
    )
    assert verdict.notes == (note,)


def test_a_missing_compiler_is_named(digits: Callable[..., Case]) -> None:
    case = digits()
    tools = Toolchain("nocc")
    case.built = replace(case.built, target=replace(HOST, toolchain=tools))
    with pytest.raises(UserError) as caught:
        case.verdict(Checks())
    assert str(caught.value) == (
        "error: there is no program 'nocc'\n"
        "  why: the target's toolchain names it\n"
        "  fix: install it, or name another in 'toolchain'"
    )


def test_a_program_that_dies_is_reported(digits: Callable[..., Case]) -> None:
    case = digits()
    path = case.built.folder / "digits.c"
    text = path.read_text()
    path.write_text(text.replace("return DIGITS_OK;", "return DIGITS_ABORTED;"))
    with pytest.raises(UserError) as caught:
        case.verdict(Checks())
    assert str(caught.value) == (
        "run: error: the generated C failed when run here: exit 2\n  digits_run says that it failed"
    )
