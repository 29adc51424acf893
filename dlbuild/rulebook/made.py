"""Constants of a rule: numbers that the build computes from other constants."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dlbuild.ir.dtype import DTYPES
from dlbuild.rulebook.access import Way, access_of, ways_of
from dlbuild.rulebook.bind import Binding, Unfit, size
from dlbuild.rulebook.expr import names_in, parse
from dlbuild.rulebook.index import Index
from dlbuild.rulebook.instance import Access, Loop, Made, Nest, Operand, Store
from dlbuild.rulebook.loops import Loops, index_list
from dlbuild.rulebook.pack import Term, integer
from dlbuild.rulebook.rule import ConstantSpec
from dlbuild.rulebook.steps import folds_of, named_in, value_of
from dlbuild.rulebook.value import COMPUTE_TYPE, Expr, Local, Position, Type, walk
from dlbuild.rulebook.values import Scope


@dataclass(frozen=True)
class Constant:
    """A made constant: its operand, the nest that makes it, and how the steps read it.

    access: for a table (`over`), the place of its first number.
    is_table: it is looked up by `name[expr]`.
    """

    operand: Operand
    made: Made
    access: Access
    is_table: bool

    @property
    def type(self) -> Type:
        """The type in which its numbers take part in a value."""
        return COMPUTE_TYPE[self.operand.dtype]


def constants_of(
    binding: Binding, loops: Loops, uses: Sequence[str] = ()
) -> Mapping[str, Constant]:
    """Return the constants that the steps or `uses` name, and those that these are made from.

    Raises:
        Unfit: an operand that a constant is made from is not known at build time.
    """
    found: dict[str, Constant] = {}
    needed = _needed(binding, uses)
    for name, spec in binding.rule.constants.items():
        if name in needed:
            found[name] = _constant(binding, loops, name, spec, found)
    return found


def kept_constants(names: Iterable[str], constants: Mapping[str, Constant]) -> list[Constant]:
    """Return the constants of those names, and those that these are made from, in order."""
    read = set(names)
    kept: list[Constant] = []
    for name, constant in reversed(tuple(constants.items())):
        if name in read:
            kept.insert(0, constant)
            read.update(constant.made.nest.access)
    return kept


def _needed(binding: Binding, uses: Sequence[str]) -> frozenset[str]:
    rule = binding.rule
    texts = [text for step in rule.steps for text in step.stores.values()]
    texts += [text for step in rule.steps for text in step.lets.values()]
    texts += [text for step in rule.steps for fold in step.folds.values() for text in fold]
    found = {name.id for text in texts for name in names_in(parse(text.text))} | set(uses)
    for name, spec in reversed(tuple(rule.constants.items())):
        if name in found:
            own = [spec.value, *(text for fold in spec.folds.values() for text in fold)]
            found.update(n.id for text in own for n in names_in(parse(text.text)))
    return frozenset(found)


def _constant(
    binding: Binding,
    loops: Loops,
    name: str,
    spec: ConstantSpec,
    earlier: Mapping[str, Constant],
) -> Constant:
    dtype = _dtype(binding, spec)
    inner = _with_over(loops, spec)
    at = _axes_at(spec, inner, name)
    scope = _scope(binding, inner, earlier, spec)
    along = tuple(axis for group in spec.along for axis in inner.groups[group])
    folds = folds_of(spec.folds, scope)
    scope = scope.with_locals({fold.name: Local(fold.name, fold.type) for fold in folds})
    value = value_of(spec.value, scope, COMPUTE_TYPE[dtype])
    values = (value, *(part for fold in folds for part in (fold.start, fold.each)))
    accesses = dict(_accesses(binding, inner, values, earlier, spec))
    moving = {a for x in accesses.values() for a in _axes_of(x)}
    used = frozenset({*(a for part in values for a in _axes_in(part)), *moving} - set(along))
    for axis in inner.extent:
        if axis in used and axis not in at and axis not in spec.over:
            raise Unfit(
                f"the constant '{name}' depends on the axis '{axis}', which its 'at' does not "
                f"list ({spec.value.where})"
            )
    kept = (*(axis for axis in at if axis in used), *spec.over)
    shape = tuple(inner.extent[axis] for axis in kept)
    accesses[name] = Access(name, shape, tuple(Index.axis(axis) for axis in kept))
    summed = (Loop(along, folds=folds),) if folds else ()
    nest = Nest(
        kept,
        along,
        {axis: inner.extent[axis] for axis in (*kept, *along)},
        accesses,
        (*summed, Loop((), stores=(Store(name, value),))),
    )
    read = accesses[name] if not spec.over or len(kept) > 1 else Access(name, shape, (Index(),))
    operand = Operand(name, name, dtype, shape, "constant")
    # What has several axes only a kernel's template can read.
    return Constant(operand, Made(name, nest), read, bool(spec.over) and len(kept) == 1)


def _dtype(binding: Binding, spec: ConstantSpec) -> str:
    dtype = binding.names.get(spec.dtype.text, spec.dtype.text)
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise Unfit(f"'{dtype}' is not an element type ({spec.dtype.where})")
    return dtype


def _with_over(loops: Loops, spec: ConstantSpec) -> Loops:
    extent = {axis: integer(size(text, loops.names)) for axis, text in spec.over.items()}
    axes: dict[str, Term] = {axis: Index.axis(axis) for axis in extent}
    return replace(loops, extent={**loops.extent, **extent}, scope={**loops.scope, **axes})


def _axes_at(spec: ConstantSpec, loops: Loops, name: str) -> tuple[str, ...]:
    found = []
    for place in () if spec.at is None else index_list(spec.at, loops.scope):
        match place:
            case Index(((str() as axis, 1),), 0):
                found.append(axis)
            case _:
                raise Unfit(f"'at' of the constant '{name}' must list axes ({spec.value.where})")
    return tuple(found)


def _scope(
    binding: Binding, loops: Loops, earlier: Mapping[str, Constant], spec: ConstantSpec
) -> Scope:
    ways = {**ways_of(binding, loops), **_own_ways(loops, spec)}
    reads = {key: way.operand.dtype for key, way in ways.items() if way.operand.role == "input"}
    made = {key: c.operand.dtype for key, c in earlier.items() if not c.is_table}
    return Scope(
        loops.names,
        loops.scope,
        {**reads, **made},
        {key: size(text, loops.names) for key, text in binding.absent.items()},
        {},
        {key: c.type for key, c in earlier.items() if c.is_table},
    )


def _own_ways(loops: Loops, spec: ConstantSpec) -> Mapping[str, Way]:
    """Return the reads that a constant states for itself."""
    return {
        name: Way(loops.operands[read.of], read)
        for name, read in spec.reads.items()
        if read.of in loops.operands
    }


def _accesses(
    binding: Binding,
    loops: Loops,
    values: Sequence[Expr],
    earlier: Mapping[str, Constant],
    spec: ConstantSpec,
) -> Iterator[tuple[str, Access]]:
    ways, graph = {**ways_of(binding, loops), **_own_ways(loops, spec)}, binding.graph
    for key in dict.fromkeys(key for value in values for key in named_in(value)):
        if key in earlier:
            yield key, earlier[key].access
            continue
        tensor = ways[key].operand.tensor
        if tensor in graph.producer or tensor in graph.inputs:
            raise Unfit(f"the input '{key}' ({tensor}) must be a constant")
        yield key, access_of(binding, loops, key, ways[key], None)


def _axes_of(access: Access) -> Iterable[str]:
    return (axis for place in access.index for axis in place.axes())


def _axes_in(value: Expr) -> Iterator[str]:
    for part in walk(value):
        if isinstance(part, Position):
            yield from part.index.axes()
