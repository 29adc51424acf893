"""Quasi-affine index maps over loop axes, and the intervals they take over a box."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

Bound = tuple[int, int]
"""An inclusive range [low, high]."""

UNBOUNDED = 1 << 60


@dataclass(frozen=True, slots=True)
class Quotient:
    """Floor division of a map by a positive constant."""

    of: Index
    by: int


@dataclass(frozen=True, slots=True)
class Remainder:
    """Remainder of the floor division of a map by a positive constant."""

    of: Index
    by: int


@dataclass(frozen=True, slots=True)
class Folded:
    """A map brought into [0, extent): `wrap` counts negatives from the end, `clamp` repeats the
    edge, `reflect` mirrors at the edge without repeating it.
    """

    how: Literal["wrap", "clamp", "reflect"]
    of: Index
    extent: int


@dataclass(frozen=True, slots=True)
class Tabled:
    """A number looked up in a table made at build time."""

    of: Index
    table: str
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Loaded:
    """The content of an integer tensor: a data-dependent index. `extent`: it is in [0, extent)."""

    operand: str
    at: tuple[Index, ...]
    extent: int | None = None


Atom = str | Quotient | Remainder | Folded | Tabled | Loaded
"""A loop axis by its name, or one of the non-affine forms."""


@dataclass(frozen=True, slots=True)
class Index:
    """A sum of integer * atom, plus a constant. Terms are in order of first use, none is zero."""

    terms: tuple[tuple[Atom, int], ...] = ()
    constant: int = 0

    @property
    def is_affine(self) -> bool:
        """Whether all terms are axes."""
        for atom, _ in self.terms:  # noqa: SIM110 - half the time of all(), asked often
            if not isinstance(atom, str):
                return False
        return True

    @staticmethod
    def axis(name: str) -> Index:
        """Return the map that is the axis itself."""
        return Index(((name, 1),))

    @staticmethod
    def of(value: Index | int) -> Index:
        """Return `value` as a map."""
        return value if isinstance(value, Index) else Index((), int(value))

    @staticmethod
    def atom(atom: Atom) -> Index:
        """Return the map that is one atom."""
        return Index(((atom, 1),))

    def __add__(self, other: Index | int) -> Index:
        if isinstance(other, int):
            return Index(self.terms, self.constant + other) if other else self
        if not isinstance(other, Index):
            return NotImplemented
        addend = other
        if not addend.terms:
            return self + addend.constant
        if not self.terms:
            return addend + self.constant
        coefficients: dict[Atom, int] = dict(self.terms)
        for atom, factor in addend.terms:
            coefficients[atom] = coefficients.get(atom, 0) + factor
        terms = tuple((a, c) for a, c in coefficients.items() if c)
        return Index(terms, self.constant + addend.constant)

    __radd__ = __add__

    def __neg__(self) -> Index:
        return Index(tuple((a, -c) for a, c in self.terms), -self.constant)

    def __sub__(self, other: Index | int) -> Index:
        if not isinstance(other, Index | int):
            return NotImplemented
        return self + (-Index.of(other))

    def __rsub__(self, other: int) -> Index:
        return Index.of(other) - self

    def __mul__(self, other: Index | int) -> Index:
        if isinstance(other, int):
            if other in (0, 1):
                return self if other else Index()
            return Index(tuple((a, c * other) for a, c in self.terms), self.constant * other)
        if not isinstance(other, Index):
            return NotImplemented
        if not other.terms:
            return self * other.constant
        if self.terms:
            raise ValueError("a product of two axes is not an index map")
        return other * self.constant

    __rmul__ = __mul__

    def _is_multiple_of(self, divisor: int) -> bool:
        return all(c % divisor == 0 for _, c in self.terms)

    def __floordiv__(self, divisor: int) -> Index:
        if not isinstance(divisor, int):
            return NotImplemented
        if divisor <= 0:
            raise ValueError(f"an index may be divided by a positive number only, not {divisor}")
        if self._is_multiple_of(divisor):
            quotients = tuple((a, c // divisor) for a, c in self.terms)
            return Index(quotients, self.constant // divisor)
        return Index.atom(Quotient(self, divisor))

    def __mod__(self, divisor: int) -> Index:
        if not isinstance(divisor, int):
            return NotImplemented
        if divisor <= 0:
            raise ValueError(f"an index may be divided by a positive number only, not {divisor}")
        if self._is_multiple_of(divisor):
            return Index((), self.constant % divisor)
        return Index.atom(Remainder(self, divisor))

    def coefficient(self, axis: str) -> int:
        """Return the factor of `axis` among the affine terms."""
        for atom, factor in self.terms:
            if atom == axis:
                return factor
        return 0

    def affine(self) -> Iterator[tuple[str, int]]:
        """Yield each axis of the affine terms with its factor."""
        return ((atom, factor) for atom, factor in self.terms if isinstance(atom, str))

    def axes(self) -> Iterator[str]:
        """Yield each axis it depends on, repeats included."""
        for atom, _ in self.terms:
            yield from _axes_of(atom)

    def entangled_axes(self) -> Iterator[str]:
        """Yield the axes that occur inside a non-affine atom."""
        for atom, _ in self.terms:
            if not isinstance(atom, str):
                yield from _axes_of(atom)

    def substitute(self, values: Mapping[str, Index]) -> Index:
        """Return the map with each axis of `values` replaced."""
        if self.is_affine:
            return self._with_axes(values)
        total = Index((), self.constant)
        for atom, factor in self.terms:
            total = total + _substituted(atom, values) * factor
        return total

    def _with_axes(self, values: Mapping[str, Index]) -> Index:
        """Return an affine map with axes replaced, terms in order of first use."""
        if not any(atom in values for atom, _ in self.terms):
            return self
        constant = self.constant
        factors: dict[Atom, int] = {}
        for axis, factor in self.affine():
            value = values.get(axis)
            constant += 0 if value is None else value.constant * factor
            for atom, times in ((axis, 1),) if value is None else value.terms:
                factors[atom] = factors.get(atom, 0) + times * factor
                if not factors[atom]:
                    del factors[atom]
        return Index(tuple(factors.items()), constant)

    def interval(self, box: Mapping[str, tuple[int, int]]) -> Bound:
        """Return the inclusive range of values when each axis runs over its half-open range.

        Exact for affine maps; a superset for the other forms.
        """
        low = high = self.constant
        for atom, factor in self.terms:
            first, last = _interval_of(atom, box)
            low += min(first * factor, last * factor)
            high += max(first * factor, last * factor)
        return low, high


def _axes_of(atom: Atom) -> Iterator[str]:
    if isinstance(atom, str):
        yield atom
    elif isinstance(atom, Loaded):
        for index in atom.at:
            yield from index.axes()
    else:
        yield from atom.of.axes()


def _substituted(atom: Atom, values: Mapping[str, Index]) -> Index:
    match atom:
        case str():
            return values.get(atom, Index.axis(atom))
        case Quotient(of, by):
            return of.substitute(values) // by
        case Remainder(of, by):
            return of.substitute(values) % by
        case Folded(how, of, extent):
            return Index.atom(Folded(how, of.substitute(values), extent))
        case Tabled(of, table, numbers):
            inner = of.substitute(values)
            if not inner.terms:
                return Index((), numbers[inner.constant])
            return Index.atom(Tabled(inner, table, numbers))
        case Loaded(operand, at, extent):
            return Index.atom(Loaded(operand, tuple(i.substitute(values) for i in at), extent))


def _interval_of(atom: Atom, box: Mapping[str, tuple[int, int]]) -> Bound:
    match atom:
        case str():
            first, last = box[atom]
            return first, last - 1
        case Quotient(of, by):
            low, high = of.interval(box)
            return low // by, high // by
        case Remainder(of, by):
            low, high = of.interval(box)
            return (low % by, high % by) if low // by == high // by else (0, by - 1)
        case Folded("clamp", of, extent):
            low, high = of.interval(box)
            return min(max(low, 0), extent - 1), min(max(high, 0), extent - 1)
        case Folded(_, of, extent):
            low, high = of.interval(box)
            return (low, high) if low >= 0 and high < extent else (0, extent - 1)
        case Tabled(of, _, numbers):
            low, high = of.interval(box)
            window = numbers[max(low, 0) : high + 1]
            return min(window), max(window)
        case Loaded(_, _, extent):
            return (0, extent - 1) if extent is not None else (-UNBOUNDED, UNBOUNDED)
