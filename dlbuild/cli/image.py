"""`dlbuild image`: what images of weights say of themselves, and whether a firmware takes them."""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from dlbuild.base.errors import UserError
from dlbuild.base.files import read
from dlbuild.build.engine import Engine, path_of
from dlbuild.build.project import Build
from dlbuild.build.recipe import PROJECT_FILE
from dlbuild.cli.arguments import Parser
from dlbuild.cli.build import build_all
from dlbuild.cli.project import add_jobs
from dlbuild.ir.image import ImageHead, ImageLayout, decode_head, fault_of, layout_of

ACTIONS = {
    "show": "what they say of themselves, and whether their CRC is right",
    "check": "whether the firmware of this project takes them; exit status 1 if it takes one not",
}

_FAULTS = {
    "truncated": "truncated: it has more bytes than the file",
    "foreign": "foreign: it is no weight image, or one of another format",
    "damaged": "damaged: its CRC is not that of its bytes",
    "stale": "stale: it is of another model or structure",
}


def arguments(parser: Parser) -> None:
    """Add its options."""
    about = "; ".join(f"{name}: {what}" for name, what in ACTIONS.items())
    parser.add_argument("action", choices=ACTIONS, help=about)
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="images (default: those of a build)"
    )
    parser.add_argument(
        "--target",
        dest="named",
        action="append",
        default=[],
        metavar="TARGET",
        help="for it alone",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_jobs(parser)


def run(given: argparse.Namespace) -> int:
    """Print a line or more for each image."""
    layouts = _layouts(given) if given.action == "check" or not given.files else {}
    files = [Path(name) for name in given.files] or [
        path_of(Path(given.out), build, "image") for build in layouts
    ]
    rows = [_row(path, layouts, is_check=given.action == "check") for path in files]
    if given.json:
        print(json.dumps(rows, indent=2))
    else:
        print("\n".join(line for row in rows for line in _lines(row)))
    return 1 if any(row["fault"] for row in rows) else 0


def _layouts(given: argparse.Namespace) -> dict[Build, ImageLayout]:
    """Return how images of each build lie, all brought up to date before."""
    given.positional = []
    engine = build_all(given, quiet=True)
    found = dict(_images_of(engine))
    if not found:
        raise UserError(
            "no build has a weight image",
            where=PROJECT_FILE,
            fix="set weights: image for a model or a build",
            exit_code=2,
        )
    return found


def _images_of(engine: Engine) -> Iterator[tuple[Build, ImageLayout]]:
    for build in engine.keys.recipe.builds:
        layout = layout_of(engine.content(build, "image_layout"))
        if layout is not None:
            yield build, layout


Row = dict[str, str | int | list[str]]


def _row(path: Path, layouts: dict[Build, ImageLayout], *, is_check: bool) -> Row:
    """Return what is to be said of one file. fits: the builds whose firmware takes it."""
    content = read(path)
    if content is None:
        raise UserError("there is no such file", where=path.as_posix(), exit_code=2)
    fault = fault_of(content)
    row: Row = {"file": path.as_posix(), "fault": fault or ""}
    if fault in (None, "damaged") or (fault == "truncated" and _has_head(content)):
        row |= _said(decode_head(content))
    if is_check:
        fits = [one.label for one, layout in layouts.items() if not fault_of(content, layout)]
        row["fits"] = fits
        if fault is None and not fits:
            row["fault"] = "stale"
    return row


def _has_head(content: bytes) -> bool:
    try:
        decode_head(content)
    except UserError:
        return False
    return True


def _said(head: ImageHead) -> Row:
    return {
        "size_bytes": head.size_bytes,
        "version": head.version,
        "structure": head.structure,
        "weights": head.weights,
        "crc": f"{head.crc:08x}",
    }


def _lines(row: Row) -> Iterator[str]:
    fits = row.get("fits")
    if row["fault"]:
        yield f"{row['file']}: {_FAULTS[str(row['fault'])]}"
    elif isinstance(fits, list):
        yield f"{row['file']}: fits {', '.join(fits)}"
    else:
        yield f"{row['file']}: whole"
    if "size_bytes" in row:
        yield f"  version    {row['version']}"
        yield f"  size       {row['size_bytes']:,} B"
        yield f"  structure  {row['structure']}"
        yield f"  weights    {row['weights']}"
        yield f"  CRC-32     {row['crc']}"
