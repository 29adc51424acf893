"""Build the node tests of the installed onnx for this machine, and check what the C computes.

    python bench/conformance.py [--only GLOB] [--names FILE] [--every N] [--jobs N]
                                [--list-wrong] [--list-refused] [--write FILE]

Each test is a model, inputs and the outputs due. It goes through the ordinary stages, is
compiled without a warning, and run. Inputs that a rule declares `value:` (axes, pads, shapes),
directly or through arithmetic on them, are constants of the model, as they are in firmware;
nothing else is.

- passed: every output has the type and shape due and is within the tolerance: the test's own, with
  atol 1e-5; rtol 1e-2 for floats of 16 bits and fewer. A test with an input at run time and
  something to compute runs at least one generated kernel.
- refused: dlbuild said why it does not build the model. Those that firmware does not do (text,
  random numbers, images) are counted; the others are listed, by cause.
- wrong: an output differs. crashed: anything else, a compiler warning included.

Ends with `N passed, N refused, N wrong, N crashed`; the exit status is 1 if a test was wrong,
crashed, or is in the file of `--names` and did not pass.
"""

import argparse
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import numpy as np
import onnx
from conformance_cases import Case, Unsuited, case_of, collected
from conformance_compare import fault_in

from dlbuild.base.errors import UserError
from dlbuild.base.paths import builtin_folder
from dlbuild.build.targets import TargetBook, read_target_files, target_files
from dlbuild.ir.target import Options, Target
from dlbuild.ir.weights import Array
from dlbuild.rulebook.load import RuleBook, load_rules
from dlbuild.run.compile import WARNINGS
from dlbuild.run.counted import counted
from dlbuild.run.runner import Built, code_steps, model_program, run_model
from dlbuild.run.runner_program import Compiler, compile_program
from dlbuild.stages.audit import audit
from dlbuild.stages.parse import parse
from dlbuild.stages.profile import profile
from dlbuild.stages.render import render
from dlbuild.stages.schedule import schedule
from dlbuild.stages.tables import tables
from dlbuild.stages.tile import tile

# The runner includes the generated source; what it reads from its files it does not check.
COMPILER = Compiler("gcc", ("-O1", *WARNINGS, "-Werror", "-Wno-unused-result"))
CLANG = next((c for c in ("clang", "clang-14") if shutil.which(c)), "")
N_RUNS = 2
SECONDS = 120
REFUSABLE = {
    "holds text": "text",
    "text": "text",
    "'RandomUniformLike'": "random numbers",
    "needs random numbers": "random numbers",
    "'ImageDecoder'": "images",
}
"""What firmware does not do, and what the reason of a refusal then says."""
OUTCOMES = ("passed", "refused", "wrong", "crashed")


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a test. n_kernels: generated kernels that it ran."""

    name: str
    outcome: str
    reason: str = ""
    n_kernels: int = 0
    n_inputs: int = 0


@cache
def book() -> RuleBook:
    """Return the built-in rules."""
    return load_rules([builtin_folder()])


@cache
def host() -> Target:
    """Return the built-in target of this machine."""
    files = target_files((builtin_folder(),))
    return TargetBook({}, read_target_files(files, Path.as_posix)).resolve("host").target


def check(name: str) -> Result:
    """Build, run and compare one test."""
    signal.signal(signal.SIGALRM, too_slow)
    signal.alarm(SECONDS)
    with tempfile.TemporaryDirectory(prefix="dlbuild-bench-") as work:
        try:
            case = case_of(collected()[name], book())
            return check_case(case, Path(work))
        except Unsuited as reason:
            return Result(name, "refused", str(reason))
        except Exception as fault:  # noqa: BLE001 - a fault of ours is what the bench looks for
            return Result(name, "crashed", f"{type(fault).__name__}: {fault}")
        finally:
            signal.alarm(0)


def too_slow(number: int, frame: object) -> None:
    """End a test that takes too long."""
    del number, frame
    raise TimeoutError(f"longer than {SECONDS} s")


def check_case(case: Case, work: Path) -> Result:
    """Build, run and compare one test whose model is written for dlbuild."""
    file = work / "model.onnx"
    onnx.save(case.model, file)
    try:
        built = build(file, case, work)
    except UserError as reason:
        return Result(case.name, "refused", str(reason))
    tables_file = work / f"{built.name}_weights.c"
    program = compile_program(model_program(built), "run", [tables_file], COMPILER, work)
    if CLANG:
        read_by_clang([work / f"{built.name}.c", tables_file])
    n_kernels = len(code_steps(built))
    runs = run_model(built, program, [case.inputs], N_RUNS)[0]
    first, *others = (counted(built.graph, run) for run in runs)
    found = Result(case.name, "passed", "", n_kernels, len(case.inputs))
    reasons = list(faults(case, first))
    if any(bits(other) != bits(first) for other in others):
        reasons.append("two runs differ")
    if case.inputs and not n_kernels and any(due.size for due in case.outputs.values()):
        reasons.append("no generated kernel ran")
    if reasons:
        return Result(case.name, "wrong", "; ".join(reasons), n_kernels, len(case.inputs))
    return found


def read_by_clang(files: Sequence[Path]) -> None:
    """Let clang read C files.

    Raises:
        UserError: it warns.
    """
    command = [CLANG, "-std=c99", "-fsyntax-only", *WARNINGS, "-Werror", *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"{CLANG} warns", details=done.stderr.splitlines()[:20])


def build(file: Path, case: Case, out: Path) -> Built:
    """Run the stages from the model file to the C files."""
    name, target, options = "model", host(), Options(requantize="exact")
    parsed = parse(file, case.shapes, book(), name)
    graph = parsed.graph
    kernels = profile(graph, book(), target, options)
    tiles = tile(graph, kernels, target, options)
    plan = schedule(graph, kernels, tiles, target, options)
    audit(graph, kernels, tiles, plan, target, options)
    texts = render(graph, kernels, tiles, plan, book(), target, options, name)
    binary = tables(graph, parsed.weights, kernels, book(), target, options, name)
    for path, text in texts.items():
        (out / path).write_text(text, encoding="ascii")
    for path, content in binary.items():
        (out / path).write_bytes(content)
    return Built(name, graph, kernels, plan, book(), target, options, out)


def faults(case: Case, outputs: dict[str, Array] | object) -> Iterator[str]:
    """Yield what is wrong with the outputs."""
    assert isinstance(outputs, dict)
    for name, due in case.outputs.items():
        if due.size == 0 and name not in outputs:
            continue  # dlbuild leaves out what has no elements
        fault = fault_in(outputs[name], due, case.rtol, case.atol)
        if fault:
            yield f"'{name}' {fault}"


def bits(outputs: object) -> dict[str, bytes]:
    """Return the bytes of each output."""
    assert isinstance(outputs, dict)
    return {name: array.tobytes() for name, array in outputs.items()}


def picked(arguments: argparse.Namespace) -> list[str]:
    """Return the names of the tests to run."""
    names = sorted(name for name in collected() if fnmatch(name, arguments.only))
    if arguments.names:
        listed = set(arguments.names.read_text().split())
        missing = sorted(listed - collected().keys())
        if missing:
            print(f"{arguments.names}: onnx {onnx.__version__} has no test {missing[0]}")
        names = [name for name in names if name in listed]
    return names[:: arguments.every]


def run(names: Sequence[str], jobs: int) -> list[Result]:
    """Return what became of each test, in the order given."""
    if jobs == 1:
        return [check(name) for name in names]
    # Forked, so that the tests are collected once.
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        return list(pool.map(check, names, chunksize=8))


def report(results: Sequence[Result], arguments: argparse.Namespace) -> None:
    """Print what was asked for, and the sums."""
    shown = {"wrong", "crashed"} if arguments.list_wrong else set()
    shown |= {"refused"} if arguments.list_refused else set()
    for result in results:
        if result.outcome in shown:
            print(f"{result.outcome} {result.name}: {result.reason}")
    causes: dict[str, list[str]] = {}
    for result in results:
        if result.outcome == "refused":
            causes.setdefault(cause_of(result), []).append(result.name)
    for cause in sorted(causes):
        names = "" if cause in REFUSABLE.values() else f": {', '.join(causes[cause])}"
        print(f"refused, {cause}, {len(causes[cause])}{names}")
    live = [result for result in results if result.n_inputs and result.outcome == "passed"]
    kernels = sum(result.n_kernels for result in live)
    print(f"{len(live)} of the passed have inputs at run time; they ran {kernels} kernels")


def cause_of(result: Result) -> str:
    """Return why a test was refused, in a few words."""
    known = (cause for words, cause in REFUSABLE.items() if words in result.reason)
    sentence = result.reason.rpartition("error: ")[2].splitlines()[0]
    return next(known, "extents not known at build time" if is_extent(result.reason) else sentence)


def is_extent(reason: str) -> bool:
    """Say whether a refusal is for an extent, or a number of things, that only the run knows."""
    return any(
        words in reason
        for words in (
            "not known before the model runs",
            "must be known at build time",
            "only known when it runs",
        )
    )


def main() -> int:
    """Run the tests and print the sums."""
    parser = argparse.ArgumentParser(description="Build and check onnx's own node tests.")
    parser.add_argument("--only", default="*", metavar="GLOB", help="names of tests")
    parser.add_argument("--names", type=Path, metavar="FILE", help="a list; all of it must pass")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="each N-th of them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N")
    parser.add_argument("--list-wrong", action="store_true", help="and those that crashed")
    parser.add_argument("--list-refused", action="store_true")
    parser.add_argument("--write", type=Path, metavar="FILE", help="list the names that passed")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    began = time.monotonic()
    results = run(picked(arguments), arguments.jobs)
    report(results, arguments)
    count = Counter(result.outcome for result in results)
    if arguments.write:
        passed = [result.name for result in results if result.outcome == "passed"]
        arguments.write.write_text("".join(f"{name}\n" for name in passed))
    compilers = " and ".join(filter(None, [COMPILER.command, CLANG]))
    print(f"compiled without a warning by {compilers}")
    print(f"onnx {onnx.__version__}, {time.monotonic() - began:.0f} s")
    print(", ".join(f"{count[outcome]} {outcome}" for outcome in OUTCOMES))
    bad = count["wrong"] + count["crashed"] + (count["refused"] if arguments.names else 0)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
