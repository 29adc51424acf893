"""Clusters of harts of an emulated RISC-V machine: right values, and who touches which memory."""

from dataclasses import replace
from pathlib import Path

import pytest

from dlbuild.build.built import built_of
from dlbuild.cli.bench import figures_of
from dlbuild.cli.main import run
from dlbuild.run.board import BoardMaker
from dlbuild.run.counter import counter
from dlbuild.run.runner import model_program, run_input
from dlbuild.run.samples import samples_of
from dlbuild.run.strangers import watched
from tests.target.conftest import Made, Project

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
    text = (Path(__file__).parents[2] / "rules" / "targets" / "rv32imafc.yaml").read_text()
    runner = " ".join(text.partition("runner: >-\n")[2].split())
    turns = runner.replace("-smp", f"{IN_TURN} -smp")
    project({"turns": {**pair(way), "runner": turns}}, ("digits_int8",))
    assert run(("verify",)) == 0


@pytest.mark.parametrize("way", ["model", "pipeline"])
def test_the_emulator_sees_who_touches_the_memory_of_another_cluster(
    project: Project, made: Made, tmp_path: Path, way: str
) -> None:
    project({"pair": pair(way)}, ("digits_int8",))
    engine, builds = made()
    plan = built_of(engine, builds["digits_int8@pair"])
    sources = [plan.folder / "digits_int8_weights.c", *plan.ports(is_honest=False)]
    maker = BoardMaker(plan.target, plan.options)
    program = maker.program(model_program(plan), "run", sources, tmp_path)
    sent = run_input(plan, [samples_of(None, plan.graph)[0].inputs], 2)
    silent = replace(plan.graph, clusters=replace(plan.graph.clusters, communications=()))
    seen = [
        program.converse(sent, ["-plugin", f"file={counter(tmp_path)}{watched(one, program)}"])
        for one in (plan, replace(plan, graph=silent))
    ]
    assert not seen[0].strangers
    assert seen[1].strangers
