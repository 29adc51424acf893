"""Retrain every model of a folder, and check that only its numbers are built again.

    python bench/incremental.py DIR [--only GLOB]

DIR holds one folder with a model.onnx for each model. Each is built, built again with other
weights, and again with other scales and zero points that keep the structural facts. Each time

- the structure (plans, header, code, header of the tables) keeps its bytes,
- of the C files exactly `model_weights.c` changes,
- exactly one object is compiled, and `explain` says why;

and a build with nothing to do says so and touches no file. Ends with `N passed, M failed`; the exit
status is 1 if M > 0.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import onnx
from retrain import retrained

RECIPE = """\
version: 1
models:
  model: {source: model.onnx%s}
targets:
  pc: {extends: host}
builds:
  - {model: model, target: pc}
"""
STRUCTURE = (
    "plan/1-graph.json",
    "plan/2-profile.json",
    "plan/3-tiles.json",
    "plan/4-schedule.json",
    "model.h",
    "model.c",
    "model_weights.h",
    "model.o",
)
NUMBERS = ("model_weights.c", "model_weights.o")


def dlbuild(folder: Path, *words: str) -> str:
    """Run dlbuild in a folder and return what it printed."""
    command = [sys.executable, "-m", "dlbuild", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"dlbuild {' '.join(words)}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def contents(folder: Path) -> dict[str, bytes]:
    """Return what a build wrote, by name."""
    made = folder / "build" / "dlbuild" / "pc" / "model"
    return {
        path.relative_to(made).as_posix(): path.read_bytes()
        for path in sorted(made.rglob("*"))
        if path.is_file()
    }


def times(folder: Path) -> dict[Path, int]:
    """Return when each file of a build was written."""
    paths = sorted((folder / "build").rglob("*"))
    return {path: path.stat().st_mtime_ns for path in paths if path.is_file()}


def check(source: Path, folder: Path) -> Iterator[str]:
    """Yield what is wrong with one model."""
    model = onnx.load(str(source))
    (folder / "dlbuild.yaml").write_text(RECIPE % shapes(model))
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    dlbuild(folder, "build")
    before = times(folder)
    if dlbuild(folder, "build").strip() != "nothing to do":
        yield "a build with nothing to do does something"
    if times(folder) != before:
        yield "a build with nothing to do touches a file"
    for what, scales in (("weights", False), ("scales", True)):
        then = contents(folder)
        made = retrained(model, 2 if scales else 1, scales=scales)
        (folder / "model.onnx").write_bytes(made.SerializeToString())
        said = dlbuild(folder, "build")
        now = contents(folder)
        yield from (f"{what}: {fault}" for fault in faults(then, now, said))
        why = dlbuild(folder, "explain")
        if "weight" not in why:
            yield f"{what}: explain does not name the weights"


def faults(then: dict[str, bytes], now: dict[str, bytes], said: str) -> Iterator[str]:
    """Yield how a build went further than numbers reach."""
    for name in STRUCTURE:
        if name not in now:
            yield f"{name} is missing"
        elif now[name] != then[name]:
            yield f"{name} changed"
    changed = {n for n in now if n.endswith((".c", ".h")) and now[n] != then.get(n)}
    if changed != {NUMBERS[0]}:
        yield f"C files that changed: {sorted(changed)}"
    if now[NUMBERS[1]] == then[NUMBERS[1]]:
        yield f"{NUMBERS[1]} did not change"
    compiled = [line for line in said.splitlines() if ": compile" in line]
    if len(compiled) != 1:
        yield f"objects compiled: {compiled}"


def shapes(model: onnx.ModelProto) -> str:
    """Return the recipe's entry that binds dynamic dimensions to 1."""
    weights = {tensor.name for tensor in model.graph.initializer}
    bound = []
    for entry in model.graph.input:
        dims = entry.type.tensor_type.shape.dim
        if entry.name not in weights and any(not d.HasField("dim_value") for d in dims):
            bound.append(f'"{entry.name}": [{", ".join(str(d.dim_value or 1) for d in dims)}]')
    return f", shapes: {{{', '.join(bound)}}}" if bound else ""


def main() -> int:
    """Check the models and print a line for each."""
    parser = argparse.ArgumentParser(description="Check what new weights build again.")
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--only", default="*", metavar="GLOB", help="names of models")
    given = parser.parse_args()
    folders = sorted(
        path.parent
        for path in given.folder.glob("*/model.onnx")
        if fnmatch(path.parent.name, given.only)
    )
    if not folders:
        print(f"{given.folder}: no model matches '{given.only}'", file=sys.stderr)
        return 1
    n_failed = 0
    for model in folders:
        work = Path(tempfile.mkdtemp(prefix="dlbuild-incremental-"))
        try:
            found = list(check(model / "model.onnx", work))
        except RuntimeError as fault:
            found = [str(fault)]
        finally:
            shutil.rmtree(work)
        n_failed += bool(found)
        print(f"{model.name}: {'; '.join(found) or 'ok'}", flush=True)
    print(f"{len(folders) - n_failed} passed, {n_failed} failed")
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
