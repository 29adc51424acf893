"""`dlbuild size`: RAM and flash of each model, and what the budgets leave."""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from dlbuild.build.engine import Engine
from dlbuild.build.sizes import decode_sizes
from dlbuild.cli.arguments import Parser
from dlbuild.cli.build import build_all
from dlbuild.cli.merged import Decided, merged_functions
from dlbuild.cli.project import add_jobs, add_targets
from dlbuild.ir import codec
from dlbuild.ir.schedule import Schedule
from dlbuild.report.clusters import arenas_text
from dlbuild.report.memories import Filled, filled, memories_text
from dlbuild.report.merged import merged_text
from dlbuild.report.text import table_text

Row = dict[str, str | int | None]


def arguments(parser: Parser) -> None:
    """Add its options."""
    add_targets(parser)
    add_jobs(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--memories", action="store_true", help="also say how each memory is filled, and by what"
    )
    parser.add_argument(
        "--functions",
        action="store_true",
        help="also say which layers have one function, and what flash that saves",
    )
    parser.add_argument(
        "--run",
        action="store_true",
        help="with --functions: run them on the target, for what that costs in instructions",
    )


def run(given: argparse.Namespace) -> int:
    """Build what is out of date, then print the table."""
    engine = build_all(given, quiet=True)
    rows = list(_rows(engine))
    memories = dict(_memories(engine)) if given.memories else {}
    merged = (
        dict(merged_functions(engine, is_run=given.run)) if given.functions or given.run else {}
    )
    if given.json:
        print(json.dumps([_shown(row, memories, merged) for row in rows], indent=2))
        return 0
    has_images = any(row["image_bytes"] for row in rows)
    header = ["model@target", "arena", "bound", "stack", "code", "tables", "flash"]
    header += ["image"] if has_images else []
    cells = [[_cell(row[key]) for key in _COLUMNS][: len(header)] for row in rows]
    print("\n".join(table_text(header, cells)))
    print(f"\n{_LEGEND}")
    if has_images:
        print(_IMAGE_LEGEND)
    for row in rows:
        if "arenas" in row:
            print(f"arenas of {row['build']}: {row['arenas']}")
        if row["stack_without"]:
            print(f"stack of {row['build']}: without {row['stack_without']}, code of a library")
    for build, found in memories.items():
        print("\n" + "\n".join(memories_text(build, found)))
    for build, decided in merged.items():
        print("\n" + "\n".join(merged_text(build, *decided)))
    return 0


def _shown(
    row: Row, memories: Mapping[str, Sequence[Filled]], merged: Mapping[str, Decided]
) -> dict[str, object]:
    """Return a row with all else that was asked for."""
    build = str(row["build"])
    shown: dict[str, object] = dict(row)
    if memories:
        shown["memories"] = [one.as_json() for one in memories[build]]
    if merged:
        found, costs = merged[build]
        shown["functions"] = [
            {**asdict(group), "instructions": costs.get(group.functions[0])}
            for group in (found.groups if found is not None else ())
        ]
    return shown


_COLUMNS = (
    *("build", "arena_bytes", "bound_bytes", "stack_bytes"),
    *("code_bytes", "tables_bytes", "flash_bytes", "image_bytes"),
)
_LEGEND = """\
All in bytes.
arena: activations, kernel scratch, alignment, and interface buffers placed there
bound: no plan can need less
stack: the deepest path of a run, from the compiler's call graph and the machine code of libraries
code: functions of both objects
tables: their read-only data: weights, biases, scales and all else computed from them
flash: code, tables and start values of both objects; not what a library adds"""
_IMAGE_LEGEND = "image: weights that are flashed apart, or the slot that is kept for them"


def _rows(engine: Engine) -> list[Row]:
    rows = []
    for build in engine.keys.recipe.builds:
        sizes = decode_sizes(engine.content(build, "size"))
        schedule = codec.decode(engine.content(build, "schedule"), Schedule)
        arenas = [use for use in schedule.memories if not use.is_near]
        row: Row = {
            "build": build.label,
            "arena_bytes": sum(use.height_bytes for use in arenas),
            "bound_bytes": sum(use.bound_bytes for use in arenas),
            "stack_bytes": sizes.stack_bytes,
            "code_bytes": sizes.text_bytes,
            "tables_bytes": sizes.rodata_bytes,
            "flash_bytes": sizes.flash_bytes,
            "image_bytes": build.options.image_slot_bytes or sizes.image_bytes,
            "stack_without": ", ".join(sizes.stack_without),
        }
        if engine.keys.recipe.targets[build.target].clusters:
            row["arenas"] = arenas_text(schedule.memories)
        rows.append(row)
    return rows


def _memories(engine: Engine) -> Iterator[tuple[str, tuple[Filled, ...]]]:
    """Yield how the memories of each build are filled."""
    for build in engine.keys.recipe.builds:
        schedule = codec.decode(engine.content(build, "schedule"), Schedule)
        stack_bytes = engine.keys.recipe.targets[build.target].stack_bytes or 0
        yield build.label, tuple(filled(schedule, stack_bytes))


def _cell(value: str | int | None) -> str:
    if value is None:
        return "unknown"
    return value if isinstance(value, str) else f"{value:,}"
