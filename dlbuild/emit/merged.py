"""One function in the place of several that differ in numbers alone, which become parameters.

Every number keeps its place in the text, and every call gives those of its own function. So the
merged function computes what each of them did, to the bit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from dlbuild.base.free import free_name
from dlbuild.emit.comments import block
from dlbuild.emit.literals import COLUMNS
from dlbuild.emit.naming import alike_name, hint_of, meanings_of, parameters_in
from dlbuild.emit.skeleton import Token, columns_of, tokens_of
from dlbuild.emit.statements import Statement, laid_out, statements

Column = tuple[int, ...]
"""What a number is in each of the functions."""

_ENUM = re.compile(r"( *)enum \{ (.*) \};")
_ARRAY = re.compile(r"\s*(?!return )(?:const )?\w+ \*?(?:const )?(\w+)\[([^=;]*)\](?: =|;)")
_WIDTHS = (("int32_t", 1 << 31), ("uint16_t", 1 << 16), ("uint8_t", 1 << 8))


class NotMerged(Exception):  # noqa: N818 - an answer, not an error
    """Functions that must stay apart. Its text says why."""


@dataclass(frozen=True, slots=True)
class Merged:
    """A function with a parameter for what its calls differ in.

    text: as of a KernelText. declaration: the type of that parameter and the constants of this
    type, one for each of the functions. kind: its name. constants: their names. fields: what is in
    them.
    """

    text: str
    kind: str
    declaration: str
    constants: tuple[str, ...]
    fields: tuple[str, ...]


def merge(
    names: Sequence[str], texts: Sequence[str], parameters: Callable[[str], Sequence[str]]
) -> Merged:
    """Merge functions whose skeletons are equal.

    Args:
        names: of the functions.
        texts: their C, in which some numbers differ.
        parameters: the names of the parameters of a helper, nothing if it is none.

    Raises:
        NotMerged: a number stands where C wants a constant, or a line cannot be broken.
    """
    return _Merging(names, texts, parameters).merged()


@dataclass
class _Function:
    """One function of the text.

    columns: of each of its names that stands for numbers that differ. names: for each number of
    each part the name that stands there, nothing if the number does. at_top: those that are new.
    needs: whether it takes the parameter.
    """

    name: str
    parts: list[Statement]
    numbers: list[list[Column]]
    columns: dict[str, Column] = field(default_factory=dict)
    names: list[list[str]] = field(default_factory=list)
    at_top: list[str] = field(default_factory=list)
    needs: bool = False

    @property
    def words(self) -> set[str]:
        return {word for part in self.parts for word in re.findall(r"\w+", part.text)}


class _Merging:
    def __init__(
        self,
        names: Sequence[str],
        texts: Sequence[str],
        parameters: Callable[[str], Sequence[str]],
    ) -> None:
        self.names = names
        self.text = texts[0]
        self.columns = columns_of(texts)
        self.parameters = parameters
        self.words = set(re.findall(r"\w+", self.text))
        self.fields: dict[str, Column] = {}
        self.kind = f"{names[0]}_sizes_t"
        self.sizes = self._fresh("sizes")

    def merged(self) -> Merged:
        functions = list(self._functions())
        for function in functions:
            self._name_enumerators(function)
        for function in functions:
            self._name_numbers(function)
        self._spread_needs(functions)
        takers = {function.name for function in functions if function.needs}
        lines = [line for one in functions for line in self._lines(one, takers)]
        constants = tuple(f"{name}_sizes" for name in self.names)
        found = self._declaration(constants)
        return Merged("\n".join(lines), self.kind, found, constants, tuple(self.fields))

    def _functions(self) -> Iterator[_Function]:
        """Yield the functions of the text, each with what stands before it."""
        columns = iter(self.columns)
        function = _Function("", [], [])
        for part in statements(self.text):
            numbers = [next(columns) for token in tokens_of(part.text) if token.is_number]
            function.parts.append(part)
            function.numbers.append(numbers)
            if head := re.match(r"static [^(]*?(\w+)\(", part.text):
                function.name = head[1]
            if part.text == "}":
                yield function
                function = _Function("", [], [])
        if function.parts:
            yield function

    def _fresh(self, name: str) -> str:
        """Return a name that the text has not."""
        chosen = free_name(name, self.words)
        self.words.add(chosen)
        return chosen

    def _field(self, name: str, column: Column) -> str:
        """Return the member that holds these numbers, by this name if no other ones have it."""
        chosen, number = name, 2
        while self.fields.setdefault(chosen, column) != column:
            chosen, number = f"{name}{number}", number + 1
        return chosen

    def _name_enumerators(self, function: _Function) -> None:
        for part, numbers in zip(function.parts, function.numbers, strict=True):
            if (found := _ENUM.fullmatch(part.text)) is None:
                continue
            items = [item.partition(" = ") for item in found[2].split(", ")]
            if len(items) != len(numbers) and any(map(_differs, numbers)):
                raise NotMerged("a constant is computed from others")
            for (name, _, _), column in zip(items, numbers, strict=False):
                if _differs(column):
                    if function.columns.setdefault(name, column) != column:
                        raise NotMerged(f"{name} has two meanings in {function.name}")
                    self._field(name, column)

    def _name_numbers(self, function: _Function) -> None:
        """Give a name to each number that differs and has none."""
        tops = [n for n in function.columns if any(_declares(p, n) for p in function.parts)]
        for part, numbers in zip(function.parts, function.numbers, strict=True):
            names: list[str] = []
            places = tokens_of(part.text)
            for at in (at for at, token in enumerate(places) if token.is_number):
                column = numbers[len(names)]
                names.append("")
                is_constant = _ENUM.fullmatch(part.text) or _is_length(part, places[at])
                if is_constant or not _differs(column):
                    continue
                _check_place(part, places, at)
                hint = hint_of(places, at, self._parameters_of)
                known = [name for name in tops if function.columns[name] == column]
                names[-1] = alike_name(known, hint) or self._named(function, column, hint)
            function.names.append(names)

    def _named(self, function: _Function, column: Column, hint: str) -> str:
        """Return a new name at the top of a function: as another function has it, or a hint."""
        for name in function.at_top:
            if function.columns[name] == column:
                return name
        known = alike_name([name for name, held in self.fields.items() if held == column], hint)
        is_free = known and known not in function.words
        name = known if is_free else self._fresh(known or hint)
        self._field(known or name, column)
        function.columns[name] = column
        function.at_top.append(name)
        return name

    def _parameters_of(self, function: str) -> Sequence[str]:
        return parameters_in(self.text, function) or self.parameters(function)

    def _spread_needs(self, functions: Sequence[_Function]) -> None:
        """Find which functions need the parameter, for themselves or for what they call."""
        for function in functions:
            function.needs = bool(function.columns)
        for _ in functions:
            takers = {function.name for function in functions if function.needs}
            for function in functions:
                function.needs = function.needs or bool(takers & function.words)

    def _lines(self, function: _Function, takers: set[str]) -> Iterator[str]:
        """Yield the lines of a function in which names stand for the numbers that differ."""
        is_open = False
        rows = zip(function.parts, function.numbers, function.names, strict=True)
        for at, (part, numbers, names) in enumerate(rows):
            found = _ENUM.fullmatch(part.text)
            if is_open and found is None:
                yield from self._top(function, part)
                is_open = False
            is_open = is_open or (part.text == "{" and at > 0)
            if found is not None:
                yield from self._constants(function, part, found, numbers)
            else:
                text = _replaced(part, numbers, names)
                yield from self._statement(function, part, text, takers)

    def _statement(
        self, function: _Function, part: Statement, text: str, takers: set[str]
    ) -> Sequence[str]:
        """Return the lines of a statement that has become `text`."""
        if function.needs and not text.lstrip().startswith("/*"):
            text = self._with_parameter(text, takers, is_head=text.startswith("static "))
            text = _with_casts(text, function.columns)
            _check_constants(text, function.columns)
        if text == part.text:
            return part.lines
        lines = laid_out(text)
        if lines is None:
            raise NotMerged(f"a line is too long: {text.strip()}")
        return lines

    def _top(self, function: _Function, below: Statement) -> Iterator[str]:
        """Yield the declarations of what had no name."""
        if function.at_top:
            yield from (self._local("    ", name, function) for name in function.at_top)
            if below.text and not below.text.startswith("    const "):
                yield ""

    def _constants(
        self,
        function: _Function,
        part: Statement,
        found: re.Match[str],
        numbers: Sequence[Column],
    ) -> Iterator[str]:
        """Yield the constants that stay, and those that the parameter gives."""
        margin, items = found[1], found[2].split(", ")
        if not any(map(_differs, numbers)):
            yield from part.lines
            return
        names = [item.partition(" = ")[0] for item in items]
        pairs = list(zip(names, items, numbers, strict=True))
        if stays := [item for _, item, column in pairs if not _differs(column)]:
            yield f"{margin}enum {{ {', '.join(stays)} }};"
        others = {
            word
            for one in function.parts
            if one is not part
            for word in re.findall(r"\w+", one.text)
        }
        used = {name for row in function.names for name in row}
        for name, _, column in pairs:
            if _differs(column) and name in others | used:
                yield self._local(margin, name, function)

    def _local(self, margin: str, name: str, function: _Function) -> str:
        column = function.columns[name]
        held = name if self.fields.get(name) == column else ""
        held = held or next(f for f, c in self.fields.items() if c == column)
        return f"{margin}const int32_t {name} = {self.sizes}->{held};"

    def _with_parameter(self, text: str, takers: set[str], *, is_head: bool) -> str:
        """Return a head, or a statement with calls, with one more parameter for all takers."""
        word = f"const {self.kind} *restrict {self.sizes}" if is_head else self.sizes
        at = 0
        while found := re.compile(rf"\b({'|'.join(sorted(takers))})\(").search(text, at):
            end = _closing(text, found.end() - 1)
            text = f"{text[:end]}, {word}{text[end:]}"
            at = found.end()
        return text

    def _declaration(self, constants: Sequence[str]) -> str:
        """Return the type of the parameter, and all constants of it."""
        kinds = {name: _width(column) for name, column in self.fields.items()}
        order = [kind for kind, _ in _WIDTHS]
        names = sorted(self.fields, key=lambda name: order.index(kinds[name]))
        self.fields = {name: self.fields[name] for name in names}
        about = f"In what the calls of {self.names[0]} differ, by the names that it has there"
        meanings = meanings_of(names)
        lines = [block(f"{about}{f' ({meanings})' if meanings else ''}.")]
        lines += ["typedef struct {"]
        lines += [f"    {kinds[name]} {name};" for name in names]
        lines += [f"}} {self.kind};", ""]
        for at, constant in enumerate(constants):
            items = [f".{name} = {self.fields[name][at]}" for name in names]
            lines += _initialized(f"static const {self.kind} {constant}", items)
        return "\n".join(lines)


def _differs(column: Column) -> bool:
    return len(set(column)) > 1


def _declares(part: Statement, name: str) -> bool:
    """Say whether constants at the top of a function have this name among them."""
    found = _ENUM.fullmatch(part.text)
    return found is not None and found[1] == "    " and f" {name} = " in f" {found[2]}"


def _width(column: Column) -> str:
    """Return the narrowest type that holds all numbers."""
    return [kind for kind, end in _WIDTHS if max(column) < end][-1]


def _is_length(part: Statement, token: Token) -> bool:
    """Say whether a number is the length of an array, of which the greatest serves all."""
    found = _ARRAY.match(part.text)
    return found is not None and found.start(2) <= token.start < found.end(2)


def _check_place(part: Statement, tokens: Sequence[Token], at: int) -> None:
    """Refuse a number that only the compiler may know."""
    text = part.text.lstrip()
    if text.startswith(("#", "static ", "typedef ", "case ")):
        raise NotMerged(f"a constant is needed: {text}")
    depth = 0
    for before, token in reversed(list(enumerate(tokens[:at]))):
        depth += (token.text == ")") - (token.text == "(")
        if depth < 0:
            name = tokens[before - 1].text if before else ""
            if re.fullmatch(r"[A-Z][A-Z0-9_]*", name):
                raise NotMerged(f"a constant is needed: {text}")
            depth = 0


def _replaced(part: Statement, numbers: Sequence[Column], names: Sequence[str]) -> str:
    """Return a statement on one line, with names in the place of numbers that differ."""
    tokens = [token for token in tokens_of(part.text) if token.is_number]
    text = part.text
    for token, column, name in reversed(list(zip(tokens, numbers, names, strict=True))):
        word = name or str(max(column))
        text = f"{text[: token.start]}{word}{text[token.end :]}"
    return text


def _closing(text: str, opening: int) -> int:
    """Return where the parenthesis is closed that is opened there."""
    depth = 0
    for at in range(opening, len(text)):
        depth += (text[at] == "(") - (text[at] == ")")
        if depth == 0:
            return at
    raise AssertionError("C closes its parentheses")


def _with_casts(text: str, names: dict[str, Column]) -> str:
    """Return a statement in which what the library counts bytes by is of its type."""
    for call in reversed(list(re.finditer(r"\bmem(?:set|cpy)\(", text))):
        end = _closing(text, call.end() - 1)
        start = max(text.rfind(", ", 0, end), call.end()) + 2
        count = text[start:end]
        if names.keys() & set(re.findall(r"\w+", count)):
            cast = f"(size_t){count}" if count.isidentifier() else f"(size_t)({count})"
            text = f"{text[:start]}{cast}{text[end:]}"
    return text


def _check_constants(text: str, names: dict[str, Column]) -> None:
    """Refuse a name of the parameter where C wants a constant."""
    found = _ARRAY.match(text)
    needed = found[2] if found else text if text.lstrip().startswith("static const ") else ""
    if names.keys() & set(re.findall(r"\w+", needed)):
        raise NotMerged(f"a constant is needed: {text.strip()}")


def _initialized(head: str, items: Sequence[str]) -> list[str]:
    """Return an initialised constant, broken as clang-format breaks it."""
    inner = f"{', '.join(items)}}};"
    if len(line := f"{head} = {{{inner}") <= COLUMNS:
        return [line]
    if len(inner) + 4 <= COLUMNS:
        return [f"{head} = {{", f"    {inner}"]
    first, *others = items
    margin = " " * len(f"{head} = {{")
    lines = [f"{head} = {{{first}", *(margin + item for item in others)]
    return [*(f"{line}," for line in lines[:-1]), f"{lines[-1]}}};"]
