"""`dlbuild clean`: remove what builds wrote, and their state."""

import argparse
import shutil
from pathlib import Path

from dlbuild.build.builder import remove_written
from dlbuild.build.fastpath import STATE_FOLDER
from dlbuild.build.ledger import LEDGER, read_ledger
from dlbuild.cli.arguments import Parser


def arguments(_parser: Parser) -> None:
    """It has none."""


def run(given: argparse.Namespace) -> int:
    """Remove the files that the ledger names, then the state; other files stay."""
    out = Path(given.out)
    ledger = read_ledger(out / STATE_FOLDER / LEDGER)
    count = sum(len(remove_written(out, written)) for written in ledger.written.values())
    shutil.rmtree(out / STATE_FOLDER, ignore_errors=True)
    if out.is_dir() and not any(out.iterdir()):
        out.rmdir()
    print(f"removed {count} files" if count != 1 else "removed 1 file")
    return 0
