"""Look for races in the int8 networks of MLPerf Tiny, and in a training step, on several threads.

    python bench/races.py DIR [--only GLOB] [--threads N]

DIR holds one folder for each model (see cores.py); `finetune` is examples/finetune with its batch
in as many parts as threads. Each is dealt to threads by `split` and by `list`, and spread over as
many clusters of one thread in the way that is predicted to be best; it

- runs under ThreadSanitizer, the arena filled with other bytes before each run: no report;
- gives, on one thread that changes from core to core wherever the waits allow it, the same bytes;
- loses each of its waits in turn: the audit refuses every such plan.

Ends with `N passed, M failed`; the exit status is 1 if M > 0.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path

import yaml
from mlperf import entry, folders

from dlbuild.build.builder import How, build
from dlbuild.build.built import built_of
from dlbuild.build.engine import Engine
from dlbuild.build.pipeline import PIPELINE
from dlbuild.build.project import Build
from dlbuild.build.recipe import read_recipe
from dlbuild.ir import weights
from dlbuild.ir.schedule import Schedule
from dlbuild.run.board import boards_folder
from dlbuild.run.runner import Built, Values, model_program, run_model
from dlbuild.run.runner_program import compiler_for
from dlbuild.run.samples import samples_of
from dlbuild.run.toolchain import identify
from dlbuild.run.verify import SERIAL
from dlbuild.stages.audit import AuditError
from dlbuild.stages.audit_cores import audit_cores

FINETUNE = Path(__file__).parents[1] / "examples" / "finetune"
SCHEDULERS = ("split", "list")
RUNS = 3
ROW = "{:9} {:8} {:>7} {:>6} {:>12} {:>12} {:>9}"


def main() -> int:
    """Check each network, print a row, and the verdict."""
    parser = argparse.ArgumentParser(description="Look for races.")
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--only", default="*", metavar="GLOB", help="names of networks")
    parser.add_argument("--threads", type=int, default=4)
    given = parser.parse_args()
    os.environ["TSAN_OPTIONS"] = "exitcode=66"
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="dlbuild-races-") as work:
        found = dict(models(given.folder, given.threads))
        chosen = {name: said for name, said in found.items() if fnmatch(name, given.only)}
        os.chdir(work)
        Path("dlbuild.yaml").write_text(recipe_text(chosen, given.threads), encoding="utf-8")
        engine = build(read_recipe(), PIPELINE, How(), identify, lambda _: None)
        print(ROW.format("net", "schedule", "steps", "waits", "races", "one thread", "unseen"))
        for one in engine.keys.recipe.builds:
            is_right = check(engine, one)
            passed, failed = passed + is_right, failed + (not is_right)
        os.chdir("/")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def models(folder: Path, threads: int) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the entry of each model in the recipe."""
    for name, path in folders(folder, "*").items():
        yield name, entry(path)
    own = yaml.safe_load((FINETUNE / "dlbuild.yaml").read_text())["models"]["finetune"]
    batch = {"inputs": ["image", "labels"], "parts": threads}
    yield "finetune", {**own, "source": str(FINETUNE / "finetune.onnx"), "batch": batch}


def recipe_text(entries: dict[str, dict[str, object]], threads: int) -> str:
    """Return the recipe: every model by every scheduler, and over clusters."""
    targets: dict[str, dict[str, object]] = {
        name: {"extends": "host", "resources": {"threads": threads}, "schedule": name}
        for name in SCHEDULERS
    }
    clusters = [{"name": f"c{n}", "resources": {"threads": 1}} for n in range(threads)]
    targets["clusters"] = {"extends": "host", "clusters": clusters}
    return yaml.safe_dump({"version": 1, "models": entries, "targets": targets})


def check(engine: Engine, one: Build) -> bool:
    """Check one network on one target, and print its row."""
    built = built_of(engine, one)
    numbers = dict(weights.decode(engine.content(one, "weights")))
    samples = [s.inputs for s in samples_of(None, built.graph, numbers)][:2]
    ports = built.ports(is_honest=True)
    parallel = outputs(built, samples, ports, "-fsanitize=thread", "-O1", "-g")
    serial = outputs(built, samples, (boards_folder() / "cores_serial.c",), SERIAL, "-O2")
    waits = sum(len(step.waits) for step in built.schedule.steps)
    unseen = sum(not is_refused(built, plan) for plan in without_a_wait(built.schedule))
    row = (
        *(one.model, one.target, len(built.schedule.steps), waits),
        "none" if parallel is not None else "FOUND",
        "equal" if serial == parallel else "DIFFERS",
        f"{unseen}",
    )
    print(ROW.format(*row), flush=True)
    return parallel is not None and serial == parallel and not unseen


def outputs(
    built: Built, samples: list[Values], ports: tuple[Path, ...], *flags: str
) -> list[bytes] | None:
    """Return the outputs of all runs, None if the program reports a race or fails."""
    with tempfile.TemporaryDirectory(prefix="dlbuild-races-") as work:
        compiler = compiler_for(built.target, flags)
        sources = [built.folder / f"{built.name}_weights.c", *ports]
        program = compiler.program(model_program(built), "run", sources, Path(work))
        try:
            runs = run_model(built, program, samples, RUNS)
        except Exception as fault:  # noqa: BLE001 - whatever it is, it is printed
            print(f"    {fault}")
            return None
    return [a.tobytes() for of_sample in runs for run in of_sample for a in run.values()]


def without_a_wait(schedule: Schedule) -> Iterator[Schedule]:
    """Yield the plan without one of its waits, each in turn."""
    for place, step in enumerate(schedule.steps):
        for wait in step.waits:
            fewer = replace(step, waits=tuple(w for w in step.waits if w != wait))
            steps = (*schedule.steps[:place], fewer, *schedule.steps[place + 1 :])
            yield replace(schedule, steps=steps)


def is_refused(built: Built, schedule: Schedule) -> bool:
    """Say whether the audit sees that two steps are not ordered."""
    try:
        audit_cores(built.graph, built.profile, built.tiles, schedule)
    except AuditError:
        return True
    return False


if __name__ == "__main__":
    sys.exit(main())
