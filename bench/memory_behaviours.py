"""The behaviours that docs/tiling.md names: whether the test of each exists and passes."""

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
TABLE = ROOT / "docs" / "tiling.md"
ROW = re.compile(r"^\| (.+?) \| `(tests/[^`]+::\w+)` \|$", re.MULTILINE)


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    """Say what the subcommand takes: nothing."""


def behaviours() -> list[tuple[str, str]]:
    """Return each behaviour of the table and the id of its test."""
    return ROW.findall(TABLE.read_text(encoding="utf-8"))


def run(_arguments: argparse.Namespace) -> Iterator[tuple[str, bool]]:
    """Run each test of the table and yield whether it passed."""
    for behaviour, test in behaviours():
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        is_run = re.search(r"^\d+ passed", done.stdout.splitlines()[-1]) if done.stdout else None
        is_right = done.returncode == 0 and is_run is not None
        print(f"{'ok    ' if is_right else 'FAILED'}  {behaviour}", flush=True)
        yield f"{behaviour}: {test}", is_right
