"""What a build costs when little or nothing changed, as ratios of CPU time.

    python bench/build.py [--rounds N] [--only GLOB]

Each case is run N times in turn with `python -c pass` and, where it is named, `ninja`, so that all
of them see the same load; the least CPU time of each (user and system, children included) counts.
A case holds if its ratio is at most the bound that stands beside it and what it did is right: which
stages ran, which files were written. dlbuild is started by a script as uv and later pips write it;
those of older pips import `re` first, and `python -m` its own machinery, which takes as long again
as to find that there is nothing to do. Ends with `N passed, M failed`; the exit status is 1 if
M > 0.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parent.parent
RECIPE = "version: 1\nmodels: {{{models}}}\ntargets:\n  pc: {{extends: host}}\n"
PASS = [sys.executable, "-c", "pass"]
TABLES = "build/dlbuild/pc/net"
SCRIPT = "import sys\nfrom dlbuild.__main__ import main\nsys.exit(main())\n"


@dataclass
class Case:
    """A command with a bound, which is infinite if only what the command does counts.

    before: what is done to the folder before each run, not measured. says: what has to be in the
    output. against: what the ratio is to. beside: a command whose time is not dlbuild's, run in the
    folder after each build and taken off.
    """

    bound: float
    folder: Path
    before: Callable[[int], None]
    says: Callable[[str], bool]
    against: str = "python"
    beside: tuple[str, ...] = ()


def build_command(work: Path) -> list[str]:
    """Write the script that starts dlbuild and return the command of a build."""
    script = work / "dlbuild"
    script.write_text(SCRIPT)
    return [sys.executable, str(script), "build", "-j1"]


def dense(bytes_: int, seed: int) -> bytes:
    """Return a network whose int8 weights take about so many bytes, quantised as exporters do."""
    n = 256
    k = bytes_ // n
    rng = np.random.default_rng(seed)
    weights = {
        "w": rng.integers(-127, 128, (k, n)).astype(np.int8),
        "xs": np.float32(0.05),
        "ws": np.float32(0.01),
        "ys": np.float32(0.5),
        "z": np.int8(0),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "xs", "z"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "xs", "z"], ["xd"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "z"], ["wd"]),
        helper.make_node("MatMul", ["xd", "wd"], ["y0"]),
        helper.make_node("QuantizeLinear", ["y0", "ys", "z"], ["yq"]),
        helper.make_node("DequantizeLinear", ["yq", "ys", "z"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "dense",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, k])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, n])],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


def project(folder: Path, models: Mapping[str, bytes]) -> Path:
    """Write a project and build it once."""
    folder.mkdir()
    for name, content in models.items():
        (folder / f"{name}.onnx").write_bytes(content)
    entries = ", ".join(f"{name}: {{source: {name}.onnx}}" for name in models)
    (folder / "dlbuild.yaml").write_text(RECIPE.format(models=entries))
    time.sleep(0.1)  # an input as young as the build leaves no snapshot
    done = run(build_command(folder.parent), folder)
    assert done[1] == 0, done[2]
    return folder


def ninja_project(folder: Path, steps: int) -> Path:
    """Write a graph of as many steps as dlbuild has files, and run it once."""
    folder.mkdir()
    lines = ["rule copy", "  command = cp $in $out"]
    for number in range(steps):
        (folder / f"in{number}").write_text(str(number))
        lines.append(f"build out{number}: copy in{number}")
    (folder / "build.ninja").write_text("\n".join(lines) + "\n")
    assert run(["ninja"], folder)[1] == 0
    return folder


def run(command: list[str], folder: Path) -> tuple[float, int, str]:
    """Return CPU seconds, exit status and output of a command."""
    then = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        command,
        cwd=folder,
        env={
            **{k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"},
            "PYTHONPATH": str(ROOT),
            "DLBUILD_CACHE_DIR": str(folder / "cache"),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = now.ru_utime + now.ru_stime - then.ru_utime - then.ru_stime
    return cpu_s, done.returncode, done.stdout


def ran(text: str) -> set[str]:
    """Return the stages that were run."""
    return {
        line.partition(": ")[2].rpartition(" (")[0]
        for line in text.splitlines()
        if line.endswith(" s)")
    }


def is_idle(text: str) -> bool:
    """Say whether a build found nothing to do."""
    return text == "nothing to do\n"


def cases(work: Path) -> dict[str, Case]:
    """Make the projects and return the cases."""
    digits = (ROOT / "examples" / "digits" / "digits.onnx").read_bytes()
    small = project(work / "small", {f"m{number}": digits for number in range(2)})
    large = project(work / "large", {f"m{number}": dense(2**22, number) for number in range(4)})
    retrained = project(work / "retrained", {"net": dense(2**20, 0)})
    remark = project(work / "remark", {"m": digits})
    warm = project(work / "warm", {"m": digits})

    def touch(_: int) -> None:
        for path in large.glob("*.onnx"):
            os.utime(path)

    def retrain(turn: int) -> None:
        (retrained / "net.onnx").write_bytes(dense(2**20, turn + 1))

    def edit(turn: int) -> None:
        path = remark / "dlbuild.yaml"
        text = path.read_text()
        path.write_text(f"# remark {turn}\n{text[text.index('version') :]}")

    return {
        "nothing to do": Case(2.2, small, lambda _: None, is_idle),
        "nothing to do, to ninja": Case(7, small, lambda _: None, is_idle, "ninja"),
        "inputs of 16 MB touched": Case(5, large, touch, is_idle),
        "a remark in the recipe": Case(float("inf"), remark, edit, is_idle),
        "new weights, 1 MB of int8": Case(
            40,
            retrained,
            retrain,
            lambda text: ran(text) == {"parse", "tables", "compile tables", "size", "archive"},
            beside=("cc", "-std=c99", "-O2", "-c", "-o", "tables.o", f"{TABLES}/net_weights.c"),
        ),
        "build folder removed, cache warm": Case(
            12, warm, lambda _: shutil.rmtree(warm / "build"), lambda text: not ran(text)
        ),
    }


def main() -> int:
    """Measure and print a line for each case."""
    parser = argparse.ArgumentParser(description="Measure builds of which little changed.")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--only", default="*", metavar="GLOB")
    given = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="dlbuild-speed-"))
    n_failed = 0
    try:
        chosen = {n: c for n, c in cases(work).items() if fnmatch(n, given.only)}
        ninja = ninja_project(work / "ninja", 100) if shutil.which("ninja") else None
        for name, case in chosen.items():
            best = {"python": 1e9, "ninja": 1e9, "dlbuild": 1e9}
            fault = ""
            for turn in range(given.rounds):
                best["python"] = min(best["python"], run(PASS, work)[0])
                if ninja is not None:
                    best["ninja"] = min(best["ninja"], run(["ninja"], ninja)[0])
                case.before(turn)
                cpu_s, status, text = run(build_command(work), case.folder)
                if case.beside:
                    cpu_s -= run(list(case.beside), case.folder)[0]
                best["dlbuild"] = min(best["dlbuild"], cpu_s)
                if status or not case.says(text):
                    fault = f"did otherwise: {text}"
            ratio = best["dlbuild"] / best[case.against]
            if ratio > case.bound:
                fault = fault or "too slow"
            n_failed += bool(fault)
            shown = f"{best['dlbuild'] * 1e3:.0f} ms, {ratio:.1f} of {case.against}"
            print(f"{name}: {shown} (bound {case.bound:g}): {fault or 'ok'}", flush=True)
    finally:
        shutil.rmtree(work)
    print(f"{len(chosen) - n_failed} passed, {n_failed} failed")
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
