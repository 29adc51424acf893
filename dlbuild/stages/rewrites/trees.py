"""Decision trees as tables of numbers, and the operator of ours that walks through them."""

from __future__ import annotations

from typing import Literal

import numpy as np

from dlbuild.base.errors import UserError
from dlbuild.ir.graph import Tensor
from dlbuild.stages.rewrites.draft import Draft, Node, check_known

DOMAIN = "dlbuild"
MODES = (
    *("LEAF", "BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"),
)
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
"""How the leaves of several trees become one number, in the order of TreeEnsemble's numbers."""
TRACKS_TRUE = 8
"""Added to a mode where a value that is not a number goes the way of true."""


def tree_sums(
    draft: Draft, node: Node, made: list[Node], kind: Literal["target", "class"], count: int
) -> str:
    """Add the node that combines the leaves; return the name of its result, a row for each input.

    Raises:
        UserError: the trees are none, or are combined in a way that there is not.
    """
    how = node.text("aggregate_function", "SUM")
    check_known(draft, node, "aggregate_function", [how], AGGREGATES)
    tables = tables_of(draft, node, kind)
    rows = draft.shape(node.inputs[0])[0] if len(draft.shape(node.inputs[0])) > 1 else 1
    result = draft.fresh(f"{node.label}/sums")
    draft.declared[result] = Tensor(result, "float32", (rows, count))
    names = [draft.constant(f"{node.label}/{what}", array) for what, array in tables.items()]
    label = f"{node.label}/trees"
    inputs = [node.inputs[0], *names]
    made.append(Node("TreeSum", inputs, [result], {"aggregate": how}, label, DOMAIN, 1))
    return result


def tables_of(draft: Draft, node: Node, kind: str) -> dict[str, np.ndarray]:
    """Return the tables: of the nodes, of the trees' roots, of the leaves' weights.

    A node goes on at `yes` or `no`; a leaf has the weights from `yes` up to `no`.
    """
    trees, numbers = node.integers("nodes_treeids"), node.integers("nodes_nodeids")
    place = {key: at for at, key in enumerate(zip(trees, numbers, strict=True))}
    names = node.attributes.get("nodes_modes", ())
    spelled = [str(name) for name in names] if isinstance(names, tuple) else []
    check_known(draft, node, "nodes_modes", spelled, MODES)
    modes = [MODES.index(name) for name in spelled]
    tracks = node.integers("nodes_missing_value_tracks_true", [0] * len(modes))
    weights: list[list[tuple[int, float]]] = [[] for _ in modes]
    owners = zip(node.integers(f"{kind}_treeids"), node.integers(f"{kind}_nodeids"), strict=True)
    listed = node.attributes.get(f"{kind}_weights", ())
    values = np.array(listed if isinstance(listed, tuple) else (), np.float64).tolist()
    for owner, target, weight in zip(owners, node.integers(f"{kind}_ids"), values, strict=True):
        weights[place[owner]].append((target, weight))
    yes, no = [0] * len(modes), [0] * len(modes)
    branches = node.integers("nodes_truenodeids"), node.integers("nodes_falsenodeids")
    n_weights = 0
    for at, mode in enumerate(modes):
        if mode:
            yes[at], no[at] = (place[trees[at], branch[at]] for branch in branches)
        else:
            yes[at], no[at] = n_weights, n_weights + len(weights[at])
            n_weights = no[at]
    inner = {child for at, mode in enumerate(modes) if mode for child in (yes[at], no[at])}
    roots = [at for at in range(len(modes)) if at not in inner]
    check_walks(draft, node, modes, roots, yes, no)
    flat = [pair for own in weights for pair in own]
    limits = node.attributes.get("nodes_values", ())
    return {
        "mode": np.array(
            [m + TRACKS_TRUE * bool(t) for m, t in zip(modes, tracks, strict=True)], np.uint8
        ),
        "feature": np.array(node.integers("nodes_featureids"), np.int32),
        "limit": np.array(limits, np.float32),
        "yes": np.array(yes, np.int32),
        "no": np.array(no, np.int32),
        "root": np.array(roots, np.int32),
        "target": np.array([target for target, _ in flat], np.int32),
        "weight": np.array([weight for _, weight in flat], np.float32),
    }


def check_walks(  # noqa: PLR0913, PLR0917 - the tables
    draft: Draft, node: Node, modes: list[int], roots: list[int], yes: list[int], no: list[int]
) -> None:
    """Refuse trees in which a walk may never end: a node that is reached twice, or never.

    Raises:
        UserError: names the node.
    """
    reached = 0
    pending = list(roots)
    while pending and reached <= len(modes):
        at = pending.pop()
        reached += 1
        if modes[at]:
            pending += [yes[at], no[at]]
    if reached != len(modes):
        raise UserError(
            "the trees share nodes or go in circles",
            where=f"{draft.where}: node '{node.label}' ({node.kind})",
            fix="export the model again",
        )
