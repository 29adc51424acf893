"""Weights of a model to those of its clusters, and both as an ONNX file."""

from collections.abc import Mapping

from dlbuild.build.job import Job
from dlbuild.ir import codec, weights
from dlbuild.ir.graph import Graph
from dlbuild.stages.annotate import clusters_file
from dlbuild.stages.cluster_weights import cluster_weights


def run(job: Job) -> Mapping[str, bytes]:
    """Cut and copy the weights, write the file."""
    graph = codec.decode(job.inputs["graph"], Graph)
    numbers = cluster_weights(graph, weights.decode(job.inputs["model_weights"]))
    return {"weights": weights.encode(numbers), "clustered": clusters_file(graph, numbers)}
