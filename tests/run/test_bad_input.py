"""What a user's mistake is answered with, through the command line, in full."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper

ROOT = Path(__file__).parent.parent.parent
DIGITS = (ROOT / "examples" / "digits" / "digits.onnx").read_bytes()
RECIPE = """\
version: 1
models:
  kws: {source: kws.onnx}
targets:
  board: {extends: host}
builds:
  - {model: kws, target: board}
"""
STATUS = re.compile(r"^kws@board: [a-z ]+ \(([\d.]+ s|from the store)\)\n", re.MULTILINE)


def answer(folder: Path, recipe: str, model: bytes | None) -> tuple[int, str]:
    """Return the exit status and the message of a build."""
    (folder / "dlbuild.yaml").write_text(recipe)
    if model is not None:
        (folder / "kws.onnx").write_bytes(model)
    command = [sys.executable, "-m", "dlbuild", "build"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, STATUS.sub("", done.stderr)


def recipe_with(old: str, new: str) -> str:
    assert old in RECIPE
    return RECIPE.replace(old, new)


def model_of(node: NodeProto, weight: TensorProto | None = None) -> ModelProto:
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
        [] if weight is None else [weight],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def test_an_unknown_key(tmp_path: Path) -> None:
    recipe = recipe_with("extends: host", "extends: host, memorys: {sram: 48 KiB}")
    assert answer(tmp_path, recipe, DIGITS) == (
        2,
        (
            "dlbuild.yaml:5:26: error: target 'board' has no key 'memorys'\n"
            "  5 |   board: {extends: host, memorys: {sram: 48 KiB}}\n"
            "    |                          ^\n"
            "  fix: did you mean 'memories'?\n"
        ),
    )


def test_a_duplicate_key(tmp_path: Path) -> None:
    assert answer(tmp_path, "version: 1\n" + RECIPE, DIGITS) == (
        2,
        (
            "dlbuild.yaml:2:1: error: the key 'version' is given twice\n"
            "  2 | version: 1\n"
            "    | ^\n"
            "  why: first at dlbuild.yaml:1:1\n"
        ),
    )


def test_a_missing_model(tmp_path: Path) -> None:
    assert answer(tmp_path, RECIPE, None) == (
        2,
        (
            "dlbuild.yaml:3:17: error: there is no file 'kws.onnx'\n"
            "  3 |   kws: {source: kws.onnx}\n"
            "    |                 ^\n"
        ),
    )


def test_another_kind_of_file(tmp_path: Path) -> None:
    assert answer(tmp_path, RECIPE, b"This is no model.\n") == (
        1,
        (
            "kws.onnx: error: this is not an ONNX file\n"
            "  why: its bytes are not a serialised onnx.ModelProto\n"
            "  fix: export the model to ONNX (a .tflite, .pt or .h5 file has to be converted"
            " first)\n"
        ),
    )


def test_a_truncated_file(tmp_path: Path) -> None:
    assert answer(tmp_path, RECIPE, DIGITS[:15000]) == (
        1,
        (
            "kws.onnx: error: the ONNX file is truncated\n"
            "  why: after 15,000 bytes the model is not complete\n"
            "  fix: copy or export it again (with Git LFS: run `git lfs pull`)\n"
        ),
    )


def test_an_unknown_operator(tmp_path: Path) -> None:
    model = model_of(helper.make_node("Frobnicate", ["x"], ["y"], name="frob"))
    assert answer(tmp_path, RECIPE, model.SerializeToString()) == (
        1,
        (
            "kws.onnx: error: the model has an operator that is unknown: Frobnicate\n"
            "  Frobnicate: node 'frob'\n"
            "  why: neither ONNX nor a rule says what they compute\n"
            "  fix: add a rule in a pack (`packs:` in dlbuild.yaml), or replace the operator\n"
        ),
    )


def test_a_custom_domain(tmp_path: Path) -> None:
    node = helper.make_node("Squash", ["x"], ["y"], name="squash", domain="com.example")
    assert answer(tmp_path, RECIPE, model_of(node).SerializeToString()) == (
        1,
        (
            "kws.onnx: error: the model has an operator that is unknown: com.example.Squash\n"
            "  com.example.Squash: node 'squash'\n"
            "  why: neither ONNX nor a rule says what they compute\n"
            "  fix: add a rule in a pack (`packs:` in dlbuild.yaml), or replace the operator\n"
        ),
    )


@pytest.mark.parametrize(
    ("binding", "message"),
    [
        (
            "image: [1, 1, 9, 9]",
            (
                "kws.onnx: error: the shape [1, 1, 9, 9] of input 'image' contradicts the model:"
                " dimension 2 is 8, not 9\n"
                "  why: the model declares 'image' as [1, 1, 8, 8]\n"
                "  fix: give 8, or export the model with this dimension open\n"
            ),
        ),
        (
            "image: [1, 64]",
            (
                "kws.onnx: error: the shape [1, 64] of input 'image' has 2 dimensions, the model's"
                " has 4\n"
                "  why: the model declares 'image' as [1, 1, 8, 8]\n"
                "  fix: give 4 extents\n"
            ),
        ),
        (
            "imgae: [1, 1, 8, 8]",
            (
                "kws.onnx: error: `shapes:` names 'imgae', which is not an input of the model\n"
                "  fix: did you mean 'image'?\n"
            ),
        ),
    ],
    ids=["extent", "rank", "name"],
)
def test_a_wrong_shape(tmp_path: Path, binding: str, message: str) -> None:
    recipe = recipe_with("source: kws.onnx", f"source: kws.onnx, shapes: {{{binding}}}")
    assert answer(tmp_path, recipe, DIGITS) == (1, message)


def test_a_budget_that_is_too_small(tmp_path: Path) -> None:
    recipe = recipe_with("extends: host", "extends: host, memories: {sram: 2 KiB}")
    assert answer(tmp_path, recipe, DIGITS) == (
        1,
        (
            "kws@board: error: the arena needs 2,816 B of sram, the budget is 2,048 B\n"
            "  peak: step 0 (Conv 'conv1'), live: conv2 1,024 B, maxpool3 1,024 B, conv1 768 B\n"
            "  lower bound in strips of rows: 2,816 B, reached\n"
            "  would fit: max_recompute: 1.02 (2,016 B at 1.012 times the multiplications)\n"
            "  fix: set sram: 2.75 KiB, or the options of a line above\n"
        ),
    )


def test_the_budget_that_the_error_names_is_enough(tmp_path: Path) -> None:
    recipe = recipe_with("extends: host", "extends: host, memories: {sram: 2.75 KiB}")
    assert answer(tmp_path, recipe, DIGITS) == (0, "")


def test_the_options_that_the_error_names_are_enough(tmp_path: Path) -> None:
    recipe = recipe_with("extends: host", "extends: host, memories: {sram: 2 KiB}")
    recipe = recipe.replace("target: board}", "target: board, max_recompute: 1.02}")
    assert answer(tmp_path, recipe, DIGITS) == (0, "")


def test_a_missing_compiler(tmp_path: Path) -> None:
    recipe = recipe_with("extends: host", "extends: host, toolchain: {cc: nocc}")
    assert answer(tmp_path, recipe, DIGITS) == (
        1,
        (
            "kws@board: error: there is no program 'nocc'\n"
            "  why: the target's toolchain names it\n"
            "  fix: install it, or name another in 'toolchain'\n"
        ),
    )


def test_data_outside_the_models_folder(tmp_path: Path) -> None:
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1, 4])
    weight.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "../secret.bin"), ("offset", "0"), ("length", "16")):
        weight.external_data.add(key=key, value=value)
    (tmp_path / "secret.bin").write_bytes(bytes(16))
    inside = tmp_path / "inside"
    inside.mkdir()
    node = helper.make_node("Add", ["x", "w"], ["y"], name="add")
    assert answer(inside, RECIPE, model_of(node, weight).SerializeToString()) == (
        1,
        (
            "kws.onnx: tensor 'w': error: external data '../secret.bin' is outside the model's"
            " folder\n"
            "  why: a model may name files in its own folder only, so that a build reads nothing"
            " else\n"
            "  fix: put the data file beside the model and export with a relative location\n"
        ),
    )


def test_a_size_without_a_unit(tmp_path: Path) -> None:
    recipe = recipe_with("extends: host", "extends: host, memories: {sram: 4096}")
    assert answer(tmp_path, recipe, DIGITS) == (
        2,
        (
            "dlbuild.yaml:5:43: error: memory 'sram': the size '4096' has no unit\n"
            "  5 |   board: {extends: host, memories: {sram: 4096}}\n"
            "    |                                           ^\n"
            "  fix: write 4096 B\n"
        ),
    )
