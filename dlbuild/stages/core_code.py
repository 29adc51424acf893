"""The functions of several cores: straight-line code for each, with waits where data flows."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from dlbuild.emit.comments import block, filled
from dlbuild.ir.schedule import Schedule, Wait
from dlbuild.ir.tile_plan import Tile, TilePlan
from dlbuild.stages.body import step_comment
from dlbuild.stages.declaration import (
    TABLES,
    Argument,
    declaration,
    handed,
    parameters,
    taken_image,
)
from dlbuild.stages.functions import Functions
from dlbuild.stages.sources import Context, Sources

MARGIN = "    "

BEGUN = 1
"""The progress of core 0, counted from the last run's, that lets the others begin."""


def job(model: Sources, schedule: Schedule) -> list[str]:
    """Return the members of the structure that core 0 hands on; none for one core."""
    if model.target.resources[1] == 1:
        return []
    count = ["uint32_t count;  /* of inputs */"] if model.graph.clusters.is_stream else []
    members = [f"{_member(argument.text)};" for argument in handed(model, schedule)]
    return [*members, *count, "uint32_t is_end; /* there is no run, they return */"]


def _member(declared: str) -> str:
    """Return a parameter as a member: `const int8_t x[N]` is `const int8_t *x`."""
    return re.sub(r"(\w+)\[\w+\]$", r"*\1", declared)


def core_entries(
    model: Sources, tiles: TilePlan, schedule: Schedule, kernels: Functions
) -> list[Context]:
    """Return the functions of the cores, then those that users call."""
    count = model.target.resources[1]
    cores = [Core(model, tiles, schedule, kernels, core) for core in range(count)]
    if model.graph.clusters.is_stream:
        return [
            *(core.of_stream() for core in cores),
            _worker(model, schedule),
            _stop(model, count),
            _stream(model, schedule),
            _run_of_stream(model, schedule),
        ]
    found = [core.of_run() for core in cores]
    return [*found, _worker(model, schedule), _stop(model, count), _run(model, schedule)]


@dataclass(frozen=True)
class Core:
    """What one core does in a run."""

    model: Sources
    tiles: TilePlan
    schedule: Schedule
    kernels: Functions
    number: int

    def of_run(self) -> Context:
        """Return its function, which finds what the caller gave in the job."""
        lines = self._lines({a.name: f"job.{a.name}" for a in handed(self.model, self.schedule)})
        if not any("base" in line for line in lines):
            lines.insert(0, f"{MARGIN}(void)base;")
        return {"declaration": f"static void core{self.number}(uint32_t base)", "lines": lines}

    def of_stream(self) -> Context:
        """Return its function for one of several inputs, which lie behind each other."""
        lines = self._lines({TABLES: f"job.{TABLES}"})
        text = "\n".join(lines)
        found = []
        for argument in self._given:
            if re.search(rf"(?<![\w.>]){argument.name}\b", text):
                head = _member(argument.text).replace(
                    f"*{argument.name}", f"*const {argument.name}"
                )
                length = f"{self.model.face.macro}_{argument.name.upper()}_LEN"
                found.append(f"{MARGIN}{head} = &job.{argument.name}[at * {length}];")
        unused = [] if "(base" in text or ", base" in text else ["base"]
        unused += [] if found else ["at"]
        lines = [*(f"{MARGIN}(void){name};" for name in unused), *found, *lines]
        declared = f"static void core{self.number}(uint32_t base, uint32_t at)"
        return {"declaration": declared, "lines": lines}

    @property
    def _given(self) -> tuple[Argument, ...]:
        return parameters(self.model, self.schedule)

    def _lines(self, names: Mapping[str, str]) -> list[str]:
        """Return its waits, calls and signals. names: what the caller's tensors are called."""
        signals = {wait.step for step in self.schedule.steps for wait in step.waits}
        tile_of = {(tile.kernel, tile.number): tile for tile in self.tiles.tiles}
        lines: list[str] = []
        for step in self.schedule.steps:
            call = self.kernels.calls.get(step.number)
            if step.core != self.number or call is None:
                continue
            lines += [self._wait(wait) for wait in step.waits]
            part = _part(tile_of[step.kernel, step.tile])
            lines.append(step_comment(self.model, step, part=part))
            arguments = [_renamed(word, names) for word in call.arguments]
            lines.append(filled(f"{MARGIN}{call.function}(", arguments, ");"))
            if step.number in signals:
                lines.append(f"{MARGIN}dlb_signal({self.number}U, base + {step.number + 2}U);")
        return lines

    def _wait(self, wait: Wait) -> str:
        progress = wait.step + 2 - wait.lag * last(self.schedule)
        place = f"base + {progress}U" if progress >= 0 else f"base - {-progress}U"
        return f"{MARGIN}dlb_wait({wait.core}U, {place});"


def _renamed(argument: str, names: Mapping[str, str]) -> str:
    """Return an argument of a call with other names."""
    for old, new in names.items():
        argument = re.sub(rf"(?<![\w.>]){old}\b", new, argument)
    return argument


def _part(tile: Tile) -> str:
    """Say which part of its kernel a tile is."""
    ranges = [f"{box.axis} {box.first} to {box.last - 1}" for box in tile.boxes]
    return f": {', '.join(ranges)}" if ranges else ""


def last(schedule: Schedule) -> int:
    """Return the progress of each core at the end of a run, counted from the run before."""
    return len(schedule.steps) + 2


def _worker(model: Sources, schedule: Schedule) -> Context:
    is_stream = model.graph.clusters.is_stream
    step = f"job.count * {last(schedule)}U" if is_stream else f"{last(schedule)}U"
    lines = [
        f"{MARGIN}for (uint32_t base = dlb_progress(core);; base = dlb_progress(core)) {{",
        f"{MARGIN * 2}dlb_wait(0U, base + {BEGUN}U);",
        f"{MARGIN * 2}if (job.is_end != 0U) {{",
        f"{MARGIN * 3}dlb_signal(core, base + {BEGUN}U);",
        f"{MARGIN * 3}return;",
        f"{MARGIN * 2}}}",
    ]
    if is_stream:
        lines.append(f"{MARGIN * 2}for (uint32_t at = 0; at < job.count; ++at) {{")
        place = f"base + (at * {last(schedule)}U), at"
        lines += _switch(model.target.resources[1], place, MARGIN * 3)
        lines.append(f"{MARGIN * 2}}}")
    else:
        lines[0] = lines[0].replace("base = dlb_progress(core)) {", f"base += {step}) {{")
        lines += _switch(model.target.resources[1], "base", MARGIN * 2)
    lines += [f"{MARGIN * 2}dlb_signal(core, base + {_factor(step)});", f"{MARGIN}}}"]
    return {"declaration": f"void {model.face.prefix}_worker(uint32_t core)", "lines": lines}


def _factor(text: str) -> str:
    return f"({text})" if " " in text else text


def _switch(count: int, place: str, margin: str) -> list[str]:
    """Return the lines in which a core calls its function."""
    lines = [f"{margin}switch (core) {{"]
    for core in range(1, count):
        label = f"case {core}U" if core + 1 < count else "default"
        lines += [
            f"{margin}{label}:",
            f"{margin}{MARGIN}core{core}({place});",
            f"{margin}{MARGIN}break;",
        ]
    return [*lines, f"{margin}}}"]


def stream_declaration(model: Sources, schedule: Schedule) -> str:
    """Return the prototype of `<m>_stream`, without a semicolon."""
    texts = [_member(argument.text) for argument in parameters(model, schedule)]
    return filled(f"int {model.face.prefix}_stream(", [*texts, "uint32_t count"], ")")


def _stream(model: Sources, schedule: Schedule) -> Context:
    """Return `<m>_stream`: hand on the arguments, do the part of core 0, wait for all others."""
    count = model.target.resources[1]
    names = [argument.name for argument in handed(model, schedule)]
    lines = [
        block("Between runs all cores have the same progress.", MARGIN),
        f"{MARGIN}const uint32_t base = dlb_progress(0U);",
        f"{MARGIN}const uint32_t end = base + (count * {last(schedule)}U);",
        *(taken_image(model) or [""]),
        f"{MARGIN}if (count == 0U) {{",
        f"{MARGIN * 2}return {model.face.macro}_OK;",
        f"{MARGIN}}}",
        *(f"{MARGIN}job.{name} = {name};" for name in [*names, "count"]),
        f"{MARGIN}dlb_signal(0U, base + {BEGUN}U);",
        f"{MARGIN}for (uint32_t at = 0; at < count; ++at) {{",
        f"{MARGIN * 2}core0(base + (at * {last(schedule)}U), at);",
        f"{MARGIN}}}",
        f"{MARGIN}dlb_signal(0U, end);",
        f"{MARGIN}for (uint32_t core = 1; core < {count}U; ++core) {{",
        f"{MARGIN * 2}dlb_wait(core, end);",
        f"{MARGIN}}}",
        f"{MARGIN}return {model.face.macro}_OK;",
    ]
    return {"declaration": stream_declaration(model, schedule), "lines": lines}


def _run_of_stream(model: Sources, schedule: Schedule) -> Context:
    names = [argument.name for argument in parameters(model, schedule)]
    call = filled(f"{MARGIN}return {model.face.prefix}_stream(", [*names, "1U"], ");")
    return {"declaration": declaration(model, schedule), "lines": [call]}


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
    names = [argument.name for argument in handed(model, schedule)]
    note = block("Between runs all cores have the same progress.", MARGIN)
    lines = [
        note,
        f"{MARGIN}const uint32_t base = dlb_progress(0U);",
        *(taken_image(model) or [""]),
        *(f"{MARGIN}job.{name} = {name};" for name in names),
        f"{MARGIN}dlb_signal(0U, base + {BEGUN}U);",
        f"{MARGIN}core0(base);",
        f"{MARGIN}dlb_signal(0U, base + {last(schedule)}U);",
        *_all_wait(count, last(schedule)),
        f"{MARGIN}return {model.face.macro}_OK;",
    ]
    return {"declaration": declaration(model, schedule), "lines": lines}
