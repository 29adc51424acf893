"""Train the digits network of examples/finetune with its batch in 1, 2 and 4 parts.

    python bench/training.py [--parts N,N] [--no-emulator]

For each number of parts, computed by as many cores of one memory, and by as many clusters that have
a memory and a copy of the parameters each:

- the restructured graph, in ONNX Runtime, after 50 steps: the greatest difference of a parameter
  from those of the graph as it is, relative to the greatest parameter (at most 1e-6), and the loss;
  all copies must be equal, to the bit;
- the generated C on as many threads, by `main.c` of the example: how many of 120 held-back digits
  are recognised before and after ten epochs, and the parameters' difference from one thread's;
- on as many emulated RISC-V harts, the critical path of a step in instructions, and the speed-up.

Ends with `N passed, M failed`; the exit status is 1 if M > 0.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import yaml

from dlbuild.base.paths import builtin_folder
from dlbuild.build.builder import How, build
from dlbuild.build.engine import path_of
from dlbuild.build.pipeline import PIPELINE
from dlbuild.build.project import Recipe
from dlbuild.build.recipe import read_recipe
from dlbuild.cli.bench import figures_of
from dlbuild.ir.batch import Batch
from dlbuild.rulebook.load import load_rules
from dlbuild.run.toolchain import identify
from dlbuild.stages.annotate import to_onnx
from dlbuild.stages.batch import split_batch
from dlbuild.stages.parse import parse

EXAMPLE = Path(__file__).parents[1] / "examples" / "finetune"
INPUTS = ("image", "labels")
STEPS, SAMPLES, TRAINED, IMAGES, PIXELS = 50, 16, 240, 360, 64
NEAR = 1e-6
ROW = "{:>5} {:8} {:>9} {:>14} {:>7} {:>6} {:>9} {:>11} {:>9}"

Floats = npt.NDArray[np.float32]


def main() -> int:
    """Train in each way, print a row for each and the verdict."""
    parser = argparse.ArgumentParser(description="Train with the batch in parts.")
    parser.add_argument("--parts", default="1,2,4", metavar="N,N", help="the first is the measure")
    parser.add_argument("--no-emulator", action="store_true", help="leave out the harts")
    given = parser.parse_args()
    ways = [
        Way(int(word), kind) for word in given.parts.split(",") for kind in ("cores", "clusters")
    ]
    print(
        ROW.format(
            "parts", "on", "ONNX off", "loss", "before", "after", "C off", "path", "speed-up"
        )
    )
    whole = trained(onnx.load(EXAMPLE / "finetune.onnx"), state_of())[0]
    first: tuple[Floats, int] | None = None
    passed = failed = 0
    for way in ways:
        if way.kind == "clusters" and way.count == 1:
            continue
        with tempfile.TemporaryDirectory(prefix="dlbuild-training-") as work:
            os.chdir(work)
            values, losses, is_equal = restructured(way)
            before, after, parameters = on_threads(way)
            path = 0 if given.no_emulator else on_harts(way)
            os.chdir("/")
        off = max(difference(values[name], whole[name]) for name in whole)
        first = first or (parameters, path)
        c_off = difference(parameters, first[0])
        speed_up = f"{first[1] / path:.2f}" if path else "-"
        loss = f"{losses[0]:.2f} -> {losses[-1]:.2f}"
        cells = (f"{off:.1e}", loss, before, after, f"{c_off:.1e}", f"{path:,}")
        print(ROW.format(way.count, way.kind, *cells, speed_up), flush=True)
        if not is_equal:
            print("    the copies of the parameters differ")
        is_right = max(off, c_off) <= NEAR and losses[-1] < losses[0] / 10 and after > before
        passed, failed = passed + (is_right and is_equal), failed + (not (is_right and is_equal))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


@dataclass(frozen=True)
class Way:
    """In how many parts the batch is, and what computes them: `cores` or `clusters`."""

    count: int
    kind: str

    def target(self, base: str, resource: str) -> dict[str, object]:
        """Return a target that extends another one, by a core of this kind for each part."""
        if self.count == 1:
            return {"extends": base}
        if self.kind == "cores":
            return {"extends": base, "resources": {resource: self.count}}
        names = [f"c{number}" for number in range(self.count)]
        room = {"l1": "256 KiB"} if resource == "threads" else {}
        clusters = [{"name": n, "resources": {resource: 1}, "memories": room} for n in names]
        return {"extends": base, "clusters": clusters}


def difference(one: Floats, other: Floats) -> float:
    """Return the greatest difference relative to the greatest number."""
    return float(np.abs(one - other).max() / np.abs(other).max())


def state_of() -> dict[str, str]:
    """Return each output of the example with the input that it is carried to."""
    entry = yaml.safe_load((EXAMPLE / "dlbuild.yaml").read_text())["models"]["finetune"]
    return dict(entry["state"])


def recipe(way: Way, target: Mapping[str, object]) -> Recipe:
    """Write a recipe of the example for one target and return it."""
    found = yaml.safe_load((EXAMPLE / "dlbuild.yaml").read_text())["models"]["finetune"]
    found["source"] = str(EXAMPLE / "finetune.onnx")
    if way.count > 1:
        found["batch"] = {"inputs": list(INPUTS), "parts": way.count}
    text = {"version": 1, "models": {"finetune": found}, "targets": {"here": dict(target)}}
    Path("dlbuild.yaml").write_text(yaml.safe_dump(text, sort_keys=False), encoding="utf-8")
    return read_recipe()


def restructured(way: Way) -> tuple[Mapping[str, Floats], list[float], bool]:
    """Return the parameters after all steps of the restructured graph in ONNX Runtime, the losses,
    and whether all copies of each parameter are equal.
    """
    if way.kind == "cores":
        return *trained(divided(way.count), state_of()), True
    engine = build(
        recipe(way, way.target("host", "threads")),
        PIPELINE.of_sources,
        How(),
        identify,
        lambda _: None,
    )
    model = onnx.load(path_of(engine.out, engine.keys.recipe.builds[0], "clustered"))
    onnx.checker.check_model(model, full_check=True)
    notes = [(prop.key.partition(" "), prop.value) for prop in model.metadata_props]
    carried = {name: value for (kind, _, name), value in notes if kind == "state"}
    values, losses = trained(model, carried)
    copies = [(name, value) for (kind, _, name), value in notes if kind == "copy"]
    is_equal = all(values[copy].tobytes() == values[name].tobytes() for copy, name in copies)
    return values, losses, is_equal and len(copies) == (way.count - 1) * len(state_of())


def divided(count: int) -> onnx.ModelProto:
    """Return the restructured graph with its numbers."""
    book = load_rules([builtin_folder()])
    parsed = parse(EXAMPLE / "finetune.onnx", {}, book, "finetune", state_of())
    made = split_batch(parsed, book, Batch(INPUTS, count)) if count > 1 else parsed
    model = to_onnx(made.graph, made.weights)
    onnx.checker.check_model(model, full_check=True)
    return model


def trained(
    model: onnx.ModelProto, carried: Mapping[str, str]
) -> tuple[Mapping[str, Floats], list[float]]:
    """Return the parameters after all steps in ONNX Runtime, and the losses.

    carried: each output with the input that it becomes; a copy's begins with the copy's default.
    """
    content = np.frombuffer((EXAMPLE / "digits.bin").read_bytes(), np.uint8)
    images = (content[: IMAGES * PIXELS].reshape(-1, 1, 8, 8) / 16).astype(np.float32)
    labels = content[IMAGES * PIXELS :].astype(np.int64)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    given = onnx.load(EXAMPLE / "finetune.onnx").graph
    defaults = (*given.initializer, *model.graph.initializer)
    at_first = {t.name: onnx.numpy_helper.to_array(t) for t in defaults}
    values = {name: at_first[name] for name in carried.values()}
    losses = []
    for step in range(STEPS):
        batch = np.arange(SAMPLES * step, SAMPLES * (step + 1)) % TRAINED
        data = {"image": images[batch], "labels": labels[batch], "rate": np.array(0.1, np.float32)}
        results = dict(zip(names, session.run(None, {**data, **values}), strict=True))
        values = {name: results[output] for output, name in carried.items()}
        losses.append(float(results["loss"]))
    return values, losses


def on_threads(way: Way) -> tuple[int, int, Floats]:
    """Return what is recognised before and after training in C, and the parameters."""
    found = recipe(way, way.target("host", "threads"))
    build(found, PIPELINE.of_sources, How(), identify, lambda _: None)
    made = Path("build/dlbuild/here/finetune")
    threads = [f"-DCORES={way.count}", "-pthread"] if way.count > 1 else []
    sources = [str(EXAMPLE / "main.c"), *map(str, sorted(made.glob("*.c")))]
    flags = ["-std=gnu99", "-O2", f"-I{made}", *threads]
    subprocess.run(["cc", *flags, *sources, "-o", "main", "-lm"], check=True)
    command = ["./main", str(EXAMPLE / "digits.bin"), "parameters.bin"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    before, after = map(int, re.findall(r"(?:before|after): (\d+) of", said))
    return before, after, np.fromfile("parameters.bin", np.float32)


def on_harts(way: Way) -> int:
    """Return the critical path of a step in instructions."""
    found = recipe(way, {**way.target("rv32imafc", "cores"), "schedule": "list"})
    engine = build(found, PIPELINE, How(), identify, lambda _: None)
    return figures_of(engine, engine.keys.recipe.builds[0]).cost


if __name__ == "__main__":
    sys.exit(main())
