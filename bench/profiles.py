"""Measure the kernels of the int8 networks of MLPerf Tiny by `dlbuild profile --run`.

    python bench/profiles.py DIR [--only GLOB] [--targets WORD,WORD]

DIR holds one folder for each model: model.onnx, meta.json. Each network is measured on an emulated
Cortex-M4F, in instructions, and on this machine, in nanoseconds:

- the sum of all kernels is that of a whole run without marks within 2 % on the core, within 25 % on
  this machine if the run takes more than 1 ms; what a mark costs is taken off, and printed;
- a second run measures nothing and leaves the file as it is;
- with one layer changed (its average made a maximum, else a Relu a Sigmoid) only kernels that did
  not occur before are measured, one or two of them, and all others keep their numbers;
- the annotated model passes the checker of ONNX if the network does, the times of its nodes are
  together that of the model, and it is the same after being read and written.

Ends with `N passed, M failed`; the exit status is 1 if M > 0.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import onnx
import yaml
from harts import verdict
from mlperf import entry, folders

from dlbuild.ir import codec
from dlbuild.ir.costs import Measurements

TARGETS = {"m4": "cortex-m4f", "pc": "host"}
NEAR = {"m4": 2.0, "pc": 25.0}
"""How far the sum may be from the whole run, in percent."""

LEAST_NS = 1_000_000
"""A shorter run of this machine is not held to it."""

SUM = re.compile(
    r"their sum is ([\d,]+) (\w+), .* marks ([\d,]+) \(([+-][\d.]+) %\); ([\d,]+) taken off"
)
COUNT = re.compile(r"(\d+) kernels measured, (\d+) known")
ROW = "{:4} {:>3} {:>14} {:>14} {:>8} {:>6} {:>9}"


def main() -> int:
    """Measure, print the table."""
    parser = argparse.ArgumentParser(description="Measure the kernels of the int8 networks.")
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--only", default="*", metavar="GLOB", help="names of networks")
    parser.add_argument("--targets", default=",".join(TARGETS), metavar="WORD,WORD")
    given = parser.parse_args()
    print(ROW.format("net", "on", "sum", "whole run", "off", "mark", "again"), flush=True)
    chosen = folders(given.folder, given.only)
    wanted = [name for name in TARGETS if name in given.targets.split(",")]
    return verdict(faults(name, at, on) for name, at in chosen.items() for on in wanted)


def faults(name: str, source: Path, on: str) -> list[str]:
    """Print the row of a network on a target and return what is wrong."""
    with tempfile.TemporaryDirectory(prefix="dlbuild-profiles-") as work:
        folder = Path(work)
        model = onnx.load(source / "model.onnx")
        onnx.save(model, folder / "net.onnx")
        recipe = {
            "version": 1,
            "models": {"net": {**entry(source), "source": "net.onnx"}},
            "targets": {
                on: {"extends": TARGETS[on], "requantize": "fixed", "profile": "times.json"}
            },
        }
        (folder / "dlbuild.yaml").write_text(yaml.safe_dump(recipe), encoding="utf-8")
        found = SUM.search(profiled(folder))
        assert found, "the first run tells of all kernels"
        total, unit, whole, off, mark = found.groups()
        first = (folder / "times.json").read_bytes()
        wrong = list(annotated_faults(model, folder / f"build/dlbuild/{on}/net/net.profile.onnx"))
        if "nothing to measure" not in profiled(folder) or read(folder) != codec.decode(
            first, Measurements
        ):
            wrong.append("a second run measured")
        change(model)
        onnx.save(model, folder / "net.onnx")
        counts = COUNT.search(profiled(folder))
        again = int(counts[1]) if counts else 0
        wrong += remeasured_faults(codec.decode(first, Measurements), read(folder), again)
        print(ROW.format(name, on, total, whole, f"{off} %", mark, again), flush=True)
        is_held = unit != "ns" or int(whole.replace(",", "")) > LEAST_NS
        if is_held and abs(float(off)) > NEAR[on]:
            wrong.append(f"the sum is {off} % off")
    return wrong


def profiled(folder: Path) -> str:
    """Run `dlbuild profile --run` and return what it says."""
    done = subprocess.run(
        [sys.executable, "-m", "dlbuild", "profile", "--run"],
        cwd=folder,
        env={**os.environ, "DLBUILD_CACHE_DIR": str(folder / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def read(folder: Path) -> Measurements:
    """Return what was measured."""
    return codec.decode((folder / "times.json").read_bytes(), Measurements)


def change(model: onnx.ModelProto) -> None:
    """Make another kernel of one layer."""
    nodes = model.graph.node
    pool = next((node for node in nodes if node.op_type == "AveragePool"), None)
    if pool is None:
        next(node for node in nodes if node.op_type == "Relu").op_type = "Sigmoid"
        return
    pool.op_type = "MaxPool"
    for attribute in list(pool.attribute):
        if attribute.name == "count_include_pad":
            pool.attribute.remove(attribute)


def remeasured_faults(before: Measurements, now: Measurements, again: int) -> Iterator[str]:
    """Yield what is wrong with a file behind a change of one layer. again: kernels measured."""
    then = {entry.signature: entry.cost for entry in before.entries}
    new = [entry for entry in now.entries if entry.signature not in then]
    if again != len(new) or again not in (1, 2):
        yield f"{again} kernels were measured, {len(new)} are new"
    if any(then.get(entry.signature, entry.cost) != entry.cost for entry in now.entries):
        yield "what was known was measured again"


def annotated_faults(source: onnx.ModelProto, file: Path) -> Iterator[str]:
    """Yield what is wrong with the annotated model."""
    model = onnx.load(file, load_external_data=False)
    if passes(source) and not passes(file.as_posix()):
        yield "the annotated model does not pass the checker"
    if onnx.load_from_string(model.SerializeToString()) != model:
        yield "the annotated model is another one once it was read and written"
    notes = [{p.key: p.value for p in node.metadata_props} for node in model.graph.node]
    whole = {p.key: p.value for p in model.metadata_props}
    if sum(int(note.get("time", "0")) for note in notes) != int(whole["time"]):
        yield "the times of the nodes are not together that of the model"
    if sum(int(note.get("macs", "0")) for note in notes) != int(whole["macs"]):
        yield "the MACs of the nodes are not together those of the model"


def passes(model: onnx.ModelProto | str) -> bool:
    """Say whether the checker of ONNX accepts a model, or the file of one."""
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
