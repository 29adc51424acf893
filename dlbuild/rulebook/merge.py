"""Bringing the operands, accesses and tables of one instance into another under free names."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from dlbuild.base.free import free_name
from dlbuild.rulebook.index import Index
from dlbuild.rulebook.instance import Access, Guard, Instance, Let, Made, Nest, Operand
from dlbuild.rulebook.substitution import Substitution
from dlbuild.rulebook.value import Local


def names_in(nest: Nest) -> set[str]:
    """Return every name that has a meaning inside a nest."""
    lets = {let.name for step in nest.steps for let in step.lets}
    folds = {fold.name for step in nest.steps for fold in step.folds}
    return {*lets, *folds, *nest.extent, *nest.access, *nest.tables}


@dataclass(frozen=True)
class Moved:
    """The operands of a guest under the names that they have in the host.

    operands: those that the host did not have.
    names: each operand of the guest by its own name, but for those that stay behind.
    """

    operands: tuple[Operand, ...]
    names: Mapping[str, str]
    made: tuple[Made, ...]


def move_operands(
    guest: Instance, host: Instance, staying: Collection[str], leaving: Collection[str]
) -> Moved:
    """Name the operands of `guest` in `host`; an input that the host has already is shared.

    Args:
        guest: where they come from.
        host: where they go.
        staying: operands of the guest that do not come along.
        leaving: operands of the host whose names become free.
    """
    present = [o for o in host.operands if o.name not in leaving]
    own = {(o.tensor, o.dtype, o.shape): o.name for o in present if o.role == "input"}
    taken = {o.name for o in present}
    for nest in host.nests:
        taken |= names_in(nest) - {n for n, a in nest.access.items() if a.operand in leaving}
    names: dict[str, str] = {}
    moved: list[Operand] = []
    for operand in guest.operands:
        key = (operand.tensor, operand.dtype, operand.shape)
        if operand.name in staying:
            continue
        if operand.role == "input" and key in own:
            names[operand.name] = own[key]
            continue
        name = free_name(operand.name, taken, "_")
        taken.add(name)
        names[operand.name] = name
        is_own = operand.role in ("constant", "scratch")
        moved.append(replace(operand, name=name, tensor=name if is_own else operand.tensor))
    put = Substitution(operands=names)
    made = tuple(
        Made(names[m.operand], _renamed(m.nest, put)) for m in guest.made if m.operand in names
    )
    return Moved(tuple(moved), names, made)


def _renamed(nest: Nest, put: Substitution) -> Nest:
    return replace(nest, access={n: put.access(a) for n, a in nest.access.items()})


@dataclass
class Guest:
    """Statements of a point-wise nest while they are put into another nest.

    taken: names that have a meaning in the other nest; grows.
    access: the accesses that the other nest has; grows.
    tables: as `access`.
    """

    nest: Nest
    operands: Mapping[str, str]
    taken: set[str]
    access: dict[str, Access]
    tables: dict[str, tuple[float, ...]] = field(default_factory=dict)

    def substitution(
        self, axes: Mapping[str, Index], reads: Collection[str], guards: tuple[Guard, ...] = ()
    ) -> Substitution:
        """Enter the accesses `reads` at the point `axes` and return what names them there.

        guards: conditions under which that point exists at all.
        """
        put = Substitution(axes=axes, operands=self.operands, tables=self._tables())
        guarded = [n for n in reads if any(i.terms for i in self.nest.access[n].index)]
        guarded = guarded or list(reads)[:1]
        names: dict[str, str] = {}
        for name in reads:
            access = put.access(self.nest.access[name])
            if guards and name in guarded:
                access = replace(access, guards=guards, outside="skip")
            names[name] = self.enter(access)
        return replace(put, accesses=names)

    def enter(self, access: Access) -> str:
        """Return the name of an access, a new one if the nest does not have it yet."""
        for name, present in self.access.items():
            if present == access:
                return name
        others = self.taken - {access.operand}
        name = free_name(access.operand, {*others, *self.access}, "_")
        self.taken.add(name)
        self.access[name] = access
        return name

    def _tables(self) -> Mapping[str, str]:
        names: dict[str, str] = {}
        for table, numbers in self.nest.tables.items():
            same = [n for n, v in self.tables.items() if v == numbers]
            name = same[0] if same else free_name(table, {*self.taken, *self.tables}, "_")
            names[table] = name
            self.taken.add(name)
            self.tables[name] = numbers
        return names

    def lets(
        self, lets: tuple[Let, ...], put: Substitution
    ) -> tuple[tuple[Let, ...], Substitution]:
        """Return the local constants under free names, and what names them."""
        entered: list[Let] = []
        for let in lets:
            name = self.name(let.name)
            entered.append(Let(name, put.expr(let.value), let.type))
            put = replace(put, locals={**put.locals, let.name: Local(name, let.type)})
        return tuple(entered), put

    def name(self, wanted: str) -> str:
        """Return a free name and take it."""
        name = free_name(wanted, self.taken, "_")
        self.taken.add(name)
        return name
