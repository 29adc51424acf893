"""`dlbuild schema`: the JSON Schema of dlbuild.yaml, for editors."""

import argparse
import json

from dlbuild.build.schema import json_schema
from dlbuild.cli.arguments import Parser


def arguments(_parser: Parser) -> None:
    """It has none."""


def run(_given: argparse.Namespace) -> int:
    """Print it."""
    print(json.dumps(json_schema(), indent=2))
    return 0
