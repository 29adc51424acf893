"""Channels that hold one number whatever the input, folded into the biases behind them.

Interval arithmetic over all inputs, borders included, says which channels these are; nothing is
sampled. A channel goes if every operator that reads it either sums over it and has a bias to take
what it adds, or hands it on to a channel that goes too. The results are equal bit for bit.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from dlbuild.base.errors import UserError
from dlbuild.ir.dtype import DTYPES
from dlbuild.ir.graph import Attribute, Graph, Kept, Op
from dlbuild.ir.target import Rounding
from dlbuild.rulebook.instance import Instance
from dlbuild.rulebook.interval import Interval, known
from dlbuild.rulebook.intervals import anything, intervals
from dlbuild.rulebook.load import RuleBook
from dlbuild.rulebook.match import Wish, match
from dlbuild.stages.bias import Bias, bias_of
from dlbuild.stages.lanes import Lane, Link, links_of
from dlbuild.stages.parse import Parsed

ROUNDINGS: tuple[Rounding, ...] = ("exact", "fixed")
"""A channel is constant if it is under each of them, and the same."""

LASTING = frozenset({"all_zero", "narrow"})
"""Facts of a constant that are true of each part of it."""

MULTIPLE = 4
"""Kernels work on so many channels at once: what is left is rounded up to it where it was one."""


def fold_constant_channels(parsed: Parsed, book: RuleBook) -> Parsed:
    """Return the model without the channels that are constant.

    Its structure depends on the weights by which channels these are; `Graph.kept` says it.
    """
    return _Folding(parsed, book).run()


class _Folding:
    def __init__(self, parsed: Parsed, book: RuleBook) -> None:
        self._graph = parsed.graph
        self._weights = dict(parsed.weights)
        self._book = book
        self._instances = {op.name: match(op, self._graph, book) for op in self._graph.ops}
        self._whole = frozenset(self._known_outside())
        self._fixed: dict[Lane, dict[int, int]] = {}  # what constant slices hold
        self._links: dict[str, list[Link]] = {}
        self._goes: dict[Lane, set[int]] = {}
        self._sums: dict[str, list[tuple[Lane, Bias]]] = {}

    def run(self) -> Parsed:
        self._find_fixed([self._intervals(rounding) for rounding in ROUNDINGS])
        self._find_links()
        while self._spread():
            made = self._cut()
            if isinstance(made, Parsed):
                return made
            self._keep([lane for link in self._links[made.name] for lane in link.lanes])
        return Parsed(self._graph, self._weights)

    def _intervals(self, rounding: Rounding) -> Mapping[str, Interval]:
        """Return what each integer tensor that is computed can be."""
        graph = self._graph
        found = {t: known(a) for t, a in self._weights.items()}
        for name in graph.inputs:
            found[name] = anything(graph.tensor[name].shape, graph.tensor[name].dtype)
        for op in graph.ops:
            instance = match(op, graph, self._book, Wish(rounding=rounding))
            outputs = [o for o in instance.operands if o.role == "output"]
            if all(DTYPES[o.dtype].kind == "float" for o in outputs):  # and none may be a number
                found |= {o.tensor: anything(o.shape, o.dtype) for o in outputs}
                continue
            reads = {o.name: found[o.tensor] for o in instance.operands if o.role == "input"}
            results = intervals(instance, reads)
            found |= {o.tensor: results[o.name] for o in outputs}
        return found

    def _find_fixed(self, found: list[Mapping[str, Interval]]) -> None:
        """Note the slices that hold one number, along each axis of each tensor."""
        graph = self._graph
        for name in graph.producer:
            shape = graph.tensor[name].shape
            if DTYPES[graph.tensor[name].dtype].kind not in {"int", "uint"} or 0 in shape:
                continue
            for axis in range(len(shape)):
                others = tuple(n for n in range(len(shape)) if n != axis)
                low = np.minimum.reduce([f[name].low.min(axis=others) for f in found])
                high = np.maximum.reduce([f[name].high.max(axis=others) for f in found])
                slices = np.flatnonzero(low == high)
                self._fixed[name, axis] = {int(n): int(low[n]) for n in slices}

    def _find_links(self) -> None:
        """Let every slice of every lane go that no operator needs by itself."""
        graph = self._graph
        for name in graph.producer:
            for axis, extent in enumerate(graph.tensor[name].shape):
                self._goes[name, axis] = set(range(extent))
        self._keep([lane for lane in self._goes if lane[0] in self._whole])
        for op in graph.ops:
            instance = self._instances[op.name]
            links, stuck = links_of(instance, graph.constants)
            self._keep(stuck)
            self._links[op.name] = links
            self._sums[op.name] = []
            for link in links:
                if self._is_shared(link):
                    self._keep(link.lanes)
                elif link.is_sum:
                    self._sum(op, instance, link)

    def _known_outside(self) -> Iterator[str]:
        """Yield the tensors that more than the operators know."""
        graph = self._graph
        yield from (*graph.inputs, *graph.outputs, *(count.tensor for count in graph.counts))
        yield from (member for group in graph.groups for member in group.members)
        yield from (t for q in graph.quantized for t in (q.tensor, q.scale, q.zero_point))
        yield from (t for s in graph.states for t in (s.input, s.output, s.initial))
        yield from (value.tensor for value in graph.values)
        yield from (t for fact in graph.facts if fact.kind not in LASTING for t in fact.tensors)

    def _keep(self, lanes: Iterable[Lane]) -> None:
        for lane in lanes:
            if lane in self._goes:
                self._goes[lane] = set()

    def _is_shared(self, link: Link) -> bool:
        """Tell whether a constant of a link cannot lose a part, since others know it."""
        graph = self._graph
        tensors = {tensor for tensor, _ in link.constants}
        return any(len(graph.consumers[t]) > 1 or t in self._whole for t in tensors)

    def _sum(self, op: Op, instance: Instance, link: Link) -> None:
        """Keep the slices whose part of a sum cannot go into a bias."""
        lanes = [lane for lane in link.lanes if lane in self._goes]
        bias = bias_of(instance, link, self._graph.constants)
        if len(lanes) != 1 or len(link.lanes) != 1 or bias is None or not self._is_own(bias):
            self._keep(link.lanes)
            return
        [lane] = lanes
        fixed = self._fixed.get(lane, {})
        parts = bias.parts(fixed, self._weights)
        self._goes[lane] &= {n for n in fixed if n in parts}
        self._sums[op.name].append((lane, bias))

    def _is_own(self, bias: Bias) -> bool:
        """Tell whether a bias may change: nobody else reads it, and nothing is known of it."""
        graph, name = self._graph, bias.tensor
        known = any(name in fact.tensors for fact in graph.facts) or name in self._whole
        return not name or (len(graph.consumers[name]) == 1 and not known)

    def _spread(self) -> bool:
        """Make linked lanes lose the same slices; tell whether any goes."""
        changed = True
        while changed:
            changed = False
            for links in self._links.values():
                for link in links:
                    if not link.is_sum:
                        changed |= self._agree(link.lanes)
            if not changed:
                changed = self._round_up()
        return any(self._goes.values())

    def _agree(self, lanes: frozenset[Lane]) -> bool:
        sets = [self._goes.get(lane, set()) for lane in sorted(lanes)]
        common = set.intersection(*sets) if sets else set()
        changed = False
        for lane in lanes:
            if self._goes.get(lane, common) != common:
                self._goes[lane] = set(common)
                changed = True
        return changed

    def _round_up(self) -> bool:
        """Keep the first slices that could go where kernels would have a rest; tell if any."""
        changed = False
        for (name, axis), goes in self._goes.items():
            extent = self._graph.tensor[name].shape[axis]
            multiple = MULTIPLE if extent % MULTIPLE == 0 else 1
            left = extent - len(goes)
            n_more = max(-left % multiple, multiple if left == 0 else 0)
            if goes and n_more:
                goes.difference_update(sorted(goes)[:n_more])
                changed = True
        return changed

    def _cut(self) -> Parsed | Op:
        """Leave out what goes; return the operator that no rule takes without it."""
        graph, weights = self._graph, dict(self._weights)
        for sums in self._sums.values():
            for lane, bias in sums:
                bias.add(self._goes[lane], self._fixed[lane], weights)
        shape = {tensor.name: list(tensor.shape) for tensor in graph.tensors}
        kept: list[Kept] = []
        for (name, axis), left in sorted(self._left().items()):
            if name in weights:
                weights[name] = weights[name].take(left, axis)
            else:
                kept.append(Kept(name, axis, shape[name][axis], tuple(left)))
            shape[name][axis] = len(left)
        tensors = tuple(replace(t, shape=tuple(shape[t.name])) for t in graph.tensors)
        cut = replace(graph, tensors=tensors, kept=tuple(kept))
        for op in graph.ops:
            adapted = self._adapted(cut, op)
            if adapted is None:
                return op
            cut = adapted
        for value in cut.values:
            if value != graph.value[value.tensor]:
                dtype = weights[value.tensor].dtype
                weights[value.tensor] = np.array(value.content, dtype).reshape(value.shape)
        return Parsed(replace(cut, notes=(*graph.notes, _note(cut))), weights)

    def _left(self) -> dict[Lane, list[int]]:
        """Return what is left of each lane that loses something, constants' included."""
        graph, found = self._graph, dict[Lane, list[int]]()
        for lane, goes in self._goes.items():
            if goes:
                extent = graph.tensor[lane[0]].shape[lane[1]]
                found[lane] = [n for n in range(extent) if n not in goes]
        for links in self._links.values():
            for link in links:
                left = [found[lane] for lane in link.lanes if lane in found]
                found |= dict.fromkeys(link.constants, left[0]) if left else {}
        return found

    def _adapted(self, cut: Graph, op: Op) -> Graph | None:
        """Make attributes and constants of an operator that repeat extents say the new ones."""
        for changed in self._forms(cut, op):
            try:
                match(next(o for o in changed.ops if o.name == op.name), changed, self._book)
            except UserError:
                continue
            return changed
        return None

    def _forms(self, cut: Graph, op: Op) -> Iterator[Graph]:
        """Yield the graph and forms of it in which what repeats an operator's extents is new.

        The shape that a copy is told is one that the rule need not look at.
        """
        news: dict[tuple[Attribute, ...], tuple[int, ...]] = {
            self._graph.tensor[t].shape: cut.tensor[t].shape for t in op.outputs if t in cut.tensor
        }
        values = tuple(
            replace(v, content=news[v.content])
            if v.tensor in op.inputs and v.content in news
            else v
            for v in cut.values
        )
        told = replace(cut, values=values)
        is_copy = self._instances[op.name].role == "copy"
        yield from (told, cut) if is_copy else (cut, told)
        for old, new in news.items():
            extents = dict(zip(old, new, strict=True))
            attributes = tuple(
                (key, extents[a]) if isinstance(a, int) and extents.get(a, a) != a else (key, a)
                for key, a in op.attributes
            )
            other = replace(op, attributes=attributes)
            yield replace(cut, ops=tuple(other if o.name == op.name else o for o in cut.ops))


def _note(after: Graph) -> str:
    n_gone = sum(kept.count - len(kept.members) for kept in after.kept)
    n_all = sum(kept.count for kept in after.kept)
    return (
        f"{n_gone:,} of {n_all:,} channels of {len(after.kept)} tensors are constant whatever the"
        " input, and folded into biases ('fold_constant_channels')"
    )
