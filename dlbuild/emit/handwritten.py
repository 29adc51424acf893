"""A kernel whose fold is written by hand in a template; what follows it is printed from the steps.

The template computes the kernel's `result` for each point and hands it to an inline function, made
here, that does the rest: rounding, limits, whatever was fused. So one template serves each
rounding and each epilogue. Another one does it for four neighbours of the axis that the template
counts itself, by vectors where there are such.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import jinja2

from dlbuild.emit.about import kernel_comment
from dlbuild.emit.comments import filled
from dlbuild.emit.ctypes import COMPUTE, storage
from dlbuild.emit.environment import rendered
from dlbuild.emit.helpers import helper_text, helpers_of, includes_of
from dlbuild.emit.kernel import (
    KernelText,
    c_names,
    declared,
    printer_of,
    render_kernel,
    tables_of,
)
from dlbuild.emit.lanes import NoLanes, lane_lines
from dlbuild.emit.lower import Lowered, lower
from dlbuild.emit.nest import Printer
from dlbuild.emit.opaque import Elements
from dlbuild.emit.parameter import Parameter
from dlbuild.emit.samples import SampleCalls
from dlbuild.ir.target import Registers
from dlbuild.rulebook.address import strides
from dlbuild.rulebook.derive import Orders
from dlbuild.rulebook.handwritten import rest_of
from dlbuild.rulebook.index import Remainder
from dlbuild.rulebook.instance import Access, Instance, Nest, Operand
from dlbuild.rulebook.rows import ROW
from dlbuild.rulebook.samples import sampled

INDENT = 4


def render(  # noqa: PLR0913 - keywords; each is a decision of another stage
    instance: Instance,
    name: str,
    orders: Orders,
    *,
    restrict: frozenset[str],
    constants: frozenset[str],
    environment: jinja2.Environment,
    registers: Registers | None = None,
) -> KernelText:
    """Print the function that computes an instance: its template's, or its nest's.

    Args: see `kernel.render_kernel`.
    """
    if instance.handwritten is None:
        return render_kernel(
            instance,
            name,
            orders,
            restrict=restrict,
            constants=constants,
            environment=environment,
            registers=registers,
        )
    in_table = constants | {o.name for o in instance.operands if o.role == "constant"}
    found = sampled(instance)
    assert found is not None, "what cannot be called sample by sample is a nest"
    calls = SampleCalls(instance, found, name, orders, restrict)
    return _Handwritten(found.one, name, orders, restrict, in_table, environment, calls).text()


def is_one_run(instance: Instance, orders: Orders, constants: frozenset[str]) -> bool:
    """Tell whether what follows the fold goes through memory point by point.

    Then the axes that the template does not count itself are one loop, and nothing is guarded.

    Args:
        instance: with a hand-written kernel.
        orders: how its operands lie in memory.
        constants: the tensors of the weight table.
    """
    in_table = frozenset(
        o.name for o in instance.operands if o.tensor in constants or o.role == "constant"
    )
    found = sampled(instance)
    assert found is not None, "what cannot be called sample by sample is a nest"
    rest = _lowered(found.one, {o.name: o for o in instance.operands}, orders, in_table)
    kernel = instance.handwritten
    assert kernel is not None
    others = [axis for axis in rest.domain if axis not in kernel.keep]
    is_guarded = any(access.guards for access in rest.access.values())
    return len(others) <= 1 and not is_guarded and not rest.count


def _lowered(
    instance: Instance, operands: Mapping[str, Operand], orders: Orders, in_table: frozenset[str]
) -> Lowered:
    kernel = instance.handwritten
    assert kernel is not None
    (nest,) = instance.nests
    return lower(rest_of(nest, kernel), operands, orders, in_table, frozenset(kernel.keep))


@dataclass(frozen=True)
class _Point:
    """The inline function that makes the results of one point, and calls of it."""

    name: str
    axes: tuple[str, ...]
    kept: tuple[str, ...]
    position: str
    arguments: tuple[str, ...]
    given: tuple[str, ...] = ()

    def __call__(self, depth: int, value: str, position: str, *kept: str) -> str:
        """Return the call. kept: the values of the axes that the template counts itself."""
        at = [position] if self.position else []
        at += [code for axis, code in zip(self.axes, kept, strict=True) if axis in self.kept]
        items = [value, *at, *self.given, *self.arguments]
        return filled(f"{' ' * INDENT * depth}{self.name}(", items, ");")


@dataclass(frozen=True)
class _Handwritten:
    instance: Instance
    name: str
    orders: Orders
    restrict: frozenset[str]
    in_table: frozenset[str]
    environment: jinja2.Environment
    calls: SampleCalls

    def text(self) -> KernelText:
        instance, kernel = self.instance, self.instance.handwritten
        assert kernel is not None
        (nest,) = instance.nests
        operands = {o.name: o for o in instance.operands}
        rest = _lowered(instance, operands, self.orders, self.in_table)
        by_value = frozenset(n for n in self.in_table if prod(operands[n].shape) == 1)
        names = c_names(operands, [rest])
        later = self._rest_operands(rest, by_value, names)
        written = {rest.access[s.access].operand for step in rest.steps for s in step.stores}
        parameters = tuple(
            Parameter(
                o.name,
                storage(o.dtype),
                o.name in by_value,
                o.name not in written and o.role != "scratch",
            )
            for o in instance.operands
            if o.name in kernel.uses or o.name in later
        )
        of = {p.operand: p for p in parameters}
        point = _Point(
            f"{self.name}_result",
            kernel.keep,
            tuple(a for a in kernel.keep if a in rest.domain),
            next((a for a in rest.domain if a not in kernel.keep), ""),
            tuple(names[n] for n in later),
            self._rest_given(nest, rest, by_value, names),
        )
        finish = _Finish(self, point, rest, tuple(of[n] for n in later), by_value, names)
        given = tuple(nest.given)
        context = self._context(nest, point, given, names, by_value)
        bare = {"signature": "", "result_function": "", **context}
        body = rendered(self.environment, kernel.template, bare)
        function = finish.functions(body)
        words = set(re.findall(r"\w+", body))
        parameters = tuple(p for p in parameters if names[p.operand] in words)
        given = tuple(g for g in given if g in words)
        text, given = self._whole(context, function, parameters, given, names)
        helpers = helpers_of(self.environment, [text])
        return KernelText(
            text=text,
            comment=kernel_comment(instance, self.orders, parameters, instance.ops),
            parameters=parameters,
            helpers=helpers,
            includes=includes_of([text, *(helper_text(self.environment, h) for h in helpers)]),
            given=given,
        )

    def _whole(
        self,
        context: Mapping[str, object],
        result_function: str,
        parameters: Sequence[Parameter],
        given: tuple[str, ...],
        names: Mapping[str, str],
    ) -> tuple[str, tuple[str, ...]]:
        """Return all functions, and the numbers that the caller of the last one gives."""
        kernel = self.instance.handwritten
        assert kernel is not None
        signature = self.calls.signature(parameters, given, names)
        heads = {"signature": signature, "result_function": result_function}
        text = rendered(self.environment, kernel.template, {**context, **heads})
        if not self.calls.is_needed:
            return text, given
        last, given = self.calls.function(parameters, given, names)
        return f"{text.rstrip()}\n\n{last}", given

    def _context(
        self,
        nest: Nest,
        point: _Point,
        given: tuple[str, ...],
        names: Mapping[str, str],
        by_value: frozenset[str],
    ) -> dict[str, object]:
        """Return what a template may name, but for the two heads."""
        operands = self.instance.operands
        kernel = self.instance.handwritten
        assert kernel is not None
        return {
            "result": point,
            "results": replace(point, name=f"{point.name}s"),
            "filled": filled,
            "name": self.name,
            "sizes": kernel.sizes,
            "of": Elements({o.name: o for o in operands}, names, by_value),
            "shape": {o.name: o.shape for o in operands},
            "pitch": {o.name: strides(o.shape, self.orders.get(o.name, ())) for o in operands},
            "points": prod(nest.extent[a] for a in nest.domain if a not in kernel.keep),
            "row": ROW if ROW in given else "",
            "rows": _rows(nest, kernel.rows),
            "part": _part(nest),
            "top": {name: _given(nest, f"{a.operand}_top") for name, a in nest.access.items()},
            "origin": {name: _origin(nest, name) for name in nest.access},
            "ring": {name: _ring(access) for name, access in nest.access.items()},
            "is_row": {
                name: ROW in nest.given and ROW not in _axes(access)
                for name, access in nest.access.items()
            },
        }

    def _rest_operands(
        self, rest: Lowered, by_value: frozenset[str], names: Mapping[str, str]
    ) -> tuple[str, ...]:
        """Return the operands that the steps behind the fold touch, in their order."""
        body = "\n".join(self.body(rest, by_value, names))
        words = set(re.findall(r"\w+", body))
        return tuple(o.name for o in self.instance.operands if names[o.name] in words)

    def _rest_given(
        self, nest: Nest, rest: Lowered, by_value: frozenset[str], names: Mapping[str, str]
    ) -> tuple[str, ...]:
        """Return the numbers of the caller that the steps behind the fold need."""
        words = set(re.findall(r"\w+", "\n".join(self.body(rest, by_value, names))))
        return tuple(name for name in nest.given if name in words)

    def body(self, rest: Lowered, by_value: frozenset[str], names: Mapping[str, str]) -> list[str]:
        """Return the lines that finish one point."""
        straight, printer = self.printer(rest, by_value, names)
        lines = printer.lines(1)
        return [str(line) for line in (*tables_of(straight, set(), 1), *lines)]

    def printer(
        self, rest: Lowered, by_value: frozenset[str], names: Mapping[str, str]
    ) -> tuple[Lowered, Printer]:
        """Return the steps of one point, whose axes are given, and what prints them."""
        operands = {o.name: o for o in self.instance.operands}
        given = {axis: (0, rest.extent[axis] - 1) for axis in rest.domain}
        straight = replace(rest, domain=(), given={**rest.given, **given}, count={})
        return straight, printer_of(straight, operands, self.orders, by_value, names, ())


@dataclass(frozen=True)
class _Finish:
    """The inline functions that finish points once the fold of each is computed."""

    of: _Handwritten
    point: _Point
    rest: Lowered
    parameters: tuple[Parameter, ...]
    by_value: frozenset[str]
    names: Mapping[str, str]

    def functions(self, body: str) -> str:
        """Return those that a kernel's body calls."""
        one, four = self.point.name, f"{self.point.name}s"
        lines = self._lane_lines() if f"{four}(" in body else ""
        found = []
        if f"{one}(" in body or f"{one}(" in lines:
            kernel = self.of.instance.handwritten
            assert kernel is not None
            ctype = COMPUTE[kernel.result.type]
            made = self.of.body(self.rest, self.by_value, self.names)
            found.append(self._function(one, ctype, "\n".join(made)))
        if lines:
            found.append(self._function(four, "i32x4", lines))
        return "\n\n".join(found)

    def _lane_lines(self) -> str:
        kernel = self.of.instance.handwritten
        assert kernel is not None
        axis = kernel.keep[-1]
        straight, printer = self.of.printer(self.rest, self.by_value, self.names)
        operands = {o.name: o for o in self.of.instance.operands}
        try:
            return lane_lines(straight, operands, printer.values, axis)
        except NoLanes:
            acc = kernel.fold.folds[0].name
            at = [axis, *(f"{axis} + {lane}" for lane in range(1, 4))]
            position = self.point.position
            return "\n".join(
                self.point(1, f"lane_i32x4({acc}, {lane})", position, *self._kept(axis, code))
                for lane, code in enumerate(at)
            )

    def _kept(self, axis: str, code: str) -> tuple[str, ...]:
        return tuple(code if a == axis else a for a in self.point.axes)

    def _function(self, name: str, ctype: str, body: str) -> str:
        kernel = self.of.instance.handwritten
        assert kernel is not None
        (acc, *_) = [fold.name for fold in kernel.fold.folds]
        items = [f"{ctype} {acc}"]
        numbers = (self.point.position, *self.point.kept, *self.point.given)
        items += [f"int32_t {number}" for number in numbers if number]
        items += [
            declared(p, self.names[p.operand], p.operand in self.of.restrict)
            for p in self.parameters
        ]
        head = filled(f"static inline void {name}(", items, ")")
        return f"{head}\n{{\n{body}\n}}"


def _ring(access: Access) -> int:
    """Return how many rows are kept of what an access reads, 0 if all are there."""
    for index in access.index:
        match index.terms:
            case ((Remainder(_, by), 1),) if not index.constant:
                return by
            case _:
                continue
    return 0


def _part(nest: Nest) -> dict[str, object]:
    """Return the part of an axis that is computed: its first point, how many, at most how many.

    Nothing if all points are.
    """
    for axis, count in nest.count.items():
        if (first := f"{axis}_first") in nest.given:
            return {"first": first, "count": count, "most": nest.extent[axis]}
    return {}


def _rows(nest: Nest, axes: Sequence[str]) -> dict[str, object]:
    """Return how many rows are computed at a time, at most, and the C of how many.

    Nothing if it is one row, or if all are.
    """
    for axis in axes:
        if ROW in nest.given and (most := nest.extent.get(axis, 1)) > 1:
            return {"count": nest.count.get(axis, str(most)), "most": most}
    return {}


def _given(nest: Nest, name: str) -> str:
    """Return the name if the caller gives such a number, else nothing."""
    return name if name in nest.given else ""


def _origin(nest: Nest, access: str) -> str:
    """Return the number of the first column that is there of what an access reads, if given."""
    return next((name for name in nest.given if name.startswith(f"{access}_first")), "")


def _axes(access: Access) -> set[str]:
    """Return all that the place of an access depends on."""
    return {axis for index in access.index for axis in index.axes()}
