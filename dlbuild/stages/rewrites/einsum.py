"""Einsum as transpositions, a matrix product for each pair of operands, and sums."""

from __future__ import annotations

from math import prod

from dlbuild.base.errors import UserError
from dlbuild.stages.rewrites.draft import Draft, Node

OPSET = 13


def einsum_of(draft: Draft, node: Node) -> list[Node] | None:
    """Return what to read in place of an Einsum; None for other operators.

    Raises:
        UserError: the equation does not fit the operands.
    """
    if node.kind != "Einsum" or node.domain:
        return None
    return _Einsum(draft, node).nodes()


class _Einsum:
    """The terms under work: each a tensor and its labels, one for each axis."""

    def __init__(self, draft: Draft, node: Node) -> None:
        self.draft = draft
        self.node = node
        self.made: list[Node] = []
        self.extent: dict[str, int] = {}
        self.terms, self.result = self._parsed()

    def nodes(self) -> list[Node]:
        """Return the nodes; the last writes the result."""
        terms = [self._alone(*term, position) for position, term in enumerate(self.terms)]
        name, labels = terms[0]
        for position, (other, theirs) in enumerate(terms[1:], 1):
            later = {label for _, rest in terms[position + 1 :] for label in rest}
            name, labels = self._product(name, labels, other, theirs, {*self.result, *later})
        name, labels = self._summed(name, labels, set(self.result))
        order = [labels.index(label) for label in self.result]
        self._add("Transpose", [name], {"perm": tuple(order)}, self.node.outputs[0])
        return self.made

    def _parsed(self) -> tuple[list[tuple[str, list[str]]], list[str]]:
        text = self.node.text("equation", "").replace(" ", "")
        left, arrow, right = text.partition("->")
        words = left.split(",")
        shapes = [self.draft.shape(name) for name in self.node.inputs]
        if len(words) != len(shapes):
            raise self._unfit(f"it has {len(words)} terms for {len(shapes)} operands")
        spare = max(
            (
                len(s) - len(w.replace("...", ""))
                for s, w in zip(shapes, words, strict=True)
                if "..." in w
            ),
            default=0,
        )
        dots = [f"...{number}" for number in range(spare)]
        terms = []
        for name, word, shape in zip(self.node.inputs, words, shapes, strict=True):
            own = len(shape) - len(word.replace("...", ""))
            labels = self._labels(word, dots[spare - own :] if own else [])
            if len(labels) != len(shape):
                raise self._unfit(f"the term '{word}' does not fit {list(shape)}")
            for label, extent in zip(labels, shape, strict=True):
                if self.extent.setdefault(label, extent) == 1:
                    self.extent[label] = extent
            terms.append((name, labels))
        if arrow:
            return terms, self._labels(right, dots)
        every = [label for _, labels in terms for label in labels if label not in dots]
        return terms, [*dots, *sorted(label for label in set(every) if every.count(label) == 1)]

    @staticmethod
    def _labels(word: str, dots: list[str]) -> list[str]:
        before, found, after = word.partition("...")
        return [*before, *(dots if found else []), *after]

    def _alone(self, name: str, labels: list[str], position: int) -> tuple[str, list[str]]:
        """Bring a term to labels that differ, and sum over those that nobody else has."""
        name = self._broadcast(name, labels)
        while len(set(labels)) < len(labels):
            twice = next(label for label in labels if labels.count(label) > 1)
            name, labels = self._diagonal(name, labels, twice)
        others = {
            label
            for number, (_, theirs) in enumerate(self.terms)
            for label in theirs
            if number != position
        }
        return self._summed(name, labels, {*others, *self.result})

    def _broadcast(self, name: str, labels: list[str]) -> str:
        """Repeat a term along axes of extent 1 whose label has another extent elsewhere."""
        own, due = self.draft.shape(name), tuple(self.extent[label] for label in labels)
        if own == due:
            return name
        for label, extent, most in zip(labels, own, due, strict=True):
            if extent not in {1, most}:
                raise self._unfit(f"'{label}' has the extents {extent} and {most}")
        return self._add("Expand", [name, self.draft.integers(f"{name}_extents", due)])

    def _diagonal(self, name: str, labels: list[str], label: str) -> tuple[str, list[str]]:
        """Keep the diagonal of the first two axes of a label, as the last axis."""
        first, second = [axis for axis, one in enumerate(labels) if one == label][:2]
        rest = [axis for axis in range(len(labels)) if axis not in {first, second}]
        extent = self.extent[label]
        kept = [labels[axis] for axis in rest]
        shape = [self.extent[one] for one in kept]
        name = self._add("Transpose", [name], {"perm": (*rest, first, second)})
        flat = self.draft.integers(f"{name}_flat", [*shape, extent * extent])
        name = self._add("Reshape", [name, flat])
        bounds = [
            self.draft.integers(f"{name}_{what}", [value])
            for what, value in (
                ("start", 0),
                ("end", extent * extent),
                ("axis", len(shape)),
                ("step", extent + 1),
            )
        ]
        return self._add("Slice", [name, *bounds]), [*kept, label]

    def _summed(self, name: str, labels: list[str], wanted: set[str]) -> tuple[str, list[str]]:
        axes = [axis for axis, label in enumerate(labels) if label not in wanted]
        if not axes:
            return name, labels
        over = self.draft.integers(f"{name}_over", axes)
        summed = self._add("ReduceSum", [name, over], {"keepdims": 0})
        return summed, [label for label in labels if label in wanted]

    def _product(
        self, left: str, ours: list[str], right: str, theirs: list[str], wanted: set[str]
    ) -> tuple[str, list[str]]:
        """Multiply two terms, summed over the labels that both have and nobody wants."""
        batch = [label for label in ours if label in theirs and label in wanted]
        inner = [label for label in ours if label in theirs and label not in wanted]
        rows = [label for label in ours if label not in theirs]
        columns = [label for label in theirs if label not in ours]
        a = self._matrix(left, ours, batch, rows, inner)
        b = self._matrix(right, theirs, batch, inner, columns)
        product = self._add("MatMul", [a, b])
        labels = [*batch, *rows, *columns]
        shape = self.draft.integers(f"{product}_shape", [self.extent[one] for one in labels])
        return self._add("Reshape", [product, shape]), labels

    def _matrix(
        self, name: str, labels: list[str], batch: list[str], rows: list[str], columns: list[str]
    ) -> str:
        order = [labels.index(label) for label in (*batch, *rows, *columns)]
        name = self._add("Transpose", [name], {"perm": tuple(order)})
        sizes = [[self.extent[label] for label in group] for group in (batch, rows, columns)]
        shape = [*sizes[0], prod(sizes[1]), prod(sizes[2])]
        return self._add("Reshape", [name, self.draft.integers(f"{name}_matrix", shape)])

    def _add(
        self,
        kind: str,
        inputs: list[str],
        attributes: dict[str, int | tuple[int, ...]] | None = None,
        result: str = "",
    ) -> str:
        name = result or self.draft.fresh(f"{self.node.label}/{kind}")
        label = f"{self.node.label}/{kind}_{len(self.made)}"
        self.made.append(Node(kind, inputs, [name], dict(attributes or {}), label, opset=OPSET))
        return name

    def _unfit(self, what: str) -> UserError:
        return UserError(
            f"the equation does not fit the operands: {what}",
            where=f"{self.draft.where}: node '{self.node.label}' (Einsum)",
            fix="export the model again",
        )
