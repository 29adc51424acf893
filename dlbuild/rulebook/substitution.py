"""Putting other maps, names and values in the place of those of an access or an expression."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dlbuild.rulebook.index import Atom, Folded, Index, Loaded, Quotient, Remainder, Tabled
from dlbuild.rulebook.instance import Access, Guard
from dlbuild.rulebook.value import (
    Binary,
    Call,
    Cast,
    Choose,
    Compare,
    Expr,
    Local,
    Logic,
    Lookup,
    Number,
    Offset,
    Position,
    Read,
    Type,
    Unary,
)


@dataclass(frozen=True)
class Substitution:
    """What takes the place of what. Names that are not mentioned stay.

    axes: a map for a loop axis.
    operands, accesses, tables: new names.
    reads: a value for `Read` of an access.
    locals: a value for a local variable.
    """

    axes: Mapping[str, Index] = field(default_factory=dict)
    operands: Mapping[str, str] = field(default_factory=dict)
    accesses: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, str] = field(default_factory=dict)
    reads: Mapping[str, Expr] = field(default_factory=dict)
    locals: Mapping[str, Expr] = field(default_factory=dict)

    def index(self, index: Index) -> Index:
        """Return the map with its axes replaced and its operands and tables renamed."""
        if index.is_affine:
            return index.substitute(self.axes)
        total = Index((), index.constant)
        for atom, factor in index.terms:
            total = total + Index.atom(self._named(atom)) * factor
        return total.substitute(self.axes)

    def access(self, access: Access) -> Access:
        """Return the access with its maps, its operand and its outside value replaced."""
        outside = access.outside
        return Access(
            operand=self.operands.get(access.operand, access.operand),
            view=access.view,
            index=tuple(self.index(i) for i in access.index),
            guards=tuple(Guard(self.index(g.index), g.extent) for g in access.guards),
            outside=outside if outside is None or outside == "skip" else self.expr(outside),
        )

    def expr(self, expr: Expr) -> Expr:
        """Return the expression with everything in it replaced."""
        match expr:
            case Number():
                return expr
            case Read(access, type_):
                return self.reads.get(access, Read(self.accesses.get(access, access), type_))
            case Local(name, _):
                return self.locals.get(name, expr)
            case Position(index, type_):
                return Position(self.index(index), type_)
            case Offset(access, type_):
                return Offset(self.accesses.get(access, access), type_)
            case Lookup(access, at, type_):
                return Lookup(self._looked_up(access), self.expr(at), type_)
            case _:
                return self._inner(expr)

    def _inner(
        self, expr: Unary | Binary | Compare | Logic | Choose | Cast | Call
    ) -> Unary | Binary | Compare | Logic | Choose | Cast | Call:
        match expr:
            case Unary(operator, value, type_):
                return Unary(operator, self.expr(value), type_)
            case Binary(arithmetic, left, right, type_):
                return Binary(arithmetic, self.expr(left), self.expr(right), type_)
            case Compare(relation, left, right, type_):
                return Compare(relation, self.expr(left), self.expr(right), type_)
            case Logic(conjunction, parts, type_):
                return Logic(conjunction, tuple(self.expr(p) for p in parts), type_)
            case Choose(test, then, other, type_):
                return Choose(self.expr(test), self.expr(then), self.expr(other), type_)
            case Cast(value, type_):
                return Cast(self.expr(value), type_)
            case Call(function, arguments, type_):
                return Call(function, tuple(self.expr(a) for a in arguments), type_)

    def _looked_up(self, name: str) -> str:
        return self.accesses.get(name, self.operands.get(name, name))

    def _named(self, atom: Atom) -> Atom:
        match atom:
            case str():
                return atom
            case Quotient(of, by):
                return Quotient(self._named_index(of), by)
            case Remainder(of, by):
                return Remainder(self._named_index(of), by)
            case Folded(how, of, extent):
                return Folded(how, self._named_index(of), extent)
            case Tabled(of, table, numbers):
                return Tabled(self._named_index(of), self.tables.get(table, table), numbers)
            case Loaded(operand, at, extent):
                named = tuple(self._named_index(i) for i in at)
                return Loaded(self.operands.get(operand, operand), named, extent)

    def _named_index(self, index: Index) -> Index:
        return Index(tuple((self._named(a), c) for a, c in index.terms), index.constant)


def cast(value: Expr, type_: Type) -> Expr:
    """Return the value in a compute type, as it is if it has that type."""
    return value if value.type == type_ else Cast(value, type_)
