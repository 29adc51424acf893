"""The numbers of a graph that was spread over clusters: parts and copies of the model's."""

from collections.abc import Mapping

import numpy as np

from dlbuild.ir.graph import Graph
from dlbuild.ir.weights import Array, numpy_dtype


def cluster_weights(graph: Graph, weights: Mapping[str, Array]) -> dict[str, Array]:
    """Return the numbers of each constant of a graph.

    Args:
        graph: spread over clusters.
        weights: of the model that it was made of.
    """
    pieces = {piece.tensor: piece for piece in graph.clusters.pieces}
    found: dict[str, Array] = {}
    for name in graph.constants:
        piece = pieces.get(name)
        if piece is not None:
            array = weights[piece.source]
            if piece.axis >= 0:
                array = array.take(range(piece.first, piece.last), axis=piece.axis)
            found[name] = array
        elif name in weights:
            found[name] = weights[name]
        else:
            value = graph.value[name]
            dtype = numpy_dtype(graph.tensor[name].dtype)
            found[name] = np.array(value.content, dtype=dtype).reshape(value.shape)
    return found
