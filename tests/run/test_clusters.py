"""Nets on clusters of threads of this machine: right values, no race, an ONNX file that agrees."""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import yaml

from dlbuild.build.builder import How, build
from dlbuild.build.built import built_of
from dlbuild.build.engine import Engine, path_of
from dlbuild.build.pipeline import PIPELINE
from dlbuild.build.project import Build
from dlbuild.build.recipe import read_recipe
from dlbuild.cli.main import run
from dlbuild.ir import weights
from dlbuild.ir.weights import Array
from dlbuild.run.runner import Built, model_program, run_model
from dlbuild.run.runner_program import compiler_for
from dlbuild.run.samples import samples_of
from dlbuild.run.toolchain import identify
from dlbuild.run.verify import Checks, verify
from tests.run.conftest import Formatted

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits"
BATCH = 4
RACES = "-fsanitize=thread"
WAYS = ("data", "model", "pipeline")


def clusters(*counts: int, size: str = "64 KiB") -> list[dict[str, object]]:
    return [
        {"name": f"c{n}", "resources": {"threads": count}, "memories": {"l1": size}}
        for n, count in enumerate(counts)
    ]


def project(folder: Path, model: str, target: dict[str, object], batch: int = BATCH) -> None:
    """Write a recipe for one of the digits nets, with a batch for what divides it."""
    proto = onnx.load(DIGITS / f"{model}.onnx")
    if target.get("parallel") == "data" and batch > 1:
        for value in (*proto.graph.input, *proto.graph.output):
            value.type.tensor_type.shape.dim[0].dim_value = batch
        del proto.graph.value_info[:]
    onnx.save(proto, folder / "digits.onnx")
    recipe = {
        "version": 1,
        "models": {"digits": {"source": "digits.onnx"}},
        "targets": {"here": {"extends": "host", "features": ["fpu"], **target}},
    }
    (folder / "dlbuild.yaml").write_text(yaml.safe_dump(recipe))


def built(
    folder: Path, model: str, target: dict[str, object], batch: int = BATCH
) -> tuple[Engine, Build, Built]:
    project(folder, model, target, batch)
    recipe = read_recipe()
    engine = build(recipe, PIPELINE, How(), identify, lambda _: None)
    (one,) = recipe.builds
    return engine, one, built_of(engine, one)


@pytest.fixture(autouse=True)
def _in_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("way", "batch"), [("data", 1), *((way, BATCH) for way in WAYS)])
@pytest.mark.parametrize(("model", "counts"), [("digits", (1, 1, 1, 1)), ("digits_int8", (2, 2))])
def test_clusters_compute_what_the_model_does(
    formatted: Formatted, model: str, way: str, counts: tuple[int, ...], batch: int
) -> None:
    target: dict[str, object] = {"parallel": way, "clusters": clusters(*counts)}
    engine, one, made = built(Path.cwd(), model, target, batch)
    numbers = weights.decode(engine.content(one, "weights"))
    samples = samples_of(None, made.graph)
    verdict = verify(made, numbers, Path("digits.onnx").resolve(), samples, Checks(n_runs=2))
    assert verdict.passed
    assert len(made.schedule.memories) == len(counts)
    assert {step.core for step in made.schedule.steps} == set(range(4))
    _check_file(path_of(engine.out, one, "clustered"), samples[0].inputs)
    assert formatted(made.folder / "digits.c") == (made.folder / "digits.c").read_text()


@pytest.mark.parametrize("features", [["dsp"], ["dsp", "mve"], ["x86"]], ids=" ".join)
@pytest.mark.parametrize("way", [*WAYS, "none"])
def test_hand_written_kernels_compute_what_the_model_does(features: list[str], way: str) -> None:
    target: dict[str, object] = {"features": ["fpu", *features], "parallel": "data"}
    if way != "none":  # else each sample of the batch on one core
        target |= {"parallel": way, "clusters": clusters(2, 1)}
    engine, one, made = built(Path.cwd(), "digits_int8", target)
    numbers = weights.decode(engine.content(one, "weights"))
    samples = samples_of(None, made.graph)
    assert verify(made, numbers, Path("digits.onnx").resolve(), samples, Checks()).passed


def _check_file(file: Path, feed: Mapping[str, Array]) -> None:
    """The file of the clusters gives what the model gives, in ONNX Runtime."""
    proto = onnx.load(file)
    onnx.checker.check_model(proto, full_check=True)
    placed = [{p.key: p.value for p in node.metadata_props} for node in proto.graph.node]
    names = next(p.value for p in proto.metadata_props if p.key == "clusters")
    assert {props["cluster"] for props in placed} == set(names.split())
    assert any("communication" in props for props in placed)
    due, found = (
        onnxruntime.InferenceSession(name, providers=["CPUExecutionProvider"]).run(None, feed)
        for name in ("digits.onnx", str(file))
    )
    for one_due, one_found in zip(due, found, strict=True):
        np.testing.assert_array_equal(one_due, one_found)


@pytest.mark.parametrize("way", WAYS)
def test_clusters_have_no_race(tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TSAN_OPTIONS", "exitcode=66")
    target: dict[str, object] = {"parallel": way, "clusters": clusters(2, 1)}
    _, _, made = built(tmp_path, "digits_int8", target)
    sources = [made.folder / "digits_weights.c", *made.ports(is_honest=True)]
    maker = compiler_for(made.target, (RACES,))
    program = maker.program(model_program(made), "run", sources, tmp_path)
    samples = [sample.inputs for sample in samples_of(None, made.graph)]
    assert run_model(made, program, samples, 3)


def holding(size: str) -> list[dict[str, object]]:
    """Return two clusters whose memories hold arena and weights."""
    room = {"size": size, "holds": ["arena", "weights"], "section": ".l1"}
    return [{**cluster, "memories": {"l1": room}} for cluster in clusters(1, 1)]


@pytest.mark.parametrize("parameters", ["shared", "replicated"])
def test_parameters_are_there_once_or_for_each_cluster(tmp_path: Path, parameters: str) -> None:
    target: dict[str, object] = {
        "parallel": "data",
        "parameters": parameters,
        "clusters": holding("64 KiB"),
    }
    engine, one, made = built(tmp_path, "digits_int8", target)
    text = engine.content(one, "weights_source").decode()
    own = [table.cluster for table in made.model.tables.tables if table.operand == "w"]
    assert own == ([""] * 3 if parameters == "shared" else ["c0", "c1"] * 3)
    attribute = '#define DIGITS_WEIGHTS_C1_SECTION __attribute__((section(".l1")))'
    assert (attribute in text) == (parameters == "replicated")


def test_tables_count_against_the_memory_of_their_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target: dict[str, object] = {
        "parallel": "data",
        "parameters": "replicated",
        "clusters": holding("8 KiB"),
    }
    project(tmp_path, "digits_int8", target)
    assert run(("build",)) == 1
    said = capsys.readouterr().err
    assert "the tables of cluster 'c0' need " in said
    assert " of l1, its arena 3,072 B, the budget is 8,192 B" in said
    assert "fix: set l1: " in said


def test_the_error_of_a_budget_names_the_cluster_and_what_fits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    room = clusters(1, 1, size="1408 B")
    target: dict[str, object] = {"parallel": "pipeline", "clusters": room}
    project(tmp_path, "digits_int8", target)
    assert run(("build",)) == 1
    said = capsys.readouterr().err
    assert "the arena of cluster 'c0' needs 1,536 B of l1, the budget is 1,408 B" in said
    assert "would fit: parallel: model (c0 1,024 B, c1 1,024 B)" in said
    assert "fix: set l1: 1.5 KiB in cluster 'c0', or what a line above says" in said


def test_resources_and_clusters_exclude_each_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target: dict[str, object] = {"resources": {"threads": 2}, "clusters": clusters(1, 1)}
    project(tmp_path, "digits_int8", target)
    assert run(("build",)) == 2
    assert "a target has 'resources' or 'clusters'" in capsys.readouterr().err


def test_memories_of_clusters_hold_no_tiles(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    room = {"l1": {"size": "64 KiB", "holds": ["arena", "tiles"]}}
    near = [{**cluster, "memories": room} for cluster in clusters(1, 1)]
    project(tmp_path, "digits_int8", {"clusters": near})
    assert run(("build",)) == 1
    said = capsys.readouterr().err
    assert "memory 'l1' holds tiles, which does not go with 2 threads" in said


def test_the_example_streams_what_its_readme_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ignored = shutil.ignore_patterns("build")
    for name in ("clusters", "digits"):
        shutil.copytree(ROOT / "examples" / name, tmp_path / name, ignore=ignored)
    monkeypatch.chdir(tmp_path / "clusters")
    assert run(("build", "pc", "--sources")) == 0
    folder = tmp_path / "clusters" / "build" / "dlbuild" / "pc" / "digits"
    sources = ["../../../../main.c", "digits.c", "digits_weights.c", "dlb_port_cores.c"]
    command = ["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-I.", *sources, "-lm"]
    subprocess.run([*command, "-o", "main"], cwd=folder, check=True)
    said = subprocess.run(["./main"], cwd=folder, capture_output=True, text=True, check=True)
    assert f"    {said.stdout}" in (tmp_path / "clusters" / "README.md").read_text()
