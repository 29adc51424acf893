"""Compile a large table of weights, and check what that takes.

    python bench/table.py [--floats N]

A model with one matrix of N floats (25 million if none are named) is built by dlbuild as far as
its C; then each compiler that is there compiles the file of the weights, with 2 GB of memory and
20 s of CPU time at most. One that wants more fails. Ends with `N passed, M failed`; the exit status
is 1 if M > 0.
"""

import argparse
import math
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOATS = 25_000_000
MEMORY_BYTES = 2_000_000_000
SECONDS = 20
COMPILERS = ("gcc", "clang-14", "arm-none-eabi-gcc")
FLAGS = ("-std=c99", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-c")
RECIPE = """\
version: 1
models:
  large: {source: large.onnx}
targets:
  pc: {extends: host}
builds:
  - {model: large, target: pc}
"""
LIMITED = 'ulimit -v "$1" && ulimit -t "$2" && shift 2 && exec "$@"'
ROW = "{:26} {:>8} {:>9}  {}"


def main() -> int:
    """Build, compile with each compiler, print the table."""
    parser = argparse.ArgumentParser(description="Compile a large table of weights.")
    parser.add_argument("--floats", type=int, default=FLOATS, metavar="N")
    count = parser.parse_args().floats
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="dlbuild-table-") as work:
        source = made(Path(work), count)
        print(f"{count} floats, {source.stat().st_size} bytes of C")
        print(ROW.format("compiler", "CPU s", "MB", ""))
        for compiler in filter(shutil.which, COMPILERS):
            is_ok = compiled(compiler, source)
            passed += is_ok
            failed += not is_ok
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


def made(folder: Path, count: int) -> Path:
    """Return the C file of the weights of a model with one matrix of at least `count` floats."""
    side = math.isqrt(count - 1) + 1
    weights = np.random.default_rng(1).normal(size=(side, side)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "large",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, side])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, side])],
        [numpy_helper.from_array(weights, "w")],
    )
    onnx.save(helper.make_model(graph), folder / "large.onnx")
    (folder / "dlbuild.yaml").write_text(RECIPE, encoding="utf-8")
    command = [sys.executable, "-m", "dlbuild", "build", "--sources"]
    environment = {**os.environ, "DLBUILD_CACHE_DIR": str(folder / "cache")}
    subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
    (source,) = (folder / "build").rglob("large_weights.c")
    return source


def compiled(compiler: str, source: Path) -> bool:
    """Compile within the bounds, print a row, and say whether it went well."""
    given = ("sh", "-c", LIMITED, "sh", str(MEMORY_BYTES // 1024), str(SECONDS))
    command = [*given, compiler, *FLAGS, source.name, "-o", f"{compiler}.o"]
    child = subprocess.Popen(command, cwd=source.parent, stderr=subprocess.PIPE, text=True)
    said = child.stderr.read() if child.stderr else ""
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    is_ok = child.returncode == 0
    cost = f"{used.ru_utime + used.ru_stime:.1f}", used.ru_maxrss * 1024 // 1_000_000
    verdict = "ok" if is_ok else f"FAILED: {said.strip().splitlines()[-1:] or child.returncode}"
    print(ROW.format(compiler, *cost, verdict), flush=True)
    return is_ok


if __name__ == "__main__":
    sys.exit(main())
