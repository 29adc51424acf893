"""Placement of buffers: heights against the lower bound, time, and an audit of its own.

Reads CSV files with a line `id,lower,upper,size` for each buffer, alive in [lower, upper):
data/alloc (real networks, bound in the file's name) and data/minimalloc (hard problems,
capacity in the file's name).
"""

import argparse
import csv
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import pairwise
from pathlib import Path

from dlbuild.stages.place import Solution, place
from dlbuild.stages.problem import Bytes, Live, Problem, Step

EASY_SECONDS = 1.0
HARD_SECONDS = 60.0
HARD_SOLVED = 6
HARD_RATIO = 1.10
HARD_EFFORT = 45.0
"""Times the usual nodes of branch and bound."""


@dataclass(frozen=True, slots=True)
class Row:
    """What was found of one file. seconds: of this process's CPU time."""

    name: str
    n_lives: int
    wanted_bytes: int
    solution: Solution
    seconds: float
    faults: tuple[str, ...]

    @property
    def is_solved(self) -> bool:
        """Say whether the height is within what the file's name says."""
        return self.solution.height_bytes <= self.wanted_bytes

    @property
    def ratio(self) -> float:
        """Height over what the file's name says."""
        return self.solution.height_bytes / self.wanted_bytes

    def text(self) -> str:
        """Return the line of the table."""
        found = self.solution
        return (
            f"{self.name:36} {self.n_lives:5} {found.height_bytes:11,} {found.bound_bytes:11,}"
            f" {self.wanted_bytes:11,} {self.ratio:7.4f} {self.seconds:7.2f}"
            f"  {'; '.join(self.faults) or 'ok'} ({found.solver})"
        )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the subcommand takes."""
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(os.environ.get("DLBUILD_CORPUS", "../shared"), "data"),
        help="the folder of alloc/ and minimalloc/ (default: $DLBUILD_CORPUS/data)",
    )
    parser.add_argument("--only", default="*", metavar="GLOB", help="only files with such names")
    parser.add_argument("--effort", type=float, default=HARD_EFFORT, help="for the hard problems")


def run(arguments: argparse.Namespace) -> Iterator[tuple[str, bool]]:
    """Print a table and yield each check's name and whether it passed."""
    print(f"{'file':36} {'lives':>5} {'height':>11} {'bound':>11} {'wanted':>11}   ratio     CPU")
    for file in _files(arguments.data / "alloc", arguments.only, 12):
        row = measure(file, effort=1.0)
        print(row.text(), flush=True)
        yield row.name, not row.faults and row.is_solved and row.seconds < EASY_SECONDS
    rows = []
    for file in _files(arguments.data / "minimalloc", arguments.only, 11):
        row = measure(file, arguments.effort)
        rows.append(row)
        print(row.text(), flush=True)
        is_fast = row.seconds < HARD_SECONDS
        yield row.name, not row.faults and row.ratio <= HARD_RATIO and is_fast
    if arguments.only == "*":
        n_solved = sum(row.is_solved and row.seconds < HARD_SECONDS for row in rows)
        print(f"{n_solved} of {len(rows)} hard problems solved, {HARD_SOLVED} wanted")
        yield "hard problems solved", n_solved >= HARD_SOLVED


def _files(folder: Path, only: str, count: int) -> list[Path]:
    files = sorted(folder.glob("*.csv"))
    if len(files) != count:
        raise SystemExit(f"{folder}: {len(files)} problems, not {count}; give --data")
    return [file for file in files if fnmatch(file.stem, only)]


def measure(file: Path, effort: float) -> Row:
    """Place the buffers of a file."""
    with file.open(encoding="utf-8") as lines:
        lives = tuple(
            Live(
                row["id"], Bytes(int(row["size"])), Step(int(row["lower"])), Step(int(row["upper"]))
            )
            for row in csv.DictReader(lines)
        )
    wanted = int(file.stem.rsplit(".", 1)[1])
    began = time.process_time()
    solution = place(Problem(lives), effort, wanted)
    seconds = time.process_time() - began
    faults = tuple(audit(lives, solution.offsets, solution.height_bytes))
    return Row(file.stem, len(lives), wanted, solution, seconds, faults)


def audit(lives: Sequence[Live], offsets: Sequence[int], height: int) -> Iterator[str]:
    """Yield what is wrong with a placement, replayed event by event.

    At each step at which something begins, the living are sorted by offset: no one may reach into
    the next, the first begins at 0 or above, the last ends within the height.
    """
    if len(offsets) != len(lives):
        yield f"{len(offsets)} offsets for {len(lives)} buffers"
        return
    for step in sorted({life.first_step for life in lives}):
        living = sorted(
            (at, at + life.size_bytes, life.name)
            for at, life in zip(offsets, lives, strict=True)
            if life.first_step <= step < life.last_step and life.size_bytes
        )
        if living and (living[0][0] < 0 or max(end for _, end, _ in living) > height):
            yield f"step {step}: outside [0, {height})"
        for (_, end, one), (start, _, other) in pairwise(living):
            if end > start:
                yield f"step {step}: {one} overlaps {other}"
