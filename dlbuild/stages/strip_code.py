"""Strips in C: one function for each that runs its layers row by row, and the row kernels."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from dlbuild.emit.comments import block, filled
from dlbuild.emit.ctypes import storage
from dlbuild.emit.kernel import KernelText
from dlbuild.emit.literals import COLUMNS
from dlbuild.ir.schedule import Schedule
from dlbuild.ir.tile_plan import Layer, Strip, TilePlan
from dlbuild.stages.arena import Places
from dlbuild.stages.body import step_comment
from dlbuild.stages.conditions import Test, condition, ready, room
from dlbuild.stages.declaration import Argument, handed
from dlbuild.stages.groups import MOST_ROWS_OF_INT16
from dlbuild.stages.row_calls import RowKernels, columns_name
from dlbuild.stages.sources import Sources

MARGIN = "    "
COUNTERS_HEAD = "struct { /* rows done of each layer */"


@dataclass(frozen=True, slots=True)
class Pumped:
    """One strip as C.

    text: its function. name: of the function. arguments: what `<m>_run` hands to it.
    begin: the lines that clear the counters, if they outlive a call.
    """

    number: int
    name: str
    text: str
    arguments: tuple[str, ...]
    begin: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StripCode:
    """The row kernels of all strips, each text once, and the strips."""

    kernels: tuple[KernelText, ...]
    strips: tuple[Pumped, ...]


def strip_code(model: Sources, tiles: TilePlan, schedule: Schedule, places: Places) -> StripCode:
    """Return the C of a plan's strips."""
    kernels = RowKernels(model, tiles, places)
    strips = tuple(
        _Pump(model, schedule, places, kernels, strip, number).pumped()
        for number, strip in enumerate(tiles.strips, start=1)
    )
    return StripCode(kernels.commented(), strips)


def counters_of(model: Sources, strip: Strip) -> str:
    """Return the C name of a strip's counters: those of a stream outlive a call."""
    if not strip.counters:
        return "done"
    return "arena->stream" if model.options.arena == "caller" else "arena.stream"


def counter_names(model: Sources, strip: Strip) -> Mapping[str, str]:
    """Return the name of the counter of each layer, and of a streamed input."""
    names = {layer.kernel: model.face.kernels[layer.kernel] for layer in strip.layers}
    if strip.streamed:
        names[strip.streamed] = model.face.port(strip.streamed).name
    return names


def counter_lines(model: Sources, schedule: Schedule, strip: Strip) -> list[str]:
    """Return the member of the arena that holds counters."""
    buffer = schedule.buffer[strip.counters]
    before = [f"{MARGIN}uint8_t before[{buffer.offset_bytes}];"] if buffer.offset_bytes else []
    names = counter_names(model, strip).values()
    return [
        COUNTERS_HEAD,
        *before,
        *(f"{MARGIN}{storage(buffer.dtype)} {name};" for name in names),
        "} stream;",
    ]


def columns_table(name: str, passes: Sequence[tuple[int, int]]) -> list[str]:
    """Return the table of a layer's columns in each pass."""
    head = f"{MARGIN}static const int16_t {name}[{len(passes)}][2] = {{"
    words = [f"{{{first}, {end - first}}}" for first, end in passes]
    line = f"{head}{', '.join(words)}}};"
    if len(line) <= COLUMNS:
        return [line]
    # clang-format would set such a list in columns of its own choice.
    rows = [f"{MARGIN * 2}{', '.join(words[at : at + 8])}," for at in range(0, len(words), 8)]
    off, on = "/* clang-format off */", "/* clang-format on */"
    return [f"{MARGIN}{off}", head, *rows, f"{MARGIN}}};", f"{MARGIN}{on}"]


@dataclass(frozen=True)
class _Pump:
    model: Sources
    schedule: Schedule
    places: Places
    kernels: RowKernels
    strip: Strip
    number: int

    @cached_property
    def counters(self) -> Mapping[str, str]:
        """The counter of each layer by its kernel, and of the streamed input by its tensor."""
        struct = counters_of(self.model, self.strip)
        names = counter_names(self.model, self.strip)
        return {key: f"{struct}.{name}" for key, name in names.items()}

    def pumped(self) -> Pumped:
        name = f"strip{self.number}"
        branches = self._branches()
        ends = [self.kernels.finish_call(layer) for layer in self.strip.layers if layer.sums]
        used = set(re.findall(r"\w+", "\n".join([*branches, *ends])))
        given = [a for a in handed(self.model, self.schedule) if a.name in used]
        turns = [
            condition(f"{MARGIN}while (", self._unfinished(), " || "),
            *branches,
            f"{MARGIN}}}",
        ]
        if self.passes > 1:
            text = self._in_passes(name, given, turns, ends)
        else:
            local = [] if self.strip.streamed else [*self._counters(), ""]
            last = [*ends, f"{MARGIN}return 1;"] if self.strip.streamed else ends
            text = self._function(name, given, [*local, *turns, *last], self._about())
        begin = [f"{MARGIN}{counter} = 0;" for counter in self.counters.values()]
        return Pumped(self.number, name, text, tuple(a.name for a in given), tuple(begin))

    @property
    def passes(self) -> int:
        return len(self.strip.layers[0].passes) or 1

    def _function(
        self, name: str, given: Sequence[Argument], lines: Sequence[str], about: str, last: str = ""
    ) -> str:
        """Return a function. last: a further parameter."""
        declared = [re.sub(r"(\w+)\[\w+\]$", r"*\1", a.text) for a in given]
        kind = "int" if self.strip.streamed else "void"
        head = filled(f"static {kind} {name}(", [*declared, *([last] if last else [])], ")")
        if head.endswith("()"):
            head = head.replace("()", "(void)")
        section = f"{self.model.face.macro}_CODE_SECTION"
        return "\n".join([block(about), section, head, "{", *lines, "}"])

    def _in_passes(
        self, name: str, given: Sequence[Argument], turns: Sequence[str], ends: Sequence[str]
    ) -> str:
        """Return the function of one pass, and the one that runs them all."""
        tables = [
            line
            for layer in self.strip.layers
            for line in columns_table(columns_name(self.model, layer), layer.passes)
        ]
        lines = [
            f"{MARGIN}/* Of each layer the first column of a pass, and how many. */",
            *tables,
            *self._counters(),
            "",
            *turns,
        ]
        one = self._function(f"{name}_pass", given, lines, self._about(), "int32_t pass")
        call = filled(f"{MARGIN * 2}{name}_pass(", [*(a.name for a in given), "pass"], ");")
        loop = f"{MARGIN}for (int32_t pass = 0; pass < {self.passes}; ++pass) {{"
        about = f"The columns in {self.passes} parts, so that less of each row has to be kept."
        whole = self._function(name, given, [loop, call, f"{MARGIN}}}", *ends], about)
        return f"{one}\n\n{whole}"

    def _about(self) -> str:
        steps = [step.number for step in self.schedule.steps if step.strip == self.number]
        text = (
            f"Steps {steps[0]} to {steps[-1]}, row by row: of the layers whose input rows are"
            " there, the one nearest to the end goes first."
        )
        if self.strip.streamed:
            text += " Returns whether all is done, else another row of the input is needed."
        return text

    def _counters(self) -> list[str]:
        """Return the declaration of the counters: rows done of each layer."""
        ctype = self._counter_type
        names = counter_names(self.model, self.strip).values()
        lines = [COUNTERS_HEAD, *(f"{MARGIN}{ctype} {name};" for name in names), "} done = {0};"]
        return [f"{MARGIN}{line}" for line in lines]

    @property
    def _counter_type(self) -> str:
        """The C type of the counters of rows."""
        if self.strip.counters:
            return storage(self.schedule.buffer[self.strip.counters].dtype)
        rows = max(layer.rows for layer in self.strip.layers)
        rows = max([rows, *(r.extent for layer in self.strip.layers for r in layer.reads)])
        return "int16_t" if rows <= MOST_ROWS_OF_INT16 else "int32_t"

    def _unfinished(self) -> list[str]:
        rings = {ring.tensor for ring in self.strip.rings}
        return [
            f"{self.counters[layer.kernel]} < {layer.rows}"
            for layer in self.strip.layers
            if layer.writes not in rings
        ]

    def _branches(self) -> list[str]:
        lines: list[str] = []
        for layer in reversed(self.strip.layers):
            head = f"{MARGIN * 2}{'} else ' if lines else ''}if ("
            tests = list(self._tests(layer))
            # Of the loop around it the condition holds.
            is_told = len(tests) > 1 and tests[:1] == self._unfinished()
            lines.append(condition(head, tests[1:] if is_told else tests, " && "))
            lines.append(self._layer_comment(layer))
            lines += self.kernels.row_lines(layer, self.counters)
            lines.append(f"{MARGIN * 3}{self._counted(layer)}")
        if self.strip.streamed:
            lines += [f"{MARGIN * 2}}} else {{", f"{MARGIN * 3}return 0;"]
        return [*lines, f"{MARGIN * 2}}}"]

    def _counted(self, layer: Layer) -> str:
        """Return the statement that counts the rows that were computed."""
        counter = self.counters[layer.kernel]
        if layer.step == 1:
            return f"++{counter};"
        after = f"{counter} + {layer.step}"
        if layer.rows % layer.step:
            after = f"min_i32({after}, {layer.rows})"
        kind = self._counter_type
        if kind == "int32_t":
            return f"{counter} = {after};"
        return f"{counter} = ({kind}){after if layer.rows % layer.step else f'({after})'};"

    def _layer_comment(self, layer: Layer) -> str:
        step = next(s for s in self.schedule.steps if s.kernel == layer.kernel)
        return step_comment(self.model, step, MARGIN * 3)

    def _tests(self, layer: Layer) -> Iterator[str]:
        """Yield what must hold for a layer to go: rows left, rows there, room for one."""
        own = Test(self.counters[layer.kernel], layer.rows, layer.step)
        producer = {other.writes: other.kernel for other in self.strip.layers if not other.sums}
        if self.strip.streamed:
            producer[self.strip.streamed] = self.strip.streamed
        yield f"{own.counter} < {layer.rows}"
        for read in layer.reads:
            if read.tensor in producer:
                yield ready(own, read, self.counters[producer[read.tensor]])
        rings = {ring.tensor: ring for ring in self.strip.rings}
        for other in self.strip.layers:
            if other.kernel in layer.room:
                (read,) = (r for r in other.reads if r.tensor == layer.writes)
                yield room(own, read, self.counters[other.kernel], rings[layer.writes].rows)
