"""One loop nest of an operator: its accesses, and its steps typed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from dlbuild.base.yamlsrc import Scalar
from dlbuild.rulebook.access import Way, access_of, ways_of
from dlbuild.rulebook.bind import Binding, Unfit, size
from dlbuild.rulebook.instance import Access, Nest
from dlbuild.rulebook.known import Typed
from dlbuild.rulebook.loops import Loops
from dlbuild.rulebook.made import Constant
from dlbuild.rulebook.pack import Term
from dlbuild.rulebook.steps import loops_for, named_in, used_names, value_of
from dlbuild.rulebook.tables import tables_of
from dlbuild.rulebook.value import COMPUTE_TYPE, Expr, Local, Read
from dlbuild.rulebook.values import Scope


@dataclass(frozen=True)
class _Context:
    """All that an access may depend on."""

    binding: Binding
    loops: Loops
    ways: Mapping[str, Way]
    constants: Mapping[str, Constant]
    scope: Scope


def nest_of(binding: Binding, loops: Loops, constants: Mapping[str, Constant]) -> Nest:
    """Return the nest of an operator, or of one member of its `for_each` tensor.

    Raises:
        Unfit: the operator's shapes do not go with the rule's maps.
        UserError: a map may leave its tensor and the rule does not say what happens then.
    """
    rule = binding.rule
    is_double = any(operand.dtype == "float64" for operand in loops.operands.values())
    tables = tables_of(rule.tables, loops, "f64" if is_double else "f32")
    loops = tables.loops
    ways = ways_of(binding, loops)
    scope = _scope(binding, loops, ways, constants, tables.values)
    outputs = {
        name: way.operand.dtype for name, way in ways.items() if way.operand.role == "output"
    }
    steps = loops_for(rule.steps, loops, scope, outputs)
    names = dict.fromkeys(name for step in steps for name in used_names(step))
    context = _Context(binding, loops, ways, constants, scope)
    return Nest(
        loops.domain,
        loops.reduce,
        loops.extent,
        dict(_accesses(context, list(names))),
        steps,
        tables.numbers,
    )


def result_of(
    binding: Binding,
    loops: Loops,
    constants: Mapping[str, Constant],
    text: Scalar,
    nest: Nest,
) -> Expr:
    """Return the value that a kernel computes of the folds of a nest's first step.

    Raises:
        Unfit: it names what this operator does not have.
    """
    scope = _scope(binding, loops, ways_of(binding, loops), constants, {})
    folds = nest.steps[0].folds
    return value_of(text, scope.with_locals({f.name: Local(f.name, f.type) for f in folds}))


def _scope(
    binding: Binding,
    loops: Loops,
    ways: Mapping[str, Way],
    constants: Mapping[str, Constant],
    tables: Mapping[str, Typed],
) -> Scope:
    reads = {name: way.operand.dtype for name, way in ways.items()}
    reads |= {name: c.operand.dtype for name, c in constants.items() if not c.is_table}
    absent: dict[str, Term] = {
        name: size(text, loops.names) for name, text in binding.absent.items()
    }
    lookups = {name: c.type for name, c in constants.items() if c.is_table}
    scope = Scope(loops.names, loops.scope, reads, absent, tables, lookups)
    chained = _chained(binding, scope)
    return scope if chained is None else scope.with_locals({"CHAIN": chained})


def _chained(binding: Binding, scope: Scope) -> Typed | None:
    """Return the members of the variadic input combined from left to right."""
    chain = binding.rule.chain
    if chain is None:
        return None
    ((name, count),) = binding.members.items()
    if count == 0:
        raise Unfit(f"the input '{name}' has no member")
    total: Typed = _read(f"{name}0", scope)
    for number in range(1, count):
        more = scope.with_locals({"l": total, "r": _read(f"{name}{number}", scope)})
        total = value_of(chain, more)
    return total


def _read(name: str, scope: Scope) -> Expr:
    return Read(name, COMPUTE_TYPE[scope.reads[name]])


def _accesses(context: _Context, names: list[str]) -> Iterator[tuple[str, Access]]:
    """Yield the named accesses and those that their values outside name in turn."""
    for name in names:
        if name in context.constants:
            yield name, context.constants[name].access
        elif name in context.ways:
            way = context.ways[name]
            outside = _outside(context, name, way)
            access = access_of(context.binding, context.loops, name, way, outside)
            yield name, access
            if access.outside is not None and access.outside != "skip":
                names.extend(n for n in named_in(access.outside) if n not in names)


def _outside(context: _Context, name: str, way: Way) -> Expr | Literal["skip"] | None:
    text = context.binding.rule.outside.get(name)
    if text is None:
        return None
    if text.text == "skip":
        return "skip"
    return value_of(text, context.scope, COMPUTE_TYPE[way.operand.dtype])
