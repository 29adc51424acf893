"""Index maps as C: element addresses and conditions, in int32_t."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from dlbuild.emit.ranges import Ranges
from dlbuild.rulebook.index import Atom, Folded, Index, Loaded, Quotient, Remainder, Tabled

INT32_DTYPES = ("int8", "uint8", "int16", "uint16", "int32", "bool")
"""Element types that C's promotions turn into an index without a cast."""


@dataclass(frozen=True)
class Place:
    """An element address: for each axis of a view its index map and the elements of one step."""

    parts: tuple[tuple[Index, int], ...]

    @cached_property
    def flat(self) -> Index:
        """The address as one map."""
        return sum((index * stride for index, stride in self.parts), Index())

    def mapped(self, change: Callable[[Index], Index]) -> Place:
        """Return the address with each index map changed."""
        return Place(tuple((change(index), stride) for index, stride in self.parts))

    def split(self, axis: str) -> tuple[Place, Place]:
        """Return what does not depend on `axis`, constants too, and what does."""
        fixed: list[tuple[Index, int]] = []
        moving: list[tuple[Index, int]] = []
        for index, stride in self.parts:
            inner = Index(tuple((a, c) for a, c in index.terms if axis in Index.atom(a).axes()))
            fixed.append((index - inner, stride))
            moving.append((inner, stride))
        return Place(tuple(fixed)), Place(tuple(moving))


@dataclass(frozen=True)
class IndexText:
    """A printer of index maps.

    dtype: element type of each operand that an index is loaded from.
    place: the address of a Loaded atom. names: the C name of each operand.
    by_value: operands that are parameters by value.
    """

    ranges: Ranges
    dtype: Mapping[str, str]
    place: Callable[[Loaded], Place]
    names: Mapping[str, str]
    by_value: frozenset[str] = frozenset()

    def index(self, index: Index) -> str:
        """Return the map as C."""
        return joined(self.addends(index))

    def address(self, place: Place, start: str = "") -> str:
        """Return an address as C; `start` is a variable that holds a part of it."""
        constant = sum(index.constant * stride for index, stride in place.parts)
        addends = [start] if start else []
        for index, stride in place.parts:
            variable = Index(index.terms)
            if not variable.terms:
                continue
            if len(index.terms) == 1 or stride == 1:
                addends += self.addends(variable * stride)
            else:
                constant -= index.constant * stride
                addends.append(f"({self.index(index)}) * {stride}")
        if constant:
            addends.append(str(constant))
        return joined(addends)

    def addends(self, index: Index) -> list[str]:
        """Return the terms of a sum; those that begin with a minus sign are subtracted."""
        found = [self._term(atom, factor) for atom, factor in index.terms]
        found.sort(key=lambda text: text.startswith("-"))
        if index.constant and found and found[0].startswith("-"):
            found.insert(0, str(index.constant))
        elif index.constant:
            found.append(str(index.constant))
        return found

    def _term(self, atom: Atom, factor: int) -> str:
        text = self.atom(atom)
        if abs(factor) == 1:
            return text if factor == 1 else f"-{text}"
        return f"{text} * {factor}" if factor > 0 else f"-{text} * {-factor}"

    def atom(self, atom: Atom) -> str:
        """Return one atom as C that needs no parentheses in a product."""
        match atom:
            case str():
                return atom
            case Quotient(of, by):
                if self.ranges.index(of)[0] >= 0:
                    return f"({self._factor(of)} / {by})"
                return f"floor_div_i32({self.index(of)}, {by})"
            case Remainder(of, by):
                if self.ranges.index(of)[0] >= 0:
                    return f"({self._factor(of)} % {by})"
                return f"floor_mod_i32({self.index(of)}, {by})"
            case Folded(how, of, extent):
                low, high = self.ranges.index(of)
                if low >= 0 and high < extent:
                    return f"({self.index(of)})"
                return f"{how}_index({self.index(of)}, {extent})"
            case Tabled(of, table, _):
                return f"{table}[{self.index(of)}]"
            case Loaded(operand, _, _):
                return self._loaded(atom, operand)

    def _loaded(self, atom: Loaded, operand: str) -> str:
        text = self.names[operand]
        if text not in self.by_value:
            text = f"{text}[{self.address(self.place(atom))}]"
        return text if self.dtype[operand] in INT32_DTYPES else f"(int32_t){text}"

    def _factor(self, index: Index) -> str:
        """Return a map as an operand of a product."""
        addends = self.addends(index)
        text = joined(addends)
        is_single = len(addends) == 1 and "*" not in text and not text.startswith("-")
        return text if is_single else f"({text})"

    def holds(self, operator: str, left: Index, right: Index) -> str:
        """Return a comparison as C: variables on the left, the constant on the right."""
        difference = left - right
        variables = Index(difference.terms)
        bound = -difference.constant
        if all(factor < 0 for _, factor in difference.terms):
            variables, bound = -variables, -bound
            operator = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(operator, operator)
        return f"{self.index(variables)} {operator} {bound}"


def bare(text: str) -> str:
    """Return an expression in C without parentheses around all of it."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for at, letter in enumerate(text):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if depth == 0:
            return text[1:-1] if at == len(text) - 1 else text
    return text


def joined(addends: Sequence[str]) -> str:
    """Return a sum as C, with products in parentheses."""
    if not addends:
        return "0"
    if len(addends) == 1:
        return addends[0]
    text = ""
    for addend in addends:
        is_negative = addend.startswith("-")
        body = addend[1:] if is_negative else addend
        if " * " in body and not is_wrapped(body):
            body = f"({body})"
        if not text:
            text = f"-{body}" if is_negative else body
        else:
            text += f" - {body}" if is_negative else f" + {body}"
    return text


def is_wrapped(text: str) -> bool:
    """Tell whether brackets enclose all products of a term."""
    depth = 0
    for at, character in enumerate(text):
        if character in "([":
            depth += 1
        elif character in ")]":
            depth -= 1
        elif depth == 0 and text[at : at + 3] == " * ":
            return False
    return True
