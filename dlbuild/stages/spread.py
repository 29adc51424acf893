"""What the ways to spread a graph over clusters share: which cluster has which part of what."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from dlbuild.base.errors import UserError
from dlbuild.ir.clusters import Communication
from dlbuild.ir.graph import Graph, Op
from dlbuild.ir.target import Target
from dlbuild.rulebook.kernels import Matched
from dlbuild.stages.flow import Flow, NoFlow, flat_flow, flow_of
from dlbuild.stages.rewrites.spread import CALLER, Range, Spread

Cuts = Mapping[str, tuple[Range, ...] | None]
"""Of each tensor of an operator the range that each cluster has of it; None = all."""


@dataclass(frozen=True, slots=True)
class Whole:
    """A tensor in one piece. at: what it is called in each cluster that has it."""

    at: dict[str, str]


@dataclass(frozen=True, slots=True)
class Parts:
    """A tensor of which each cluster has a part. joined: its name where it is whole again."""

    ranges: tuple[Range, ...]
    names: tuple[str, ...]
    joined: dict[str, str] = field(default_factory=dict)


class Spreader:
    """Adds the operators of a graph to clusters one by one, and the nodes that communicate."""

    def __init__(self, graph: Graph, target: Target, matched: Matched) -> None:
        self.graph = graph
        self.matched = matched
        self.where = f"{graph.name}@{target.name}"
        self.names = tuple(cluster.name for cluster in target.clusters)
        self.weights = tuple(cluster.count for cluster in target.clusters)
        self.made = Spread(graph, self.names, replicates=target.parameters == "replicated")
        self.state: dict[str, Whole | Parts] = {n: Whole({CALLER: n}) for n in graph.inputs}
        self.known: dict[tuple[str, str], str] = {}
        self._constants = frozenset(graph.constants)
        self._parts: dict[tuple[str, int, Range], str] = {}

    def activations(self, op: Op) -> tuple[str, ...]:
        """Return what an operator reads that is no constant, each once."""
        return tuple(dict.fromkeys(t for t in op.inputs if t and t not in self._constants))

    def ranges(self, extent: int, axis: int, unit: int = 1) -> tuple[Range, ...]:
        """Cut an axis by the numbers of cores that the clusters have, into multiples of `unit`."""
        units, total = extent // unit, sum(self.weights)
        ends = [units * sum(self.weights[: n + 1]) // total for n in range(len(self.names))]
        bounds = [0, *(end * unit for end in ends)]
        bounds[-1] = extent
        return tuple(Range(axis, *pair) for pair in pairwise(bounds))

    def refusal(self, op: Op, way: str, why: str, fix: str) -> UserError:
        """Return the error for an operator that cannot be divided."""
        return UserError(
            f"'{op.name}' ({op.kind}) cannot be divided {way}", where=self.where, why=why, fix=fix
        )

    def whole(self, tensor: str, cluster: str) -> str:
        """Return the name of a whole tensor in a cluster, brought there if it is not."""
        state = self.state[tensor]
        if isinstance(state, Parts):
            if cluster not in state.joined:
                state.joined[cluster] = self._joined(tensor, state, cluster, is_output=False)
            return state.joined[cluster]
        if CALLER in state.at:
            return state.at[CALLER]
        if cluster not in state.at:
            source, name = next(iter(state.at.items()))
            state.at[cluster] = self.made.copy(name, tensor, source, cluster)
        return state.at[cluster]

    def part(self, tensor: str, number: int, cut: Range) -> str:
        """Return the name of a part of a tensor in a cluster, brought there if it is not."""
        state, cluster = self.state[tensor], self.names[number]
        if isinstance(state, Parts) and state.ranges[number] == cut:
            return state.names[number]
        if (tensor, number, cut) not in self._parts:
            have = self.whole(tensor, cluster)
            source = CALLER if have in self.graph.inputs else cluster
            name = self.made.part(have, tensor, source, cluster, cut)
            self._parts[tensor, number, cut] = name
        return self._parts[tensor, number, cut]

    def band(self, tensor: str, number: int, cut: Range) -> str:
        """Return the name of some rows of a tensor in a cluster, those of others brought there."""
        state, cluster = self.state[tensor], self.names[number]
        if not isinstance(state, Parts) or state.ranges[number] == cut:
            return self.part(tensor, number, cut)
        if (tensor, number, cut) not in self._parts:
            pieces = []
            for source, name, own in zip(self.names, state.names, state.ranges, strict=True):
                first, last = max(cut.first, own.first), min(cut.last, own.last)
                if first >= last:
                    continue
                is_whole = source == cluster and (first, last) == (own.first, own.last)
                there = Range(cut.axis, first - own.first, last - own.first)
                pieces.append(
                    name if is_whole else self.made.part(name, tensor, source, cluster, there)
                )
            self._parts[tensor, number, cut] = (
                pieces[0] if len(pieces) == 1 else self._beside(tensor, pieces, cluster, cut)
            )
        return self._parts[tensor, number, cut]

    def _beside(self, tensor: str, pieces: list[str], cluster: str, cut: Range) -> str:
        whole = self.graph.tensor[tensor]
        shape = list(whole.shape)
        shape[cut.axis] = cut.count
        rows = replace(whole, shape=tuple(shape))
        sources = [cluster] * len(pieces)
        return self.made.joined(pieces, sources, cluster, cut.axis, rows)

    def is_everywhere(self, op: Op) -> bool:
        """Say whether each cluster has all that an operator reads."""
        states = [self.state[t] for t in self.activations(op)]
        return all(
            isinstance(state, Whole) and (CALLER in state.at or len(state.at) == len(self.names))
            for state in states
        )

    def cuts(self, op: Op, tensor: str, ranges: tuple[Range, ...]) -> Cuts:
        """Return how all tensors of an operator are cut if one of them is.

        Raises:
            NoFlow: it cannot be.
        """
        instance, axis = self.matched(op.name), ranges[0].axis
        try:
            flow: Flow = flow_of(instance, tensor, axis)
        except NoFlow as reason:
            try:
                found, slices = flat_flow(instance, tensor, axis, [cut.first for cut in ranges])
            except NoFlow:
                raise reason from None
            flat = tuple(Range(found, c.first * slices, c.last * slices) for c in ranges)
            return {op.outputs[0]: flat, tensor: ranges}
        return {
            name: None if at is None else tuple(Range(at, c.first, c.last) for c in ranges)
            for name, at in flow.items()
        }

    def divide(self, op: Op, cuts: Cuts) -> None:
        """Let each cluster compute its part of an operator."""
        outputs = [name for name in op.outputs if name]
        names: dict[str, list[str]] = {name: [] for name in outputs}
        for number, cluster in enumerate(self.names):
            own = {name: found[number] if found else None for name, found in cuts.items()}
            given = {
                t: self.whole(t, cluster)
                if (cut := own.get(t)) is None
                else self.part(t, number, cut)
                for t in self.activations(op)
            }
            made = {name: self.made.named(name, cluster) for name in outputs}
            inputs = [given.get(t, t) for t in op.inputs]
            self.made.add(op, cluster, inputs, made, own, is_whole=False)
            for name in outputs:
                names[name].append(made[name])
        for name in outputs:
            ranges = cuts[name]
            assert ranges is not None, "what is divided has divided results"
            self.state[name] = Parts(ranges, tuple(names[name]))

    def called(self, tensor: str, cluster: str) -> str:
        """Return the name of a result that each cluster has; the first has the model's outputs."""
        known = self.known.get((tensor, cluster))
        if known is None and tensor in self.graph.outputs and cluster == self.names[0]:
            return tensor
        return known or self.made.named(tensor, cluster)

    def repeat(self, op: Op) -> None:
        """Let each cluster compute all of an operator, for itself."""
        at: dict[str, dict[str, str]] = {name: {} for name in op.outputs if name}
        for cluster in self.names:
            given = {t: self.whole(t, cluster) for t in self.activations(op)}
            made = {name: self.called(name, cluster) for name in at}
            inputs = [given.get(t, t) for t in op.inputs]
            self.made.add(op, cluster, inputs, made, {}, is_whole=False)
            for name, found in made.items():
                at[name][cluster] = found
        self.state |= {name: Whole(found) for name, found in at.items()}

    def place(self, op: Op, cluster: str, *, is_scattered: bool = False) -> None:
        """Let one cluster compute an operator. is_scattered: it takes a part of the caller's."""
        given = {t: self.whole(t, cluster) for t in self.activations(op)}
        outputs = {name: name for name in op.outputs if name}
        inputs = [given.get(t, t) for t in op.inputs]
        self.made.add(op, cluster, inputs, outputs, {}, is_whole=True)
        if is_scattered:
            self.made.communications.append(Communication(op.name, "scatter", (CALLER,)))
        self.state |= {name: Whole({cluster: name}) for name in outputs}

    def finish(self) -> None:
        """Join the outputs that are in parts, in the memory of the caller."""
        for name in self.graph.outputs:
            state = self.state[name]
            if isinstance(state, Parts):
                self._joined(name, state, self.names[0], is_output=True)
            elif name not in state.at.values():
                cluster, have = next(iter(state.at.items()))
                self.made.copy(have, name, cluster, self.names[0], is_output=True)

    def _joined(self, tensor: str, state: Parts, cluster: str, *, is_output: bool) -> str:
        axis, whole = state.ranges[0].axis, self.graph.tensor[tensor]
        parts = [n for n, cut in zip(state.names, state.ranges, strict=True) if cut.count]
        sources = [n for n, cut in zip(self.names, state.ranges, strict=True) if cut.count]
        called = tensor if is_output else ""
        return self.made.joined(parts, sources, cluster, axis, whole, called)
