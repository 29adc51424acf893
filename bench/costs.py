"""Hold the built-in targets' predictions against instructions counted in QEMU.

    python bench/costs.py DIR [--only GLOB] [--core GLOB] [--jobs N]

DIR holds one folder for each of the int8 networks of MLPerf Tiny: model.onnx, meta.json,
inputs.npz. The float network of `examples/digits` is counted too, and MCUNet of `strip_models.py`,
whose depthwise kernels have up to 49 taps, on cores with DSP instructions. Cores that have
hand-written kernels are counted without them as well. Prints for each target

- of each network what is predicted, what a run takes, and the ratio, which may be at most 1.25 or
  its inverse;
- of each hand-written kernel and each element type of loops what its target file says, and the
  numbers that fit what was counted best (least squares of the relative errors over all layers).

Ends with `N passed, M failed` of networks; the exit status is 1 if M > 0.
"""

import argparse
import os
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import onnx
from mlperf import entry, folders, project
from strip_models import mcunet

from dlbuild.base.paths import builtin_folder
from dlbuild.build.builder import How, build
from dlbuild.build.built import built_of
from dlbuild.build.engine import Engine
from dlbuild.build.pipeline import PIPELINE
from dlbuild.build.project import Build
from dlbuild.build.recipe import read_recipe
from dlbuild.cli.bench import figures_of
from dlbuild.ir.target import Target
from dlbuild.run.toolchain import identify

CORES = (
    *("cortex-m0plus", "cortex-m3", "cortex-m4f", "cortex-m7", "cortex-m33", "cortex-m33-dual"),
    *("cortex-m55", "rv32imc", "rv32imafc"),
)
WITH_KERNELS = ("cortex-m4f", "cortex-m7", "cortex-m33", "cortex-m55")
LOOPS = "-loops"
MOST = 1.25
"""How far a prediction may be from what a whole network takes."""


@dataclass(frozen=True)
class Layer:
    """A kernel that multiplies. code: a hand-written kernel, or the element type of loops."""

    code: str
    macs: int
    written: int
    further: int
    cost: int


def main() -> int:
    """Build, run, print the tables."""
    parser = argparse.ArgumentParser(description="Hold predictions against counted instructions.")
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--only", default="*", metavar="GLOB", help="names of networks")
    parser.add_argument("--core", default="*", metavar="GLOB", help="names of targets")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N")
    given = parser.parse_args()
    digits = builtin_folder() / "examples" / "digits"
    models: dict[str, object] = {
        name: {**entry(folder), "samples": str(folder / "inputs.npz")}
        for name, folder in folders(given.folder, given.only).items()
    }
    if fnmatch("digits", given.only):
        source, samples = digits / "digits.onnx", digits / "digits_samples.npz"
        models["digits"] = {"source": str(source), "samples": str(samples)}
    if fnmatch("mcunet", given.only):
        models["mcunet"] = {"source": "mcunet.onnx", "samples": "mcunet.npz"}
    cores = [name for name in CORES if fnmatch(name, given.core)]
    targets: dict[str, object] = {}
    for name in cores:
        targets[name] = {"extends": name, "requantize": "fixed", "resources": {"cores": 1}}
        if name in WITH_KERNELS:
            targets[name + LOOPS] = {"extends": name, "requantize": "fixed", "features": ["fpu"]}
    pairs = [
        {"model": model, "target": [name for name in targets if fits(model, name)]}
        for model in models
    ]
    with project({"models": models, "targets": targets, "builds": pairs}):
        if "mcunet" in models:
            write_mcunet()
        failed, passed = measure(given.jobs)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def fits(model: str, target: str) -> bool:
    """Say whether a network is counted on a target: a run of MCUNet takes long on loops.

    Its weights do not fit the board of the Cortex-M55.
    """
    return model != "mcunet" or target in ("cortex-m4f", "cortex-m7", "cortex-m33")


def write_mcunet() -> None:
    """Write the network with the most taps, and a sample."""
    model = mcunet().model()
    onnx.save(model, "mcunet.onnx")
    given = model.graph.input[0]
    shape = [extent.dim_value for extent in given.type.tensor_type.shape.dim]
    random = np.random.default_rng(1)
    sample = {given.name: random.integers(-128, 128, shape).astype(np.int8)}
    np.savez("mcunet.npz", **sample)  # type: ignore[arg-type] # names of arrays


def measure(jobs: int) -> tuple[int, int]:
    """Print the tables of each target; return how many networks failed and how many passed."""
    recipe = read_recipe()
    engine = build(recipe, PIPELINE, How(Path("out"), jobs), identify, lambda _: None)
    failed = passed = 0
    for name, target in recipe.targets.items():
        print(f"{name:<22} {'predicted':>12} {'counted':>12} {'ratio':>6}")
        layers: list[Layer] = []
        for one in (one for one in recipe.builds if one.target == name):
            predicted, counted = totals(engine, one, layers)
            ratio = predicted / counted
            is_near = 1 / MOST <= ratio <= MOST
            failed, passed = failed + (not is_near), passed + is_near
            word = "ok" if is_near else "FAILED"
            print(f"  {one.model:<20} {predicted:>12,} {counted:>12,} {ratio:>6.2f} {word}")
        print("\n".join(rates(target, layers)), flush=True)
    return failed, passed


def totals(engine: Engine, one: Build, layers: list[Layer]) -> tuple[int, int]:
    """Return what is predicted of a build and what it takes; add its layers that multiply."""
    profile = built_of(engine, one).profile
    kernels = {kernel.name: kernel for kernel in profile.kernels}
    counted = 0
    steps = figures_of(engine, one).steps
    for step in steps:
        kernel = kernels[step.kernel]
        counted += step.cost
        if kernel.macs:
            layers.append(layer_of(one, engine, kernel.name, step.cost))
    return sum(kernel.cycles for kernel in profile.kernels if kernel.alias is None), counted


def layer_of(one: Build, engine: Engine, name: str, cost: int) -> Layer:
    """Return what a kernel does and takes."""
    built = built_of(engine, one)
    kernel = built.profile.kernel[name]
    faster = kernel.handwriting
    tensor = built.graph.tensor
    dtypes = [tensor[read].dtype for read in kernel.reads]
    is_loops = faster is None or faster.obstacle
    rate = built.target.cycles.get(dtypes[0], 0.0)
    return Layer(
        dtypes[0] if is_loops or faster is None else faster.name,
        kernel.macs,
        sum(tensor[written].count for written in kernel.writes),
        round(kernel.cycles - rate * kernel.macs) if is_loops else 0,
        cost,
    )


def rates(target: Target, layers: Sequence[Layer]) -> Iterator[str]:
    """Yield what the target says of each kind of code, and what fits best."""
    by_code: Mapping[str, list[Layer]] = defaultdict(list)
    for layer in layers:
        by_code[layer.code].append(layer)
    for code, found in sorted(by_code.items()):
        is_loops = code in target.cycles
        columns = [[y.macs / y.cost, y.written / y.cost][: 1 if is_loops else 2] for y in found]
        wanted = [1 - y.further / y.cost for y in found]
        best = np.linalg.lstsq(np.array(columns), np.array(wanted), rcond=None)[0]
        rate = target.kernels.get(code)
        said = f"{target.cycles[code]:g}" if is_loops else "nothing"
        if rate is not None:
            said = f"{rate.mac:g}, {rate.output:g}"
        fits = ", ".join(f"{number:.3g}" for number in best)
        macs = sum(y.macs for y in found)
        each = sum(y.cost for y in found) / macs
        text = f"{len(found)} layers, {macs:,} MACs, {each:.2f} /MAC"
        yield f"  {code:<16} says {said}; fits {fits} ({text})"


if __name__ == "__main__":
    sys.exit(main())
