"""Harts of an emulated RISC-V machine: right values, and the critical path in instructions."""

from pathlib import Path

import pytest

from dlbuild.build.engine import Engine
from dlbuild.build.project import Build
from dlbuild.cli.bench import figures_of
from dlbuild.cli.main import run
from dlbuild.cli.measurements import costs_of
from dlbuild.ir import codec
from dlbuild.ir.schedule import Schedule
from dlbuild.ir.tile_plan import TilePlan
from dlbuild.stages.timeline import makespan
from tests.target.conftest import Made, Project

COUNTS = (1, 2, 4)
IN_TURN = "-accel tcg,thread=single"
"""QEMU runs a hart for a while, then the next: an order that harts of their own seldom have."""


def targets() -> dict[str, dict[str, object]]:
    base: dict[str, object] = {
        "extends": "rv32imafc",
        "requantize": "fixed",
        "profile": "times.json",
    }
    return {f"harts{count}": {**base, "resources": {"cores": count}} for count in COUNTS}


def predicted(engine: Engine, one: Build) -> int:
    schedule = codec.decode(engine.content(one, "schedule"), Schedule)
    tiles = codec.decode(engine.content(one, "tiles"), TilePlan)
    return makespan(schedule, tiles, costs_of(engine, one))


def test_harts_share_the_work_as_predicted(project: Project, made: Made) -> None:
    project(dict(targets()), ("digits_int8",))
    assert run(("profile", "--run")) == 0
    engine, builds = made()
    found = {}
    for count in COUNTS:
        one = builds[f"digits_int8@harts{count}"]
        figures = figures_of(engine, one)
        assert figures == figures_of(engine, one)
        assert not figures.faults
        found[count] = figures
        assert abs(predicted(engine, one) - figures.cost) < 0.1 * figures.cost
    assert len({figures.content for figures in found.values()}) == 1
    assert found[1].cost / found[2].cost > 1.8
    assert found[1].cost / found[4].cost > 3


@pytest.mark.parametrize("schedule", ["split", "list", "round_robin"])
def test_harts_that_run_in_turn_compute_the_same(project: Project, schedule: str) -> None:
    text = (Path(__file__).parents[2] / "rules" / "targets" / "rv32imafc.yaml").read_text()
    runner = " ".join(text.partition("runner: >-\n")[2].split())
    turns = runner.replace("-smp", f"{IN_TURN} -smp")
    project({"turns": {**targets()["harts4"], "runner": turns, "schedule": schedule}})
    assert run(("verify", "--layers")) == 0


def test_two_cortex_m33_share_the_work(project: Project, made: Made) -> None:
    base = {"extends": "cortex-m33-dual", "requantize": "fixed"}
    project({"one": {**base, "resources": {"cores": 1}}, "two": dict(base)}, ("digits_int8",))
    engine, builds = made()
    one, two = (figures_of(engine, builds[f"digits_int8@{name}"]) for name in ("one", "two"))
    assert not one.faults
    assert not two.faults
    assert one.content == two.content
    assert one.cost / two.cost > 1.8
