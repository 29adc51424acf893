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
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import yaml
from onnx import numpy_helper

from dlbuild.build.builder import How, build
from dlbuild.build.built import built_of
from dlbuild.build.engine import Engine
from dlbuild.build.fastpath import STATE_FOLDER
from dlbuild.build.pipeline import PIPELINE
from dlbuild.build.project import Build
from dlbuild.build.recipe import read_recipe
from dlbuild.cli.main import run as dlbuild
from dlbuild.cli.measurements import costs_of
from dlbuild.ir import weights
from dlbuild.ir.clusters import Parallel
from dlbuild.ir.costs import Costs
from dlbuild.ir.target import Cluster, Target
from dlbuild.ir.weights import Array
from dlbuild.run.board import BoardMaker
from dlbuild.run.counter import counter
from dlbuild.run.lines import Said
from dlbuild.run.runner import Built, Values, model_program, run_input
from dlbuild.run.samples import samples_of
from dlbuild.run.strangers import watched
from dlbuild.run.toolchain import identify
from dlbuild.stages.annotate import clusters_file
from dlbuild.stages.audit import audit
from dlbuild.stages.audit_cores import audit_cores
from dlbuild.stages.cluster_weights import cluster_weights
from dlbuild.stages.clusters import spread
from dlbuild.stages.cores import schedule_cores
from dlbuild.stages.predicted import scaled
from dlbuild.stages.profile import profile
from dlbuild.stages.render import render
from dlbuild.stages.split import core_plan
from dlbuild.stages.spread_layers import partition
from dlbuild.stages.tables import tables

MODELS = {
    "ic": "mlperf_ic_resnet8_int8",
    "kws": "mlperf_kws_dscnn_int8",
    "vww": "mlperf_vww_mobilenetv1_int8",
    "ad": "mlperf_ad_toycar_int8",
    "sww": "mlperf_sww_int8",
}
CNNS = ("ic", "kws", "vww")
MODES: tuple[Parallel, ...] = ("data", "model", "pipeline")
CORES = 2
"""Harts of a cluster."""
BATCH, STREAM, FEW = 4, 32, 3
DUE = {"data": {2: 1.7, 4: 3.2}, "model": {2: 1.5, 4: 2.2}, "pipeline": {2: 0.9, 4: 0.9}}
HEADER = ("net", "clusters", "mode", "one cluster", "clusters'", "ratio", "due", "arena of each")
ROW = "{:4} {:>8} {:9} {:>13} {:>13} {:>6} {:>5}  {}"


@dataclass(frozen=True)
class Net:
    """A network as planned for one hart. samples: one input each. outputs: of each on one hart."""

    name: str
    built: Built
    costs: Costs
    numbers: Mapping[str, Array]
    source: Path
    state: Path


def main() -> int:
    """Measure, print the table."""
    parser = argparse.ArgumentParser(description="Run the int8 networks on clusters of harts.")
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--only", default="*", metavar="GLOB", help="names of networks")
    parser.add_argument("--clusters", default="2,4", metavar="N,N")
    parser.add_argument("--modes", default=",".join(MODES), metavar="WORD,WORD")
    given = parser.parse_args()
    folders = {name: given.folder.resolve() / MODELS[name] for name in MODELS}
    chosen = {name: path for name, path in folders.items() if fnmatch(name, given.only)}
    counts = [int(word) for word in given.clusters.split(",")]
    modes = [mode for mode in MODES if mode in given.modes.split(",")]
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="dlbuild-clusters-") as work:
        os.chdir(work)
        print(ROW.format(*HEADER), flush=True)
        for single, batch in nets(chosen):
            for faults in rows(single, batch, counts, modes):
                failed += bool(faults)
                passed += not faults
                for fault in faults:
                    print(f"    FAILED: {fault}")
        os.chdir("/")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def write_recipe(folders: Mapping[str, Path], *, has_batches: bool) -> None:
    """Write a recipe of one hart, with each network for one input, and for a batch if asked."""
    entries: dict[str, object] = {}
    for name, folder in folders.items():
        meta = json.loads((folder / "meta.json").read_text())
        shapes = {i["name"]: i["shape"] for i in meta["inputs"] if i["shape"] != i["declared"]}
        entries[name] = {"source": str(folder / "model.onnx"), "shapes": shapes}
        if has_batches:
            batched(onnx.load(folder / "model.onnx"), BATCH, Path(f"{name}_batch.onnx"))
            entries[f"{name}_batch"] = {"source": f"{name}_batch.onnx"}
    target = {"extends": "rv32imafc", "requantize": "fixed", "profile": "times.json"}
    recipe = {"version": 1, "models": entries, "targets": {"hart": target}}
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


def nets(folders: Mapping[str, Path]) -> Iterator[tuple[Net, Net]]:
    """Measure the kernels of each network and yield it, for one input and for a batch."""
    write_recipe(folders, has_batches=False)
    out = sys.stdout
    sys.stdout = sys.stderr
    dlbuild(("profile", "--run"))
    sys.stdout = out
    write_recipe(folders, has_batches=True)
    recipe = read_recipe()
    engine = build(recipe, PIPELINE.of_sources, How(), identify, lambda _: None)
    found = {one.model: net_of(engine, one) for one in recipe.builds}
    for name in folders:
        yield found[name], found[f"{name}_batch"]


def net_of(engine: Engine, one: Build) -> Net:
    """Return a network as it was built."""
    built = built_of(engine, one)
    numbers = weights.decode(engine.content(one, "weights"))
    source = engine.keys.recipe.models[one.model].source.resolve()
    return Net(one.model, built, costs_of(engine, one), numbers, source, engine.out / STATE_FOLDER)


def rows(
    single: Net, batch: Net, counts: Sequence[int], modes: Sequence[Parallel]
) -> Iterator[list[str]]:
    """Print the rows of a network; yield the faults of each."""
    inputs = stream_of(single)
    whole = bytes(measured(single, single.built, inputs).content)
    size = len(whole) // len(inputs)
    pair = dealt(single, clusters_of(1), None)
    both = dealt(batch, clusters_of(1), None)
    alone = cost_of(measured(single, pair, inputs[:1]))
    together = cost_of(measured(batch, both, [joined(inputs[:BATCH])]))
    for count in counts:
        for mode in modes:
            net = batch if mode == "data" else single
            plan = dealt(net, clusters_of(count), mode)
            given = {
                "data": [joined(inputs[:BATCH])],
                "model": inputs[:1],
                "pipeline": inputs,
            }[mode]
            said = measured(net, plan, given)
            seen = measured(net, plan, given[:FEW], is_watched=True)
            found = cost_of(said)
            before = {"data": together, "model": alone, "pipeline": bound_of(single, count)}[mode]
            wanted = DUE[mode][count]
            is_due = mode != "model" or single.name in CNNS
            arena = " ".join(f"{use.height_bytes:,}" for use in plan.schedule.memories)
            cells = (f"{before:,}", f"{found:,}", f"{before / found:.2f}")
            wish = str(wanted) if is_due else "-"
            print(ROW.format(single.name, count, mode, *cells, wish, arena), flush=True)
            faults = [f"{stranger} touches another cluster's memory" for stranger in seen.strangers]
            n_inputs = len(given) * (BATCH if mode == "data" else 1)
            if bytes(said.content) != whole[: n_inputs * size]:
                faults.append("other outputs than one hart's")
            faults += onnx_faults(net, plan)
            if is_due and before / found < wanted:
                faults.append(f"{before / found:.3f}, {wanted} is due")
            yield faults


def stream_of(net: Net) -> list[Values]:
    """Return as many different inputs as a stream has."""
    samples = [s.inputs for s in samples_of(None, net.built.graph)]
    chance = np.random.default_rng(7)
    others = [
        {n: chance.permutation(a.reshape(-1)).reshape(a.shape) for n, a in samples[0].items()}
        for _ in range(STREAM - 1)
    ]
    return [samples[0], *others]


def joined(inputs: Sequence[Values]) -> Values:
    """Return several inputs as a batch."""
    return {name: np.concatenate([one[name] for one in inputs]) for name in inputs[0]}


def clusters_of(count: int) -> tuple[Cluster, ...]:
    """Return clusters of two harts."""
    return tuple(Cluster(f"c{number}", CORES) for number in range(count))


def dealt(net: Net, clusters: tuple[Cluster, ...], mode: Parallel | None) -> Built:
    """Plan a network for clusters, or for the one; both audits have to accept it."""
    built = net.built
    total = sum(cluster.count for cluster in clusters)
    target: Target = replace(built.target, resources=("cores", total))
    options, graph, plan, costs = built.options, built.graph, built.profile, net.costs
    if mode is not None:
        target = replace(target, clusters=clusters)
        options = replace(options, parallel=mode)
        graph = spread(graph, plan, costs, target, options, built.book)
        plan = profile(graph, built.book, target, options)
        costs = scaled(plan, built.profile, costs)
    tiles = core_plan(graph, plan, costs, target, options, built.book)
    schedule = schedule_cores(graph, plan, costs, tiles, target, options)
    audit_cores(graph, plan, tiles, schedule)
    audit(graph, plan, tiles, schedule, target, options)
    return replace(
        built,
        graph=graph,
        profile=plan,
        target=target,
        options=options,
        tiles=tiles,
        schedule=schedule,
    )


def cost_of(said: Said) -> int:
    """Return the critical path of all inputs together."""
    return sum(count.value for count in said.counts if count.core == 0)


def measured(net: Net, built: Built, inputs: Sequence[Values], *, is_watched: bool = False) -> Said:
    """Run a plan on each input once. is_watched: see who touches the memory of another cluster."""
    with tempfile.TemporaryDirectory(prefix="dlbuild-clusters-") as work:
        folder = Path(work)
        built = replace(built, folder=folder / "model")
        built.folder.mkdir()
        fixed = (built.book, built.target, built.options, built.name)
        plan = (built.profile, built.tiles, built.schedule)
        for file, text in render(built.graph, *plan, *fixed).items():
            (built.folder / file).write_text(text, encoding="ascii")
        numbers = cluster_weights(built.graph, net.numbers)
        made = tables(built.graph, numbers, built.profile, *fixed, built.tiles)
        for file, table in made.items():
            (built.folder / file).write_bytes(table)
        sources = [built.folder / f"{built.name}_weights.c", *built.ports(is_honest=False)]
        maker = BoardMaker(built.target, built.options)
        program = maker.program(model_program(built), "run", sources, folder)
        plugin = f"file={counter(net.state)}{watched(built, program) if is_watched else ''}"
        return program.converse(run_input(built, inputs, 1), ["-plugin", plugin])


def bound_of(net: Net, count: int) -> int:
    """Return what a stream takes at least if kernels are dealt to clusters as they stand."""
    pair = dealt(net, clusters_of(1), None)
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
