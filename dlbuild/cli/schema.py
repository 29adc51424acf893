"""`dlbuild schema`: the JSON Schema of dlbuild.yaml, for editors."""

import argparse
import json

from dlbuild.build.schema import json_schema
from dlbuild.cli.arguments import Parser


def arguments(parser: Parser) -> None:
    """Add its options."""
    parser.add_argument("--markdown", action="store_true", help="print tables for a page")


def run(given: argparse.Namespace) -> int:
    """Print it."""
    if given.markdown:
        from dlbuild.report.recipe import keys_text  # noqa: PLC0415 - editors do not need it

        print("\n".join(keys_text(json_schema())))
        return 0
    print(json.dumps(json_schema(), indent=2))
    return 0
