"""The structure of a model: tensors and operators, without any weight value."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Literal

from dlbuild.ir.clusters import ONE_CLUSTER, Clusters
from dlbuild.ir.dtype import DTYPES

Attribute = int | float | str | tuple[int, ...] | tuple[float, ...] | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor's name (the model's own), element type and extents."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def count(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Bytes in memory."""
        return DTYPES[self.dtype].size_bytes(self.count)


@dataclass(frozen=True, slots=True)
class Op:
    """One node. An absent optional input or output is the empty name."""

    name: str
    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: tuple[tuple[str, Attribute], ...] = ()
    domain: str = ""
    opset: int = 0


@dataclass(frozen=True, slots=True)
class Value:
    """The content of a small constant that is part of the structure (axes, pads, shapes)."""

    tensor: str
    shape: tuple[int, ...]
    content: tuple[int | float | bool, ...]


@dataclass(frozen=True, slots=True)
class Fact:
    """A truth about weight values that the structure may depend on (ARCHITECTURE, section 2).

    kind: `all_zero` (one tensor), `equal` (two tensors), `narrow` (of one tensor: no element is
    the least of its type, so that each has its negative), `lowest`, `highest` (a scale and its zero
    point: a limit before they are applied is the least or greatest integer of the result).
    """

    kind: str
    tensors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Quantized:
    """How an interface tensor's integers stand for reals: real = (q - zero_point) * scale.

    scale, zero_point: names of constants; zero_point is the empty name if there is none.
    """

    tensor: str
    scale: str
    zero_point: str = ""


@dataclass(frozen=True, slots=True)
class Count:
    """A tensor of which only the run knows how many slices along one axis there are.

    count: a scalar int32 tensor that says it. What lies behind them is no part of the result.
    """

    tensor: str
    axis: int
    count: str


@dataclass(frozen=True, slots=True)
class Kept:
    """What is left of a tensor whose other slices along an axis are constant whatever the input.

    count: how many slices the model has. members: those that are computed, in order.
    """

    tensor: str
    axis: int
    count: int
    members: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """A sequence or an optional that the model has as an input or output.

    members: the tensors that stand for it in order; of an absent optional, none.
    """

    name: str
    kind: Literal["sequence", "optional"]
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class State:
    """A tensor that outlives a run: what one run writes to `output`, the next reads as `input`.

    initial: the constant that it begins with; the empty name = zeros.
    replica_of: the input of the state of the model that this one is another cluster's copy of; the
        empty name = none.
    """

    input: str
    output: str
    initial: str = ""
    replica_of: str = ""


@dataclass(frozen=True)
class Graph:
    """A model's structure. `ops` are in topological order; names are unique.

    `constants` are the tensors whose numbers are in the weights file. Of those, only what
    `values` and `facts` repeat may shape anything but the weight table.
    notes: sentences for the user about what parse assumed or dropped.
    counts: tensors whose size only the run knows; their extents here are the greatest.
    groups: sequences and optionals of the interface, which are several tensors here.
    kept: tensors of which slices were folded away, see `stages.fold_channels`.
    clusters: which cluster computes what, of a graph that was spread over several.
    states: inputs and outputs that are not the caller's, since they are carried between runs.
    parts: of a batch in parts, the operators of each; all others stand once for all of them.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    tensors: tuple[Tensor, ...]
    ops: tuple[Op, ...]
    constants: tuple[str, ...]
    values: tuple[Value, ...] = ()
    facts: tuple[Fact, ...] = ()
    quantized: tuple[Quantized, ...] = ()
    notes: tuple[str, ...] = ()
    groups: tuple[Group, ...] = ()
    counts: tuple[Count, ...] = ()
    kept: tuple[Kept, ...] = ()
    clusters: Clusters = ONE_CLUSTER
    states: tuple[State, ...] = ()
    parts: tuple[tuple[str, ...], ...] = ()

    @cached_property
    def carried(self) -> Mapping[str, State]:
        """Each state by its input and by its output."""
        return {name: state for state in self.states for name in (state.input, state.output)}

    @cached_property
    def replicas(self) -> Mapping[str, str]:
        """Each input and output of a copied state with that of the state that it is a copy of."""
        first = {state.input: state for state in self.states}
        copies = [(state, first[state.replica_of]) for state in self.states if state.replica_of]
        inputs = {copy.input: state.input for copy, state in copies}
        return inputs | {copy.output: state.output for copy, state in copies}

    @cached_property
    def part_of(self) -> Mapping[str, int]:
        """The part of the batch of each operator that stands once for each."""
        return {op: number for number, ops in enumerate(self.parts) for op in ops}

    @cached_property
    def tensor(self) -> Mapping[str, Tensor]:
        """Each tensor by its name."""
        return {t.name: t for t in self.tensors}

    @cached_property
    def value(self) -> Mapping[str, Value]:
        """Each structural constant by its tensor."""
        return {v.tensor: v for v in self.values}

    @cached_property
    def count(self) -> Mapping[str, Count]:
        """The count of each tensor that has one."""
        return {c.tensor: c for c in self.counts}

    @cached_property
    def producer(self) -> Mapping[str, Op]:
        """The operator that writes each tensor."""
        return {name: op for op in self.ops for name in op.outputs if name}

    @cached_property
    def consumers(self) -> Mapping[str, tuple[Op, ...]]:
        """The operators that read each tensor, in order; a tensor read twice by one counts once."""
        found: dict[str, list[Op]] = {}
        for op in self.ops:
            for name in dict.fromkeys(op.inputs):
                if name:
                    found.setdefault(name, []).append(op)
        return {name: tuple(ops) for name, ops in found.items()}
