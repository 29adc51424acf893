"""A graph as it is spread over clusters: operators copied or cut, and nodes that communicate.

Tensors and operators that are of one cluster have its name behind theirs: `conv1.left`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dlbuild.base.free import free_name
from dlbuild.ir.clusters import Clusters, Communication, NodeGroup, Parallel, Piece
from dlbuild.ir.graph import Attribute, Fact, Graph, Op, State, Tensor, Value
from dlbuild.stages.rewrites.kinds import ADD, COPY, JOIN, OPSET, TAKE

CALLER = ""
"""Where inputs of the model lie, which every cluster may read."""

_PADDED = frozenset(
    {
        *("Conv", "ConvInteger", "QLinearConv", "FusedConv"),
        *("MaxPool", "AveragePool", "LpPool", "QLinearAveragePool"),
    }
)
"""Operators with windows whose attribute `pads` says what lies outside."""

_SHAPE_INPUT = {"Reshape": 1, "Expand": 1}
"""Which input of an operator says the extents of its result."""


@dataclass(frozen=True, slots=True)
class Range:
    """A part of a tensor: [first, last) of an axis."""

    axis: int
    first: int
    last: int

    @property
    def count(self) -> int:
        """How many slices there are."""
        return self.last - self.first


@dataclass
class Spread:
    """The graph that is being made. replicates: constants are copied for each cluster."""

    graph: Graph
    names: Sequence[str]
    replicates: bool = False
    ops: list[Op] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    constants: dict[str, None] = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)
    pieces: dict[str, Piece] = field(default_factory=dict)
    cluster_of: dict[str, str] = field(default_factory=dict)
    communications: list[Communication] = field(default_factory=list)
    twins: dict[str, dict[str, str]] = field(default_factory=dict)
    """Of each cluster its own name for a constant of the model."""
    states: list[State] = field(default_factory=list)
    """What is carried: the model's, and behind them the copies of other clusters."""

    def __post_init__(self) -> None:
        """Begin with the inputs, and the constants that say what interface tensors mean."""
        graph = self.graph
        self._constants = frozenset(graph.constants)
        self._taken = {t.name for t in graph.tensors} | {op.name for op in graph.ops}
        for name in graph.inputs:
            self.tensors[name] = graph.tensor[name]
        for pair in graph.quantized:
            for name in (pair.scale, pair.zero_point):
                if name:
                    self._keep(name)
        self.states = list(graph.states)
        for state in graph.states:
            if state.initial:
                self._keep(state.initial)

    def input_of(self, name: str, cluster: str) -> str:
        """Add an input of the model once more, for a cluster that has it to itself."""
        made = self.named(name, cluster)
        self.tensors[made] = replace(self.graph.tensor[name], name=made)
        return made

    def named(self, name: str, cluster: str) -> str:
        """Return a new name for something of a cluster."""
        made = free_name(f"{name}.{cluster}", self._taken, ".")
        self._taken.add(made)
        return made

    def add(  # noqa: PLR0913 - all that a part of an operator is made of
        self,
        op: Op,
        cluster: str,
        inputs: Sequence[str],
        outputs: Mapping[str, str],
        cuts: Mapping[str, Range | None],
        *,
        is_whole: bool,
        padding: tuple[int, int, int] | None = None,
    ) -> None:
        """Add an operator, or a part of one.

        Args:
            op: the operator of the model.
            cluster: which computes it.
            inputs: tensors to read, in the order of the operator's; constants by their own names.
            outputs: how its results are called.
            cuts: which part of each tensor of the model it reads or writes; None = all.
            is_whole: it keeps its name, because there is no other part of it.
            padding: an axis, and how many rows are missing before and behind what it reads.
        """
        name = op.name if is_whole else self.named(op.name, cluster)
        for old, new in outputs.items():
            self.tensors[new] = _cut_tensor(self.graph.tensor[old], new, cuts.get(old))
        shape_input = _SHAPE_INPUT.get(op.kind) if not op.domain else None
        is_reshaped = cuts.get(op.outputs[0]) is not None
        given = []
        for place, tensor in enumerate(inputs):
            if place == shape_input and is_reshaped:
                shape = self.tensors[outputs[op.outputs[0]]].shape
                given.append(self.integers(tensor, cluster, shape))
            elif tensor in self._constants:
                given.append(self._constant(tensor, cluster, cuts.get(tensor)))
            else:
                given.append(tensor)
        made = replace(
            op,
            name=name,
            inputs=tuple(given),
            outputs=tuple(outputs.get(o, o) for o in op.outputs),
            attributes=_padded(_attributes(op, cuts, self.graph), op, padding, self.graph),
        )
        self._append(made, cluster)

    def copy(
        self, have: str, tensor: str, source: str, cluster: str, *, is_output: bool = False
    ) -> str:
        """Bring a tensor, which is called `have` where it is, from one cluster to another."""
        made = tensor if is_output else self.named(tensor, cluster)
        self.tensors[made] = replace(self.tensors[have], name=made)
        name = self.named(f"copy {tensor}", cluster)
        self._append(Op(name, COPY, (have,), (made,), (), "", OPSET), cluster)
        self.communications.append(Communication(name, "copy", (source,)))
        return made

    def part(self, have: str, tensor: str, source: str, cluster: str, cut: Range) -> str:
        """Bring a part of a tensor into the memory of a cluster."""
        made = self.named(tensor, cluster)
        self.tensors[made] = _cut_tensor(self.tensors[have], made, cut)
        bounds = [
            self.integers(f"{tensor} {what}", cluster, (value,))
            for what, value in (("from", cut.first), ("to", cut.last), ("axis", cut.axis))
        ]
        name = self.named(f"part of {tensor}", cluster)
        self._append(Op(name, TAKE, (have, *bounds), (made,), (), "", OPSET), cluster)
        if source != cluster:
            self.communications.append(Communication(name, "scatter", (source,)))
        return made

    def joined(  # noqa: PLR0913, PLR0917 - the parts, and what they become
        self,
        parts: Sequence[str],
        sources: Sequence[str],
        cluster: str,
        axis: int,
        whole: Tensor,
        called: str = "",
    ) -> str:
        """Join parts of a tensor, which lie in several clusters, in one of them."""
        made = called or self.named(whole.name, cluster)
        self.tensors[made] = replace(whole, name=made)
        is_local = all(source == cluster for source in sources)
        name = self.named(f"{'join' if is_local else 'gather'} {whole.name}", cluster)
        attributes: tuple[tuple[str, Attribute], ...] = (("axis", axis),)
        self._append(Op(name, JOIN, tuple(parts), (made,), attributes, "", OPSET), cluster)
        if not is_local:
            self.communications.append(Communication(name, "gather", tuple(sources)))
        return made

    def added(
        self,
        sums: Sequence[str],
        sources: Sequence[str],
        cluster: str,
        whole: Tensor,
        called: str = "",
    ) -> str:
        """Add up partial sums of a tensor, which may lie in several clusters, in one of them."""
        made = called or self.named(whole.name, cluster)
        self.tensors[made] = replace(whole, name=made)
        is_local = all(source == cluster for source in sources)
        name = self.named(f"{'sum' if is_local else 'reduce'} {whole.name}", cluster)
        self._append(Op(name, ADD, tuple(sums), (made,), (), "", OPSET), cluster)
        if not is_local:
            self.communications.append(Communication(name, "reduce", tuple(sources)))
        return made

    def integers(self, wanted: str, cluster: str, values: Sequence[int]) -> str:
        """Add a list of integers as a constant."""
        name = self.named(wanted, cluster)
        self.tensors[name] = Tensor(name, "int64", (len(values),))
        self.constants[name] = None
        self.values[name] = Value(name, (len(values),), tuple(values))
        return name

    def finished(self, parallel: Parallel) -> Graph:
        """Return the graph that was made."""
        groups = tuple(
            NodeGroup(c, tuple(op.name for op in self.ops if self.cluster_of[op.name] == c))
            for c in self.names
        )
        clusters = Clusters(
            parallel, groups, tuple(self.communications), tuple(self.pieces.values())
        )
        copies = [state for state in self.states if state.replica_of]
        return replace(
            self.graph,
            inputs=(*self.graph.inputs, *(state.input for state in copies)),
            outputs=(*self.graph.outputs, *(state.output for state in copies)),
            tensors=tuple(self.tensors.values()),
            ops=tuple(self.ops),
            constants=tuple(self.constants),
            values=tuple(self.values.values()),
            facts=tuple(self._facts()),
            kept=tuple(found for found in self.graph.kept if found.tensor in self.tensors),
            clusters=clusters,
            states=tuple(self.states),
            parts=(),
        )

    def _append(self, op: Op, cluster: str) -> None:
        self.ops.append(op)
        self.cluster_of[op.name] = cluster

    def _keep(self, name: str) -> str:
        self.constants[name] = None
        self.tensors[name] = self.graph.tensor[name]
        if name in self.graph.value:
            self.values[name] = self.graph.value[name]
        return name

    def _constant(self, name: str, cluster: str, cut: Range | None) -> str:
        """Return the name of a constant, or of the part of it that a cluster reads."""
        tensor = self.graph.tensor[name]
        if cut is None and (not self.replicates or not tensor.shape or name in self.graph.value):
            return self._keep(name)
        twins = self.twins.setdefault(cluster, {})
        made = twins.get(name)
        if made is not None and self.pieces[made] == _piece(made, name, cut):
            return made
        made = self.named(name, cluster)
        twins[name] = made
        self.pieces[made] = _piece(made, name, cut)
        self.constants[made] = None
        self.tensors[made] = _cut_tensor(tensor, made, cut)
        return made

    def _facts(self) -> list[Fact]:
        """Return what is true of the constants, and so of their parts."""
        found: dict[Fact, None] = {}
        for fact in self.graph.facts:
            for twins in ({}, *self.twins.values()):
                tensors = tuple(twins.get(name, name) for name in fact.tensors)
                if all(name in self.constants for name in tensors):
                    found[Fact(fact.kind, tensors)] = None
        return list(found)


def may_be_padded(op: Op) -> bool:
    """Say whether a part of an operator with windows is one with other pads."""
    attributes = dict(op.attributes)
    is_said = attributes.get("auto_pad", "NOTSET") == "NOTSET"
    return op.kind in _PADDED and is_said and not attributes.get("ceil_mode")


def _padded(
    attributes: tuple[tuple[str, Attribute], ...],
    op: Op,
    padding: tuple[int, int, int] | None,
    graph: Graph,
) -> tuple[tuple[str, Attribute], ...]:
    """Return attributes with the pads of a part along one axis."""
    if padding is None:
        return attributes
    axis, before, behind = padding
    count = len(graph.tensor[op.outputs[0]].shape) - 2
    found = dict(attributes)
    said = found.get("pads", (0,) * 2 * count)
    pads = [int(n) for n in said] if isinstance(said, tuple) else []
    pads[axis - 2], pads[axis - 2 + count] = before, behind
    found["pads"] = tuple(pads)
    return tuple(sorted(found.items()))


def _piece(made: str, source: str, cut: Range | None) -> Piece:
    return (
        Piece(made, source) if cut is None else Piece(made, source, cut.axis, cut.first, cut.last)
    )


def _cut_tensor(tensor: Tensor, name: str, cut: Range | None) -> Tensor:
    if cut is None:
        return replace(tensor, name=name)
    shape = list(tensor.shape)
    shape[cut.axis] = cut.count
    return replace(tensor, name=name, shape=tuple(shape))


def _attributes(
    op: Op, cuts: Mapping[str, Range | None], graph: Graph
) -> tuple[tuple[str, Attribute], ...]:
    """Return the attributes of a part: as many groups of channels as it has of all channels."""
    cut = cuts.get(op.outputs[0])
    groups = dict(op.attributes).get("group", 1)
    if cut is None or cut.axis != 1 or not isinstance(groups, int) or groups == 1:
        return op.attributes
    channels = graph.tensor[op.outputs[0]].shape[1]
    part: Attribute = groups * cut.count // channels
    return tuple((key, part if key == "group" else value) for key, value in op.attributes)
