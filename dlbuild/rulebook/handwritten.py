"""Hand-written kernels: a template that computes a nest's fold faster; the nest stays its meaning.

Cost, fusion, tiles, strips and the numpy oracle follow the nest. Where the template cannot take
the place of the fold, the nest is printed instead, and `obstacle` says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from math import inf, prod

from dlbuild.ir.profile import Form
from dlbuild.rulebook.bind import Binding, conclude, holds, whole_number
from dlbuild.rulebook.derive import Orders, order_in, own_order, step_reads
from dlbuild.rulebook.index import Index
from dlbuild.rulebook.instance import Access, Blocks, Handwritten, Instance, Nest, Operand
from dlbuild.rulebook.loops import loops_of
from dlbuild.rulebook.made import constants_of, kept_constants
from dlbuild.rulebook.nest import result_of
from dlbuild.rulebook.pack import Term, sizes_of
from dlbuild.rulebook.rule import AT_ONCE, COLUMNS, FormSpec, KernelSpec
from dlbuild.rulebook.samples import sampled
from dlbuild.rulebook.value import Expr, Local


def handwritten_of(
    instance: Instance, binding: Binding, spec: KernelSpec, *, is_small: bool = False
) -> Handwritten | None:
    """Return a rule's kernel for an instance, None if its conditions do not hold.

    is_small: the form of the fewest points at once is the usual one.

    Raises:
        Unfit: it needs what this operator does not have.
    """
    taken = binding.copy()
    conclude(taken, {**taken.rule.lets, **spec.lets})
    if spec.when is not None and not holds(spec.when, taken.names):
        return None
    constants = {**taken.rule.constants, **spec.constants}
    taken = replace(taken, rule=replace(taken.rule, constants=constants))
    if len(instance.nests) != 1 or not instance.nests[0].steps[0].folds:
        return None
    (nest,) = instance.nests
    loops = loops_of(taken)
    made = constants_of(taken, loops, spec.uses)
    present = {o.name for o in instance.operands}
    samples = spec.samples if nest.extent.get(spec.samples, 1) > 1 else ""
    own = [c for c in kept_constants(spec.uses, made) if c.operand.name not in present]
    forms = _forms(spec, taken.names, nest, has_samples=bool(samples), is_small=is_small)
    if not forms:
        return None
    scratch = tuple(
        Operand(name, name, room.dtype, (forms[0].count,), "scratch")
        for name, room in spec.scratch.items()
    )
    fold = nest.steps[0]
    return Handwritten(
        name=spec.name,
        template=spec.template,
        result=result_of(taken, loops, made, spec.result, nest),
        fold=fold,
        access={name: nest.access[name] for name in step_reads(fold)},
        uses=(*spec.uses, *spec.scratch),
        operands=(*(c.operand for c in own), *scratch),
        made=tuple(c.made for c in own),
        samples=samples,
        keep=spec.keep,
        rows=(samples,) if samples else spec.rows,
        columns=() if samples else spec.columns,
        forms=forms,
        sizes=sizes_of({**taken.names, AT_ONCE: forms[0].points}),
        blocks=_blocks(spec, taken.names),
    )


def _blocks(spec: KernelSpec, names: Mapping[str, Term]) -> Blocks | None:
    if spec.blocks is None:
        return None
    return Blocks(spec.blocks.axis, whole_number(spec.blocks.of, names), spec.blocks.sizes)


def _forms(
    spec: KernelSpec, names: Mapping[str, Term], nest: Nest, *, has_samples: bool, is_small: bool
) -> tuple[Form, ...]:
    """Return the forms in which a kernel may go for an operator, the usual one first.

    has_samples: a row is a whole sample. is_small: the fewest points are usual.
    """
    columns = nest.extent[spec.columns[0]] if spec.columns and not has_samples else 0
    found = []
    for form in spec.at_once or (FormSpec(0, 1.0, 1.0, None),):
        if form.when is not None and not holds(form.when, names):
            continue
        own = {**names, AT_ONCE: form.points}
        count = whole = fewer = 0
        for room in spec.scratch.values():
            count = whole = fewer = whole_number(room.count, own)
            if not has_samples:
                whole = whole_number(room.row_count, {**own, COLUMNS: columns})
                fewer = whole_number(room.row_count, {**own, COLUMNS: columns - 1})
        costs = form.cost, form.narrow_cost
        found.append(Form(form.points, *costs, count, whole, columns, whole - fewer))
    if is_small:
        # A form that takes no points at once is other code, and comes after those that do.
        found.sort(key=lambda form: form.points or inf)
    return tuple(found)


def obstacle(instance: Instance, orders: Orders, free: frozenset[str] = frozenset()) -> str:
    """Return why a kernel's template cannot take the place of the fold, or nothing.

    Args:
        instance: with a hand-written kernel, perhaps with operators fused into it.
        orders: how its operands lie in memory.
        free: tensors that it may write in any order. Row by row it writes them in its own alone.
    """
    kernel = instance.handwritten
    assert kernel is not None
    (nest,) = instance.nests
    if nest.steps[0] != kernel.fold:
        return "its inputs are computed where it reads them"
    if any(nest.access.get(name) != access for name, access in kernel.access.items()):
        return "its inputs are computed where it reads them"
    own = {o.name for o in kernel.operands}
    if own & {o.name for o in instance.operands}:
        return "names clash"
    if sampled(instance) is None:
        return "what follows does not go sample by sample"
    later = {name for step in nest.steps[1:] for name in step_reads(step)}
    for operand in instance.operands:
        is_written = operand.role == "output" and operand.tensor not in free
        if is_written or operand.name in kernel.uses:
            wanted = operand.order or own_order(operand)
            if not _is_alike(order_in(orders, operand), wanted, operand):
                return f"{operand.name} lies in another order than it needs"
    inputs = {a.operand for a in kernel.access.values()}
    tensors = {o.tensor for o in instance.operands if o.name in inputs and o.name in kernel.uses}
    for name in later:
        access = nest.access[name]
        if instance.operand(access.operand).tensor in tensors and len(access.view) > 1:
            return "what follows reads its input again"
    return ""


def _is_alike(order: tuple[int, ...], wanted: tuple[int, ...], operand: Operand) -> bool:
    """Tell whether two orders place the elements alike."""
    longer = [axis for axis in order if operand.shape[axis] != 1]
    return longer == [axis for axis in wanted if operand.shape[axis] != 1]


def rest_of(nest: Nest, kernel: Handwritten) -> Nest:
    """Return what a nest does for each point once the kernel has computed the fold's result.

    The result has the name of the fold's first variable, which no step declares any more.
    """
    (name, *_) = [fold.name for fold in kernel.fold.folds]
    result = Local(name, kernel.result.type)
    steps = tuple(
        replace(
            step,
            lets=tuple(replace(v, value=_put(v.value, kernel.result, result)) for v in step.lets),
            stores=tuple(
                replace(s, value=_put(s.value, kernel.result, result)) for s in step.stores
            ),
        )
        for step in nest.steps[1:]
    )
    return replace(nest, steps=steps)


def _put(value: Expr, old: Expr, new: Expr) -> Expr:
    """Return the value with `new` wherever `old` is."""
    if value == old:
        return new
    changed: dict[str, object] = {}
    for item in fields(value):
        part = getattr(value, item.name)
        if isinstance(part, tuple):
            changed[item.name] = tuple(
                _put(e, old, new) if isinstance(e, Expr) else e for e in part
            )
        elif isinstance(part, Expr):
            changed[item.name] = _put(part, old, new)
    return replace(value, **changed) if changed else value  # type: ignore[arg-type] # same fields


def with_kernel(instance: Instance, form: int = 0) -> Instance:
    """Return the instance with the operands and constants of its hand-written kernel in a form."""
    kernel = instance.handwritten
    assert kernel is not None
    kernel = replace(kernel, sizes={**kernel.sizes, AT_ONCE: kernel.forms[form].points})
    constants = tuple(o for o in kernel.operands if o.role == "constant")
    scratch = tuple(o for o in kernel.operands if o.role == "scratch")
    inputs = tuple(o for o in instance.operands if o.role != "output")
    outputs = tuple(o for o in instance.operands if o.role == "output")
    return replace(
        instance,
        operands=(*inputs, *constants, *scratch, *outputs),
        made=(*instance.made, *kernel.made),
        handwritten=kernel,
    )


def spanning(access: Access, axes: Iterable[str], extent: dict[str, int]) -> Access:
    """Return what a template needs of an operand: all along an axis of it that no cut moves.

    It takes lines and points to lie as far from one another as in the whole tensor.

    Args:
        access: of a nest.
        axes: of the nest, that may be cut.
        extent: of each axis; an axis that runs over all is added for each axis of the view.
    """
    cut, index = frozenset(axes), list(access.index)
    for number, count in enumerate(access.view):
        if not cut & set(index[number].axes()):
            name = f"all of axis {number} of {access.operand}"
            extent[name] = count
            index[number] = Index.axis(name) if count > 1 else Index()
    return replace(access, index=tuple(index))


def packed_access(operand: Operand, blocks: Blocks, channels: int, rest: str) -> Access:
    """Return which part of a packed constant belongs to each channel: its first axis goes along
    them, all others are one.

    channels: all along the axis of the blocks. rest: the axis of all others, empty if there is one
    number.
    """
    count, *others = operand.shape
    place = Index.axis(blocks.axis) // (channels // count)
    if not rest:
        return Access(operand.name, (count,), (place,))
    return Access(operand.name, (count, prod(others)), (place, Index.axis(rest)))


def without_kernel(instance: Instance) -> Instance:
    """Return the instance that is printed as a nest."""
    return replace(instance, handwritten=None)
