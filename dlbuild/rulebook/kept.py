"""A dear value that two steps compute, kept in the output between them. No operator is named.

A sum over an axis and what is made of each of its terms, as in a softmax, are two loops over the
same terms. Where the output has room for a term until its result takes its place, each term is
computed once. In an output of a narrow type it is rounded there, as every element of that type is.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from dlbuild.base.free import free_name
from dlbuild.ir.dtype import DTYPES
from dlbuild.rulebook.derive import in_place, is_once_each, place
from dlbuild.rulebook.instance import Instance, Let, Loop, Nest, Store
from dlbuild.rulebook.rule import NEST_TEMPLATE
from dlbuild.rulebook.substitution import Substitution
from dlbuild.rulebook.value import COMPUTE_TYPE, Call, Expr, Local, Number, Read, walk

DEAR = frozenset(
    ("exp", "log", "pow", "erf", "sin", "cos", "tan", "asin", "acos", "atan", "atan2")
) | frozenset(("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"))
"""Functions that cost far more than a store and a load."""
LEAST_EXACT_BITS = 32
"""A float of so many bits is stored as it is computed."""


def kept(instance: Instance) -> Instance:
    """Return the instance with each dear value that its last step repeats computed once.

    It is returned as it is where nothing is repeated, where the output cannot hold the value, or
    where an input could no longer lie in the output's place.
    """
    if len(instance.nests) != 1 or instance.template != NEST_TEMPLATE or instance.handwritten:
        return instance
    (nest,) = instance.nests
    found = _repeated(instance, nest)
    if found is None:
        return instance
    made = replace(instance, nests=(_with_kept(nest, found),))
    return made if set(in_place(instance, {})) <= set(in_place(made, {})) else instance


@dataclass(frozen=True)
class _Repeated:
    """A value of the last step that the step number `first` computes too. name: of its local."""

    value: Expr
    first: int
    access: str
    name: str


def _repeated(instance: Instance, nest: Nest) -> _Repeated | None:
    *earlier, last = nest.steps
    if not last.over or last.when or last.lets or last.folds or len(last.stores) != 1:
        return None
    if any(step.stores for step in earlier):
        return None
    (store,) = last.stores
    if not _holds_each(instance, nest, last, store.access):
        return None
    dtype = instance.operand(nest.access[store.access].operand).dtype
    for value in walk(store.value):
        if not _is_dear(value) or not _is_held(value, dtype, instance, nest):
            continue
        for number, step in enumerate(earlier):
            if _computes(step, last.over, value) and not _defined(nest.steps[number:], value):
                return _Repeated(value, number, store.access, _free_name(nest, instance))
    return None


def _holds_each(instance: Instance, nest: Nest, step: Loop, access: str) -> bool:
    """Say whether every turn of the loops writes an element of its own."""
    written = nest.access[access]
    axes = {a: nest.extent[a] for a in (*nest.domain, *step.over)}
    return not written.guards and is_once_each(place(nest, written, instance, {}), axes)


def _is_dear(value: Expr) -> bool:
    return any(isinstance(e, Call) and e.function in DEAR for e in walk(value))


def _is_held(value: Expr, dtype: str, instance: Instance, nest: Nest) -> bool:
    """Say whether an output of a type holds a value as a tensor of the operator would.

    A narrow type does if all that the value is made of has it: then it is no wider in the model.
    """
    reads = [nest.access[e.access] for e in walk(value) if isinstance(e, Read)]
    if any(access.guards for access in reads) or value.type != COMPUTE_TYPE[dtype]:
        return False
    is_exact = DTYPES[dtype].bits >= LEAST_EXACT_BITS
    alike = all(instance.operand(access.operand).dtype == dtype for access in reads)
    return DTYPES[dtype].kind == "float" and (is_exact or alike)


def _computes(step: Loop, over: tuple[str, ...], value: Expr) -> bool:
    """Say whether a step's folds compute a value in each turn of loops over the same axes."""
    is_plain = step.over == over and not step.when and not step.lets
    return is_plain and any(e == value for fold in step.folds for e in walk(fold.each))


def _defined(steps: tuple[Loop, ...], value: Expr) -> bool:
    """Say whether a value depends on what the steps define."""
    names = {name for step in steps for name in _variables(step)}
    return any(isinstance(e, Local) and e.name in names for e in walk(value))


def _variables(step: Loop) -> Iterator[str]:
    yield from (let.name for let in step.lets)
    yield from (fold.name for fold in step.folds)


def _free_name(nest: Nest, instance: Instance) -> str:
    taken = {name for step in nest.steps for name in _variables(step)}
    taken |= {*nest.extent, *nest.access, *nest.tables, *(o.name for o in instance.operands)}
    return free_name("term", taken)


_NOTHING = Number(0, "i32")


@dataclass(frozen=True)
class _Exchange(Substitution):
    """Puts `new` in the place of `old`."""

    old: Expr = _NOTHING
    new: Expr = _NOTHING

    def expr(self, expr: Expr) -> Expr:
        return self.new if expr == self.old else super().expr(expr)


def _with_kept(nest: Nest, found: _Repeated) -> Nest:
    local = Local(found.name, found.value.type)
    exchange = _Exchange(old=found.value, new=local)
    steps = list(nest.steps)
    step = steps[found.first]
    steps[found.first] = replace(
        step,
        lets=(Let(found.name, found.value, found.value.type),),
        folds=tuple(replace(fold, each=exchange.expr(fold.each)) for fold in step.folds),
        stores=(Store(found.access, local),),
    )
    (store,) = steps[-1].stores
    read = Read(found.access, found.value.type)
    value = _Exchange(old=found.value, new=read).expr(store.value)
    steps[-1] = replace(steps[-1], stores=(Store(store.access, value),))
    return replace(nest, steps=tuple(steps))
