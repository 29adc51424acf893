"""`dlbuild verify`: run the C and compare it with the model."""

import argparse
import json
from dataclasses import asdict

from dlbuild.build.pipeline import with_verify
from dlbuild.cli.arguments import Parser
from dlbuild.cli.build import build_all
from dlbuild.cli.project import add_jobs, add_targets
from dlbuild.ir import codec
from dlbuild.report.verdict import verdict_text
from dlbuild.run.verify import Verdict


def arguments(parser: Parser) -> None:
    """Add its options."""
    add_targets(parser)
    add_jobs(parser)
    parser.add_argument("--layers", action="store_true", help="compare each kernel alone as well")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(given: argparse.Namespace) -> int:
    """Build what is out of date, verify what has changed, and print all verdicts."""
    engine = build_all(given, with_verify(layers=given.layers), quiet=True)
    verdicts = [
        codec.decode(engine.content(one, "verdict"), Verdict) for one in engine.keys.recipe.builds
    ]
    passed = all(verdict.passed for verdict in verdicts)
    if given.json:
        rows = [{**asdict(verdict), "passed": verdict.passed} for verdict in verdicts]
        print(json.dumps(rows, indent=2))
    else:
        print("\n\n".join("\n".join(verdict_text(verdict)) for verdict in verdicts))
    return 0 if passed else 1
