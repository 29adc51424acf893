"""Faults that users reported of tools of this kind: none of them may be in this one.

    python bench/bugs.py DIR [--only GLOB] [--jobs N]

DIR holds BUGS.json and a folder for each fault. There are three kinds:

- a model with inputs and outputs is built and verified, as a whole and kernel by kernel, by the
  ordinary pipeline: two compilers without a warning, the arena at its lower bound, silent
  sanitizers, three equal runs;
- a model that is at fault is refused by `dlbuild build` with a message that names a node, its
  operator and what to do, without a traceback and without a C file;
- a command is ruled out by tests that carry the fault's name (`pytest --reported NAME`): there is
  one at least, and all pass.

Ends with `N passed, M failed`; the exit status is 1 if M > 0.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import onnx
from models import (
    SANITIZED,
    Row,
    build_file,
    note,
    note_objects,
    note_plan,
)

from dlbuild.base.errors import UserError
from dlbuild.ir.graph import Graph
from dlbuild.ir.target import Options
from dlbuild.ir.weights import Array
from dlbuild.run.samples import Sample
from dlbuild.run.verify import Checks, verify

ROOT = Path(__file__).parents[1]
MODEL, REFUSED, COMMAND = "model", "negative-model", "command"
RECIPE = """\
version: 1
models: {net: {source: %s}}
targets: {pc: {extends: host}}
builds: [{model: net, target: pc}]
"""
FIXES = re.compile(r"^  fix: .{10}", re.MULTILINE)


@dataclass(frozen=True)
class Fault:
    """One entry of BUGS.json. file: its model, if it has one."""

    name: str
    kind: str
    title: str
    folder: Path
    file: Path


def faults_of(folder: Path, pattern: str) -> list[Fault]:
    """Return the entries whose names match."""
    return [
        Fault(
            entry["id"],
            entry["kind"],
            entry["title"],
            folder / entry["id"],
            folder / entry["id"] / entry.get("model_path", ""),
        )
        for entry in json.loads((folder / "BUGS.json").read_text())
        if fnmatch(entry["id"], pattern)
    ]


def check(fault: Fault) -> tuple[float, list[str]]:
    """Return how long a model's check took, and what is wrong."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="dlbuild-bugs-") as work:
        if fault.kind == REFUSED:
            found = [*refusal_faults(fault, Path(work))]
        else:
            found = model_faults(fault, Path(work))
    return time.monotonic() - began, found


def model_faults(fault: Fault, work: Path) -> list[str]:
    """Build and verify a model."""
    row = Row(fault.name)
    try:
        with np.load(fault.folder / "inputs.npz") as given:
            inputs = {key: given[key] for key in given.files}
        shapes = open_shapes(fault.file, inputs)
        built, weights = build_file(fault.file, shapes, Options(), work / "c", row)
        note_plan(built.schedule, row)
        note_objects(built, row)
        with np.load(fault.folder / "outputs.npz") as due:
            outputs = {f"out{n}": due[f"out{n}"] for n in range(len(built.graph.outputs))}
        sample = sample_of(built.graph, {**inputs, **outputs})
        checks = Checks(layers=True, flags=SANITIZED)
        note(row, "", verify(built, weights, fault.file, [sample], checks))
    except UserError as error:
        row.faults.append(str(error))
    return row.faults


def open_shapes(file: Path, inputs: Mapping[str, Array]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the inputs whose extents the file leaves open."""
    graph = onnx.load(str(file), load_external_data=False).graph
    weights = {tensor.name for tensor in graph.initializer}
    entries = [entry for entry in graph.input if entry.name not in weights]
    return {
        entry.name: inputs[f"in{number}"].shape
        for number, entry in enumerate(entries)
        if any(not dim.HasField("dim_value") for dim in entry.type.tensor_type.shape.dim)
    }


def sample_of(graph: Graph, arrays: Mapping[str, Array]) -> Sample:
    """Return the arrays by the names of their tensors."""
    return Sample(
        {name: arrays[f"in{number}"] for number, name in enumerate(graph.inputs)},
        {name: arrays[f"out{number}"] for number, name in enumerate(graph.outputs)},
    )


def refusal_faults(fault: Fault, work: Path) -> Iterator[str]:
    """Yield what is wrong with how a model that is at fault is refused."""
    recipe = RECIPE % json.dumps(str(fault.file.resolve()))
    (work / "dlbuild.yaml").write_text(recipe, encoding="utf-8")
    command = [sys.executable, "-m", "dlbuild", "build"]
    done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    if done.returncode != 1:
        yield f"the exit status is {done.returncode}: {said}"
    if "Traceback" in said:
        yield f"a traceback: {said}"
    if not FIXES.search(said):
        yield f"it says of no way out: {said}"
    nodes = onnx.load(str(fault.file), load_external_data=False).graph.node
    if not any(node.op_type in said and (node.name or node.output[0]) in said for node in nodes):
        yield f"no node and operator is named: {said}"
    if [*work.rglob("*.c"), *work.rglob("*.h")]:
        yield "it wrote C all the same"


def command_faults(faults: Sequence[Fault]) -> dict[str, list[str]]:
    """Run the tests that carry the names of faults; return for each what is wrong."""
    if not faults:
        return {}
    with tempfile.TemporaryDirectory(prefix="dlbuild-bugs-") as work:
        report = Path(work) / "report.xml"
        options = [word for fault in faults for word in ("--reported", fault.name)]
        command = [sys.executable, "-m", "pytest", "-q", "tests", f"--junitxml={report}", *options]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if not report.is_file():
            return {fault.name: [done.stdout + done.stderr] for fault in faults}
        cases = list(ET.parse(report).iter("testcase"))  # noqa: S314 - pytest wrote it
    found = {}
    for fault in faults:
        own = [case for case in cases if fault.name in carried(case)]
        failed = [case for case in own if case.find("failure") is not None]
        failed += [case for case in own if case.find("error") is not None]
        ran = [case for case in own if case.find("skipped") is None]
        found[fault.name] = [f"{case.get('name')} fails" for case in failed]
        if not ran:
            found[fault.name].append("no test carries its name and ran")
    return found


def carried(case: ET.Element) -> list[str]:
    """Return the faults whose names a test carries."""
    entries = case.iter("property")
    return [entry.get("value", "") for entry in entries if entry.get("name") == "reported"]


def main() -> int:
    """Check all faults and print a line for each."""
    parser = argparse.ArgumentParser(description="Check that no reported fault is in dlbuild.")
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--only", default="*", metavar="GLOB", help="names of faults")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N")
    given = parser.parse_args()
    faults = faults_of(given.folder, given.only)
    if not faults:
        print(f"{given.folder}: no fault matches '{given.only}'", file=sys.stderr)
        return 1
    n_failed = 0
    models = [fault for fault in faults if fault.kind != COMMAND]
    with ProcessPoolExecutor(given.jobs) as pool:
        for fault, (seconds, found) in zip(models, pool.map(check, models), strict=True):
            word = "refused" if fault.kind == REFUSED else "right"
            print(f"{fault.name:<40} {seconds:6.1f} s  {'FAILED' if found else word}", flush=True)
            n_failed += bool(found)
            print("".join(f"  {line}\n" for line in found), end="")
    commands = [fault for fault in faults if fault.kind == COMMAND]
    for name, found in command_faults(commands).items():
        print(f"{name:<40} {'':>8}  {'FAILED' if found else 'its tests pass'}")
        n_failed += bool(found)
        print("".join(f"  {line}\n" for line in found), end="")
    print(f"{len(faults) - n_failed} passed, {n_failed} failed")
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
