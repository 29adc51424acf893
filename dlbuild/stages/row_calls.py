"""The row kernels of strips in C, and the calls that compute one row."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dlbuild.emit.comments import filled
from dlbuild.emit.handwritten import render
from dlbuild.emit.kernel import KernelText, Parameter, kernel_comment
from dlbuild.ir.tile_plan import Layer, Ring, RowRead, TilePlan
from dlbuild.rulebook.instance import Instance
from dlbuild.rulebook.kernels import orders_of
from dlbuild.rulebook.rows import (
    Part,
    Pointer,
    RowKernel,
    Rows,
    finish_instance,
    row_kernel,
    rows_of,
)
from dlbuild.stages.arena import Places
from dlbuild.stages.conditions import affine
from dlbuild.stages.declaration import fetched_names
from dlbuild.stages.functions import (
    argument_of_table,
    handwriting_note,
    restricted,
    unnamed,
)
from dlbuild.stages.scratch import scratch_name
from dlbuild.stages.sources import Sources

MARGIN = "    "
TOP = "top"
"""The variable of the first row that is brought for a call."""


def columns_name(model: Sources, layer: Layer) -> str:
    """Return the table of the columns that a layer computes in each pass."""
    return f"{model.face.kernels[layer.kernel]}_columns"


class RowKernels:
    """Functions of row kernels as they are asked for; equal texts are one function."""

    def __init__(self, model: Sources, tiles: TilePlan, places: Places) -> None:
        self._model = model
        self._places = places
        self._tiles = tiles
        self._rings = {ring.tensor: ring for strip in tiles.strips for ring in strip.rings}
        self._streamed = {
            name: strip.streamed
            for strip in tiles.strips
            for view in strip.views
            for name in model.profile.kernel[view].writes
        }
        self._rings |= {name: self._rings[root] for name, root in self._streamed.items()}
        self._columns = {
            layer.writes: columns_name(model, layer)
            for strip in tiles.strips
            for layer in strip.layers
            if layer.passes
        }
        self._fetched = fetched_names(model)
        self._texts: dict[str, KernelText] = {}
        self._users: dict[str, list[tuple[str, Instance]]] = {}
        self._constants = frozenset(model.graph.constants)

    def rows(self, kernel: str) -> Rows:
        """Return how a kernel is computed in rows."""
        instance = self._model.instances[kernel]
        found = rows_of(instance, self._orders(kernel, instance), self._constants)
        assert found is not None, f"{kernel} is planned in rows"
        return found

    def row_lines(self, layer: Layer, counters: Mapping[str, str]) -> list[str]:
        """Return the call that computes the next row of a layer, and what it needs before.

        counters: the counter of each layer by its kernel.
        """
        kernel, rows = layer.kernel, self.rows(layer.kernel)
        counter = counters[kernel]
        made = row_kernel(self._model.instances[kernel], rows, self._part(layer))
        name, text = self._function(kernel, made.instance, self._model.face.kernels[kernel])
        pointers = {pointer.operand: pointer for pointer in made.pointers}
        arguments = [
            self._argument(made.instance, kernel, p, pointers.get(p.operand), counter, layer)
            for p in text.parameters
        ]
        given = [self._given(name, layer, rows, made, counter) for name in text.given]
        head = [self._top(layer, counter)] if made.tops else []
        return [*head, filled(f"{MARGIN * 3}{name}(", [*arguments, *given], ");")]

    def _part(self, layer: Layer) -> Part:
        """Return what a layer finds of its operands."""
        return Part(
            {n: r.rows for n, r in self._rings.items() if r.rows < r.extent},
            layer.most_columns,
            {n: r.columns for n, r in self._rings.items() if r.columns},
            self._fetched,
            layer.step,
        )

    def _given(self, name: str, layer: Layer, rows: Rows, made: RowKernel, counter: str) -> str:
        """Return what a row kernel is given under a name."""
        if name in made.tops:
            return TOP
        if name in made.origins:
            return f"{self._columns[made.origins[name]]}[pass][0]"
        if rows.columns and name in (f"{rows.columns.axis}_first", f"{rows.columns.axis}_count"):
            return f"{self._columns[layer.writes]}[pass][{int(name.endswith('_count'))}]"
        if name == f"{layer.axis}_count":
            return f"min_i32({layer.step}, {layer.rows} - {counter})"
        return counter

    def _top(self, layer: Layer, counter: str) -> str:
        """Return the declaration of the first row that is brought."""
        read = self._fetched_read(layer)
        start = affine(counter, read.stride, read.low)
        start = f"max_i32({start}, 0)" if read.low < 0 else start
        return f"{MARGIN * 3}const int32_t {TOP} = {start};"

    def _fetched_read(self, layer: Layer) -> RowRead:
        return next(read for read in layer.reads if read.tensor in self._fetched)

    def _fetch(self, layer: Layer, pointer: Pointer | None, counter: str) -> str:
        """Return the call that brings rows of the input."""
        read = self._fetched_read(layer)
        if pointer is not None:
            return f"fetch(user, {affine(counter, pointer.stride, pointer.low)}, 1)"
        end = affine(counter, read.stride, read.high)
        if read.stride == 0 or read.stride * (layer.rows - 1) + read.high > read.extent:
            end = f"min_i32({end}, {read.extent})" if read.stride else f"{read.extent}"
        return f"fetch(user, {TOP}, {end} - {TOP})"

    def finish_call(self, layer: Layer) -> str:
        """Return the call that makes a layer's results of its sums."""
        kernel = layer.kernel
        instance = finish_instance(self._model.instances[kernel], self.rows(kernel))
        wanted = f"{self._model.face.kernels[kernel]}_end"
        name, text = self._function(kernel, instance, wanted)
        arguments = [self._argument(instance, kernel, p, None, "", layer) for p in text.parameters]
        return filled(f"{MARGIN}{name}(", arguments, ");")

    def commented(self) -> tuple[KernelText, ...]:
        """Return the functions, each with the comment of all its users."""
        return tuple(self._comment(self._texts[key], users) for key, users in self._users.items())

    def _comment(self, text: KernelText, users: Sequence[tuple[str, Instance]]) -> KernelText:
        kernel, instance = users[0]
        anchors = [self._model.profile.kernel[name].anchor for name, _ in users]
        orders = self._orders(kernel, instance)
        nodes = list(dict.fromkeys(anchors))
        note = handwriting_note(self._model.profile.kernel[kernel], self._tiles)
        comment = kernel_comment(instance, orders, text.parameters, nodes, [note] if note else [])
        return replace(text, comment=comment)

    def _orders(self, kernel: str, instance: Instance) -> Mapping[str, tuple[int, ...]]:
        return orders_of(self._model.profile.kernel[kernel], instance, self._model.profile)

    def _function(self, kernel: str, instance: Instance, name: str) -> tuple[str, KernelText]:
        text = render(
            instance,
            name,
            self._orders(kernel, instance),
            restrict=restricted(self._model, self._places, instance),
            constants=frozenset(o.name for o in instance.operands if o.tensor in self._constants),
            environment=self._model.environment,
            registers=self._model.registers,
        )
        key = unnamed(" ".join(text.text.split()), name)
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
            sums = [n for n in layer.sums if n.endswith(f" {operand.name}")]
            own = scratch_name(kernel, self._tiles, operand.dtype)
            return self._places.pointer(sums[0] if sums else own)
        if operand.tensor in self._fetched:
            return self._fetch(layer, pointer, counter)
        if pointer is None:
            return self._places.pointer(operand.tensor)
        ring = self._rings.get(operand.tensor)
        return self._places.row(
            operand.tensor, row_text(pointer, counter, ring), self._row(layer, operand.tensor)
        )

    def _row(self, layer: Layer, tensor: str) -> int:
        """Return the elements of one row of a tensor, as far as it is there."""
        found = self._model.graph.tensor[tensor]
        ring = self._rings.get(tensor)
        if ring:
            return ring.row_bytes * found.count // found.size_bytes
        extents = {read.tensor: read.extent for read in layer.reads}
        return found.count // extents.get(tensor, layer.rows)


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
