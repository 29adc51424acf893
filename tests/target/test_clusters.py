"""Clusters of harts of an emulated RISC-V machine: right values, and who touches which memory."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from dlbuild.build.built import built_of
from dlbuild.cli.bench import figures_of
from dlbuild.cli.main import run
from dlbuild.run.board import BoardMaker
from dlbuild.run.counter import counter
from dlbuild.run.runner import Built, model_program, run_input
from dlbuild.run.samples import samples_of
from dlbuild.run.strangers import watched
from tests.target.conftest import Made, Project

FINETUNE = Path(__file__).parents[2] / "examples" / "finetune"
IN_TURN = "-accel tcg,thread=single"


def pair(way: str) -> dict[str, object]:
    clusters = [{"name": name, "resources": {"cores": 2}} for name in ("left", "right")]
    return {
        "extends": "rv32imafc",
        "requantize": "fixed",
        "parallel": way,
        "clusters": clusters,
    }


def test_clusters_are_sooner_done_than_one_and_compute_the_same(
    project: Project, made: Made
) -> None:
    one = {"extends": "rv32imafc", "requantize": "fixed", "resources": {"cores": 2}}
    project({"one": one, "model": pair("model"), "pipeline": pair("pipeline")}, ("digits_int8",))
    engine, builds = made()
    found = {
        n: figures_of(engine, builds[f"digits_int8@{n}"]) for n in ("one", "model", "pipeline")
    }
    assert not any(figures.faults for figures in found.values())
    assert len({figures.content for figures in found.values()}) == 1
    assert found["one"].cost / found["model"].cost > 1.5


@pytest.mark.parametrize("way", ["model", "pipeline"])
def test_harts_that_run_in_turn_compute_the_same(project: Project, way: str) -> None:
    project({"turns": {**pair(way), "runner": in_turn()}}, ("digits_int8",))
    assert run(("verify",)) == 0


def in_turn() -> str:
    """Return the command that runs all harts on one thread."""
    text = (Path(__file__).parents[2] / "rules" / "targets" / "rv32imafc.yaml").read_text()
    runner = " ".join(text.partition("runner: >-\n")[2].split())
    return runner.replace("-smp", f"{IN_TURN} -smp")


def training(*names: str) -> None:
    """Write a recipe for the training step of the example, its batch in parts, over clusters."""
    entry = yaml.safe_load((FINETUNE / "dlbuild.yaml").read_text())["models"]["finetune"]
    entry["source"] = str(FINETUNE / "finetune.onnx")
    entry["batch"] = {"inputs": ["image", "labels"], "parts": 4}
    targets = {"pair": pair("data"), "turns": {**pair("data"), "runner": in_turn()}}
    recipe = {
        "version": 1,
        "models": {"finetune": entry},
        "targets": {name: targets[name] for name in names},
    }
    Path("dlbuild.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False))


def test_harts_that_run_in_turn_and_at_once_train_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    training("pair", "turns")
    assert run(("verify",)) == 0


def test_a_training_step_touches_the_memory_of_another_cluster_in_sums_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: Made
) -> None:
    monkeypatch.chdir(tmp_path)
    training("pair")
    engine, builds = made()
    plan = built_of(engine, builds["finetune@pair"])
    assert not strangers(plan, plan, tmp_path)
    graph = plan.graph
    sums = [c for c in graph.clusters.communications if c.kind == "reduce"]
    others = tuple(c for c in graph.clusters.communications if c.kind != "reduce")
    assert sums
    silent = replace(graph, clusters=replace(graph.clusters, communications=others))
    assert strangers(plan, replace(plan, graph=silent), tmp_path)


def strangers(plan: Built, told: Built, folder: Path) -> Sequence[tuple[int, int]]:
    """Return who touches the memory of another cluster, by what the emulator is told of a plan."""
    sources = [plan.folder / f"{plan.name}_weights.c", *plan.ports(is_honest=False)]
    program = BoardMaker(plan.target, plan.options).program(
        model_program(plan), "run", sources, folder
    )
    sent = run_input(plan, [samples_of(None, plan.graph)[0].inputs], 2)
    words = f"file={counter(folder)}{watched(told, program)}"
    return program.converse(sent, ["-plugin", words]).strangers


@pytest.mark.parametrize("way", ["model", "pipeline"])
def test_the_emulator_sees_who_touches_the_memory_of_another_cluster(
    project: Project, made: Made, tmp_path: Path, way: str
) -> None:
    project({"pair": pair(way)}, ("digits_int8",))
    engine, builds = made()
    plan = built_of(engine, builds["digits_int8@pair"])
    silent = replace(plan.graph, clusters=replace(plan.graph.clusters, communications=()))
    assert not strangers(plan, plan, tmp_path)
    assert strangers(plan, replace(plan, graph=silent), tmp_path)
