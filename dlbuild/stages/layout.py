"""In which order the axes of each tensor lie in memory. No operator is named.

Nests read and write any order by strides, so an order is a matter of speed; only a view of
another shape needs one in which it has strides. Each tensor takes the first order that its
views allow: the interface's, the one that spares a copy later, the one that makes a reordering
operator only a name, the one its writer prefers, the one of its writer's largest input.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from dlbuild.base.errors import UserError
from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Layout
from dlbuild.ir.target import Options
from dlbuild.rulebook.address import view_strides
from dlbuild.rulebook.derive import copy_of, own_order, used_by
from dlbuild.rulebook.instance import Access, Instance, Operand

Order = tuple[int, ...]

_LEAST_RANK_WITH_CHANNELS = 3


def layouts(
    graph: Graph, instances: Sequence[Instance], options: Options, lanes: int = 1
) -> tuple[Layout, ...]:
    """Choose the order of every tensor that a kernel touches.

    Args:
        graph: the model.
        instances: its kernels, in topological order.
        options: `layout` gives interface tensors another order than the model's.
        lanes: of the target's vectors of floats.

    Raises:
        UserError: `layout` names a tensor that is not at the interface, or whose operators take
            no such order (`order_copies` puts copies between).
    """
    interface = (*graph.inputs, *graph.outputs)
    for name, _ in options.layout:
        if name not in interface:
            raise UserError(
                f"'layout' names '{name}', which is neither an input nor an output",
                where=graph.name,
                fix=f"name one of {', '.join(interface)}",
            )
    return _Choice(graph, instances, options, lanes).layouts()


def channels_last(rank: int) -> Order:
    """Return the order that has axis 1 behind all others."""
    if rank < _LEAST_RANK_WITH_CHANNELS:
        return tuple(range(rank))
    return (0, *range(2, rank), 1)


def is_own(order: Order, shape: Sequence[int]) -> bool:
    """Tell whether an order places the elements as the model's own order does."""
    longer = [axis for axis in order if shape[axis] != 1]
    return longer == sorted(longer)


def usual(order: Order, shape: Sequence[int]) -> Order:
    """Return the order with the channels last if it places the elements the same way."""
    last = channels_last(len(shape))
    longer = [axis for axis in order if shape[axis] != 1]
    return last if longer == [axis for axis in last if shape[axis] != 1] else order


class _Choice:
    def __init__(
        self, graph: Graph, instances: Sequence[Instance], options: Options, lanes: int
    ) -> None:
        self._graph = graph
        self._lanes = lanes
        self._instances = instances
        self._constants = frozenset(graph.constants)
        self._views: dict[str, list[tuple[int, ...]]] = {}
        for instance in instances:
            for operand, view in views_of(instance):
                self._views.setdefault(operand.tensor, []).append(view)
        asked = dict(options.layout)
        self._order: dict[str, Order] = {}
        for name in (*graph.inputs, *graph.outputs):
            rank = len(graph.tensor[name].shape)
            is_last = asked.get(name, "onnx") == "nhwc"
            self._order[name] = channels_last(rank) if is_last else tuple(range(rank))
            if not self._allows(name, self._order[name]):
                raise UserError(
                    f"'{name}' cannot lie in rows of pixels: an operator sees it in another shape",
                    where=graph.name,
                    fix=f"leave '{name}' out of 'layout'",
                )
        self._wanted: dict[str, Order] = {}

    def layouts(self) -> tuple[Layout, ...]:
        for instance in reversed(self._instances):
            self._want(instance)
        for instance in self._instances:
            self._choose(instance)
        for instance in self._instances:
            self._choose_constants(instance)
        shapes = {name: self._graph.tensor[name].shape for name in self._order}
        return tuple(
            Layout(tensor, usual(order, shapes[tensor]))
            for tensor, order in self._order.items()
            if not is_own(order, shapes[tensor])
        )

    def _allows(self, tensor: str, order: Order) -> bool:
        shape = self._graph.tensor[tensor].shape
        views = self._views.get(tensor, ())
        return all(view_strides(view, shape, order) is not None for view in views)

    def _is_pinned(self, tensor: str) -> bool:
        """Tell whether views keep a tensor from having its channels last."""
        return not self._allows(tensor, channels_last(len(self._graph.tensor[tensor].shape)))

    def _want(self, instance: Instance) -> None:
        """Note the order that the source of a reordering should have for it to be a name only."""
        for operand in used_by(instance):
            if operand.role == "output" and self._is_pinned(operand.tensor):
                self._wanted.setdefault(operand.tensor, own_order(operand))
        move = reordering(instance)
        if move is None:
            return
        target = self._order.get(move.output.tensor, self._wanted.get(move.output.tensor))
        source = move.source.tensor
        if target is None or source in self._order or self._is_pinned(source):
            return
        self._wanted.setdefault(source, move.of_source(target))

    def _choose(self, instance: Instance) -> None:
        for operand in used_by(instance):
            if operand.role == "output" and operand.tensor not in self._order:
                for order in self._candidates(operand, instance):
                    if self._allows(operand.tensor, order):
                        self._order[operand.tensor] = order
                        break

    def _candidates(self, operand: Operand, instance: Instance) -> Iterator[Order]:
        if operand.tensor in self._wanted:
            yield self._wanted[operand.tensor]
        move = reordering(instance)
        if move is not None:
            yield move.of_output(self._of(move.source))
        if operand.order:
            yield operand.order
        yield from self._followed(operand, instance)
        yield own_order(operand)

    def _followed(self, operand: Operand, instance: Instance) -> Iterator[Order]:
        """Yield the order of the largest input; that of a reader, if the interface forces it."""
        inputs = [
            o
            for o in used_by(instance)
            if o.role == "input"
            and o.tensor not in self._constants
            and len(o.shape) == len(operand.shape)
        ]
        if not inputs:
            return
        largest = max(inputs, key=lambda o: prod(o.shape))
        if largest.tensor in self._graph.inputs:
            yield from self._preferred_by_readers(operand.tensor)
        yield self._of(largest)

    def _preferred_by_readers(self, tensor: str) -> Iterator[Order]:
        for instance in self._instances:
            for operand in used_by(instance):
                if operand.tensor == tensor and operand.role == "input" and operand.order:
                    yield operand.order

    def _of(self, operand: Operand) -> Order:
        return self._order.get(operand.tensor, own_order(operand))

    def _choose_constants(self, instance: Instance) -> None:
        """Let each constant lie as its first reader prefers, or as what that reader writes."""
        used = used_by(instance)
        written = next((o for o in used if o.role == "output"), None)
        for operand in used:
            if operand.role != "input" or operand.tensor in self._order:
                continue  # a constant that the build makes may have the name of the model's
            if operand.tensor not in self._constants:
                continue
            order = operand.order
            if not order and written is not None and len(written.shape) == len(operand.shape):
                order = self._of(written)
            if self._lanes > 1 and written is not None:
                order = along_lanes(instance, operand, order, written, self._of(written))
            is_kept = bool(order) and self._allows(operand.tensor, order)
            self._order[operand.tensor] = order if is_kept else own_order(operand)


def along_lanes(
    instance: Instance, operand: Operand, order: Order, written: Operand, written_order: Order
) -> Order:
    """Return the order in which vectors of neighbouring results read neighbours of a constant.

    Floats are summed in one order, so that vectors run over results, not over what is summed.

    Args:
        instance: a kernel that sums floats.
        operand: the constant.
        order: in which it would lie.
        written: the result.
        written_order: how it lies.
    """
    order = order or own_order(operand)
    if len(instance.nests) != 1 or operand.dtype not in ("float32", "int8", "uint8"):
        return order
    (nest,) = instance.nests
    reads = [a for a in nest.access.values() if a.operand == operand.name]
    writes = [a for a in nest.access.values() if a.operand == written.name]
    if len(reads) != 1 or len(writes) != 1 or reads[0].view != operand.shape:
        return order
    if writes[0].view != written.shape or not any(step.folds for step in nest.steps):
        return order
    longer = [axis for axis in written_order if written.shape[axis] > 1]
    if not longer:
        return order
    lane = writes[0].index[longer[-1]]
    along = [axis for axis, index in enumerate(reads[0].index) if index == lane]
    if len(along) != 1:
        return order
    return (*(axis for axis in order if axis != along[0]), along[0])


def views_of(instance: Instance) -> Iterator[tuple[Operand, tuple[int, ...]]]:
    """Yield the shapes other than its own under which an instance sees an operand.

    Each needs strides in the order in which the operand lies. A template counts elements in the
    model's own order, as if the operand were one row.
    """
    used = {o.name: o for o in used_by(instance)}
    for nest in instance.nests:
        for access in nest.access.values():
            if access.operand in used and access.view != used[access.operand].shape:
                yield used[access.operand], access.view
    if not instance.nests:
        for operand in instance.operands:
            yield operand, (prod(operand.shape),)


@dataclass(frozen=True, slots=True)
class Reordering:
    """An input whose axes are an output's in another order. `pairs`: (source, output) axes of
    more than one point, in the output's order.
    """

    source: Operand
    output: Operand
    pairs: tuple[tuple[int, int], ...]

    def of_source(self, order: Order) -> Order:
        """Return the order of the source that makes the output lie in `order`."""
        axis = {output: source for source, output in self.pairs}
        return _completed([axis[a] for a in order if a in axis], self.source)

    def of_output(self, order: Order) -> Order:
        """Return the order in which the output lies if the source lies in `order`."""
        axis = dict(self.pairs)
        return _completed([axis[a] for a in order if a in axis], self.output)


def _completed(order: Sequence[int], operand: Operand) -> Order:
    """Return the order with the axes of one point in front."""
    return (*(a for a in own_order(operand) if a not in order), *order)


def reordering(instance: Instance) -> Reordering | None:
    """Return what an instance does if it only reorders the axes of its input."""
    copy = copy_of(instance)
    if instance.role != "copy" or copy is None:
        return None
    _, read, write = copy
    source, output = instance.operand(read.operand), instance.operand(write.operand)
    is_whole = read.view == source.shape and write.view == output.shape
    if not is_whole or prod(source.shape) != prod(output.shape):
        return None
    read_by, written_by = _axis_numbers(read), _axis_numbers(write)
    if read_by is None or written_by is None or set(read_by) != set(written_by):
        return None
    pairs = ((read_by[a], written_by[a]) for a in written_by)
    return Reordering(source, output, tuple(pairs))


def _axis_numbers(access: Access) -> Mapping[str, int] | None:
    """Return the axis of more than one point that each loop runs over, None if it is no grid."""
    found: dict[str, int] = {}
    for number, (index, extent) in enumerate(zip(access.index, access.view, strict=True)):
        if extent == 1:
            continue
        match index.terms:
            case ((str() as name, 1),) if not index.constant and name not in found:
                found[name] = number
            case _:
                return None
    return found
