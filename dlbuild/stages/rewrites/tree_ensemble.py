"""The TreeEnsemble that joined the two older ones: its own attributes, the same tables."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dlbuild.base.errors import UserError
from dlbuild.ir.graph import Attribute, Tensor
from dlbuild.ir.weights import Array
from dlbuild.stages.parse_file import array_of
from dlbuild.stages.rewrites.draft import Draft, Node
from dlbuild.stages.rewrites.trees import AGGREGATES, DOMAIN, TRACKS_TRUE

ML = "ai.onnx.ml"
SUM = AGGREGATES.index("SUM")
MEMBER, EQUAL = 6, 4
"""Modes in the file; in the tables, where 0 is a leaf, each is one more."""


def ensemble_of(draft: Draft, node: Node) -> list[Node] | None:
    """Return what to read in place of a TreeEnsemble; None for other operators.

    Raises:
        UserError: its sums are transformed, its trees are combined in a way that there is not, or
            a walk through one may never end.
    """
    if node.kind != "TreeEnsemble" or node.domain != ML:
        return None
    if node.integer("post_transform", 0):
        raise UserError(
            f"sums are not transformed, but post_transform is {node.integer('post_transform', 0)}",
            where=where_of(draft, node),
            fix="export the model with post_transform 0",
        )
    how = node.integer("aggregate_function", SUM)
    if how not in range(len(AGGREGATES)):
        known = ", ".join(f"{number} ({name})" for number, name in enumerate(AGGREGATES))
        raise UserError(
            f"aggregate_function is {how}, it can be {known}",
            where=where_of(draft, node),
            fix="export the model with one of them",
        )
    tables = Tables(draft, node)
    result, source = node.outputs[0], node.inputs[0]
    rows = draft.shape(source)[0]
    count = node.integer("n_targets", 1)
    draft.declared[result] = Tensor(result, draft.dtype(source), (rows, count))
    names = [
        draft.constant(f"{node.label}/{what}", array) for what, array in tables.arrays().items()
    ]
    combined: dict[str, Attribute] = {"aggregate": AGGREGATES[how]}
    return [Node("TreeSum", [source, *names], [result], combined, node.name, DOMAIN, 1)]


def where_of(draft: Draft, node: Node) -> str:
    """Return the place of a node, for messages."""
    return f"{draft.where}: node '{node.label}' ({node.kind})"


class Tables:
    """The tables of `trees.py`: inner nodes first, then those that test a set, then the leaves."""

    def __init__(self, draft: Draft, node: Node) -> None:
        self.splits = held(draft, node, "nodes_splits")
        self.weights = held(draft, node, "leaf_weights")
        self.targets = node.integers("leaf_targetids")
        self.roots = node.integers("tree_roots")
        kinds = held(draft, node, "nodes_modes").tolist()
        tracks = node.integers("nodes_missing_value_tracks_true", [0] * len(kinds))
        self.features = list(node.integers("nodes_featureids"))
        self.modes = [1 + kind for kind in kinds]
        self.limits = list(self.splits)
        self.yes, self.no = (
            list(node.integers("nodes_truenodeids")),
            list(node.integers("nodes_falsenodeids")),
        )
        self.is_leaf = [
            [bool(flag) for flag in node.integers(f"nodes_{side}leafs")]
            for side in ("true", "false")
        ]
        for at, members in zip(
            [at for at, kind in enumerate(kinds) if kind == MEMBER],
            sets(held(draft, node, "membership_values")),
            strict=True,
        ):
            self.test_set(at, members)
        self.modes = [
            mode + TRACKS_TRUE * bool(flag)
            for mode, flag in zip(self.modes, [*tracks, *([0] * len(self.modes))], strict=False)
        ]
        self.check_walks(draft, node)

    def test_set(self, at: int, members: list[float]) -> None:
        """Let a node test whether a value is in a set: one node for each member, in a row."""
        self.modes[at] = 1 + EQUAL
        self.limits[at] = members[0]
        last = at
        for member in members[1:]:
            newer = len(self.modes)
            self.modes.append(1 + EQUAL)
            self.limits.append(member)
            self.features.append(self.features[at])
            self.yes.append(self.yes[at])
            self.no.append(self.no[last])
            self.is_leaf[0].append(self.is_leaf[0][at])
            self.is_leaf[1].append(self.is_leaf[1][last])
            self.no[last], self.is_leaf[1][last] = newer, False
            last = newer

    def check_walks(self, draft: Draft, node: Node) -> None:
        """Refuse trees in which a walk comes back to a node.

        Raises:
            UserError: names the node.
        """
        done: set[int] = set()
        above: set[int] = set()
        pending = [(root, False) for root in self.roots]
        while pending:
            at, is_left = pending.pop()
            if is_left:
                above.discard(at)
                done.add(at)
                continue
            if at in above:
                raise UserError(
                    "the trees go in circles",
                    where=where_of(draft, node),
                    fix="export the model again",
                )
            if at in done:
                continue
            above.add(at)
            pending.append((at, True))
            for side, branch in enumerate((self.yes, self.no)):
                if not self.is_leaf[side][at]:
                    pending.append((branch[at], False))

    def arrays(self) -> dict[str, Array]:
        """Return the tables; leaf number k is the node behind all inner ones and k leaves."""
        inner, leaves = len(self.modes), len(self.weights)
        numbers = range(leaves)
        yes, no = (
            [place + inner * flag for place, flag in zip(branch, flags, strict=True)]
            for branch, flags in zip((self.yes, self.no), self.is_leaf, strict=True)
        )
        dtype = self.splits.dtype
        return {
            "mode": np.array([*self.modes, *([0] * leaves)], np.uint8),
            "feature": np.array([*self.features, *([0] * leaves)], np.int32),
            "limit": np.array([*self.limits, *([0.0] * leaves)], dtype),
            "yes": np.array([*yes, *numbers], np.int32),
            "no": np.array([*no, *(number + 1 for number in numbers)], np.int32),
            "root": np.array(self.roots, np.int32),
            "target": np.array(self.targets, np.int32),
            "weight": self.weights,
        }


def held(draft: Draft, node: Node, name: str) -> Array:
    """Return the numbers of an attribute that is a tensor."""
    tensors = (a.t for a in node.special if a.name == name)
    return next((array_of(t, where_of(draft, node)) for t in tensors), np.zeros(0))


def sets(values: Array) -> Iterator[list[float]]:
    """Yield the sets of numbers, which values that are no numbers end."""
    members: list[float] = []
    for value in values.tolist():
        if value != value:  # noqa: PLR0124 - no number
            yield members
            members = []
        else:
            members.append(value)
    if members:
        yield members
