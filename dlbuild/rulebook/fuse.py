"""Two instances made one, so that the tensor between them is never stored. No operator is named.

An epilogue is computed where its producer writes, a prologue where its consumer reads.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import prod

from dlbuild.rulebook.derive import is_same_map, place, step_reads
from dlbuild.rulebook.index import Index
from dlbuild.rulebook.instance import (
    Access,
    Fold,
    Instance,
    Let,
    Loop,
    Nest,
    Operand,
    Store,
)
from dlbuild.rulebook.merge import Guest, Moved, move_operands, names_in
from dlbuild.rulebook.pointwise import (
    NoFusion,
    Pointwise,
    check_storage,
    count_reads,
    inputs_named,
    matching_axes,
    pointwise,
    reads_of,
)
from dlbuild.rulebook.rule import NEST_TEMPLATE
from dlbuild.rulebook.substitution import Substitution, cast
from dlbuild.rulebook.value import COMPUTE_TYPE, Expr, Local, Number

__all__ = ["NoFusion", "fuse_epilogue", "fuse_prologue"]


def fuse_epilogue(producer: Instance, consumer: Instance, tensor: str) -> Instance:
    """Return the instance that computes `consumer` where `producer` writes `tensor`.

    The caller knows that nothing else reads the tensor. The producer's operands keep their names;
    those that the consumer adds get free ones.

    Raises:
        NoFusion: the result would not be the same to the bit, or is not one nest.
    """
    _check_template(producer)
    tail = pointwise(consumer)
    outputs = [o for o in producer.operands if o.role == "output"]
    if not producer.nests or [o.tensor for o in outputs] != [tensor]:
        raise NoFusion(f"{producer.kind} does not write one tensor through a nest")
    (mid,) = outputs
    arguments = reads_of(tensor, consumer, tail.nest)
    _check_read_where_written(arguments, consumer, tail)
    _check_stored_once(mid, producer)
    staying = (tail.output.name, *inputs_named(tensor, consumer))
    moved = move_operands(consumer, producer, staying, ())
    names = [o.name for o in (*producer.operands, *moved.operands)]
    nests = tuple(
        _with_epilogue(n, mid, tail, arguments, _guest(tail, n, n.access, moved, names))
        for n in producer.nests
    )
    order = mid.order if mid.shape == tail.output.shape else ()
    output = replace(tail.output, name=mid.name, order=order)
    kept = (o for o in producer.operands if o is not mid)
    return replace(
        producer,
        summary=f"{producer.summary}, then {consumer.kind}",
        ops=(*producer.ops, *consumer.ops),
        operands=(*kept, *moved.operands, output),
        nests=nests,
        made=(*producer.made, *moved.made),
        role="",
    )


def _check_template(instance: Instance) -> None:
    if instance.template != NEST_TEMPLATE:
        raise NoFusion(f"{instance.template} prints its own statements")


def _check_read_where_written(
    arguments: Iterable[str], consumer: Instance, tail: Pointwise
) -> None:
    target = place(tail.nest, tail.write, consumer, {})
    for name in sorted(arguments):
        read = tail.nest.access[name]
        if not is_same_map(place(tail.nest, read, consumer, {}), target):
            raise NoFusion(f"{consumer.kind} does not read the value where it writes")
        if prod(read.view) != prod(tail.write.view):
            raise NoFusion(f"{consumer.kind} reads a part of the tensor")


def _check_stored_once(mid: Operand, producer: Instance) -> None:
    """Check that every element is written once, and that storing it changes nothing."""
    points = 0
    for nest in producer.nests:
        for step in nest.steps:
            for store in _stores_to(mid, step, nest):
                if step.when or nest.access[store.access].guards or _is_guarded(step, nest):
                    raise NoFusion(f"{producer.kind} writes under a condition")
                points += prod(nest.extent[a] for a in (*nest.domain, *step.over))
                check_storage(store.value, mid.dtype, producer, nest)
    if points != prod(mid.shape):
        raise NoFusion(f"{producer.kind} does not write each element once")


def _is_guarded(step: Loop, nest: Nest) -> bool:
    return any(nest.access[r].outside == "skip" for r in step_reads(step))


def _stores_to(operand: Operand, step: Loop, nest: Nest) -> tuple[Store, ...]:
    return tuple(s for s in step.stores if nest.access[s.access].operand == operand.name)


def _with_epilogue(
    nest: Nest, mid: Operand, tail: Pointwise, arguments: frozenset[str], guest: Guest
) -> Nest:
    steps: list[Loop] = []
    for step in nest.steps:
        stores = _stores_to(mid, step, nest)
        if len(stores) > 1:
            raise NoFusion("one step writes the tensor twice")
        finished = step
        for store in stores:
            axes = matching_axes(nest.access[store.access], tail.write, tail.nest)
            put = guest.substitution(axes, [r for r in tail.reads if r not in arguments])
            guest.access[store.access] = replace(put.access(tail.write), operand=mid.name)
            stored = cast(store.value, COMPUTE_TYPE[mid.dtype])
            value, lets = _finished(stored, tail, arguments, guest, put)
            if step.folds and lets:
                raise NoFusion("the value of a running fold would be used more than once")
            others = (s for s in step.stores if s is not store)
            stored_now = (*others, Store(store.access, value))
            finished = replace(step, lets=(*step.lets, *lets), stores=stored_now)
        steps.append(finished)
    return replace(nest, access=guest.access, steps=tuple(steps), tables=guest.tables)


def _finished(
    stored: Expr, tail: Pointwise, arguments: frozenset[str], guest: Guest, put: Substitution
) -> tuple[Expr, tuple[Let, ...]]:
    """Return the consumer's value with `stored` in the place of its arguments, and its lets."""
    values = (*(let.value for let in tail.lets), tail.value)
    uses = sum(count_reads(v, arguments) for v in values)
    lets: tuple[Let, ...] = ()
    if uses > 1 and not isinstance(stored, Local | Number):
        lets = (Let(guest.name("v"), stored, stored.type),)
        stored = Local(lets[0].name, stored.type)
    put = replace(put, reads=dict.fromkeys(sorted(arguments), stored))
    further, put = guest.lets(tail.lets, put)
    return put.expr(tail.value), (*lets, *further)


def _guest(
    head: Pointwise,
    nest: Nest,
    access: Mapping[str, Access],
    moved: Moved,
    operands: Iterable[str],
) -> Guest:
    """Return the element-wise nest as a guest of `nest`, of which only `access` stays."""
    taken = {*(names_in(nest) - set(nest.access)), *access, *operands}
    return Guest(head.nest, moved.names, taken, dict(access), dict(nest.tables))


def fuse_prologue(producer: Instance, consumer: Instance, tensor: str) -> Instance:
    """Return the instance that computes `producer` where `consumer` reads `tensor`.

    The consumer's operands keep their names; those that the producer adds get free ones. Reads
    of the consumer that may not happen make those of the producer not happen either.

    Raises:
        NoFusion: the result would not be the same to the bit, or is not one nest.
    """
    _check_template(consumer)
    head = pointwise(producer)
    check_storage(head.value, head.output.dtype, producer, head.nest)
    if not consumer.nests:
        raise NoFusion(f"{consumer.kind} does not read through a nest")
    if any(o.tensor == tensor and o.role == "output" for o in consumer.operands):
        raise NoFusion(f"{consumer.kind} writes the tensor")
    leaving = inputs_named(tensor, consumer)
    if not leaving:
        raise NoFusion(f"{consumer.kind} does not read the tensor")
    moved = move_operands(producer, consumer, (head.output.name,), leaving)
    names = [o.name for o in (*consumer.operands, *moved.operands) if o.name not in leaving]
    nests: list[Nest] = []
    for nest in consumer.nests:
        arguments = reads_of(tensor, consumer, nest)
        kept = {n: a for n, a in nest.access.items() if a.operand not in leaving}
        guest = _guest(head, nest, kept, moved, names)
        nests.append(_with_prologue(nest, head, arguments, producer, guest))
    replaced = next(o for o in consumer.operands if o.name in leaving)
    arriving = [
        replace(o, order=replaced.order) if o.shape == replaced.shape and not o.order else o
        for o in moved.operands
    ]
    operands: list[Operand] = []
    for operand in consumer.operands:
        if operand is replaced:
            operands += arriving
        elif operand.name not in leaving:
            operands.append(operand)
    return replace(
        consumer,
        summary=f"{consumer.summary}, after {producer.kind}",
        ops=(*producer.ops, *consumer.ops),
        operands=tuple(operands),
        nests=tuple(nests),
        made=(*moved.made, *consumer.made),
        role="",
    )


def _with_prologue(
    nest: Nest, head: Pointwise, arguments: frozenset[str], producer: Instance, guest: Guest
) -> Nest:
    points = {
        name: _entered(nest.access[name], head, producer, guest)
        for name in nest.access
        if name in arguments
    }
    steps = tuple(_prepared(step, head, points, guest) for step in nest.steps)
    return replace(nest, access=guest.access, steps=steps, tables=guest.tables)


def _entered(target: Access, head: Pointwise, producer: Instance, guest: Guest) -> Substitution:
    """Enter the producer's reads at the element that the consumer reads through `target`."""
    if target.outside not in (None, "skip"):
        raise NoFusion("the consumer reads another value outside the tensor")
    try:
        axes = matching_axes(target, head.write, head.nest)
    except NoFusion:
        return _entered_flat(target, head, producer, guest)
    return guest.substitution(axes, head.reads, target.guards)


def _entered_flat(
    target: Access, head: Pointwise, producer: Instance, guest: Guest
) -> Substitution:
    """As `_entered`, where the shapes do not correspond but every read is where the write is."""
    written = place(head.nest, head.write, producer, {})
    names: dict[str, str] = {}
    for name in head.reads:
        access = head.nest.access[name]
        read = place(head.nest, access, producer, {})
        operand = guest.operands[access.operand]
        if not read.terms and not read.constant and prod(access.view) == 1:
            names[name] = guest.enter(replace(access, operand=operand, index=_origin(access)))
        elif is_same_map(read, written) and prod(access.view) == prod(target.view):
            names[name] = guest.enter(replace(target, operand=operand))
        else:
            raise NoFusion("the shapes do not correspond")
    return Substitution(operands=guest.operands, accesses=names)


def _origin(access: Access) -> tuple[Index, ...]:
    return tuple(Index() for _ in access.view)


def _prepared(
    step: Loop, head: Pointwise, points: Mapping[str, Substitution], guest: Guest
) -> Loop:
    """Return the step with the producer's value in the place of each read of the tensor."""
    put = Substitution()
    started = replace(put, reads={n: _inlined(head, at) for n, at in points.items()})
    inner = (
        *(let.value for let in step.lets),
        *(fold.each for fold in step.folds),
        *(store.value for store in step.stores),
    )
    lets: list[Let] = []
    reads: dict[str, Expr] = {}
    for name, at in points.items():
        uses = sum(count_reads(v, frozenset((name,))) for v in inner)
        if not uses:
            continue
        entered, here = guest.lets(head.lets, at)
        lets += entered
        reads[name] = cast(here.expr(head.value), COMPUTE_TYPE[head.output.dtype])
        if uses > 1 and not isinstance(reads[name], Local | Number):
            let = Let(guest.name("v"), reads[name], reads[name].type)
            lets.append(let)
            reads[name] = Local(let.name, let.type)
    put = replace(put, reads=reads)
    own = (Let(le.name, put.expr(le.value), le.type) for le in step.lets)
    folds = (Fold(f.name, started.expr(f.start), put.expr(f.each), f.type) for f in step.folds)
    stores = (Store(s.access, put.expr(s.value)) for s in step.stores)
    return replace(step, lets=(*lets, *own), folds=tuple(folds), stores=tuple(stores))


def _inlined(head: Pointwise, at: Substitution) -> Expr:
    for let in head.lets:
        at = replace(at, locals={**at.locals, let.name: at.expr(let.value)})
    return cast(at.expr(head.value), COMPUTE_TYPE[head.output.dtype])
