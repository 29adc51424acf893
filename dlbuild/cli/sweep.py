"""`dlbuild sweep`: many builds side by side, and which of them no other is better than."""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path

from dlbuild.base.errors import UserError
from dlbuild.build.cache import cache_folder
from dlbuild.build.recipe import PROJECT_FILE
from dlbuild.build.sweep import Outcome, Point, best, evaluate, points_of, read_axis
from dlbuild.cli.arguments import Parser
from dlbuild.cli.project import add_targets, asked_targets, selected, whole_recipe
from dlbuild.report.sweep import sweep_text

_RETRIES = 3


def arguments(parser: Parser) -> None:
    """Add its options."""
    add_targets(parser)
    parser.add_argument(
        "--over",
        action="append",
        default=[],
        metavar="KEY=A,B,...",
        help="values of an option of builds, or of memory.NAME; several span a grid",
    )
    parser.add_argument("-j", metavar="N", dest="jobs", type=int, default=1, help="processes")
    parser.add_argument(
        "--scheduler",
        default="",
        metavar="tcp://HOST:PORT",
        help="let a Dask cluster build that sees our files (extra: dlbuild[dask])",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(given: argparse.Namespace) -> int:
    """Build all points and print a table; exit status 1 if none can be built."""
    axes = tuple(read_axis(text) for text in given.over)
    recipe = selected(whole_recipe(given), asked_targets(given))
    folder = cache_folder()
    cache = folder.absolute().as_posix() if folder else ""
    points = points_of(recipe, Path(PROJECT_FILE), axes, cache)
    found = []
    for outcome in _evaluated(points, given.jobs, given.scheduler):
        found.append(outcome)
        if sys.stderr.isatty():
            print(f"\r{len(found)} of {len(points)} points", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    front = best(found)
    if given.json:
        rows = [{**asdict(o), "is_best": o.point in front} for o in found]
        print(json.dumps(rows, indent=2))
    else:
        print("\n".join(sweep_text(found, front)))
    count = sum(outcome.stages for outcome in found)
    print(f"{len(points)} points, {count} stages run", file=sys.stderr)
    return 0 if front else 1


def _evaluated(points: Sequence[Point], jobs: int, scheduler: str) -> Iterator[Outcome]:
    """Yield the outcomes in the order of the points."""
    if scheduler:
        yield from _by_dask(points, scheduler)
    elif jobs > 1:
        # Started anew, not forked: what is in this process is of no use there.
        with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
            yield from pool.map(evaluate, points)
    else:
        yield from map(evaluate, points)


def _by_dask(points: Sequence[Point], scheduler: str) -> Iterator[Outcome]:
    try:
        from distributed import Client  # noqa: PLC0415 - an extra, and slow to import
    except ImportError:
        raise UserError(
            "Dask is not installed",
            where="--scheduler",
            fix="pip install 'dlbuild[dask]'",
            exit_code=2,
        ) from None
    try:
        client = Client(scheduler, timeout=10)
    except (OSError, ValueError) as error:
        raise UserError(
            f"no scheduler answers: {error}", where=f"--scheduler {scheduler}", exit_code=2
        ) from None
    with client:
        # Not pure: another client's result for the same point may be of other files.
        futures = client.map(evaluate, points, retries=_RETRIES, pure=False)
        for future in futures:
            outcome: Outcome = future.result()
            yield outcome
