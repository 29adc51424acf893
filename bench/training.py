"""Train the digits network of examples/finetune with its batch in 1, 2 and 4 parts.

    python bench/training.py [--parts N,N] [--no-emulator]

For each number of parts:

- the restructured graph, in ONNX Runtime, after 50 steps: the greatest difference of a parameter
  from those of the graph as it is, relative to the greatest parameter (at most 1e-6), and the loss;
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
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import yaml

from dlbuild.base.paths import builtin_folder
from dlbuild.build.builder import How, build
from dlbuild.build.pipeline import PIPELINE
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
ROW = "{:>5} {:>9} {:>14} {:>7} {:>6} {:>9} {:>11} {:>9}"

Floats = npt.NDArray[np.float32]


def main() -> int:
    """Train in each way, print a row for each and the verdict."""
    parser = argparse.ArgumentParser(description="Train with the batch in parts.")
    parser.add_argument("--parts", default="1,2,4", metavar="N,N", help="the first is the measure")
    parser.add_argument("--no-emulator", action="store_true", help="leave out the harts")
    given = parser.parse_args()
    counts = [int(word) for word in given.parts.split(",")]
    print(ROW.format("parts", "ONNX off", "loss", "before", "after", "C off", "path", "speed-up"))
    whole = trained(onnx.load(EXAMPLE / "finetune.onnx"))[0]
    first: tuple[Floats, int] | None = None
    failed = 0
    for count in counts:
        values, losses = trained(divided(count))
        off = max(difference(values[name], whole[name]) for name in whole)
        with tempfile.TemporaryDirectory(prefix="dlbuild-training-") as work:
            os.chdir(work)
            before, after, parameters = on_threads(count)
            path = 0 if given.no_emulator else on_harts(count)
            os.chdir("/")
        first = first or (parameters, path)
        c_off = difference(parameters, first[0])
        speed_up = f"{first[1] / path:.2f}" if path else "-"
        loss = f"{losses[0]:.2f} -> {losses[-1]:.2f}"
        cells = (f"{off:.1e}", loss, before, after, f"{c_off:.1e}", f"{path:,}")
        print(ROW.format(count, *cells, speed_up), flush=True)
        is_right = max(off, c_off) <= NEAR and losses[-1] < losses[0] / 10 and after > before
        failed += not is_right
    print(f"{len(counts) - failed} passed, {failed} failed")
    return 1 if failed else 0


def difference(one: Floats, other: Floats) -> float:
    """Return the greatest difference relative to the greatest number."""
    return float(np.abs(one - other).max() / np.abs(other).max())


def entry(count: int) -> dict[str, object]:
    """Return the model's entry in a recipe."""
    found = yaml.safe_load((EXAMPLE / "dlbuild.yaml").read_text())["models"]["finetune"]
    found["source"] = str(EXAMPLE / "finetune.onnx")
    if count > 1:
        found["batch"] = {"inputs": list(INPUTS), "parts": count}
    return dict(found)


def divided(count: int) -> onnx.ModelProto:
    """Return the restructured graph with its numbers."""
    book = load_rules([builtin_folder()])
    state = yaml.safe_load((EXAMPLE / "dlbuild.yaml").read_text())["models"]["finetune"]["state"]
    parsed = parse(EXAMPLE / "finetune.onnx", {}, book, "finetune", state)
    made = split_batch(parsed, book, Batch(INPUTS, count)) if count > 1 else parsed
    model = to_onnx(made.graph, made.weights)
    onnx.checker.check_model(model, full_check=True)
    return model


def trained(model: onnx.ModelProto) -> tuple[Mapping[str, Floats], list[float]]:
    """Return the parameters after all steps in ONNX Runtime, and the losses."""
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
    at_first = {t.name: onnx.numpy_helper.to_array(t) for t in given.initializer}
    values = {
        n.removesuffix(".next"): at_first[n.removesuffix(".next")]
        for n in names
        if n.endswith(".next")
    }
    losses = []
    for step in range(STEPS):
        batch = np.arange(SAMPLES * step, SAMPLES * (step + 1)) % TRAINED
        data = {"image": images[batch], "labels": labels[batch], "rate": np.array(0.1, np.float32)}
        results = dict(zip(names, session.run(None, {**data, **values}), strict=True))
        values = {name: results[f"{name}.next"] for name in values}
        losses.append(float(results["loss"]))
    return values, losses


def on_threads(count: int) -> tuple[int, int, Floats]:
    """Return what is recognised before and after training in C, and the parameters."""
    target = {"extends": "host", **({"resources": {"threads": count}} if count > 1 else {})}
    recipe = {"version": 1, "models": {"finetune": entry(count)}, "targets": {"pc": target}}
    Path("dlbuild.yaml").write_text(yaml.safe_dump(recipe), encoding="utf-8")
    build(read_recipe(), PIPELINE.of_sources, How(), identify, lambda _: None)
    made = Path("build/dlbuild/pc/finetune")
    threads = [f"-DCORES={count}", "-pthread"] if count > 1 else []
    sources = [str(EXAMPLE / "main.c"), *map(str, sorted(made.glob("*.c")))]
    flags = ["-std=gnu99", "-O2", f"-I{made}", *threads]
    subprocess.run(["cc", *flags, *sources, "-o", "main", "-lm"], check=True)
    command = ["./main", str(EXAMPLE / "digits.bin"), "parameters.bin"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    before, after = map(int, re.findall(r"(?:before|after): (\d+) of", said))
    return before, after, np.fromfile("parameters.bin", np.float32)


def on_harts(count: int) -> int:
    """Return the critical path of a step in instructions."""
    target = {"extends": "rv32imafc", "resources": {"cores": count}, "schedule": "list"}
    recipe = {"version": 1, "models": {"finetune": entry(count)}, "targets": {"harts": target}}
    Path("dlbuild.yaml").write_text(yaml.safe_dump(recipe), encoding="utf-8")
    engine = build(read_recipe(), PIPELINE, How(), identify, lambda _: None)
    return figures_of(engine, engine.keys.recipe.builds[0]).cost


if __name__ == "__main__":
    sys.exit(main())
