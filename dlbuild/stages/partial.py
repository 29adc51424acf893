"""Results that are sums over parts of an operator's operands: what each part gives is added up."""

from collections.abc import Iterator, Mapping
from math import prod

from dlbuild.rulebook.index import Loaded
from dlbuild.rulebook.instance import Access, Fold, Instance, Nest, Operand
from dlbuild.rulebook.value import Binary, Cast, Expr, Local, Number, Unary, walk
from dlbuild.stages.flow import NoFlow, check_places

FLOATS = ("f32", "f64")


def check_partial(instance: Instance, cuts: Mapping[str, int]) -> None:
    """Accept an operator whose results, computed from parts, add up to those from the whole.

    That is so if it sums, from zero, over the axis that is cut, and what it makes of the sum is
    linear. Exact over the reals; floats are then added in another order.

    Args:
        instance: the operator.
        cuts: the axis along which each tensor is cut; others are whole.

    Raises:
        NoFlow: it is not so; the text says why.
    """
    if len(instance.nests) != 1:
        raise NoFlow("it has a kernel of its own, or makes several results")
    (nest,) = instance.nests
    loop = _summed(instance, nest, cuts)
    _check_places(nest, loop)
    sums = frozenset(fold.name for step in nest.steps if loop in step.over for fold in step.folds)
    linear = set(sums)
    for step in nest.steps:
        if loop in step.over:
            if step.stores or not all(_adds(fold, sums) for fold in step.folds):
                raise NoFlow("it needs all samples at once, and not to add them up")
            continue
        if any(_mentions(fold.each, linear) for fold in step.folds):
            raise NoFlow("it goes on with the sum over the samples")
        linear |= {let.name for let in step.lets if _is_linear(let.value, linear)}
        if not all(_is_linear(store.value, linear) for store in step.stores):
            raise NoFlow("what it makes of the sum over the samples is not linear")


def _summed(instance: Instance, nest: Nest, cuts: Mapping[str, int]) -> str:
    """Return the loop of the sum that runs over the cut axis of all tensors that are cut."""
    loops: set[str] = set()
    for access in nest.access.values():
        operand = instance.operand(access.operand)
        if operand.role == "input" and operand.tensor in cuts:
            loops.add(_loop(operand, access, cuts[operand.tensor]))
    if len(loops) != 1 or not loops <= set(nest.reduce):
        raise NoFlow("each result needs several samples")
    (loop,) = loops
    for access in nest.access.values():
        operand = instance.operand(access.operand)
        is_cut = operand.role == "input" and operand.tensor in cuts
        if operand.role == "output" and any(loop in index.axes() for index in access.index):
            raise NoFlow("each result needs all samples at once")
        uses = sum(loop in index.axes() for index in access.index)
        if uses != (1 if is_cut else 0):
            raise NoFlow(f"each sample needs a part of '{operand.tensor}', which is not divided")
        if any(loop in guard.index.axes() for guard in access.guards):
            raise NoFlow("it goes beyond the samples that there are")
    return loop


def _loop(operand: Operand, access: Access, axis: int) -> str:
    """Return the loop that is an axis of a tensor."""
    for number, index in enumerate(access.index):
        is_axis = access.view[number] == operand.shape[axis] and prod(access.view[:number]) == prod(
            operand.shape[:axis]
        )
        match index.terms:
            case ((str() as name, 1),) if is_axis and not index.constant:
                return name
            case _:
                continue
    raise NoFlow(f"it does not go along axis {axis} of '{operand.tensor}' step by step")


def _check_places(nest: Nest, loop: str) -> None:
    """Refuse what depends on the place in the batch, or on what an index looks up there."""
    indices = [index for access in nest.access.values() for index in access.index]
    if any(
        isinstance(atom, Loaded) and loop in index.axes()
        for index in indices
        for atom, _ in index.terms
    ):
        raise NoFlow("which sample it reads depends on data")
    check_places(nest, loop)


def _adds(fold: Fold, sums: frozenset[str]) -> bool:
    """Say whether a fold adds, from zero, terms that know nothing of the sum so far."""
    if not isinstance(fold.start, Number) or fold.start.number != 0:
        return False
    for own, term in _sides(fold.each):
        if own == Local(fold.name, fold.type):
            return not _mentions(term, sums)
    return False


def _sides(expr: Expr) -> Iterator[tuple[Expr, Expr]]:
    if isinstance(expr, Binary) and expr.operator == "+":
        yield expr.left, expr.right
        yield expr.right, expr.left


def _mentions(expr: Expr, names: set[str] | frozenset[str]) -> bool:
    return any(isinstance(part, Local) and part.name in names for part in walk(expr))


def _is_linear(expr: Expr, names: set[str]) -> bool:
    """Say whether a value is a multiple of the sums, with no constant part."""
    match expr:
        case Local(name, _):
            return name in names
        case Unary("-", value, _):
            return _is_linear(value, names)
        case Cast(value, kind):
            return kind in FLOATS and value.type in FLOATS and _is_linear(value, names)
        case Binary("+" | "-", left, right, _):
            return _is_linear(left, names) and (_is_linear(right, names) or _is_zero(right))
        case Binary("*", left, right, _):
            one, other = (left, right) if _mentions(left, names) else (right, left)
            return _is_linear(one, names) and not _mentions(other, names)
        case Binary("/", left, right, kind):
            is_free = not _mentions(right, names)
            return kind in FLOATS and is_free and _is_linear(left, names)
        case _:
            return False


def _is_zero(expr: Expr) -> bool:
    return isinstance(expr, Number) and expr.number == 0
