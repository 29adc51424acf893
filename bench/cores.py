"""Run the int8 networks of MLPerf Tiny on several emulated RISC-V harts.

    python bench/cores.py DIR [--only GLOB] [--cores N,N] [--all]

DIR holds one folder for each model: model.onnx, meta.json, inputs.npz. Each network is measured on
one hart, kernel by kernel, then dealt to 2, 4 and 8 by each scheduler, as cores (threads are dealt
to in the same way) and as processing elements that run in step. For each: the makespan that is
predicted from the kernels' times, how much faster than one hart that is, and the arena. What `auto`
makes is run as well, with --all everything is:

- the outputs are equal to those of one hart, to the bit;
- two runs behind the first have the same critical path, in instructions;
- that is the prediction within 10 %.

Ends with `N passed, M failed`; the exit status is 1 if M > 0.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Literal

import yaml

from dlbuild.build.builder import How, build
from dlbuild.build.built import built_of
from dlbuild.build.engine import Engine
from dlbuild.build.fastpath import STATE_FOLDER
from dlbuild.build.pipeline import PIPELINE
from dlbuild.build.project import Build
from dlbuild.build.recipe import read_recipe
from dlbuild.cli.main import run as dlbuild
from dlbuild.cli.measurements import costs_of
from dlbuild.ir import weights
from dlbuild.ir.costs import Costs
from dlbuild.ir.weights import Array
from dlbuild.run.board import BoardMaker
from dlbuild.run.counter import counter
from dlbuild.run.runner import Built, Values, model_program, run_input
from dlbuild.run.samples import samples_of
from dlbuild.run.toolchain import identify
from dlbuild.stages.audit import audit
from dlbuild.stages.audit_cores import audit_cores
from dlbuild.stages.cores import schedule_cores
from dlbuild.stages.render import render
from dlbuild.stages.split import core_plan
from dlbuild.stages.tables import tables
from dlbuild.stages.timeline import makespan

MODELS = {
    "ic": "mlperf_ic_resnet8_int8",
    "kws": "mlperf_kws_dscnn_int8",
    "vww": "mlperf_vww_mobilenetv1_int8",
    "ad": "mlperf_ad_toycar_int8",
    "sww": "mlperf_sww_int8",
}
Scheduler = Literal["auto", "split", "list", "round_robin"]
SCHEDULERS: tuple[Scheduler, ...] = ("auto", "split", "list", "round_robin")
KINDS = ("cores", "pes")
NEAR = 0.1
"""So far may a prediction be off."""

RUNS = 3
"""The first one is left out: in it the other cores enter their loop, which may take an instruction
less than coming round again.
"""


@dataclass(frozen=True)
class Net:
    """A network on one hart. content: its outputs."""

    name: str
    built: Built
    costs: Costs
    numbers: dict[str, Array]
    sample: Values
    state: Path


def main() -> int:
    """Measure, print the table."""
    parser = argparse.ArgumentParser(description="Run the int8 networks on several harts.")
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--only", default="*", metavar="GLOB", help="names of networks")
    parser.add_argument("--cores", default="2,4,8", metavar="N,N")
    parser.add_argument("--all", action="store_true", help="run what each scheduler makes")
    given = parser.parse_args()
    models = {name: given.folder.resolve() / MODELS[name] for name in MODELS}
    chosen = {name: path for name, path in models.items() if fnmatch(name, given.only)}
    counts = [int(word) for word in given.cores.split(",")]
    failed = passed = 0
    with tempfile.TemporaryDirectory(prefix="dlbuild-cores-") as work:
        os.chdir(work)
        Path("dlbuild.yaml").write_text(recipe_text(chosen), encoding="utf-8")
        print(ROW.format(*HEADER))
        for net in nets():
            for faults in rows(net, counts, is_all=given.all):
                failed += bool(faults)
                passed += not faults
                for fault in faults:
                    print(f"    FAILED: {fault}")
        os.chdir("/")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


HEADER = (
    "net",
    "cores",
    "schedule",
    "predicted",
    "speed-up",
    "measured",
    "speed-up",
    "off",
    "arena",
)
ROW = "{:4} {:>7} {:12} {:>12} {:>8} {:>12} {:>8} {:>7} {:>8}"


def recipe_text(models: dict[str, Path]) -> str:
    """Return a recipe of one hart; the models' inputs are their samples."""
    entries = {}
    for name, folder in models.items():
        meta = json.loads((folder / "meta.json").read_text())
        shapes = {i["name"]: i["shape"] for i in meta["inputs"] if i["shape"] != i["declared"]}
        files = {"source": str(folder / "model.onnx"), "samples": str(folder / "inputs.npz")}
        entries[name] = {**files, "shapes": shapes}
    target = {"extends": "rv32imafc", "requantize": "fixed", "profile": "times.json"}
    return yaml.safe_dump({"version": 1, "models": entries, "targets": {"hart": target}})


def nets() -> Iterator[Net]:
    """Measure the kernels of each network and yield it."""
    out = sys.stdout
    sys.stdout = sys.stderr
    dlbuild(("profile", "--run"))
    sys.stdout = out
    recipe = read_recipe()
    engine = build(recipe, PIPELINE, How(), identify, lambda _: None)
    for one in recipe.builds:
        yield net_of(engine, one)


def net_of(engine: Engine, one: Build) -> Net:
    """Return a network as it was built."""
    built = built_of(engine, one)
    sample = samples_of(engine.keys.recipe.models[one.model].samples, built.graph)[0].inputs
    numbers = dict(weights.decode(engine.content(one, "weights")))
    state = engine.out / STATE_FOLDER
    return Net(one.model, built, costs_of(engine, one), numbers, sample, state)


def rows(net: Net, counts: list[int], *, is_all: bool) -> Iterator[list[str]]:
    """Print the rows of a network; yield the faults of each that was run."""
    alone, content = measured(net, net.built)
    arena = net.built.schedule.memories[0].height_bytes
    one = (f"{net.costs.total:,}", "1.00", f"{alone:,}", "1.00")
    off = net.costs.total / alone - 1
    print(ROW.format(net.name, "1", "-", *one, f"{100 * off:+.1f} %", f"{arena:,}"), flush=True)
    for count in counts:
        for kind in KINDS:
            for scheduler in SCHEDULERS:
                built = dealt(net, (kind, count), scheduler)
                due = makespan(built.schedule, built.tiles, net.costs)
                cells = [f"{due:,}", f"{net.costs.total / due:.2f}", "", "", ""]
                faults: list[str] = []
                if is_all or (scheduler == "auto" and kind == "cores"):
                    found, outputs = measured(net, built)
                    off = due / found - 1
                    cells[2:] = [f"{found:,}", f"{alone / found:.2f}", f"{100 * off:+.1f} %"]
                    faults += ["other outputs than one hart's"] if outputs != content else []
                    faults += ["the prediction is further off"] if abs(off) > NEAR else []
                arena = built.schedule.memories[0].height_bytes
                label = f"{count} {kind}"
                print(ROW.format(net.name, label, scheduler, *cells, f"{arena:,}"), flush=True)
                if cells[2]:
                    yield faults


def dealt(net: Net, resources: tuple[str, int], scheduler: Scheduler) -> Built:
    """Plan a network for several harts; both audits have to accept it."""
    built = net.built
    target = replace(built.target, resources=resources)
    options = replace(built.options, schedule=scheduler)
    plan = (built.graph, built.profile)
    tiles = core_plan(*plan, net.costs, target, options, built.book)
    schedule = schedule_cores(*plan, net.costs, tiles, target, options)
    audit_cores(*plan, tiles, schedule)
    audit(*plan, tiles, schedule, target, options)
    return replace(built, target=target, options=options, tiles=tiles, schedule=schedule)


def measured(net: Net, built: Built) -> tuple[int, bytes]:
    """Run a plan; return its critical path in instructions, and the outputs."""
    with tempfile.TemporaryDirectory(prefix="dlbuild-cores-") as work:
        folder = Path(work)
        built = replace(built, folder=folder / "model")
        built.folder.mkdir()
        fixed = (built.book, built.target, built.options, built.name)
        plan = (built.profile, built.tiles, built.schedule)
        for file, text in render(built.graph, *plan, *fixed).items():
            (built.folder / file).write_text(text, encoding="ascii")
        made = tables(built.graph, net.numbers, built.profile, *fixed, built.tiles)
        for file, content in made.items():
            (built.folder / file).write_bytes(content)
        sources = [
            built.folder / f"{built.name}_weights.c",
            *built.ports(is_honest=False),
        ]
        maker = BoardMaker(built.target, built.options)
        program = maker.program(model_program(built), "run", sources, folder)
        plugin = ["-plugin", f"file={counter(net.state)}"]
        said = program.converse(run_input(built, [net.sample], RUNS), plugin)
    costs = set([count.value for count in said.counts if count.core == 0][1:])
    if len(costs) != 1:
        raise SystemExit(f"{net.name}: two runs differ: {sorted(costs)}")
    return costs.pop(), bytes(said.content)


if __name__ == "__main__":
    sys.exit(main())
