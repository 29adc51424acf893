"""Whether the copies of a state that clusters have are equal, to the bit."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from dlbuild.ir.graph import Graph
from dlbuild.ir.weights import Array
from dlbuild.run.verify_compare import Comparison, Limit, compare

EQUAL = Limit(0.0, 0.0, unit="bits apart from the first cluster's")


def replica_comparison(graph: Graph, name: str, runs: Sequence[Mapping[str, Array]]) -> Comparison:
    """Compare the bytes of a copy of a state with those of the first cluster's.

    Args:
        graph: of the clusters.
        name: the output that is the copy's next value.
        runs: the outputs of a run for each sample.
    """
    tensor = graph.tensor[name]
    pairs = [_differing(run[name], run[graph.replicas[name]]) for run in runs]
    found = compare(replace(tensor, dtype="uint8"), "", pairs, EQUAL)
    return replace(found, dtype=tensor.dtype)


def _differing(one: Array, other: Array) -> tuple[Array, Array]:
    """Return for each element whether any of its bytes differs, and what is due: no."""
    left, right = (
        np.frombuffer(array.tobytes(), np.uint8).reshape(array.size, array.itemsize)
        for array in (one, other)
    )
    found = (left != right).any(axis=1).astype(np.uint8)
    return found, np.zeros_like(found)
