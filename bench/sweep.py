"""A sweep of 50 points on two worker processes of Dask, one of which is killed: as on one machine.

    python bench/sweep.py

The points are built by this process, then with a new cache by two workers of a Dask cluster that is
started for it, one of which is killed after a third of the points, then a third time with nothing
left to do. The tables have to be the same. Ends with `N passed, M failed`; the exit status is 1 if
M > 0. Without Dask it is skipped.
"""

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SIZES = ",".join(f"{size} B" for size in range(1024, 1024 + 25 * 256, 256))
POINTS = 50
RECIPE = """\
version: 1
models: {net: {source: net.onnx}}
targets: {board: {extends: cortex-m4f, memories: {sram: 64 KiB}}}
"""


def sweep(folder: Path, cache: str, *options: str) -> subprocess.Popen[str]:
    """Start a sweep of the project of a folder."""
    grid = ("--over", "optimize=speed,ram", "--over", f"memory.sram={SIZES}")
    return subprocess.Popen(
        [sys.executable, "-m", "dlbuild", "sweep", *grid, *options],
        cwd=folder,
        env=environment(folder / cache),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def environment(cache: Path) -> dict[str, str]:
    """Return the variables of all processes here."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "DLBUILD_CACHE_DIR": str(cache)}


def said(process: subprocess.Popen[str]) -> tuple[str, int]:
    """Return the table, and how many stages ran.

    Raises:
        AssertionError: it failed.
    """
    table, notes = process.communicate()
    assert process.returncode == 0, notes
    words = notes.splitlines()[-1].split()
    assert words[:2] == [str(POINTS), "points,"], notes
    return table, int(words[2])


def cluster(folder: Path) -> tuple[str, list[subprocess.Popen[bytes]]]:
    """Start a scheduler and two workers, and return its address and all three."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    dask = [sys.executable, "-m", "dask"]
    commands = [
        [*dask, "scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"],
        *[[*dask, "worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard"]] * 2,
    ]
    log = (folder / "dask.log").open("wb")
    started = [
        subprocess.Popen(
            command, cwd=folder, env=environment(folder / "none"), stdout=log, stderr=log
        )
        for command in commands
    ]
    return address, started


def stored(cache: Path) -> int:
    """Return how many results a cache has."""
    return sum(1 for _ in cache.glob("v1/ac/*/*"))


def faults(folder: Path) -> list[str]:
    """Play it and return what was not as it should be."""
    shutil.copy(ROOT / "examples/digits/digits_int8.onnx", folder / "net.onnx")
    (folder / "dlbuild.yaml").write_text(RECIPE)
    table, ran = said(sweep(folder, "cache"))
    whole = stored(folder / "cache")
    found = [] if ran else ["the first sweep ran nothing"]
    address, processes = cluster(folder)
    try:
        far = sweep(folder, "other", "--scheduler", address)
        while far.poll() is None and stored(folder / "other") < whole / 3:
            time.sleep(0.1)
        if far.poll() is not None:
            found.append("the sweep ended before a worker could be killed")
        processes[-1].send_signal(signal.SIGKILL)
        far_table, _ = said(far)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    if far_table != table:
        found.append(f"the cluster says something else:\n{far_table}\nnot\n{table}")
    again, ran = said(sweep(folder, "other"))
    if ran:
        found.append(f"a second sweep ran {ran} stages")
    if again != table:
        found.append("a second sweep says something else")
    return found


def main() -> int:
    """Print what was found."""
    if importlib.util.find_spec("distributed") is None:
        print("skipped: there is no Dask")
        return 0
    with tempfile.TemporaryDirectory(prefix="dlbuild-sweep-") as folder:
        found = faults(Path(folder))
    print("\n".join(["sweep of 50 points: " + ("FAILED" if found else "ok"), *found]))
    print(f"{int(not found)} passed, {int(bool(found))} failed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
