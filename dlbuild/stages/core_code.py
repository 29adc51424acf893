"""The functions of several cores: straight-line code for each, with waits where data flows."""

import re

from dlbuild.emit.comments import block, filled
from dlbuild.ir.schedule import Schedule
from dlbuild.ir.tile_plan import Tile, TilePlan
from dlbuild.stages.body import step_comment
from dlbuild.stages.declaration import declaration, parameters
from dlbuild.stages.functions import Functions
from dlbuild.stages.sources import Context, Sources

MARGIN = "    "

BEGUN = 1
"""The progress of core 0, counted from the last run's, that lets the others begin."""


def job(model: Sources, schedule: Schedule) -> list[str]:
    """Return the members of the structure that core 0 hands on; none for one core."""
    if model.target.resources[1] == 1:
        return []
    return [f"{_member(argument.text)};" for argument in parameters(model, schedule)]


def _member(declared: str) -> str:
    """Return a parameter as a member: `const int8_t x[N]` is `const int8_t *x`."""
    return re.sub(r"(\w+)\[\w+\]$", r"*\1", declared)


def core_entries(
    model: Sources, tiles: TilePlan, schedule: Schedule, kernels: Functions
) -> list[Context]:
    """Return the functions of the cores, then those that users call."""
    count = model.target.resources[1]
    tile_of = {(tile.kernel, tile.number): tile for tile in tiles.tiles}
    signals = {wait.step for step in schedule.steps for wait in step.waits}
    found: list[Context] = []
    for core in range(count):
        lines = _core(model, schedule, kernels, core, signals, tile_of)
        found.append({"declaration": f"static void core{core}(uint32_t base)", "lines": lines})
    return [*found, _worker(model, schedule), _stop(model, count), _run(model, schedule)]


def _core(  # noqa: PLR0913, PLR0917 - what the lines are made of
    model: Sources,
    schedule: Schedule,
    kernels: Functions,
    core: int,
    signals: set[int],
    tile_of: dict[tuple[str, int], Tile],
) -> list[str]:
    """Return the lines of one core: its waits, calls and signals."""
    lines: list[str] = []
    for step in schedule.steps:
        call = kernels.calls.get(step.number)
        if step.core != core or call is None:
            continue
        part = _part(tile_of[step.kernel, step.tile])
        lines += [_statement("dlb_wait", wait.core, wait.step + 2) for wait in step.waits]
        lines.append(step_comment(model, step, part=part))
        arguments = [_of_job(model, schedule, word) for word in call.arguments]
        lines.append(filled(f"{MARGIN}{call.function}(", arguments, ");"))
        if step.number in signals:
            lines.append(_statement("dlb_signal", core, step.number + 2))
    if not any("base" in line for line in lines):
        lines.insert(0, f"{MARGIN}(void)base;")
    return lines


def _statement(function: str, core: int, progress: int) -> str:
    return f"{MARGIN}{function}({core}U, base + {progress}U);"


def _of_job(model: Sources, schedule: Schedule, argument: str) -> str:
    """Return an argument of a call where the run's own are those of the job."""
    for given in parameters(model, schedule):
        argument = re.sub(rf"(?<![\w.>]){given.name}\b", f"job.{given.name}", argument)
    return argument


def _part(tile: Tile) -> str:
    """Say which part of its kernel a tile is."""
    ranges = [f"{box.axis} {box.first} to {box.last - 1}" for box in tile.boxes]
    return f": {', '.join(ranges)}" if ranges else ""


def last(schedule: Schedule) -> int:
    """Return the progress of each core at the end of a run, counted from the run before."""
    return len(schedule.steps) + 2


def _worker(model: Sources, schedule: Schedule) -> Context:
    count = model.target.resources[1]
    lines = [
        f"{MARGIN}for (uint32_t base = dlb_progress(core);; base += {last(schedule)}U) {{",
        f"{MARGIN * 2}dlb_wait(0U, base + {BEGUN}U);",
        f"{MARGIN * 2}if (job.is_end != 0U) {{",
        f"{MARGIN * 3}dlb_signal(core, base + {BEGUN}U);",
        f"{MARGIN * 3}return;",
        f"{MARGIN * 2}}}",
        f"{MARGIN * 2}switch (core) {{",
    ]
    for core in range(1, count):
        label = f"case {core}U" if core + 1 < count else "default"
        lines += [
            f"{MARGIN * 2}{label}:",
            f"{MARGIN * 3}core{core}(base);",
            f"{MARGIN * 3}break;",
        ]
    lines += [
        f"{MARGIN * 2}}}",
        f"{MARGIN * 2}dlb_signal(core, base + {last(schedule)}U);",
        f"{MARGIN}}}",
    ]
    return {"declaration": f"void {model.face.prefix}_worker(uint32_t core)", "lines": lines}


def _all_wait(count: int, progress: int) -> list[str]:
    """Return the lines with which core 0 waits for all others."""
    return [
        f"{MARGIN}for (uint32_t core = 1; core < {count}U; ++core) {{",
        f"{MARGIN * 2}dlb_wait(core, base + {progress}U);",
        f"{MARGIN}}}",
    ]


def _stop(model: Sources, count: int) -> Context:
    lines = [
        f"{MARGIN}const uint32_t base = dlb_progress(0U);",
        "",
        f"{MARGIN}job.is_end = 1U;",
        f"{MARGIN}dlb_signal(0U, base + {BEGUN}U);",
        *_all_wait(count, BEGUN),
        f"{MARGIN}job.is_end = 0U;",
    ]
    return {"declaration": f"void {model.face.prefix}_stop(void)", "lines": lines}


def _run(model: Sources, schedule: Schedule) -> Context:
    """Return `<m>_run`: hand on the arguments, do the part of core 0, wait for all others."""
    count = model.target.resources[1]
    names = [argument.name for argument in parameters(model, schedule)]
    note = block("Between runs all cores have the same progress.", MARGIN)
    lines = [
        note,
        f"{MARGIN}const uint32_t base = dlb_progress(0U);",
        "",
        *(f"{MARGIN}job.{name} = {name};" for name in names),
        f"{MARGIN}dlb_signal(0U, base + {BEGUN}U);",
        f"{MARGIN}core0(base);",
        f"{MARGIN}dlb_signal(0U, base + {last(schedule)}U);",
        *_all_wait(count, last(schedule)),
        f"{MARGIN}return {model.face.macro}_OK;",
    ]
    return {"declaration": declaration(model, schedule), "lines": lines}
