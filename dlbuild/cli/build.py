"""`dlbuild build`: bring every file up to date."""

import argparse
import sys
from pathlib import Path

from dlbuild.build.builder import How, build
from dlbuild.build.engine import Engine, Finished
from dlbuild.build.pipeline import PIPELINE
from dlbuild.build.snapshot import leave_snapshot
from dlbuild.build.stage import Pipeline
from dlbuild.cli.arguments import Parser
from dlbuild.cli.project import add_jobs, add_targets, asked_targets, selected, whole_recipe
from dlbuild.cli.request import request_of
from dlbuild.report.text import status_line
from dlbuild.run.toolchain import identify


def arguments(parser: Parser) -> None:
    """Add its options."""
    add_targets(parser)
    add_jobs(parser)


def run(given: argparse.Namespace) -> int:
    """Build, and leave a snapshot for the no-op check."""
    engine = build_all(given)
    request, _ = request_of(list(given.command))
    leave_snapshot(engine, PIPELINE, Path(given.out), request, given.started_ns)
    return 0


def build_all(
    given: argparse.Namespace, pipeline: Pipeline = PIPELINE, *, quiet: bool = False
) -> Engine:
    """Build what was asked for and print a line for each stage that needed work.

    quiet: print them to stderr, since stdout is for a report.
    """
    whole = whole_recipe(given)
    count = 0

    def report(finished: Finished) -> None:
        nonlocal count
        count += 1
        print(status_line(finished), file=sys.stderr if quiet else sys.stdout, flush=True)

    how = How(
        Path(given.out), given.jobs, given.keep_going, tuple(one.label for one in whole.builds)
    )
    engine = build(selected(whole, asked_targets(given)), pipeline, how, identify, report)
    if not count and not quiet:
        print("nothing to do")
    return engine
