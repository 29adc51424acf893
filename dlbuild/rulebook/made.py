"""Constants of a rule: numbers that the build computes from other constants."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from dlbuild.ir.dtype import DTYPES
from dlbuild.rulebook.access import access_of, ways_of
from dlbuild.rulebook.bind import Binding, Unfit, size
from dlbuild.rulebook.expr import names_in, parse
from dlbuild.rulebook.index import Index
from dlbuild.rulebook.instance import Access, Loop, Made, Nest, Operand, Store
from dlbuild.rulebook.loops import Loops, index_list
from dlbuild.rulebook.pack import Term, integer
from dlbuild.rulebook.rule import ConstantSpec
from dlbuild.rulebook.steps import named_in, value_of
from dlbuild.rulebook.value import COMPUTE_TYPE, Expr, Position, Type, walk
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


def constants_of(binding: Binding, loops: Loops) -> Mapping[str, Constant]:
    """Return the constants that the steps name, and those that these are made from.

    Raises:
        Unfit: an operand that a constant is made from is not known at build time.
    """
    found: dict[str, Constant] = {}
    needed = _needed(binding)
    for name, spec in binding.rule.constants.items():
        if name in needed:
            found[name] = _constant(binding, loops, name, spec, found)
    return found


def _needed(binding: Binding) -> frozenset[str]:
    rule = binding.rule
    texts = [text for step in rule.steps for text in step.stores.values()]
    texts += [text for step in rule.steps for text in step.lets.values()]
    texts += [text for step in rule.steps for fold in step.folds.values() for text in fold]
    found = {name.id for text in texts for name in names_in(parse(text.text))}
    for name, spec in reversed(tuple(rule.constants.items())):
        if name in found:
            found.update(n.id for n in names_in(parse(spec.value.text)))
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
    value = value_of(spec.value, _scope(binding, inner, earlier), COMPUTE_TYPE[dtype])
    accesses = dict(_accesses(binding, inner, value, earlier))
    used = frozenset((*_axes_in(value), *(a for x in accesses.values() for a in _axes_of(x))))
    for axis in inner.extent:
        if axis in used and axis not in at and axis not in spec.over:
            raise Unfit(
                f"the constant '{name}' depends on the axis '{axis}', which its 'at' does not "
                f"list ({spec.value.where})"
            )
    kept = (*(axis for axis in at if axis in used), *spec.over)
    if spec.over and len(kept) > 1:
        raise Unfit(f"the table '{name}' must have one axis, not {len(kept)} ({spec.value.where})")
    shape = tuple(inner.extent[axis] for axis in kept)
    accesses[name] = Access(name, shape, tuple(Index.axis(axis) for axis in kept))
    nest = Nest(
        kept,
        (),
        {axis: inner.extent[axis] for axis in kept},
        accesses,
        (Loop((), stores=(Store(name, value),)),),
    )
    read = accesses[name] if not spec.over else Access(name, shape, (Index(),))
    operand = Operand(name, name, dtype, shape, "constant")
    return Constant(operand, Made(name, nest), read, bool(spec.over))


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


def _scope(binding: Binding, loops: Loops, earlier: Mapping[str, Constant]) -> Scope:
    ways = ways_of(binding, loops)
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


def _accesses(
    binding: Binding,
    loops: Loops,
    value: Expr,
    earlier: Mapping[str, Constant],
) -> Iterator[tuple[str, Access]]:
    ways, graph = ways_of(binding, loops), binding.graph
    for key in dict.fromkeys(named_in(value)):
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
