"""Which operators become one kernel: element-wise work joins the loops before or after it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod

from dlbuild.ir.dtype import DTYPES
from dlbuild.ir.graph import Graph
from dlbuild.ir.target import Options
from dlbuild.rulebook.cost import iterations, operators_of
from dlbuild.rulebook.derive import step_reads, used_by, view_of
from dlbuild.rulebook.instance import Instance
from dlbuild.rulebook.kernels import Matched, fused
from dlbuild.rulebook.pointwise import NoFusion, inputs_named, pointwise
from dlbuild.stages.peak import Part, arena_bytes, part_of, peak_bytes

STORE_AND_LOAD_CYCLES = 4
"""What an element costs that is written to memory and read back."""

REPEATS_OF_A_CONVERSION = 8
"""So often a conversion may be repeated rather than store its wider result."""


@dataclass(frozen=True)
class Group:
    """Operators that become one kernel. `position`: the anchor's place among the operators."""

    prologue: tuple[str, ...]
    anchor: str
    epilogue: tuple[str, ...]
    instance: Instance
    position: int

    @property
    def ops(self) -> tuple[str, ...]:
        """All operators, producers first."""
        return (*self.prologue, self.anchor, *self.epilogue)

    @property
    def writes(self) -> tuple[str, ...]:
        """The tensors it leaves in memory."""
        return tuple(o.tensor for o in self.instance.operands if o.role == "output")


def select(graph: Graph, matched: Matched, options: Options) -> tuple[Group, ...]:
    """Group the operators of a graph, in an order in which they can run.

    Deterministic: conversions join their consumers first, last one first; then each element-wise
    group joins the latest producer that allows it; then cheap ones join a single consumer.
    """
    return _Selection(graph, matched, options).groups()


def is_move(instance: Instance) -> bool:
    """Tell whether an instance only renames or reorders all elements: it may need no code."""
    if instance.role != "copy" or len(instance.nests) != 1:
        return False
    shapes = [o.shape for o in used_by(instance)]
    return len({prod(s) for s in shapes}) == 1 or view_of(instance, {}) is not None


class _Selection:
    def __init__(self, graph: Graph, matched: Matched, options: Options) -> None:
        self._graph = graph
        self._matched = matched
        self._options = options
        self._constants = frozenset(graph.constants)
        self._ops = {op.name: op for op in graph.ops}
        self._place = {op.name: i for i, op in enumerate(graph.ops)}
        # By anchor: every operator is at first a group of its own.
        self._groups = {
            op.name: Group((), op.name, (), matched(op.name), i) for i, op in enumerate(graph.ops)
        }
        self._parts: dict[tuple[str, ...], Part] = {}
        # The anchors of the groups that compute an operator: several for a repeated conversion.
        self._homes = {op.name: [op.name] for op in graph.ops}

    def groups(self) -> tuple[Group, ...]:
        for name in reversed([op.name for op in self._graph.ops]):
            if _is_widening(self._matched(name)):
                self._join_consumers(name, self._is_cheap_conversion)
        for op in self._graph.ops:
            self._join_producer(op.name)
        for name in reversed([op.name for op in self._graph.ops]):
            self._join_consumers(name, self._is_cheap)
        return tuple(sorted(self._groups.values(), key=lambda g: g.position))

    # As a prologue.

    def _join_consumers(self, name: str, is_worth_it: Callable[[Group, Group, str], bool]) -> None:
        """Compute a group where all its consumers read, if each of them takes it."""
        group = self._groups.get(name)
        if group is None or group.epilogue or len(group.writes) != 1:
            return
        (tensor,) = group.writes
        consumers = self._consumers(tensor)
        if not consumers or tensor in self._graph.outputs or is_move(group.instance):
            return
        joined: list[Group] = []
        for consumer in consumers:
            is_apart = self._graph.clusters.are_apart(group.anchor, consumer.anchor)
            if is_apart or is_move(consumer.instance) or not is_worth_it(group, consumer, tensor):
                return
            prologue = self._in_order((*group.ops, *consumer.prologue))
            found = self._fused(replace(consumer, prologue=prologue))
            if found is None:
                return
            joined.append(found)
        if self._fills_more([group, *consumers], joined):
            return
        self._leave(group)
        for found in joined:
            self._enter(found)

    def _is_cheap_conversion(self, group: Group, consumer: Group, tensor: str) -> bool:
        if consumer.instance.role == "cast":
            return False
        repeats = _repeats(consumer.instance, tensor)
        return (
            self._options.optimize != "speed"
            or repeats <= REPEATS_OF_A_CONVERSION
            or (self._is_cheap(group, consumer, tensor))
        )

    def _is_cheap(self, group: Group, consumer: Group, tensor: str) -> bool:
        if len(self._consumers(tensor)) != 1:
            return False
        try:
            value = pointwise(group.instance)
        except NoFusion:
            return False
        work = operators_of(value.value) + sum(operators_of(le.value) for le in value.lets)
        repeats = _repeats(consumer.instance, tensor)
        return repeats * work <= work + STORE_AND_LOAD_CYCLES

    # As an epilogue.

    def _join_producer(self, name: str) -> None:
        """Compute an element-wise group where its latest producer writes, again and again."""
        group = self._groups.get(name)
        while group is not None and not is_move(group.instance):
            group = self._joined(group)

    def _joined(self, group: Group) -> Group | None:
        for producer, tensor in self._producers(group):
            if not self._may_follow(producer, tensor, group):
                continue
            after = self._depending(group, tensor)
            before = [name for name in group.ops if name not in after]
            found = self._fused(
                replace(
                    producer,
                    prologue=self._in_order((*producer.prologue, *before)),
                    epilogue=self._in_order((*producer.epilogue, *after)),
                )
            )
            if found is not None and not self._fills_more([producer, group], [found]):
                self._leave(group)
                self._enter(found)
                return found
        return None

    def _producers(self, group: Group) -> list[tuple[Group, str]]:
        """Return the groups that write what a group reads, the latest first."""
        reads = dict.fromkeys(o.tensor for o in group.instance.operands if o.role == "input")
        written = [t for t in reads if t in self._graph.producer]
        found = [(g, t) for t in written for g in self._homes_of(self._graph.producer[t].name)]
        return sorted(
            ((g, t) for g, t in found if t in g.writes), key=lambda pair: -pair[0].position
        )

    def _may_follow(self, producer: Group, tensor: str, group: Group) -> bool:
        if is_move(producer.instance) or tensor in self._graph.outputs:
            return False
        if self._graph.clusters.are_apart(producer.anchor, group.anchor):
            return False
        if any(g.anchor != group.anchor for g in self._consumers(tensor)):
            return False
        others = [t for g, t in self._producers(group) if g.position > producer.position]
        return not others

    def _depending(self, group: Group, tensor: str) -> tuple[str, ...]:
        """Return the operators of a group that need a tensor, directly or not."""
        known = {tensor}
        found: list[str] = []
        for name in group.ops:
            op = self._ops[name]
            if known.intersection(op.inputs):
                found.append(name)
                known.update(op.outputs)
        return tuple(found)

    # Both.

    def _fills_more(self, before: Sequence[Group], after: Sequence[Group]) -> bool:
        """Tell whether the fullest step of the whole model would hold more bytes."""
        if max(map(self._needed, after)) <= max(map(self._needed, before)) and (
            self._written(after) <= self._written(before)
        ):
            return False
        anchors = {g.anchor for g in before}
        others = [g for g in self._groups.values() if g.anchor not in anchors]
        return self._peak([*others, *after]) > self._peak(self._groups.values())

    def _peak(self, groups: Iterable[Group]) -> int:
        ordered = sorted(groups, key=lambda g: g.position)
        return peak_bytes(self._graph, [self._part(g) for g in ordered], self._options)

    def _part(self, group: Group) -> Part:
        """Return what a group holds in memory, found out once for each grouping."""
        part = self._parts.get(group.ops)
        if part is None:
            is_renaming = is_move(group.instance)
            part = part_of(group.instance, self._constants, is_move=is_renaming)
            self._parts[group.ops] = part
        return part

    def _needed(self, group: Group) -> int:
        part = self._part(group)
        return sum(map(self._bytes, (*part.reads, *part.writes)))

    def _written(self, groups: Sequence[Group]) -> int:
        """Return the bytes of the widest tensor that one of the groups writes."""
        return max(self._bytes(t) for g in groups for t in g.writes)

    def _bytes(self, tensor: str) -> int:
        return arena_bytes(tensor, self._graph, self._options)

    def _leave(self, group: Group) -> None:
        del self._groups[group.anchor]
        for name in group.ops:
            self._homes[name].remove(group.anchor)

    def _enter(self, group: Group) -> None:
        self._groups[group.anchor] = group
        for name in group.ops:
            if group.anchor not in self._homes[name]:
                self._homes[name].append(group.anchor)

    def _homes_of(self, op: str) -> list[Group]:
        return [self._groups[anchor] for anchor in self._homes[op]]

    def _consumers(self, tensor: str) -> list[Group]:
        """Return the groups that read a tensor, in order."""
        readers = (op.name for op in self._graph.consumers.get(tensor, ()))
        found = {g.anchor: g for name in readers for g in self._homes_of(name)}
        reading = (g for g in found.values() if inputs_named(tensor, g.instance))
        return sorted(reading, key=lambda g: g.position)

    def _in_order(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted(dict.fromkeys(names), key=self._place.__getitem__))

    def _fused(self, group: Group) -> Group | None:
        try:
            instance = fused(group.prologue, group.anchor, group.epilogue, self._ops, self._matched)
        except NoFusion:
            return None
        return replace(group, instance=instance)


def _is_widening(instance: Instance) -> bool:
    """Tell whether an instance converts to elements of more bits."""
    bits = {o.role: DTYPES[o.dtype].bits for o in reversed(used_by(instance))}
    return instance.role == "cast" and bits.get("input", 0) < bits.get("output", 0)


def _repeats(instance: Instance, tensor: str) -> float:
    """Return how often each element of a tensor is read, on average."""
    operands = {o.name: o for o in instance.operands if o.tensor == tensor and o.role == "input"}
    turns = 0
    for nest in instance.nests:
        points = prod(nest.extent[a] for a in nest.domain)
        for step in nest.steps:
            reads = sum(nest.access[r].operand in operands for r in step_reads(step))
            turns += reads * points * iterations(step, nest)
    elements = max((prod(o.shape) for o in operands.values()), default=1)
    return turns / max(elements, 1)
