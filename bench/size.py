"""Hold docs/size.md against what `optimize: size` takes of the int8 networks of MLPerf Tiny.

    python bench/size.py DIR [--only GLOB] [--jobs N]

DIR holds one folder for each model: model.onnx, meta.json, inputs.npz. Each network is built for an
emulated Cortex-M4F with `speed` and with `size`, and run. Prints, in the form of the page,

- its functions that differ in numbers alone, as `dlbuild size --functions --run` does;
- code, flash and instructions of both.

Outputs that differ between the two fail, and so does a table of the page that says otherwise.
Ends with `N passed, M failed`; the exit status is 1 if M > 0.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mlperf import entry, folders, project

from dlbuild.base.paths import builtin_folder
from dlbuild.build.builder import How, build
from dlbuild.build.engine import Engine
from dlbuild.build.pipeline import PIPELINE
from dlbuild.build.project import Build
from dlbuild.build.recipe import read_recipe
from dlbuild.cli.bench import figures_of
from dlbuild.cli.merged import merged_functions
from dlbuild.report.merged import merged_text
from dlbuild.run.toolchain import identify

PAGE = builtin_folder() / "docs" / "size.md"
SPEED, SIZE = "speed", "board"
SHOWN = f"vww@{SIZE}"
"""Of which the page shows the functions."""


def main() -> int:
    """Build, run, print the tables."""
    parser = argparse.ArgumentParser(description="Hold docs/size.md against counts.")
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--only", default="*", metavar="GLOB", help="names of networks")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N")
    given = parser.parse_args()
    models = {
        name: {**entry(folder), "samples": str(folder / "inputs.npz")}
        for name, folder in folders(given.folder, given.only).items()
    }
    target = {"extends": "cortex-m4f", "requantize": "fixed"}
    targets = {SPEED: target, SIZE: {**target, "optimize": "size"}}
    with project({"models": models, "targets": targets}):
        failed, passed = measure(given.jobs)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def measure(jobs: int) -> tuple[int, int]:
    """Print the tables; return how many of their parts failed and how many passed."""
    recipe = read_recipe()
    engine = build(recipe, PIPELINE, How(Path("out"), jobs), identify, lambda _: None)
    page = PAGE.read_text(encoding="utf-8")
    faults = [against(page, text) for text in functions(engine)]
    with ThreadPoolExecutor(jobs) as pool:
        for text, is_equal in pool.map(lambda model: row(engine, model), recipe.models):
            print(text, flush=True)
            faults.append(against(page, text) if is_equal else f"outputs differ: {text}")
    for fault in filter(None, faults):
        print(f"FAILED: {fault}")
    failed = len(list(filter(None, faults)))
    return failed, len(faults) - failed


def functions(engine: Engine) -> Iterator[str]:
    """Print which functions are one, network by network; yield the tables that the page shows."""
    for label, (found, costs) in merged_functions(engine, is_run=True):
        if found is None:
            continue
        lines = list(merged_text(label, found, costs))
        print("\n".join(lines), flush=True)
        if label == SHOWN:
            yield "\n".join(lines[: 2 + len(found.groups)])


def against(page: str, text: str) -> str:
    """Return the fault if the page does not have a text."""
    return "" if text in page else f"{PAGE.name} does not have\n{text}"


def row(engine: Engine, model: str) -> tuple[str, bool]:
    """Return the figures of a network, as a row of the page, and whether outputs are equal."""
    builds = {one.target: one for one in engine.keys.recipe.builds if one.model == model}
    speed, size = (taken(engine, builds[name]) for name in (SPEED, SIZE))
    pairs = zip(speed[:-1], size[:-1], strict=True)
    cells = [model, *(f"{count:,}" for pair in pairs for count in pair)]
    return f"| {' | '.join(cells)} |", speed[-1] == size[-1]


def taken(engine: Engine, one: Build) -> tuple[int, int, int, bytes]:
    """Return bytes of code and flash, instructions of a run, and the outputs."""
    sizes = json.loads(engine.content(one, "size"))
    found = figures_of(engine, one, steps=False)
    return sizes["text_bytes"], sizes["flash_bytes"], found.cost, found.content


if __name__ == "__main__":
    sys.exit(main())
