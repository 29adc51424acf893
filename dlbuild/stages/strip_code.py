"""Strips in C: one function for each that runs its layers row by row, and the row kernels."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from dlbuild.emit.comments import block, filled
from dlbuild.emit.ctypes import storage
from dlbuild.emit.kernel import KernelText, Parameter, kernel_comment, render_kernel
from dlbuild.ir.plans import Layer, Ring, Schedule, Strip, TilePlan
from dlbuild.rulebook.instance import Instance
from dlbuild.rulebook.kernels import orders_of
from dlbuild.rulebook.rows import Pointer, Rows, finish_instance, row_kernel, rows_of
from dlbuild.stages.arena import Places
from dlbuild.stages.body import step_comment
from dlbuild.stages.conditions import Test, condition, ready, room
from dlbuild.stages.declaration import parameters
from dlbuild.stages.functions import argument_of_table, restricted
from dlbuild.stages.groups import MOST_ROWS_OF_INT16
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
    kernels = _RowKernels(model, tiles, places)
    strips = tuple(
        _Pump(model, schedule, places, kernels, strip, number).pumped()
        for number, strip in enumerate(tiles.strips, start=1)
    )
    return StripCode(kernels.commented(), strips)


class _RowKernels:
    """Functions of row kernels as they are asked for; equal texts are one function."""

    def __init__(self, model: Sources, tiles: TilePlan, places: Places) -> None:
        self._model = model
        self._places = places
        self._rings = {ring.tensor: ring for strip in tiles.strips for ring in strip.rings}
        self._streamed = {
            name: strip.streamed
            for strip in tiles.strips
            for view in strip.views
            for name in model.profile.kernel[view].writes
        }
        self._rings |= {name: self._rings[root] for name, root in self._streamed.items()}
        self._texts: dict[str, KernelText] = {}
        self._users: dict[str, list[tuple[str, Instance]]] = {}
        self._constants = frozenset(model.graph.constants)

    def rows(self, kernel: str) -> Rows:
        instance = self._model.instances[kernel]
        found = rows_of(instance, self._orders(kernel, instance), self._constants)
        assert found is not None, f"{kernel} is planned in rows"
        return found

    def row_call(self, layer: Layer, counter: str) -> str:
        """Return the call that computes the row `counter` of a layer."""
        kernel, rows = layer.kernel, self.rows(layer.kernel)
        rings = {n: r.rows for n, r in self._rings.items() if r.rows < r.extent}
        made = row_kernel(self._model.instances[kernel], rows, rings)
        name, text = self._function(kernel, made.instance, self._model.face.kernels[kernel])
        pointers = {pointer.operand: pointer for pointer in made.pointers}
        arguments = [
            self._argument(made.instance, kernel, p, pointers.get(p.operand), counter, layer)
            for p in text.parameters
        ]
        return filled(f"{MARGIN * 3}{name}(", [*arguments, *([counter] * len(text.given))], ");")

    def finish_call(self, layer: Layer) -> str:
        """Return the call that makes a layer's results of its sums."""
        kernel = layer.kernel
        instance = finish_instance(self._model.instances[kernel], self.rows(kernel))
        wanted = f"{self._model.face.kernels[kernel]}_end"
        name, text = self._function(kernel, instance, wanted)
        arguments = [self._argument(instance, kernel, p, None, "", layer) for p in text.parameters]
        return filled(f"{MARGIN}{name}(", arguments, ");")

    def commented(self) -> tuple[KernelText, ...]:
        return tuple(self._comment(self._texts[key], users) for key, users in self._users.items())

    def _comment(self, text: KernelText, users: Sequence[tuple[str, Instance]]) -> KernelText:
        kernel, instance = users[0]
        anchors = [self._model.profile.kernel[name].anchor for name, _ in users]
        orders = self._orders(kernel, instance)
        nodes = list(dict.fromkeys(anchors))
        return replace(text, comment=kernel_comment(instance, orders, text.parameters, nodes))

    def _orders(self, kernel: str, instance: Instance) -> Mapping[str, tuple[int, ...]]:
        return orders_of(self._model.profile.kernel[kernel], instance, self._model.profile)

    def _function(self, kernel: str, instance: Instance, name: str) -> tuple[str, KernelText]:
        text = render_kernel(
            instance,
            name,
            self._orders(kernel, instance),
            restrict=restricted(self._model, self._places, instance),
            constants=frozenset(o.name for o in instance.operands if o.tensor in self._constants),
            environment=self._model.environment,
            registers=self._model.registers,
        )
        key = re.sub(rf"\b{name}\b", "", " ".join(text.text.split()))
        self._texts.setdefault(key, text)
        users = self._users.setdefault(key, [])
        users.append((kernel, instance))
        first = self._model.face.kernels[users[0][0]]
        return (f"{first}_end" if name.endswith("_end") else first), text

    def _argument(  # noqa: PLR0913, PLR0917 - what an argument may be
        self,
        instance: Instance,
        kernel: str,
        parameter: Parameter,
        pointer: Pointer | None,
        counter: str,
        layer: Layer,
    ) -> str:
        table = argument_of_table(self._model, kernel, parameter)
        if table is not None:
            return table
        operand = instance.operand(parameter.operand)
        if operand.role == "scratch":
            name = next(n for n in layer.sums if n.endswith(f" {operand.name}"))
            return self._places.pointer(name)
        if pointer is None:
            return self._places.pointer(operand.tensor)
        ring = self._rings.get(operand.tensor)
        return self._places.row(
            operand.tensor, row_text(pointer, counter, ring), self._row(layer, operand.tensor)
        )

    def _row(self, layer: Layer, tensor: str) -> int:
        """Return the elements of one row of a tensor."""
        extents = {read.tensor: read.extent for read in layer.reads}
        extent = extents.get(self._streamed.get(tensor, tensor), layer.rows)
        return self._model.graph.tensor[tensor].count // extent


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


def row_text(pointer: Pointer, counter: str, ring: Ring | None) -> str:
    """Return where a row is among those that are kept; nothing if only one is."""
    if ring and ring.rows == 1:
        return ""
    text = counter if pointer.stride == 1 else f"{counter} * {pointer.stride}"
    low = pointer.low
    if ring and ring.rows < ring.extent:
        low %= ring.rows
    if low:
        text = f"{f'({text})' if '*' in text else text} {'+' if low > 0 else '-'} {abs(low)}"
    if ring is None or ring.rows == ring.extent:
        return text
    return f"{text if text == counter else f'({text})'} % {ring.rows}"


@dataclass(frozen=True)
class _Pump:
    model: Sources
    schedule: Schedule
    places: Places
    kernels: _RowKernels
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
        given = [
            a for a in parameters(self.model, self.schedule) if a.name in used and a.name != "user"
        ]
        declared = [re.sub(r"(\w+)\[\w+\]$", r"*\1", a.text) for a in given]
        kind = "int" if self.strip.streamed else "void"
        lines = [
            self._comment(),
            f"{self.model.face.macro}_CODE_SECTION",
            filled(f"static {kind} {name}(", declared or ["void"], ")"),
            "{",
        ]
        if not self.strip.streamed:
            lines += [f"{MARGIN}{line}" for line in self._counters()]
            lines.append("")
        lines += [
            condition(f"{MARGIN}while (", self._unfinished(), " || "),
            *branches,
            f"{MARGIN}}}",
        ]
        lines += ends
        lines += [f"{MARGIN}return 1;"] if self.strip.streamed else []
        lines.append("}")
        begin = [f"{MARGIN}{counter} = 0;" for counter in self.counters.values()]
        return Pumped(
            self.number,
            name,
            "\n".join(lines),
            tuple(a.name for a in given),
            tuple(begin),
        )

    def _comment(self) -> str:
        steps = [step.number for step in self.schedule.steps if step.strip == self.number]
        text = (
            f"Steps {steps[0]} to {steps[-1]}, row by row: of the layers whose input rows are"
            " there, the one nearest to the end goes first."
        )
        if self.strip.streamed:
            text += " Returns whether all is done, else another row of the input is needed."
        return block(text)

    def _counters(self) -> list[str]:
        """Return the declaration of the counters: rows done of each layer."""
        rows = max(layer.rows for layer in self.strip.layers)
        rows = max([rows, *(r.extent for layer in self.strip.layers for r in layer.reads)])
        ctype = "int16_t" if rows <= MOST_ROWS_OF_INT16 else "int32_t"
        names = counter_names(self.model, self.strip).values()
        return [COUNTERS_HEAD, *(f"{MARGIN}{ctype} {name};" for name in names), "} done = {0};"]

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
            lines.append(condition(head, list(self._tests(layer)), " && "))
            lines.append(self._layer_comment(layer))
            lines.append(self.kernels.row_call(layer, self.counters[layer.kernel]))
            lines.append(f"{MARGIN * 3}++{self.counters[layer.kernel]};")
        if self.strip.streamed:
            lines += [f"{MARGIN * 2}}} else {{", f"{MARGIN * 3}return 0;"]
        return [*lines, f"{MARGIN * 2}}}"]

    def _layer_comment(self, layer: Layer) -> str:
        step = next(s for s in self.schedule.steps if s.kernel == layer.kernel)
        return step_comment(self.model, step, MARGIN * 3)

    def _tests(self, layer: Layer) -> Iterator[str]:
        """Yield what must hold for a layer to go: rows left, rows there, room for one."""
        own = self.counters[layer.kernel]
        producer = {other.writes: other.kernel for other in self.strip.layers if not other.sums}
        if self.strip.streamed:
            producer[self.strip.streamed] = self.strip.streamed
        yield f"{own} < {layer.rows}"
        for read in layer.reads:
            if read.tensor in producer:
                yield ready(Test(own, layer.rows), read, self.counters[producer[read.tensor]])
        rings = {ring.tensor: ring for ring in self.strip.rings}
        for other in self.strip.layers:
            if other.kernel in layer.room:
                (read,) = (r for r in other.reads if r.tensor == layer.writes)
                yield room(own, read, self.counters[other.kernel], rings[layer.writes].rows)
