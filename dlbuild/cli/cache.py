"""`dlbuild cache`: the store of results that all projects of a user share."""

import argparse
import json
import shutil
from dataclasses import asdict
from pathlib import Path

from dlbuild.base.errors import UserError
from dlbuild.base.units import SIZE, QuantityError, bytes_text, whole
from dlbuild.build.cache import LAYOUT, LIMIT_BYTES, Store, cache_folder
from dlbuild.cli.arguments import Parser

ACTIONS = {
    "stats": "what it holds",
    "gc": "remove what was not used for longest if it is larger than the limit",
    "verify": "read everything and remove what is damaged; exit status 1 if anything was",
    "clear": "remove everything",
    "where": "its folder",
}


def arguments(parser: Parser) -> None:
    """Add its options."""
    about = "; ".join(f"{name}: {what}" for name, what in ACTIONS.items())
    parser.add_argument("action", choices=ACTIONS, help=about)
    parser.add_argument(
        "--limit", default=f"{LIMIT_BYTES} B", metavar="SIZE", help="of gc (default: 5 GiB)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(given: argparse.Namespace) -> int:
    """Do one of the actions."""
    folder = cache_folder()
    if folder is None:
        raise UserError(
            "there is no folder for caches",
            why="no home folder, and DLBUILD_CACHE_DIR names none",
            fix="set DLBUILD_CACHE_DIR",
        )
    store = Store(folder)
    match given.action:
        case "stats":
            usage = store.usage()
            text = f"{usage.results} results, {usage.contents} contents, {usage.size_bytes:,} B"
            _say(
                given,
                {"folder": folder.as_posix(), "limit_bytes": LIMIT_BYTES} | asdict(usage),
                text,
            )
        case "gc":
            removed = store.trim(_limit(given.limit))
            _say(given, {"removed_bytes": removed}, f"removed {bytes_text(removed)}")
        case "verify":
            damaged = [path.as_posix() for path in store.verify()]
            said = "".join(f"{path}: damaged, removed\n" for path in damaged)
            _say(given, {"damaged": damaged}, f"{said}{len(damaged)} damaged")
            return 1 if damaged else 0
        case "clear":
            _clear(folder / LAYOUT)
            _say(given, {"removed": folder.as_posix()}, f"{folder.as_posix()}: removed")
        case _:
            _say(given, {"folder": folder.as_posix()}, folder.as_posix())
    return 0


def _say(given: argparse.Namespace, fields: dict[str, object], text: str) -> None:
    print(json.dumps(fields) if given.json else text)


def _limit(text: str) -> int:
    try:
        return whole(text, SIZE)
    except QuantityError as error:
        raise UserError(str(error), where="--limit", fix=error.fix, exit_code=2) from None


def _clear(folder: Path) -> None:
    """Remove the store and nothing else that the folder may hold."""
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
