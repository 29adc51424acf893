"""Run the int8 networks of MLPerf Tiny on six emulated cores.

    python bench/target.py DIR [--only GLOB] [--core NAME] [--jobs N]

DIR holds one folder for each model: model.onnx, meta.json, inputs.npz. For each network, each core
and each rounding that the core has (`fixed` on all, `exact` where there is an FPU):

- the outputs are equal to those on this machine, to the bit;
- the same network without its constant channels (`vwwc`) gives the same outputs, to the bit;
- two runs cost the same number of instructions;
- in strips of single rows (`optimize: ram`, rounding `fixed`) a network takes at most 1.10 times
  the instructions that it takes layer by layer;
- where the vendor's library was counted on such a core, `fixed` takes no greater part of its count
  than it may, and no count is above the pinned one (`target_counts.yaml`);
- the stack that was overwritten is no more than `dlbuild size` says;
- what was written lies in the arena, the outputs and the stack, and nowhere else.

Ends with `N passed, M failed`; the exit status is 1 if M > 0.
"""

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import yaml
from mlperf import entry, folders, project

from dlbuild.base.errors import UserError
from dlbuild.build.builder import How, build
from dlbuild.build.engine import Engine
from dlbuild.build.pipeline import PIPELINE
from dlbuild.build.project import Build
from dlbuild.build.recipe import read_recipe
from dlbuild.cli.bench import figures_of
from dlbuild.run.bench import Figures
from dlbuild.run.toolchain import identify

FOLDED = {"vwwc": "vww"}
"""Networks that are also built with `fold_constant_channels`, and give the same outputs."""
CORES = {
    "m3": "cortex-m3",
    "m4f": "cortex-m4f",
    "m7": "cortex-m7",
    "m33": "cortex-m33",
    "m55": "cortex-m55",
    "rv32": "rv32imafc",
}
NO_FPU = ("m3",)
HOST = "host"
STRIPS = "strips"
"""A build with `fixed` rounding and `optimize: ram`, in place of a rounding."""

IN_STRIPS = ("m4f", "m55", "rv32")
MOST_IN_STRIPS = 1.10
"""Instructions in strips over those layer by layer."""

COUNTS = yaml.safe_load((Path(__file__).parent / "target_counts.yaml").read_text(encoding="utf-8"))
COLUMNS = ("instructions", "per MAC", "of vendor's", "stack", "said", "written", "arena", "flash")


@dataclass(frozen=True)
class Row:
    """One network on one core. text: its figures. faults: what must not be. cost: instructions."""

    label: str
    text: str
    faults: tuple[str, ...]
    cost: int = 0


def main() -> int:
    """Build, run, print the table."""
    parser = argparse.ArgumentParser(description="Run the int8 networks on emulated cores.")
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--only", default="*", metavar="GLOB", help="names of networks")
    parser.add_argument("--core", default="*", metavar="GLOB", help="names of cores")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N")
    given = parser.parse_args()
    models = folders(given.folder, "*")
    models |= {name: models[whole] for name, whole in FOLDED.items()}
    chosen = {name: path for name, path in models.items() if fnmatch(name, given.only)}
    chosen |= {whole: models[whole] for name, whole in FOLDED.items() if name in chosen}
    cores = [name for name in CORES if fnmatch(name, given.core)]
    print(" ".join(["network, core, rounding".ljust(24), *(c.rjust(12) for c in COLUMNS)]))
    with project(recipe_of(chosen, cores)):
        try:
            failed, passed = measure(given.jobs)
        except* UserError as group:
            for fault in group.exceptions:
                print(fault)
            failed, passed = len(group.exceptions), 0
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def recipe_of(models: dict[str, Path], cores: Sequence[str]) -> dict[str, object]:
    """Return a recipe with all builds; the models' inputs are their samples."""
    entries = {}
    for name, folder in models.items():
        entries[name] = {
            **entry(folder),
            "samples": str(folder / "inputs.npz"),
            "fold_constant_channels": name in FOLDED,
        }
    targets = {}
    for name in (HOST, *cores):
        for rounding in ("fixed", *(("exact",) if name not in NO_FPU else ())):
            base = CORES.get(name, HOST)
            targets[f"{name}-{rounding}"] = {"extends": base, "requantize": rounding}
        if name in IN_STRIPS:
            base = CORES[name]
            targets[f"{name}-{STRIPS}"] = {
                "extends": base,
                "requantize": "fixed",
                "optimize": "ram",
            }
    return {"models": entries, "targets": targets}


def measure(jobs: int) -> tuple[int, int]:
    """Print a row for each build; return how many failed and how many passed."""
    recipe = read_recipe()
    engine = build(recipe, PIPELINE, How(Path("out"), jobs), identify, lambda _: None)
    here = {one.label: one for one in recipe.builds if one.target.startswith(f"{HOST}-")}
    there = [one for one in recipe.builds if one.label not in here]
    with ThreadPoolExecutor(jobs) as pool:
        made = pool.map(lambda one: content(engine, one), here.values())
        contents = dict(zip(here, made, strict=True))
        rows = []
        for row in pool.map(lambda one: check(engine, one, contents), there):
            print(row.text, flush=True)
            rows.append(row)
    rows += in_strips({row.label: row for row in rows})
    for row in rows:
        for fault in row.faults:
            print(f"{row.label}: {fault}")
    failed = sum(bool(row.faults) for row in rows)
    return failed, len(rows) - failed


def content(engine: Engine, one: Build) -> bytes:
    """Return the outputs of a build for this machine."""
    return figures_of(engine, one, steps=False, count=False).content


def check(engine: Engine, one: Build, contents: dict[str, bytes]) -> Row:
    """Measure one build and compare its outputs."""
    try:
        found = figures_of(engine, one, steps=False)
    except UserError as fault:
        return Row(one.label, f"{one.label:<24} FAILED", (str(fault),))
    faults = list(found.faults)
    rounding = one.target.rpartition("-")[2].replace(STRIPS, "fixed")
    if found.content != contents[f"{FOLDED.get(one.model, one.model)}@{HOST}-{rounding}"]:
        faults.append("the outputs differ from those on this machine")
    if not found.is_repeatable:
        faults.append("two runs cost different numbers of instructions")
    if found.stack_bytes is None or found.stack_limit is None or found.written is None:
        faults.append("stack or memory were not measured")
    faults += count_faults(one, found.cost)
    return Row(one.label, text_of(engine, one, found, faults), tuple(faults), found.cost)


def in_strips(rows: Mapping[str, Row]) -> list[Row]:
    """Print what strips take of the instructions layer by layer; return a row for each."""
    found = []
    for label, row in rows.items():
        whole = rows.get(label.replace(f"-{STRIPS}", "-fixed"))
        if not label.endswith(f"-{STRIPS}") or whole is None or not (row.cost and whole.cost):
            continue
        ratio = row.cost / whole.cost
        text = f"{label}: {ratio:.3f} of the instructions layer by layer"
        print(text, flush=True)
        faults = (f"{MOST_IN_STRIPS:.2f} is allowed",) if ratio > MOST_IN_STRIPS else ()
        found.append(Row(label, text, faults, row.cost))
    return found


def vendor_ratio(one: Build, cost: int) -> float | None:
    """Return the part of the vendor's instructions, None if those were not counted."""
    counts = COUNTS["vendor"].get(COUNTS["cores"].get(one.target.rpartition("-")[0]), {})
    whole = FOLDED.get(one.model, one.model)
    return cost / counts[whole] if whole in counts else None


def count_faults(one: Build, cost: int) -> list[str]:
    """Return what is wrong with a count: above the pinned one, or too great a part."""
    core, _, rounding = one.target.rpartition("-")
    faults = []
    pinned = COUNTS["pinned"].get(one.target, {}).get(one.model)
    if pinned is not None and cost > pinned:
        faults.append(f"{cost:,} instructions, {pinned:,} are pinned in target_counts.yaml")
    most = COUNTS["most"].get(COUNTS["cores"].get(core), {}).get(one.model)
    ratio = vendor_ratio(one, cost)
    if rounding == "fixed" and most is not None and ratio is not None and ratio > most:
        faults.append(f"{ratio:.3f} of the vendor's instructions, {most} is allowed")
    return faults


def text_of(engine: Engine, one: Build, found: Figures, faults: Sequence[str]) -> str:
    """Return the row of a table."""
    size = json.loads(engine.content(one, "size"))
    written = found.written.arena if found.written else 0
    numbers = (found.stack_bytes or 0, found.stack_limit or 0, written, found.arena_bytes)
    ratio = vendor_ratio(one, found.cost)
    cells = [f"{found.cost:,}", f"{found.cost / found.macs:.3f}"]
    cells += [f"{ratio:.3f}" if ratio is not None else "-", *(f"{n:,}" for n in numbers)]
    cells.append(f"{size['flash_bytes']:,}")
    core, _, rounding = one.target.rpartition("-")
    label = f"{one.model:<4} {core:<5} {rounding}"
    word = "FAILED" if faults else "ok"
    return " ".join([label.ljust(24), *(cell.rjust(12) for cell in cells), word])


if __name__ == "__main__":
    sys.exit(main())
