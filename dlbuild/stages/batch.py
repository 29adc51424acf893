"""A graph restructured by batch: each part of the samples on its own, sums over samples added up.

Each tensor is whole (the same for all samples), in parts (samples along one axis), or partial: its
value is the sum of what the parts give. That follows from the index maps and the folds of the
operators' rules. Partial sums are added in the order of the parts where they are first needed as
numbers: at the end of each gradient. What couples samples in another way is refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dlbuild.base.errors import UserError
from dlbuild.base.free import free_name
from dlbuild.base.spelling import suggestion
from dlbuild.ir.batch import Batch
from dlbuild.ir.graph import Graph, Op, Tensor, Value
from dlbuild.ir.weights import Array
from dlbuild.rulebook.instance import Instance
from dlbuild.rulebook.load import RuleBook
from dlbuild.rulebook.match import match
from dlbuild.rulebook.plain import plain
from dlbuild.stages.flow import NoFlow, flat_flow, flow_of
from dlbuild.stages.parse import Parsed
from dlbuild.stages.partial import check_partial
from dlbuild.stages.rewrites.kinds import ADD, JOIN, OPSET, TAKE


def split_batch(parsed: Parsed, book: RuleBook, batch: Batch) -> Parsed:
    """Return a model in which each operator on samples stands once for each part of them.

    Results are those of the given model, sums over samples but for the order of additions.

    Args:
        parsed: the model of whole batches.
        book: the rules.
        batch: which inputs hold samples, and how many parts there are.

    Raises:
        UserError: the samples cannot be dealt equally, or a node joins samples other than by
            adding them up.
    """
    graph = parsed.graph
    extent = _extent(graph, batch)
    if batch.parts == 1:
        return parsed
    maker = _Maker(graph, dict(parsed.weights), book, batch, extent)
    for name in batch.inputs:
        maker.take_parts(name)
    for op in graph.ops:
        maker.add(op)
    for name in graph.outputs:
        maker.whole(name)
    made = maker.graph_made()
    return Parsed(made, maker.weights)


def _extent(graph: Graph, batch: Batch) -> int:
    """Return how many samples there are."""
    where = f"{graph.name}: 'batch'"
    carried = [state.input for state in graph.states]
    known = [name for name in graph.inputs if name not in carried]
    for name in batch.inputs:
        if name not in known:
            raise UserError(
                f"the model has no input '{name}' that the caller gives",
                where=where,
                fix=suggestion(name, known),
            )
    extents = {name: graph.tensor[name].shape[:1] for name in batch.inputs}
    if len(set(extents.values())) != 1 or not extents[batch.inputs[0]]:
        shapes = ", ".join(f"'{n}' {list(graph.tensor[n].shape)}" for n in batch.inputs)
        raise UserError(
            "the inputs do not hold equally many samples",
            where=where,
            why=f"the first axis counts them: {shapes}",
            fix="bind 'shapes', or name other inputs",
        )
    (extent,) = extents[batch.inputs[0]]
    if extent % batch.parts:
        raise UserError(
            f"{extent} samples cannot be dealt to {batch.parts} equal parts",
            where=where,
            fix=f"set parts to a divisor of {extent}, or bind 'shapes' to another batch",
        )
    if graph.counts:
        raise UserError(
            f"'{graph.counts[0].tensor}' has a size that only the run knows", where=where
        )
    return extent


@dataclass
class _Maker:
    """The graph as it grows. axis: of each tensor that is in parts. parts: their names, and those
    of partial sums. of_part: the operators of each.
    """

    graph: Graph
    weights: dict[str, Array]
    book: RuleBook
    batch: Batch
    extent: int
    ops: list[Op] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)
    axis: dict[str, int] = field(default_factory=dict)
    parts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    of_part: list[list[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._taken = {t.name for t in self.graph.tensors} | {op.name for op in self.graph.ops}
        self.tensors = dict(self.graph.tensor)
        self.values = dict(self.graph.value)
        self.of_part = [[] for _ in range(self.batch.parts)]

    def take_parts(self, name: str) -> None:
        """Cut an input along its first axis."""
        size = self.extent // self.batch.parts
        parts = self._in_parts(name, 0)
        for number, part in enumerate(parts):
            first, last = number * size, (number + 1) * size
            bounds = [
                self._constant(f"{part}.{what}", [value])
                for what, value in (
                    ("first", first),
                    ("last", last),
                    ("axis", 0),
                )
            ]
            taken = Op(self._name(part), TAKE, (name, *bounds), (part,), (), "", OPSET)
            self._append(taken, number)

    def add(self, op: Op) -> None:
        """Add an operator: once, or once for each part."""
        instance = plain(match(op, self.graph, self.book))
        reads = tuple(dict.fromkeys(name for name in op.inputs if name))
        if any(self._is_partial(name) for name in reads):
            if instance.role == "copy" and len(self._activations(reads)) == 1:
                self._each(op, instance, dict.fromkeys(op.outputs))
                return
            for name in reads:
                self.whole(name) if self._is_partial(name) else None
        cuts = {name: self.axis[name] for name in reads if name in self.axis}
        if cuts:
            self._each(op, instance, self._results(op, instance, cuts))
        else:
            self.ops.append(op)

    def whole(self, name: str) -> None:
        """Let a tensor be there in one piece: parts are joined, partial sums added in order."""
        parts = self.parts.pop(name, ())
        axis = self.axis.pop(name, None)
        if not parts or name in self.graph.inputs:
            return
        attributes = () if axis is None else (("axis", axis),)
        kind = ADD if axis is None else JOIN
        self.ops.append(
            Op(self._name(f"{name}.{kind.lower()}"), kind, parts, (name,), attributes, "", OPSET)
        )

    def graph_made(self) -> Graph:
        """Return the graph, without what nothing uses."""
        used = dict.fromkeys([*self.graph.inputs, *self.graph.outputs])
        for op in self.ops:
            used |= dict.fromkeys(filter(None, (*op.inputs, *op.outputs)))
        kept = [s.initial for s in self.graph.states if s.initial]
        kept += [n for q in self.graph.quantized for n in (q.scale, q.zero_point) if n]
        used |= dict.fromkeys(kept)
        constants = tuple(sorted(name for name in self.weights if name in used))
        self.weights = {name: self.weights[name] for name in constants}
        return replace(
            self.graph,
            tensors=tuple(self.tensors[name] for name in used),
            ops=tuple(self.ops),
            constants=constants,
            values=tuple(v for name, v in sorted(self.values.items()) if name in used),
            facts=tuple(f for f in self.graph.facts if used.keys() >= set(f.tensors)),
            parts=tuple(map(tuple, self.of_part)),
        )

    def _results(
        self, op: Op, instance: Instance, cuts: Mapping[str, int]
    ) -> dict[str, int | None]:
        """Return the axis along which each result is in parts; None = partial sums.

        Raises:
            UserError: it is neither.
        """
        try:
            return self._flow(op, instance, cuts)
        except NoFlow as reason:
            try:
                check_partial(instance, cuts)
            except NoFlow as other:
                told = other if "sums over axis" in str(reason) else reason
                raise self._refusal(op, str(told)) from None
            return dict.fromkeys(op.outputs)

    def _flow(self, op: Op, instance: Instance, cuts: Mapping[str, int]) -> dict[str, int | None]:
        """Return the axis of each result whose parts are of the same samples.

        Raises:
            NoFlow: there is none.
        """
        name, axis = next(iter(cuts.items()))
        try:
            flow = flow_of(instance, name, axis)
        except NoFlow:
            if instance.role != "copy":
                raise
            count = self.graph.tensor[name].shape[axis]
            firsts = range(0, count, count // self.batch.parts)
            found, _ = flat_flow(instance, name, axis, firsts)
            return {op.outputs[0]: found}
        for read in self._activations(op.inputs):
            if flow.get(read) != cuts.get(read):
                raise NoFlow(f"each sample needs a part of '{read}' of its own")
        return {name: flow[name] for name in op.outputs if name}

    def _each(self, op: Op, instance: Instance, results: Mapping[str, int | None]) -> None:
        """Add an operator for each part."""
        made = {name: self._in_parts(name, axis) for name, axis in results.items() if name}
        constants = {name: self._smaller(name, results) for name in op.inputs}
        for number in range(self.batch.parts):
            inputs = tuple(
                self.parts[n][number] if n in self.parts else constants[n] for n in op.inputs
            )
            outputs = tuple(made[n][number] if n else "" for n in op.outputs)
            part = replace(
                op, name=self._name(f"{op.name}.{number}"), inputs=inputs, outputs=outputs
            )
            if number == 0:
                self._check(op, part, instance)
            self._append(part, number)

    def _check(self, op: Op, part: Op, instance: Instance) -> None:
        """Refuse an operator whose part computes something else for a sample than the whole."""
        names = dict.fromkeys(filter(None, (*part.inputs, *part.outputs)))
        graph = replace(
            self.graph,
            tensors=tuple(self.tensors[name] for name in names),
            ops=(part,),
            values=tuple(v for name, v in self.values.items() if name in names),
        )
        try:
            own = plain(match(part, graph, self.book))
        except UserError as fault:
            why = "; ".join(fault.details) or fault.what
            raise self._refusal(op, f"with fewer samples {why}") from None
        if [nest.steps for nest in own.nests] != [nest.steps for nest in instance.nests]:
            raise self._refusal(op, "what it computes depends on how many samples there are")

    def _refusal(self, op: Op, why: str) -> UserError:
        return UserError(
            f"'{op.name}' ({op.kind}) joins samples, so that the batch cannot be divided",
            where=f"{self.graph.name}: 'batch'",
            why=why,
            fix="freeze it or export the model without it (batch statistics become constants), or "
            "leave out 'batch'",
        )

    def _smaller(self, name: str, results: Mapping[str, int | None]) -> str:
        """Return the constant that an operator on a part reads in place of another one.

        Extents of the result that stand in a constant are those of the part.
        """
        value = self.values.get(name)
        for output, axis in results.items():
            shape = self.graph.tensor[output].shape if output else ()
            if value is None or axis is None or value.shape != (len(shape),):
                continue
            is_shape = all(c in {e, -1, 0} for c, e in zip(value.content, shape, strict=True))
            if is_shape and value.content[axis] == shape[axis]:
                content = [int(c) for c in value.content]
                content[axis] //= self.batch.parts
                return self._constant(f"{name}.part", content)
        return name

    def _constant(self, wanted: str, content: Sequence[int]) -> str:
        name = self._name(wanted)
        self.tensors[name] = Tensor(name, "int64", (len(content),))
        self.values[name] = Value(name, (len(content),), tuple(content))
        self.weights[name] = np.array(content, np.int64)
        return name

    def _in_parts(self, name: str, axis: int | None) -> tuple[str, ...]:
        """Name the parts of a tensor, or its partial sums if there is no axis."""
        tensor = self.graph.tensor[name]
        shape = list(tensor.shape)
        if axis is not None:
            shape[axis] //= self.batch.parts
            self.axis[name] = axis
        names = tuple(self._name(f"{name}.{number}") for number in range(self.batch.parts))
        self.tensors |= {part: Tensor(part, tensor.dtype, tuple(shape)) for part in names}
        self.parts[name] = names
        return names

    def _append(self, op: Op, part: int) -> None:
        self.ops.append(op)
        self.of_part[part].append(op.name)

    def _is_partial(self, name: str) -> bool:
        return name in self.parts and name not in self.axis

    def _activations(self, names: Sequence[str]) -> list[str]:
        return [name for name in dict.fromkeys(names) if name and name not in self.graph.constants]

    def _name(self, wanted: str) -> str:
        name = free_name(wanted, self._taken, ".")
        self._taken.add(name)
        return name
