"""A lowered nest as lines of C."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dlbuild.emit import guards
from dlbuild.emit.ctext import ValueText
from dlbuild.emit.ctypes import COMPUTE
from dlbuild.emit.fit import Fitter, Line
from dlbuild.emit.guards import Clamp, Plan
from dlbuild.emit.itext import IndexText
from dlbuild.emit.lower import Lowered
from dlbuild.emit.ranges import Ranges
from dlbuild.rulebook.index import Index
from dlbuild.rulebook.instance import Condition, Fold, Loop, Operand
from dlbuild.rulebook.interpret import used_accesses
from dlbuild.rulebook.value import COMPUTE_TYPE, Binary, Expr, Local, Number

LEAST_ADDENDS = 2
"""An address part of so many addends is worth a name before the innermost loop."""

ASSIGNING = ("+", "-", "*", "&", "|", "^")


@dataclass(frozen=True)
class Printer:
    """Prints one nest; the parts are made by `kernel` for it."""

    nest: Lowered
    operands: Mapping[str, Operand]
    ranges: Ranges
    indices: IndexText
    values: ValueText
    fitter: Fitter

    def lines(self, depth: int) -> list[Line]:
        """Return the loops of the nest, the outermost at `depth`."""
        inside = depth + len(self.nest.domain)
        hoisted: list[list[Line]] = [[] for _ in range(len(self.nest.domain) + 1)]
        body: list[Line] = []
        for step in self.nest.steps:
            self.ranges.enter(step)
            body += StepPrinter(self, step, hoisted, depth).lines(inside)
        return self.around(body, hoisted, depth)

    def around(
        self, body: Sequence[Line], hoisted: Sequence[Sequence[Line]], depth: int
    ) -> list[Line]:
        """Return the loops over the domain around `body`.

        hoisted: what is computed before all loops, inside the first, and so on.
        """
        lines = list(body)
        for level in reversed(range(len(self.nest.domain))):
            at = depth + level
            head = Line(at, self._head(self.nest.domain[level]))
            lines = [head, *hoisted[level + 1], *lines, Line(at, "}")]
        return [*hoisted[0], *lines]

    def _head(self, axis: str) -> str:
        """Return the head of the loop over an axis of the domain."""
        nest = self.nest
        span = nest.span.get(axis)
        first, end = (
            (0, nest.count.get(axis, axis.upper()))
            if span is None
            else (
                span.first,
                str(span.end),
            )
        )
        block = next((b for b in nest.blocks if b.axis == axis), None)
        if block is not None:
            name, turn = block.start, f"{block.start} += {block.size}"
        elif span is not None and span.skip != (0, 0):
            last = span.skip[0] - 1
            turn = f"{axis} += {axis} == {last} ? {span.skip[1] - last} : 1"
            name = axis
        else:
            name, turn = axis, f"++{axis}"
        return f"for (int32_t {name} = {first}; {name} < {end}; {turn}) {{"


@dataclass
class StepPrinter:
    """Prints one step of a nest. hoisted, depth: see Printer."""

    printer: Printer
    step: Loop
    hoisted: list[list[Line]]
    depth: int

    def lines(self, depth: int) -> list[Line]:
        """Return the step's variables and its loops."""
        nest, step = self.printer.nest, self.step
        found = [line for fold in step.folds for line in self.start(fold, depth)]
        plan = guards.plan(step, nest.access, self.printer.ranges)
        if plan.is_dead or any(nest.extent[a] == 0 for a in step.over):
            return found
        tests = self._tests(plan.outer, depth)
        inside = depth + len(tests)
        body = self._loops(step.over, plan, inside)
        return [*found, *enclosed(tests, body, depth)]

    def start(self, fold: Fold, depth: int) -> list[Line]:
        """Return the declaration of a fold's variable."""
        values = self.printer.values
        name = values.names.get(fold.name, fold.name)
        head = f"{COMPUTE[fold.type]} {name} = "
        return self.printer.fitter.statement(depth, head, fold.start, values.code, ";")

    def _tests(self, conditions: Sequence[Condition], depth: int) -> list[str]:
        """Return the conditions as heads of nested if statements, as few as the lines allow."""
        texts = [self.printer.indices.holds(c.operator, c.left, c.right) for c in conditions]
        return self.printer.fitter.tests(texts, depth)

    def _loops(self, over: Sequence[str], plan: Plan, depth: int) -> list[Line]:
        if not over:
            return self.body(depth)
        axis, rest = over[0], over[1:]
        before, first, end = self._range(axis, plan, depth)
        starts: list[Line] = []
        if not rest:
            starts = self._named_addresses(axis, depth)
        head = f"for (int32_t {axis} = {first}; {axis} < {end}; ++{axis}) {{"
        tests = self._tests([c for a, c in plan.inner if a == axis], depth + 1)
        body = self._loops(rest, plan, depth + 1 + len(tests))
        if not rest:
            self.printer.values.starts.clear()
        return [
            *before,
            *starts,
            Line(depth, head),
            *enclosed(tests, body, depth + 1),
            Line(depth, "}"),
        ]

    def _range(self, axis: str, plan: Plan, depth: int) -> tuple[list[Line], str, str]:
        """Return the lines before a loop, and where it begins and ends."""
        extent = self.printer.nest.extent[axis]
        lines: list[Line] = []
        lows = [c for c in plan.clamps if c.axis == axis and not c.is_end]
        ends = [c for c in plan.clamps if c.axis == axis and c.is_end]
        first = self._edge(axis, lows, "first", 0, "0", lines, depth)
        if axis in self.printer.nest.count:
            ends.append(Clamp(axis, is_end=True, index=Index.axis(self.printer.nest.count[axis])))
        end = self._edge(axis, ends, "end", extent, axis.upper(), lines, depth)
        return lines, first, end

    def _edge(  # noqa: PLR0913, PLR0917 - the two edges of a loop differ in all of these
        self,
        axis: str,
        clamps: Sequence[Clamp],
        word: str,
        limit: int,
        limit_text: str,
        lines: list[Line],
        depth: int,
    ) -> str:
        """Return one edge of a loop: `limit`, or a named bound that is computed before."""
        ranges, indices = self.printer.ranges, self.printer.indices
        pick = min if word == "end" else max
        fixed = [c.index.constant for c in clamps if not c.index.terms]
        edge = pick(limit, *fixed) if fixed else limit
        code = limit_text if edge == limit else str(edge)
        moving = [c.index for c in clamps if c.index.terms]
        is_bare = True
        for index in moving:
            low, high = ranges.index(index)
            is_always = is_bare and (low >= edge if word == "first" else high <= edge)
            text = indices.index(index)
            code = text if is_always else f"{pick.__name__}_i32({text}, {code})"
            is_bare = False
        if not moving:
            return code
        axes = {axis for index in moving for axis in index.axes()}
        return self._hoisted_constant(f"{axis}_{word}", code, axes, lines, depth)

    def _hoisted_constant(
        self, name: str, code: str, axes: set[str], lines: list[Line], depth: int
    ) -> str:
        """Name an int32_t at the outermost loop where its axes are known."""
        domain = self.printer.nest.domain
        if axes & set(self.step.over):
            chosen, is_new = self.printer.fitter.fresh(name), True
            lines.append(Line(depth, f"const int32_t {chosen} = {code};"))
            return chosen
        chosen, is_new = self.printer.fitter.constant(name, code)
        if is_new:
            level = max((domain.index(a) + 1 for a in axes if a in domain), default=0)
            text = f"const int32_t {chosen} = {code};"
            self.hoisted[level].append(Line(self.depth + level, text))
        return chosen

    def _named_addresses(self, axis: str, depth: int) -> list[Line]:
        """Name the parts of addresses that the innermost loop does not change."""
        printer = self.printer
        lines: list[Line] = []
        for access in used_accesses(self.step):
            if access not in printer.nest.place:
                continue
            if printer.values.operand[access] in printer.values.by_value:
                continue
            if guards.is_absent(printer.nest.access[access], printer.ranges):
                continue
            fixed, moving = printer.nest.place[access].split(axis)
            flat = fixed.flat
            if len(flat.terms) + bool(flat.constant) < LEAST_ADDENDS or not moving.flat.terms:
                continue
            name, is_new = f"{access}_at", True
            code = printer.indices.address(fixed)
            if depth == self.depth + len(printer.nest.domain):
                name, is_new = printer.fitter.constant(name, code)
            else:
                name = printer.fitter.fresh(name)
            if is_new:
                lines += printer.fitter.sum(depth, name, code)
            printer.values.starts[access] = (name, moving)
        return lines

    def body(self, depth: int) -> list[Line]:
        """Return what is done in one turn of the loops."""
        printer, step = self.printer, self.step
        values, fitter = printer.values, printer.fitter
        lines = self.outside_reads(depth)
        for let in step.lets:
            name = values.names.get(let.name, let.name)
            head = f"const {COMPUTE[let.type]} {name} = "
            lines += fitter.statement(depth, head, let.value, values.code, ";")
        for fold in step.folds:
            lines += self.update(fold, depth)
        for store in step.stores:
            dtype = printer.operands[printer.nest.access[store.access].operand].dtype

            def stored(expr: Expr, dtype: str = dtype) -> str:
                return values.stored(expr, dtype, COMPUTE_TYPE[dtype])

            head, tail = fitter.target(depth, store.access, lines)
            lines += fitter.statement(depth, head, store.value, stored, tail)
        values.values.clear()
        return lines

    def update(self, fold: Fold, depth: int) -> list[Line]:
        """Return the statement that folds one turn into a variable."""
        values, fitter = self.printer.values, self.printer.fitter
        name = values.names.get(fold.name, fold.name)
        head, value = f"{name} = ", fold.each
        match fold.each:
            case Binary(operator, Local(variable, _), other, _) if variable == fold.name:
                is_plain = fold.type in ("f32", "f64", "u32", "u64") or (
                    self.printer.ranges.is_exact_fold(fold) or operator in ("&", "|", "^")
                )
                if operator == "+" and is_plain and other == Number(1, "i32"):
                    return [Line(depth, f"++{name};")]
                if operator in ASSIGNING and is_plain:
                    head, value = f"{name} {operator}= ", other
            case _:
                pass
        return fitter.statement(depth, head, value, values.code, ";")

    def outside_reads(self, depth: int) -> list[Line]:
        """Read what may lie outside its tensor into a variable, with the value it has there."""
        printer = self.printer
        lines: list[Line] = []
        for access in used_accesses(self.step):
            found = printer.nest.access.get(access)
            if found is None or found.outside is None or found.outside == "skip":
                continue
            is_absent = guards.is_absent(found, printer.ranges)
            conditions = guards.bounds(found, printer.ranges)
            if not conditions and not is_absent:
                continue
            name = printer.fitter.fresh(f"{access}_read")
            kind = COMPUTE[found.outside.type]
            head = f"const {kind} {name} = " if is_absent else f"{kind} {name} = "
            lines += printer.fitter.statement(depth, head, found.outside, printer.values.code, ";")
            if is_absent:
                printer.values.values[access] = name
                continue
            tests = self._tests(conditions, depth)
            at = depth + len(tests)
            inner: list[Line] = []
            code = printer.fitter.place(at, access, inner)
            inner.append(Line(at, f"{name} = {code};"))
            printer.values.values[access] = name
            lines += enclosed(tests, inner, depth)
        return lines


def enclosed(tests: Sequence[str], body: Sequence[Line], depth: int) -> list[Line]:
    """Return the lines inside nested if statements."""
    heads = [Line(depth + at, f"if ({test}) {{") for at, test in enumerate(tests)]
    feet = [Line(depth + at, "}") for at in reversed(range(len(tests)))]
    return [*heads, *body, *feet]
