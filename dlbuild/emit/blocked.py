"""A nest whose folds are computed for a block of points together, as lines of C.

The sums of a block are an array whose indices are numbers in the innermost loop, so that the
compiler keeps them in registers. What follows the folds is printed once, in loops over the block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from dlbuild.emit.ctypes import COMPUTE, number
from dlbuild.emit.fit import Line, children, replaced
from dlbuild.emit.lower import Block, Lowered, renamed, substituted
from dlbuild.emit.nest import LEAST_ADDENDS, Printer, StepPrinter
from dlbuild.rulebook.index import Index
from dlbuild.rulebook.instance import Fold
from dlbuild.rulebook.interpret import used_accesses
from dlbuild.rulebook.value import Expr, Local, Number, Read, walk

LANE = "lane"

UNROLLED = "UNROLLED"
"""Stands before a loop over lanes: compilers that do not unroll it keep the sums in memory."""

SHORT_VECTOR = 4
"""Lanes that a turn has at least. Not all are unrolled: that would come before vectors are made."""

Offsets = tuple[int, ...]
"""How far each block's axis is beyond the block's first point, of a vector's axis always 0; last
the turn of the loop that is written out."""


def from_starts(nest: Lowered) -> Lowered:
    """Return the nest with the first points of its blocks in the place of their axes.

    A loop that is written out is at its first turn.
    """
    for block in nest.blocks:
        nest = renamed(nest, block.axis, block.start)
    if not nest.unrolled:
        return nest
    turns = {nest.unrolled: nest.extent[nest.unrolled]}
    first = substituted(nest, {nest.unrolled: Index()})
    return replace(first, extent={**first.extent, **turns})


def blocked_lines(folding: Printer, ending: Printer, depth: int) -> list[Line]:
    """Return the loops of a nest in blocks.

    Args:
        folding: prints the steps that fold, at the first point of a block.
        ending: prints what follows, at each point.
        depth: of the outermost loop.
    """
    nest = ending.nest
    inside = depth + len(nest.domain)
    hoisted: list[list[Line]] = [[] for _ in range(len(nest.domain) + 1)]
    body: list[Line] = []
    after: list[Line] = []
    loops = _order(nest)
    for before, step in zip(folding.nest.steps, nest.steps, strict=True):
        folding.ranges.enter(replace(before, over=step.over))
        ending.ranges.enter(step)
        if step.folds:
            ending.values.names.update({f.name: _element(f.name, nest) for f in step.folds})
            body += _BlockStep(folding, before, hoisted, depth, ending).lines(inside)
        else:
            printer = StepPrinter(ending, step, hoisted, depth)
            after += printer.lines(inside + len(loops))
    body += _looped(loops, after, inside)
    comment = Line(depth, f"/* {_described(nest)} */")
    return [comment, *ending.around(body, hoisted, depth)]


def _described(nest: Lowered) -> str:
    """Return what is blocked, in a sentence."""
    sizes = " by ".join(f"{block.size} {block.axis}" for block in nest.blocks)
    turns = f", all {nest.unrolled} at once" if nest.unrolled else ""
    return f"In blocks of {sizes}{turns}."


def _element(name: str, nest: Lowered) -> str:
    """Return the sum of the point at hand."""
    return name + "".join(f"[{block.axis} - {block.start}]" for block in nest.blocks)


def _order(nest: Lowered) -> list[Block]:
    """Order the loops over a block: the innermost is the one that least of what is read follows."""
    written = {store.access for step in nest.steps for store in step.stores}
    read = [
        set(nest.place[name].flat.axes())
        for step in nest.steps
        if not step.folds
        for name in used_accesses(step)
        if name in nest.place and name not in written
    ]

    def weight(block: Block) -> tuple[bool, int]:
        return block.is_vector, -sum(block.axis in axes for axes in read)

    return sorted(nest.blocks, key=weight)


def _looped(blocks: Sequence[Block], body: Sequence[Line], depth: int) -> list[Line]:
    """Return loops over the points of a block around what is done for each."""
    lines = list(body)
    for level in reversed(range(len(blocks))):
        axis, start, size = blocks[level].axis, blocks[level].start, blocks[level].size
        head = f"for (int32_t {axis} = {start}; {axis} < {start} + {size}; ++{axis}) {{"
        lines = [Line(depth + level, head), *lines, Line(depth + level, "}")]
    return lines


@dataclass
class _BlockStep(StepPrinter):
    """Prints a step that folds, for all points of a block.

    ending: prints values at each point, with the axes' own names.
    """

    ending: Printer

    @property
    def blocks(self) -> tuple[Block, ...]:
        return self.ending.nest.blocks

    def start(self, fold: Fold, depth: int) -> list[Line]:
        """Return the declaration of the sums of a block, and how they begin."""
        nest = self.ending.nest
        name = self.printer.values.names.get(fold.name, fold.name)
        head = f"{COMPUTE[fold.type]} {name}"
        head += "".join(f"[{block.size}]" for block in self.blocks)
        if isinstance(fold.start, Number) and fold.start.number == 0:
            zero = number(fold.start.number, fold.type)
            braces = len(self.blocks)
            return [Line(depth, f"{head} = {'{' * braces}{zero}{'}' * braces};")]
        loops = _order(nest)
        values, fitter = self.ending.values, self.ending.fitter
        inside = depth + len(loops)
        target = f"{_element(name, nest)} = "
        begun = fitter.statement(inside, target, fold.start, values.code, ";")
        return [Line(depth, f"{head};"), *_looped(loops, begun, depth)]

    def body(self, depth: int) -> list[Line]:
        """Return what is done in one turn of the loops: shared values, then all sums."""
        lines = [*self._addresses(depth), *self.outside_reads(depth)]
        vector = next((block for block in self.blocks if block.is_vector), None)
        inside = depth + (vector is not None)
        lane = Index.axis(LANE) if vector is not None else Index()
        shared = [_Shared(self, fold, lane) for fold in self.step.folds]
        for one in shared:
            lines += one.named(depth, is_vector=False)
        inner: list[Line] = []
        for one in shared:
            inner += one.named(inside, is_vector=True)
            inner += one.updates(inside)
        self.printer.values.values.clear()
        self.printer.values.shift.clear()
        if not self.step.over:
            self.printer.values.starts.clear()
        if vector is None:
            return [*lines, *inner]
        head = f"for (int32_t {LANE} = 0; {LANE} < {vector.size}; ++{LANE}) {{"
        if all(fold.type == "f32" for fold in self.step.folds):
            lines.append(Line(depth, f"{UNROLLED}({vector.size // SHORT_VECTOR})"))
        return [*lines, Line(depth, head), *inner, Line(depth, "}")]

    def _addresses(self, depth: int) -> list[Line]:
        """Name where the block begins if no loop is left that has done so."""
        values, lines = self.printer.values, list[Line]()
        if self.step.over:
            return lines
        for access in dict.fromkeys(used_accesses(self.step)):
            place = self.printer.nest.place.get(access)
            is_long = place is not None and len(place.flat.terms) >= LEAST_ADDENDS
            if place is not None and is_long and values.is_addressed(access):
                name = self.printer.fitter.fresh(f"{access}_at")
                lines += self.printer.fitter.sum(depth, name, values.address(access))
                values.starts[access] = (name, place.split("")[1])
        return lines

    def offsets(self) -> Iterator[Offsets]:
        """Yield each point of the block, in each turn that is written out."""
        nest = self.ending.nest
        sizes = [1 if block.is_vector else block.size for block in self.blocks]
        for turn in range(nest.extent[nest.unrolled] if nest.unrolled else 1):
            yield from ((*at, turn) for at in product(*map(range, sizes)))

    def shift(self, access: str, at: Offsets, lane: Index) -> Index:
        """Return how much further than the block's first point an access addresses at a point."""
        nest = self.ending.nest
        flat = nest.place[access].flat
        found = Index.of(at[-1] * flat.coefficient(nest.unrolled))
        for block, offset in zip(self.blocks, at[:-1], strict=True):
            factor = flat.coefficient(block.axis)
            if factor:
                found += lane * factor if block.is_vector else offset * factor
        return found


class _Shared:
    """What the points of a block share of a fold's value, and the names that it gets."""

    def __init__(self, step: _BlockStep, fold: Fold, lane: Index) -> None:
        self._step, self._fold, self._lane = step, fold, lane
        self._points = list(step.offsets())
        self._parts = list(self._shared(fold.each))
        self._names: dict[tuple[Expr, tuple[Index, ...]], str] = {}

    def _shared(self, value: Expr) -> Iterator[Expr]:
        """Yield the greatest parts of a value that several points have in common."""
        for part in children(value):
            reads = [p for p in walk(part) if isinstance(p, Read)]
            if not reads or any(isinstance(p, Local) for p in walk(part)):
                yield from self._shared(part)
            elif len({self._key(part, at) for at in self._points}) < len(self._points):
                if not self._is_free(part):
                    yield part
            else:
                yield from self._shared(part)

    def _key(self, part: Expr, at: Offsets) -> tuple[Expr, tuple[Index, ...]]:
        reads = dict.fromkeys(p.access for p in walk(part) if isinstance(p, Read))
        return part, tuple(self._step.shift(name, at, self._lane) for name in reads)

    def _is_free(self, part: Expr) -> bool:
        """Tell whether a value is a parameter, or has a name already."""
        values = self._step.printer.values
        return isinstance(part, Read) and (
            part.access in values.values or values.operand[part.access] in values.by_value
        )

    def _is_in_vector(self, part: Expr) -> bool:
        shifts = self._key(part, self._points[0])[1]
        return any(LANE in set(shift.axes()) for shift in shifts)

    def named(self, depth: int, *, is_vector: bool) -> list[Line]:
        """Declare the shared values that differ, or do not differ, along the vector."""
        values, fitter = self._step.printer.values, self._step.printer.fitter
        lines: list[Line] = []
        for part in dict.fromkeys(self._parts):
            if self._is_in_vector(part) != is_vector:
                continue
            base = next(p.access for p in walk(part) if isinstance(p, Read))
            count = len({self._key(part, at) for at in self._points})
            for at in self._points:
                key = self._key(part, at)
                if key in self._names:
                    continue
                number_ = sum(known[0] == part for known in self._names)
                name = fitter.fresh(f"{base}_{number_}" if count > 1 else f"{base}_now")
                self._names[key] = name
                self._move(at)
                head = f"const {COMPUTE[part.type]} {name} = "
                lines += fitter.statement(depth, head, part, values.code, ";")
                values.ranges.learn(name, part)
        return lines

    def _move(self, at: Offsets) -> None:
        values = self._step.printer.values
        for access in used_accesses(self._step.step):
            if access in self._step.printer.nest.place:
                values.shift[access] = self._step.shift(access, at, self._lane)

    def updates(self, depth: int) -> list[Line]:
        """Return the statements that fold one turn into the sums of the block."""
        lines: list[Line] = []
        names = self._step.printer.values.names
        own = names.get(self._fold.name, self._fold.name)
        for at in self._points:
            each = self._fold.each
            for part in dict.fromkeys(self._parts):
                local = Local(self._names[self._key(part, at)], part.type)
                each = replaced(each, part, local)
            self._move(at)
            places = zip(self._step.blocks, at[:-1], strict=True)
            subscripts = (f"[{LANE if b.is_vector else offset}]" for b, offset in places)
            names[self._fold.name] = own + "".join(subscripts)
            fold = Fold(self._fold.name, self._fold.start, each, self._fold.type)
            lines += self._step.update(fold, depth)
        names[self._fold.name] = own
        return lines
