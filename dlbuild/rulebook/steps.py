"""The steps of a rule with every value typed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from dlbuild.base.yamlsrc import Scalar
from dlbuild.rulebook.bind import Unfit, fault_in
from dlbuild.rulebook.expr import evaluate, parse
from dlbuild.rulebook.index import Index
from dlbuild.rulebook.instance import Condition, Fold, Let, Loop, Store
from dlbuild.rulebook.known import Known, join, own_type
from dlbuild.rulebook.loops import Loops
from dlbuild.rulebook.pack import ExpressionError, flat, truth
from dlbuild.rulebook.rule import StepSpec
from dlbuild.rulebook.value import COMPUTE_TYPE, Expr, Local, Type, walk
from dlbuild.rulebook.values import Scope, typed, typed_value

Folds = Mapping[str, tuple[Scalar, Scalar]]
"""Start and update of each fold variable, as a rule states them."""

_NEVER = Condition("==", Index(), Index((), 1))


def value_of(text: Scalar, scope: Scope, want: Type | None = None) -> Expr:
    """Return the typed tree of a value expression; its fault is why the rule does not fit."""
    try:
        return typed_value(text, scope, want)
    except ExpressionError as error:
        raise Unfit(fault_in(text, error)) from None


def loops_for(
    specs: tuple[StepSpec, ...], loops: Loops, scope: Scope, outputs: Mapping[str, str]
) -> tuple[Loop, ...]:
    """Return the steps that do something for this operator.

    Args:
        specs: what the rule says.
        loops: the nest's axes.
        scope: what names in values mean, before any `let` and fold.
        outputs: the element type of each access that can be written.
    """
    found: list[Loop] = []
    for spec in specs:
        loop, scope = _loop(spec, loops, scope, outputs)
        if loop.lets or loop.folds or loop.stores:
            found.append(loop)
    return tuple(found)


def _loop(
    spec: StepSpec, loops: Loops, scope: Scope, outputs: Mapping[str, str]
) -> tuple[Loop, Scope]:
    over = tuple(axis for group in spec.over for axis in loops.groups[group])
    when = tuple(_conditions(spec, loops))
    lets: list[Let] = []
    for name, text in spec.lets.items():
        value = value_of(text, scope)
        lets.append(Let(name, value, value.type))
        scope = scope.with_locals({name: Local(name, value.type)})
    folds = folds_of(spec.folds, scope)
    scope = scope.with_locals({fold.name: Local(fold.name, fold.type) for fold in folds})
    stores = tuple(
        Store(
            name,
            value_of(text, replace(scope, output=outputs[name]), COMPUTE_TYPE[outputs[name]]),
        )
        for name, text in spec.stores.items()
        if name in outputs
    )
    return Loop(over, when, tuple(lets), folds, stores), scope


def _conditions(spec: StepSpec, loops: Loops) -> Iterator[Condition]:
    """Yield the conditions that are not proved."""
    for text in spec.when:
        try:
            for term in flat(evaluate(parse(text.text), loops.scope)):
                if not isinstance(term, Condition):
                    if not truth(term):
                        yield _NEVER
                elif not _is_proved(term, loops):
                    yield term
        except ExpressionError as error:
            raise Unfit(fault_in(text, error)) from None


def _is_proved(condition: Condition, loops: Loops) -> bool:
    if loops.is_empty:
        return False
    low, high = (condition.left - condition.right).interval(loops.box)
    match condition.operator:
        case "<":
            return high < 0
        case "<=":
            return high <= 0
        case ">":
            return low > 0
        case ">=":
            return low >= 0
        case "==":
            return low == high == 0
        case "!=":
            return low > 0 or high < 0


def folds_of(specs: Folds, scope: Scope) -> tuple[Fold, ...]:
    """Return typed folds; each may name all of them. specs: start and update by name."""
    types = _fold_types(specs, scope)
    inside = scope.with_locals({name: Local(name, type_) for name, type_ in types.items()})
    return tuple(
        Fold(
            name,
            value_of(start, scope, types[name]),
            value_of(each, inside, types[name]),
            types[name],
        )
        for name, (start, each) in specs.items()
    )


def _fold_types(specs: Folds, scope: Scope) -> Mapping[str, Type]:
    """Return the least types that hold each fold variable's start and update.

    A number of no type of its own starts as the narrowest; the updates widen it until none does.
    """
    types: dict[str, Type] = {}
    literals: dict[str, Type] = {}
    for name, (start, _) in specs.items():
        try:
            value = typed(parse(start.text), scope)
        except ExpressionError as error:
            raise Unfit(fault_in(start, error)) from None
        if isinstance(value, Known):
            literals[name] = own_type(value)
            types[name] = "f32" if literals[name] == "f32" else "bool"
        else:
            types[name] = value.type
    while True:
        inside = scope.with_locals({name: Local(name, type_) for name, type_ in types.items()})
        wider = {
            name: join(types[name], value_of(each, inside).type)
            for name, (_, each) in specs.items()
        }
        if wider == types:
            break
        types = wider
    return {
        name: literals.get(name, type_) if type_ == "bool" else type_
        for name, type_ in types.items()
    }


def used_names(loop: Loop) -> Iterator[str]:
    """Yield the accesses and tables that a step's values name, and those it writes."""
    values = [let.value for let in loop.lets]
    for fold in loop.folds:
        values += [fold.start, fold.each]
    values += [store.value for store in loop.stores]
    for value in values:
        yield from named_in(value)
    for store in loop.stores:
        yield store.access


def named_in(value: Expr) -> Iterator[str]:
    """Yield the accesses and tables that a value names."""
    for part in walk(value):
        access = getattr(part, "access", None)
        if isinstance(access, str):
            yield access
