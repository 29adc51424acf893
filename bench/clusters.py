"""Run the int8 networks of MLPerf Tiny on clusters of emulated RISC-V harts.

    python bench/clusters.py DIR [--only GLOB] [--clusters N,N] [--modes WORD,WORD]

DIR holds one folder for each model: model.onnx, meta.json, inputs.npz. Each cluster has two harts
and a memory of its own. A network is run on one hart, on one cluster, and then spread over two and
four clusters in each way:

- data: a batch of 4, how much faster than by one cluster;
- model: one input, how much sooner its result is there than from one cluster;
- pipeline: a stream of 32 inputs, and the part of the speed that no contiguous partition of its
  kernels can exceed: the longest part, by the times of the kernels divided between two harts.

Printed are critical paths in instructions, which are the same in every run. Of each it is checked
that both audits accept the plan, that the outputs are equal to those of one hart, to the bit, that
the ONNX file of the clusters gives in ONNX Runtime what the model gives, and that no hart touches
the memory of another cluster except in a node that communicates. Ends with `N passed, M failed`;
the exit status is 1 if M > 0.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import yaml
from harts import TARGET, Net, dealt, measure_kernels, net_of, said, verdict
from mlperf import entry, folders
from onnx import numpy_helper

from dlbuild.build.builder import How, build
from dlbuild.build.pipeline import PIPELINE
from dlbuild.build.recipe import read_recipe
from dlbuild.ir.clusters import Parallel
from dlbuild.ir.target import Cluster, Target
from dlbuild.run.lines import Said
from dlbuild.run.runner import Built, Values
from dlbuild.run.toolchain import identify
from dlbuild.stages.annotate import clusters_file
from dlbuild.stages.cluster_weights import cluster_weights
from dlbuild.stages.clusters import spread
from dlbuild.stages.predicted import scaled
from dlbuild.stages.profile import profile
from dlbuild.stages.spread_layers import partition

CNNS = ("ic", "kws", "vww")
MODES: tuple[Parallel, ...] = ("data", "model", "pipeline")
CORES = 2
"""Harts of a cluster."""
BATCH, STREAM, FEW = 4, 32, 3
DUE = {"data": {2: 1.7, 4: 3.2}, "model": {2: 1.5, 4: 2.2}, "pipeline": {2: 0.9, 4: 0.9}}
HEADER = ("net", "clusters", "mode", "one cluster", "clusters'", "ratio", "due", "arena of each")
ROW = "{:4} {:>8} {:9} {:>13} {:>13} {:>6} {:>5}  {}"


def main() -> int:
    """Measure, print the table."""
    parser = argparse.ArgumentParser(description="Run the int8 networks on clusters of harts.")
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--only", default="*", metavar="GLOB", help="names of networks")
    parser.add_argument("--clusters", default="2,4", metavar="N,N")
    parser.add_argument("--modes", default=",".join(MODES), metavar="WORD,WORD")
    given = parser.parse_args()
    counts = [int(word) for word in given.clusters.split(",")]
    modes = [mode for mode in MODES if mode in given.modes.split(",")]
    with tempfile.TemporaryDirectory(prefix="dlbuild-clusters-") as work:
        chosen = folders(given.folder, given.only)
        os.chdir(work)
        print(ROW.format(*HEADER), flush=True)
        pairs = nets(chosen)
        status = verdict(row for pair in pairs for row in rows(*pair, counts, modes))
        os.chdir("/")
    return status


def write_recipe(chosen: Mapping[str, Path], *, has_batches: bool) -> None:
    """Write a recipe of one hart, with each network for one input, and for a batch if asked."""
    entries: dict[str, object] = {}
    for name, folder in chosen.items():
        entries[name] = entry(folder)
        if has_batches:
            batched(onnx.load(folder / "model.onnx"), BATCH, Path(f"{name}_batch.onnx"))
            entries[f"{name}_batch"] = {"source": f"{name}_batch.onnx"}
    recipe = {"version": 1, "models": entries, "targets": {"hart": TARGET}}
    Path("dlbuild.yaml").write_text(yaml.safe_dump(recipe), encoding="utf-8")


def batched(model: onnx.ModelProto, count: int, file: Path) -> None:
    """Write a model of one input as one of several: extents, and the shapes of Reshape nodes."""
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = count
    del model.graph.value_info[:]
    shapes = {node.input[1] for node in model.graph.node if node.op_type == "Reshape"}
    for tensor in model.graph.initializer:
        if tensor.name in shapes:
            array = numpy_helper.to_array(tensor).copy()
            array[0] = count
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    onnx.save(model, file)


def nets(chosen: Mapping[str, Path]) -> Iterator[tuple[Net, Net]]:
    """Measure the kernels of each network and yield it, for one input and for a batch."""
    write_recipe(chosen, has_batches=False)
    measure_kernels()
    write_recipe(chosen, has_batches=True)
    recipe = read_recipe()
    engine = build(recipe, PIPELINE.of_sources, How(), identify, lambda _: None)
    found = {one.model: net_of(engine, one) for one in recipe.builds}
    for name in chosen:
        yield found[name], found[f"{name}_batch"]


def rows(
    single: Net, batch: Net, counts: Sequence[int], modes: Sequence[Parallel]
) -> Iterator[list[str]]:
    """Print the rows of a network; yield the faults of each."""
    inputs = stream_of(single)
    whole = bytes(said(single, single.built, inputs, 1).content)
    size = len(whole) // len(inputs)
    pair = spread_over(single, clusters_of(1), None)
    both = spread_over(batch, clusters_of(1), None)
    alone = cost_of(said(single, pair, inputs[:1], 1))
    together = cost_of(said(batch, both, [joined(inputs[:BATCH])], 1))
    for count in counts:
        for mode in modes:
            net = batch if mode == "data" else single
            plan = spread_over(net, clusters_of(count), mode)
            given = {
                "data": [joined(inputs[:BATCH])],
                "model": inputs[:1],
                "pipeline": inputs,
            }[mode]
            run = said(net, plan, given, 1)
            seen = said(net, plan, given[:FEW], 1, is_watched=True)
            found = cost_of(run)
            before = {"data": together, "model": alone, "pipeline": bound_of(single, count)}[mode]
            wanted = DUE[mode][count]
            is_due = mode != "model" or single.name in CNNS
            arena = " ".join(f"{use.height_bytes:,}" for use in plan.schedule.memories)
            cells = (f"{before:,}", f"{found:,}", f"{before / found:.2f}")
            wish = str(wanted) if is_due else "-"
            print(ROW.format(single.name, count, mode, *cells, wish, arena), flush=True)
            faults = [f"{stranger} touches another cluster's memory" for stranger in seen.strangers]
            n_inputs = len(given) * (BATCH if mode == "data" else 1)
            if bytes(run.content) != whole[: n_inputs * size]:
                faults.append("other outputs than one hart's")
            faults += onnx_faults(net, plan)
            if is_due and before / found < wanted:
                faults.append(f"{before / found:.3f}, {wanted} is due")
            yield faults


def stream_of(net: Net) -> list[Values]:
    """Return as many different inputs as a stream has."""
    chance = np.random.default_rng(7)
    others = [
        {n: chance.permutation(a.reshape(-1)).reshape(a.shape) for n, a in net.sample.items()}
        for _ in range(STREAM - 1)
    ]
    return [net.sample, *others]


def joined(inputs: Sequence[Values]) -> Values:
    """Return several inputs as a batch."""
    return {name: np.concatenate([one[name] for one in inputs]) for name in inputs[0]}


def clusters_of(count: int) -> tuple[Cluster, ...]:
    """Return clusters of two harts."""
    return tuple(Cluster(f"c{number}", CORES) for number in range(count))


def spread_over(net: Net, clusters: tuple[Cluster, ...], mode: Parallel | None) -> Built:
    """Plan a network for clusters, or for the one."""
    built = net.built
    total = sum(cluster.count for cluster in clusters)
    target: Target = replace(built.target, resources=("cores", total))
    if mode is None:
        return dealt(replace(built, target=target), net.costs)
    target = replace(target, clusters=clusters)
    options = replace(built.options, parallel=mode)
    graph = spread(built.graph, built.profile, net.costs, target, options, built.book)
    plan = profile(graph, built.book, target, options)
    costs = scaled(plan, built.profile, net.costs)
    return dealt(replace(built, graph=graph, profile=plan, target=target, options=options), costs)


def cost_of(run: Said) -> int:
    """Return the critical path of all inputs together."""
    return sum(count.value for count in run.counts if count.core == 0)


def bound_of(net: Net, count: int) -> int:
    """Return what a stream takes at least if kernels are dealt to clusters as they stand."""
    pair = spread_over(net, clusters_of(1), None)
    longest: dict[str, float] = {}
    for tile in pair.tiles.tiles:
        longest[tile.kernel] = max(longest.get(tile.kernel, 0), tile.share)
    times = [round(net.costs.of[k.name].cost * longest[k.name]) for k in net.built.profile.kernels]
    ends = partition(times, [1] * count)
    stages = [sum(times[first:last]) for first, last in pairwise((0, *ends))]
    return sum(stages) + (STREAM - 1) * max(stages)


def onnx_faults(net: Net, plan: Built) -> list[str]:
    """Compare the file of the clusters with the model, in ONNX Runtime as it optimises both."""
    made = clusters_file(plan.graph, cluster_weights(plan.graph, net.numbers))
    onnx.checker.check_model(onnx.load_from_string(made), full_check=True)
    feed = joined(stream_of(net)[:1])
    due, found = (
        onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, feed)
        for model in (net.source.read_bytes(), made)
    )
    equal = all(np.array_equal(one, other) for one, other in zip(due, found, strict=True))
    return [] if equal else ["other outputs than the model's in ONNX Runtime"]


if __name__ == "__main__":
    sys.exit(main())
