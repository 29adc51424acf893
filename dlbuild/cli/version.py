"""`dlbuild version`."""

import argparse
import json

import dlbuild
from dlbuild.cli.arguments import Parser


def arguments(parser: Parser) -> None:
    """Add its options."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(given: argparse.Namespace) -> int:
    """Print it."""
    text = json.dumps({"version": dlbuild.__version__}) if given.json else dlbuild.__version__
    print(text)
    return 0
