"""Run the int8 networks of MLPerf Tiny on several emulated RISC-V harts.

    python bench/cores.py DIR [--only GLOB] [--cores N,N] [--all]

DIR holds one folder for each model: model.onnx, meta.json, inputs.npz. Each network is measured on
one hart, kernel by kernel, then dealt to 2, 4 and 8 by each scheduler, as cores, as threads (on the
harts too; on POSIX threads they run in races.py) and as processing elements that run in step. For
each: the makespan that is predicted from the kernels' times, how much faster than one hart that is,
and the arena. What `auto` makes for cores is run as well, with --all everything is:

- the outputs are equal to those of one hart, to the bit;
- two runs behind the first have the same critical path, in instructions;
- that is the prediction within 10 %;
- what `auto` makes is as many times as fast as is due (`DUE`).

Ends with `N passed, M failed`; the exit status is 1 if M > 0.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

import yaml
from harts import TARGET, Net, dealt, measure_kernels, net_of, said, verdict
from mlperf import entry, folders

from dlbuild.build.builder import How, build
from dlbuild.build.pipeline import PIPELINE
from dlbuild.build.recipe import read_recipe
from dlbuild.run.runner import Built
from dlbuild.run.toolchain import identify
from dlbuild.stages.timeline import makespan

Scheduler = Literal["auto", "split", "list", "round_robin"]
SCHEDULERS: tuple[Scheduler, ...] = ("auto", "split", "list", "round_robin")
KINDS = ("cores", "threads", "pes")
CNNS = ("ic", "kws", "vww")
DUE = {"cnn": {2: 1.9, 4: 3.6, 8: 6.5}, "other": {2: 1.8}}
"""How many times as fast as on one hart."""
NEAR = 0.1
"""So far may a prediction be off."""

RUNS = 3
"""The first one is left out: in it the other cores enter their loop, which may take an instruction
less than coming round again.
"""


def main() -> int:
    """Measure, print the table."""
    parser = argparse.ArgumentParser(description="Run the int8 networks on several harts.")
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--only", default="*", metavar="GLOB", help="names of networks")
    parser.add_argument("--cores", default="2,4,8", metavar="N,N")
    parser.add_argument("--all", action="store_true", help="run what each scheduler makes")
    given = parser.parse_args()
    counts = [int(word) for word in given.cores.split(",")]
    with tempfile.TemporaryDirectory(prefix="dlbuild-cores-") as work:
        chosen = folders(given.folder, given.only)
        os.chdir(work)
        Path("dlbuild.yaml").write_text(recipe_text(chosen), encoding="utf-8")
        print(ROW.format(*HEADER))
        found = (row for net in nets() for row in rows(net, counts, is_all=given.all))
        status = verdict(found)
        os.chdir("/")
    return status


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
ROW = "{:4} {:>9} {:12} {:>12} {:>8} {:>12} {:>8} {:>7} {:>8}"


def recipe_text(models: Mapping[str, Path]) -> str:
    """Return a recipe of one hart; the models' inputs are their samples."""
    entries = {
        name: {**entry(folder), "samples": str(folder / "inputs.npz")}
        for name, folder in models.items()
    }
    return yaml.safe_dump({"version": 1, "models": entries, "targets": {"hart": TARGET}})


def nets() -> Iterator[Net]:
    """Measure the kernels of each network and yield it."""
    measure_kernels()
    recipe = read_recipe()
    engine = build(recipe, PIPELINE, How(), identify, lambda _: None)
    for one in recipe.builds:
        yield net_of(engine, one)


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
                built = for_several(net, (kind, count), scheduler)
                due = makespan(built.schedule, built.tiles, net.costs)
                cells = [f"{due:,}", f"{net.costs.total / due:.2f}", "", "", ""]
                faults: list[str] = []
                if is_all or (scheduler == "auto" and kind == "cores"):
                    found, outputs = measured(net, built)
                    off = due / found - 1
                    cells[2:] = [f"{found:,}", f"{alone / found:.2f}", f"{100 * off:+.1f} %"]
                    faults += ["other outputs than one hart's"] if outputs != content else []
                    faults += ["the prediction is further off"] if abs(off) > NEAR else []
                    due_times = DUE["cnn" if net.name in CNNS else "other"].get(count, 0)
                    if scheduler == "auto" and alone / found < due_times:
                        faults.append(f"{alone / found:.3f} times as fast, {due_times} is due")
                arena = built.schedule.memories[0].height_bytes
                label = f"{count} {kind}"
                print(ROW.format(net.name, label, scheduler, *cells, f"{arena:,}"), flush=True)
                if cells[2]:
                    yield faults


def for_several(net: Net, resources: tuple[str, int], scheduler: Scheduler) -> Built:
    """Plan a network for several harts."""
    target = replace(net.built.target, resources=resources)
    options = replace(net.built.options, schedule=scheduler)
    return dealt(replace(net.built, target=target, options=options), net.costs)


def measured(net: Net, built: Built) -> tuple[int, bytes]:
    """Run a plan; return its critical path in instructions, and the outputs."""
    found = said(net, built, [net.sample], RUNS)
    costs = set([count.value for count in found.counts if count.core == 0][1:])
    if len(costs) != 1:
        raise SystemExit(f"{net.name}: two runs differ: {sorted(costs)}")
    return costs.pop(), bytes(found.content)


if __name__ == "__main__":
    sys.exit(main())
