"""Statements that fit a line: what is too long gets a name of its own before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace

from dlbuild.base.free import free_name
from dlbuild.emit.ctext import ValueText
from dlbuild.emit.ctypes import COMPUTE
from dlbuild.emit.literals import COLUMNS
from dlbuild.rulebook.value import Choose, Expr, Local, Logic, Number, Read, walk

INDENT = 4


@dataclass(frozen=True, slots=True)
class Line:
    """One line of C at a depth of blocks."""

    depth: int
    text: str

    def __str__(self) -> str:
        return " " * (INDENT * self.depth) + self.text


class Fitter:
    """Names what is too long; remembers the names that a nest has used."""

    def __init__(self, values: ValueText, taken: Iterable[str]) -> None:
        self._values = values
        self._taken = set(taken)
        self._constants: dict[tuple[str, str], str] = {}

    def beside(self, values: ValueText) -> Fitter:
        """Return a fitter of other values in the same scope: what one names, both know."""
        other = Fitter(values, ())
        other._taken, other._constants = self._taken, self._constants
        return other

    def fresh(self, name: str) -> str:
        """Return `name`, with a number if it is taken, and take it."""
        chosen = free_name(name, self._taken)
        self._taken.add(chosen)
        return chosen

    def constant(self, name: str, code: str) -> tuple[str, bool]:
        """Return the variable that holds `code`, and whether it has to be declared first."""
        found = self._constants.get((name, code))
        if found is not None:
            return found, False
        self._constants[name, code] = self.fresh(name)
        return self._constants[name, code], True

    def statement(
        self, depth: int, head: str, value: Expr, code: Callable[[Expr], str], tail: str
    ) -> list[Line]:
        """Return `head value tail` as lines, the last of which is the statement."""
        lines: list[Line] = []
        while _is_long(line := Line(depth, f"{head}{code(value)}{tail}")):
            part = self._part(value, depth)
            if part is None and isinstance(value, Choose):
                chosen = self._chosen(depth, value, lines)
                line = Line(depth, f"{head}{code(chosen)}{tail}")
                break
            if part is None:
                lines += self._named_address(depth, value)
                line = Line(depth, f"{head}{code(value)}{tail}")
                break
            name = self.fresh("part")
            start = f"const {COMPUTE[part.type]} {name} = "
            lines += self.statement(depth, start, part, self._values.code, ";")
            self._values.ranges.learn(name, part)
            value = replaced(value, part, Local(name, part.type))
        return [*lines, line]

    def _chosen(self, depth: int, value: Choose, lines: list[Line]) -> Local:
        """Return the variable that holds a choice; an if statement in `lines` sets it."""
        name = self.fresh("part")
        lines.append(Line(depth, f"{COMPUTE[value.type]} {name};"))
        heads = (f"if ({self._values.code(value.test)}) {{", "} else {")
        for line, branch in zip(heads, (value.then, value.other), strict=True):
            lines.append(Line(depth, line))
            starts = dict(self._values.starts)
            lines += self.statement(depth + 1, f"{name} = ", branch, self._values.code, ";")
            self._values.starts.clear()
            self._values.starts.update(starts)
        lines.append(Line(depth, "}"))
        self._values.ranges.learn(name, value)
        return Local(name, value.type)

    def _part(self, value: Expr, depth: int) -> Expr | None:
        """Return the part of a value to name: the longest whose declaration fits a line."""
        parts = [p for p in _eager_parts(value) if not isinstance(p, Number | Local)]
        lengths = [(len(self._values.code(part)), part) for part in parts]
        room = COLUMNS - INDENT * depth - len("const uint32_t part12 = ;")
        fitting = [pair for pair in lengths if pair[0] <= room]
        if fitting:
            return max(fitting, key=lambda pair: pair[0])[1]
        return max(lengths, key=lambda pair: pair[0])[1] if lengths else None

    def _named_address(self, depth: int, value: Expr) -> list[Line]:
        lines: list[Line] = []
        for part in walk(value):
            if isinstance(part, Read) and self._values.is_addressed(part.access):
                lines += self._address(depth, part.access)
        return lines

    def _address(self, depth: int, access: str) -> list[Line]:
        name = self.fresh(f"{access}_at")
        lines = self.sum(depth, name, self._values.address(access))
        empty = self._values.place(access).split("")[1]
        self._values.starts[access] = (name, empty)
        return lines

    def place(self, depth: int, access: str, lines: list[Line]) -> str:
        """Return the value that an access addresses; a long address is named in `lines`."""
        with self._short_address(depth, access, lines):
            return self._values.loaded(access)

    def target(self, depth: int, access: str, lines: list[Line]) -> tuple[str, str]:
        """Return what is before and after a value that is stored; a long address is named."""
        with self._short_address(depth, access, lines):
            return self._values.storing(access)

    @contextmanager
    def _short_address(self, depth: int, access: str, lines: list[Line]) -> Iterator[None]:
        text = self._values.element(access)
        is_short = len(text) + INDENT * depth <= COLUMNS // 2
        if is_short or not self._values.is_addressed(access):
            yield
            return
        lines += self._address(depth, access)
        yield
        del self._values.starts[access]

    def sum(self, depth: int, name: str, code: str) -> list[Line]:
        """Return the declaration of an int32_t that is a sum, in as many parts as fit."""
        return declared_sum(depth, name, code, lambda: self.fresh("part"))

    def tests(self, texts: Sequence[str], depth: int) -> list[str]:
        """Return comparisons joined to as few conditions as fit, for nested if statements."""
        groups: list[list[str]] = []
        for text in texts:
            head = (
                Line(depth + len(groups), f"if ({_joint([*groups[-1], text])}) {{")
                if groups
                else None
            )
            if head is None or _is_long(head):
                groups.append([text])
            else:
                groups[-1].append(text)
        return [_joint(group) for group in groups]


def declared_sum(depth: int, name: str, code: str, fresh: Callable[[], str]) -> list[Line]:
    """Return the declaration of an int32_t that is a sum, in as many parts as fit.

    fresh: returns a name for a part.
    """
    lines: list[Line] = []

    def named(code: str) -> str:
        part = fresh()
        lines.extend(declared_sum(depth, part, _bare(code), fresh))
        return part

    def product(code: str) -> str:
        """Return a product whose first factor, if it is a sum, has a name where it is long."""
        inner = _bare(code)
        factor = _leading(inner)
        is_sum = factor.startswith("(") and inner[len(factor) :].startswith(" ")  # it may be a cast
        if not is_sum or not _is_long(Line(depth, f"{head}{inner};")):
            return code
        shorter = named(factor) + inner[len(factor) :]
        return shorter if inner == code else f"({shorter})"

    head = f"const int32_t {name} = "
    first, *rest = _addends(code)
    begun = product(first)
    for addend in rest:
        if _is_long(Line(depth, f"{head}{begun}{addend};")) and not begun.isidentifier():
            begun = named(begun)
        if _is_long(Line(depth, f"{head}{begun}{addend};")):
            begun += addend[:3] + named(addend[3:])
        else:
            begun += addend
    return [*lines, Line(depth, f"{head}{begun};")]


def _bare(code: str) -> str:
    """Return the code without parentheses around the whole of it."""
    return code[1:-1] if code.startswith("(") and _leading(code) == code else code


def _leading(code: str) -> str:
    """Return what a code begins with: all in its first parentheses, or one character."""
    depth = 0
    for at, character in enumerate(code):
        depth += (character in "([") - (character in ")]")
        if depth == 0:
            return code[: at + 1]
    return code


def called(code: str) -> tuple[str, list[str]] | None:
    """Return the function and the arguments of code that is one call, None if it is not."""
    function, is_call, _ = code.partition("(")
    rest = code[len(function) :]
    if not is_call or not function.isidentifier() or _leading(rest) != rest:
        return None
    depth, found = 0, [""]
    for character in rest[1:-1]:
        depth += (character in "([") - (character in ")]")
        if depth == 0 and character == ",":
            found.append("")
        else:
            found[-1] += character
    return function, [text.strip() for text in found]


def _joint(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else " && ".join(f"({text})" for text in texts)


def _is_long(line: Line) -> bool:
    return len(str(line)) > COLUMNS


def _addends(code: str) -> list[str]:
    """Return the addends of a sum, all but the first with their signs."""
    depth, found = 0, [""]
    for at, character in enumerate(code):
        depth += (character in "([") - (character in ")]")
        if depth == 0 and code[at : at + 3] in (" + ", " - "):
            found.append("")
        found[-1] += character
    return found


def _eager_parts(value: Expr) -> Iterator[Expr]:
    """Yield the proper parts of a value that are computed whatever the others are."""
    for part in children(value):
        yield part
        yield from _eager_parts(part)


def children(value: Expr) -> list[Expr]:
    """Return the operands of a value that are computed whatever the others are."""
    match value:
        case Choose(test, _, _, _):
            return [test]
        case Logic(_, parts, _):
            return [parts[0]]
        case _:
            found: list[Expr] = []
            for item in fields(value):
                part = getattr(value, item.name)
                found += [e for e in part if isinstance(e, Expr)] if isinstance(part, tuple) else []
                if isinstance(part, Expr):
                    found.append(part)
            return found


def replaced(value: Expr, old: Expr, new: Expr) -> Expr:
    """Return the value with `new` wherever `old` is."""
    if value == old:
        return new
    changed: dict[str, object] = {}
    for item in fields(value):
        part = getattr(value, item.name)
        if isinstance(part, Expr):
            changed[item.name] = replaced(part, old, new)
        elif isinstance(part, tuple):
            changed[item.name] = tuple(
                replaced(e, old, new) if isinstance(e, Expr) else e for e in part
            )
    return replace(value, **changed) if changed else value  # type: ignore[arg-type] # same fields
