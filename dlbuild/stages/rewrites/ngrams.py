"""Counts of n-grams of numbers: the pool of a TfIdfVectorizer becomes tables of numbers."""

from itertools import pairwise

import numpy as np

from dlbuild.base.errors import UserError
from dlbuild.ir.graph import Attribute, Tensor
from dlbuild.stages.rewrites.draft import Draft, Node

DOMAIN = "dlbuild"


def ngrams_of(draft: Draft, node: Node) -> list[Node] | None:
    """Return what to read in place of a TfIdfVectorizer; None for other operators.

    Raises:
        UserError: the pool holds text, or does not consist of whole n-grams.
    """
    if node.kind != "TfIdfVectorizer" or node.domain:
        return None
    where = f"{draft.where}: node '{node.label}' ({node.kind})"
    if "pool_strings" in node.attributes:
        raise UserError(
            "the n-grams are text",
            where=where,
            why="firmware kernels compute on numbers",
            fix="look the words up before the model, and export it with 'pool_int64s'",
        )
    pool, places = node.integers("pool_int64s"), node.integers("ngram_indexes")
    counts = counts_of(node)
    if counts is None:
        raise UserError(
            f"the pool of {len(pool)} numbers is not made of {len(places)} n-grams",
            where=where,
            fix="export the model again",
        )
    source, result = node.inputs[0], node.outputs[0]
    shape = draft.shape(source)
    n_places = max(places, default=-1) + 1
    draft.declared[result] = Tensor(result, "float32", (*shape[:-1], n_places))
    tables = {
        "pool": np.array(pool, np.int64).astype(draft.dtype(source)),
        "place": np.array(places, np.int32),
    }
    if node.text("mode", "TF") != "TF":
        tables["weight"] = np.ones(n_places, np.float32)
        listed = node.attributes.get("weights", ())
        for place, weight in zip(places, listed if isinstance(listed, tuple) else (), strict=False):
            tables["weight"][place] = weight
    names = [draft.constant(f"{node.label}/{what}", array) for what, array in tables.items()]
    attributes: dict[str, Attribute] = {
        "counts": counts,
        "least": node.integer("min_gram_length", 1),
        "most": node.integer("max_gram_length", 1),
        "skips": node.integer("max_skip_count", 0),
        "mode": node.text("mode", "TF"),
    }
    return [Node("CountNgrams", [source, *names], [result], attributes, node.name, DOMAIN, 1)]


def counts_of(node: Node) -> tuple[int, ...] | None:
    """Return how many n-grams of 1, 2... numbers the pool has; None if it has parts of some."""
    starts = [*node.integers("ngram_counts"), len(node.integers("pool_int64s"))]
    sizes = [last - first for first, last in pairwise(starts)]
    counts = tuple(size // length for length, size in enumerate(sizes, start=1))
    is_whole = all(size % length == 0 for length, size in enumerate(sizes, start=1))
    return counts if is_whole and sum(counts) == len(node.integers("ngram_indexes")) else None
