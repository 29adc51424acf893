"""What follows from the maps and steps of an instance: aliases, sharing, what may be divided."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import prod

from dlbuild.ir.dtype import DTYPES
from dlbuild.rulebook.address import address
from dlbuild.rulebook.index import Index, Loaded
from dlbuild.rulebook.instance import Access, Fold, Instance, Loop, Nest, Operand
from dlbuild.rulebook.value import Binary, Call, Expr, Local, Lookup, Offset, Position, Read, walk

Orders = Mapping[str, tuple[int, ...]]
"""Axis order in memory of operands by name; an absent one lies in the model's own order."""


@dataclass(frozen=True, slots=True)
class View:
    """An output operand that is the bytes of an input operand from `offset_bytes` on."""

    output: str
    source: str
    offset_bytes: int


def own_order(operand: Operand) -> tuple[int, ...]:
    """Return the model's own order of an operand's axes."""
    return tuple(range(len(operand.shape)))


def order_in(orders: Orders, operand: Operand) -> tuple[int, ...]:
    """Return the order in which an operand lies."""
    return orders.get(operand.name, own_order(operand))


def place(nest: Nest, access: Access, instance: Instance, orders: Orders) -> Index:
    """Return the element address of an access, axes of one point dropped."""
    operand = instance.operand(access.operand)
    unit = {axis: Index() for axis, extent in nest.extent.items() if extent == 1}
    return address(access, operand, order_in(orders, operand)).substitute(unit)


def is_same_map(first: Index, second: Index) -> bool:
    """Tell whether two maps are equal term by term, in any order of terms."""
    return first.constant == second.constant and dict(first.terms) == dict(second.terms)


def step_values(step: Loop) -> Iterator[Expr]:
    """Yield every value expression of a step."""
    for let in step.lets:
        yield let.value
    for fold in step.folds:
        yield fold.start
        yield fold.each
    for store in step.stores:
        yield store.value


def told_axes(access: Mapping[str, Access], steps: Sequence[Loop]) -> Iterator[str]:
    """Yield the axes whose number decides more than which elements are used."""
    for one in access.values():
        for guard in one.guards:
            yield from guard.index.axes()
    for step in steps:
        for condition in step.when:
            yield from condition.left.axes()
            yield from condition.right.axes()
        for value in step_values(step):
            for expr in walk(value):
                if isinstance(expr, Position):
                    yield from expr.index.axes()


def offset_accesses(steps: Sequence[Loop]) -> Iterator[str]:
    """Yield the accesses of which a value is where in its tensor their element lies."""
    for step in steps:
        for value in step_values(step):
            yield from (e.access for e in walk(value) if isinstance(e, Offset))


def step_reads(step: Loop) -> tuple[str, ...]:
    """Return the accesses read by a step, in order of first use."""
    reads = (e.access for v in step_values(step) for e in walk(v) if isinstance(e, Read))
    return tuple(dict.fromkeys(reads))


def loaded_operands(nest: Nest) -> frozenset[str]:
    """Return the operands whose content decides an address: by an index map or a lookup."""
    found = set[str]()
    for access in nest.access.values():
        for index in (*access.index, *(g.index for g in access.guards)):
            found.update(_loaded(index))
    for step in nest.steps:
        for condition in step.when:
            found.update(chain(_loaded(condition.left), _loaded(condition.right)))
        for value in step_values(step):
            for expr in walk(value):
                if isinstance(expr, Position):
                    found.update(_loaded(expr.index))
                elif isinstance(expr, Lookup):
                    looked_up = nest.access.get(expr.access)
                    found.add(looked_up.operand if looked_up else expr.access)
    return frozenset(found)


def _loaded(index: Index) -> Iterator[str]:
    for atom, _ in index.terms:
        if isinstance(atom, Loaded):
            yield atom.operand
            for inner in atom.at:
                yield from _loaded(inner)
        elif not isinstance(atom, str):
            yield from _loaded(atom.of)


def used_operands(nest: Nest) -> tuple[str, ...]:
    """Return the operands that a nest touches, in order of their accesses."""
    loaded = loaded_operands(nest)
    read = {nest.access[r].operand for step in nest.steps for r in step_reads(step)}
    written = {nest.access[s.access].operand for step in nest.steps for s in step.stores}
    touched = loaded | read | written
    named = (a.operand for a in nest.access.values())
    return tuple(dict.fromkeys(o for o in (*named, *sorted(loaded)) if o in touched))


def used_by(instance: Instance) -> tuple[Operand, ...]:
    """Return the operands that the nests touch, in the rule's order; all if it is opaque."""
    if not instance.nests:
        return instance.operands
    touched = {name for nest in instance.nests for name in used_operands(nest)}
    return tuple(o for o in instance.operands if o.name in touched)


def is_once_each(index: Index, extents: Mapping[str, int]) -> bool:
    """Tell whether no two points of the axes have the same value (proved, else false)."""
    if any(not isinstance(atom, str) for atom, _ in index.terms):
        return False
    if any(extent > 1 and not index.coefficient(a) for a, extent in extents.items()):
        return False
    reach = 0
    for factor, extent in sorted((abs(index.coefficient(a)), n) for a, n in extents.items()):
        if extent > 1:
            if factor <= reach:
                return False
            reach += factor * (extent - 1)
    return True


def copy_of(instance: Instance) -> tuple[Nest, Access, Access] | None:
    """Return the nest, the read and the write of an instance that stores what it reads, no more.

    What it reads is an element of an input at every point; there are no guards.
    """
    if len(instance.nests) != 1 or len(instance.nests[0].steps) != 1:
        return None
    (nest,) = instance.nests
    (step,) = nest.steps
    if step.over or step.when or step.lets or step.folds or len(step.stores) != 1:
        return None
    (store,) = step.stores
    if not isinstance(store.value, Read):
        return None
    read = nest.access[store.value.access]
    if read.guards or instance.operand(read.operand).role != "input":
        return None
    return nest, read, nest.access[store.access]


def view_of(instance: Instance, orders: Orders) -> View | None:
    """Return the input whose bytes the output already is, if the instance only renames them."""
    copy = copy_of(instance)
    if copy is None:
        return None
    nest, read, write = copy
    source, output = instance.operand(read.operand), instance.operand(write.operand)
    if write.guards or source.dtype != output.dtype:
        return None
    distance = place(nest, read, instance, orders) - place(nest, write, instance, orders)
    bits = distance.constant * DTYPES[source.dtype].bits
    if distance.terms or bits < 0 or bits % 8:
        return None
    return View(output.name, source.name, bits // 8)


def in_place(instance: Instance, orders: Orders) -> tuple[tuple[str, str], ...]:
    """Return the (input, output) tensors that may lie in one buffer.

    Each element is then read for the last time where it is overwritten, whatever the order in
    which the points of the domain are visited.
    """
    if len(instance.nests) != 1:
        return ()
    (nest,) = instance.nests
    outputs = [o for o in instance.operands if o.role == "output"]
    tensors = dict.fromkeys(o.tensor for o in instance.operands if o.role == "input")
    return tuple(
        (tensor, output.tensor)
        for output in outputs
        for tensor in tensors
        if _may_share(tensor, output, instance, nest, orders)
    )


def _may_share(
    tensor: str, output: Operand, instance: Instance, nest: Nest, orders: Orders
) -> bool:
    sources = {o.name: o for o in instance.operands if o.tensor == tensor and o.role == "input"}
    count = prod(output.shape)
    if any(
        not _may_be_one_array(o.dtype, output.dtype) or prod(o.shape) < count
        for o in sources.values()
    ):
        return False
    writing = [i for i, s in enumerate(nest.steps) if _stores_of(s, nest, output.name)]
    reading = {name for name, access in nest.access.items() if access.operand in sources}
    used = [reading.intersection(step_reads(s)) for s in nest.steps]
    readers = [i for i, found in enumerate(used) if found]
    if not writing or not readers or max(readers) > writing[0]:
        return False
    if loaded_operands(nest) & set(sources):
        return False
    step = nest.steps[writing[0]]
    (write, *others) = _stores_of(step, nest, output.name)
    if others or nest.access[write].guards:
        return False
    target = place(nest, nest.access[write], instance, orders)
    if not is_once_each(target, {a: nest.extent[a] for a in (*nest.domain, *step.over)}):
        return False
    # Later steps may overwrite what this one wrote for the same point of the domain.
    later = {s for i in writing[1:] for s in _stores_of(nest.steps[i], nest, output.name)}
    return all(
        is_same_map(place(nest, nest.access[r], instance, orders), target)
        for r in later.union(*used)
    )


def _may_be_one_array(read: str, written: str) -> bool:
    """Say whether C lets a function read and write one array as these element types.

    A compiler may take pointers to two types for two arrays, unless one is a character type
    (C99, 6.5, paragraph 7).
    """
    same_bits = DTYPES[read].bits == DTYPES[written].bits
    return read == written or (same_bits and bool({read, written} & {"int8", "uint8"}))


def _stores_of(step: Loop, nest: Nest, operand: str) -> list[str]:
    return [s.access for s in step.stores if nest.access[s.access].operand == operand]


def parallel_axes(nest: Nest) -> tuple[str, ...]:
    """Return the axes over which results are independent."""
    return tuple(a for a in nest.domain if nest.extent[a] > 1)


def carried_axes(nest: Nest) -> tuple[str, ...]:
    """Return the axes of running folds: an output in the loop of its fold."""
    running = (s.over for s in nest.steps if s.folds and s.stores)
    return tuple(dict.fromkeys(a for a in chain.from_iterable(running) if nest.extent[a] > 1))


def splittable_axes(nest: Nest) -> tuple[str, ...]:
    """Return the reduction axes that may be cut into parts whose partial results are carried on."""
    folding = [s for s in nest.steps if s.folds]
    looping = [s for s in nest.steps if s.over and not s.folds]
    if len(folding) != 1 or looping or carried_axes(nest):
        return ()
    (step,) = folding
    if not all(is_commutative(f) for f in step.folds):
        return ()
    return tuple(a for a in step.over if nest.extent[a] > 1)


def is_commutative(fold: Fold) -> bool:
    """Tell whether the fold is `v + e`, `v * e`, `max(v, e)` or `min(v, e)`, with no `v` in e."""
    match fold.each:
        case Binary("+" | "*", left, right, _) | Call("max" | "min", (left, right), _):
            pairs = ((left, right), (right, left))
            return any(_is_local(v, fold.name) and not _uses(e, fold.name) for v, e in pairs)
        case _:
            return False


def _is_local(expr: Expr, name: str) -> bool:
    return isinstance(expr, Local) and expr.name == name


def _uses(expr: Expr, name: str) -> bool:
    return any(_is_local(e, name) for e in walk(expr))
