"""Graphs spread over clusters: who computes what, what is refused, and what the audits see."""

from dataclasses import replace
from functools import cache
from typing import Literal

import pytest

from dlbuild.base.errors import UserError
from dlbuild.base.paths import builtin_folder
from dlbuild.ir.clusters import Parallel
from dlbuild.ir.graph import Graph, Op, Tensor, Value
from dlbuild.ir.profile import Profile
from dlbuild.ir.schedule import Schedule
from dlbuild.ir.target import Cluster, Memory, Options, Target
from dlbuild.ir.tile_plan import TilePlan
from dlbuild.rulebook.load import RuleBook, load_rules
from dlbuild.stages.audit import AuditError, audit
from dlbuild.stages.audit_cores import audit_cores
from dlbuild.stages.clusters import spread
from dlbuild.stages.cores import schedule_cores
from dlbuild.stages.predicted import predicted
from dlbuild.stages.profile import profile
from dlbuild.stages.split import core_plan
from dlbuild.stages.spread_layers import partition
from tests.waits import without_a_wait

WAYS: tuple[Parallel, ...] = ("data", "model", "pipeline")
TWO = (Cluster("left", 2, (Memory("l1", 1 << 20),)), Cluster("right", 2, (Memory("l1", 1 << 20),)))
Plan = tuple[Graph, Profile, TilePlan, Schedule, Target, Options]


@cache
def book() -> RuleBook:
    return load_rules((builtin_folder(),))


def net(batch: int = 4) -> Graph:
    """Return two convolutions with a residual, a mean over each channel, and a dense layer."""
    shapes = {
        "x": (batch, 4, 8, 8),
        "a": (batch, 8, 8, 8),
        "b": (batch, 8, 8, 8),
        "c": (batch, 8, 8, 8),
        "d": (batch, 8, 1, 1),
        "e": (batch, 8),
        "y": (batch, 6),
        "w1": (8, 4, 3, 3),
        "w2": (8, 8, 3, 3),
        "w3": (8, 6),
    }
    tensors = tuple(Tensor(name, "float32", shape) for name, shape in shapes.items())
    pads = (("pads", (1, 1, 1, 1)),)
    ops = (
        Op("first", "Conv", ("x", "w1"), ("a",), pads, "", 13),
        Op("second", "Conv", ("a", "w2"), ("b",), pads, "", 13),
        Op("add", "Add", ("a", "b"), ("c",), (), "", 13),
        Op("mean", "GlobalAveragePool", ("c",), ("d",), (), "", 13),
        Op("flat", "Flatten", ("d",), ("e",), (), "", 13),
        Op("dense", "MatMul", ("e", "w3"), ("y",), (), "", 13),
    )
    return Graph("net", ("x",), ("y",), tensors, ops, ("w1", "w2", "w3"))


Asked = Literal["auto", "data", "model", "pipeline"]
Optimize = Literal["speed", "ram"]


def spread_net(graph: Graph, way: Asked, target: Target | None = None) -> Graph:
    target = target or Target("t", resources=("cores", 4), clusters=TWO)
    options = replace(Options(), parallel=way)
    whole = profile(graph, book(), target, options)
    return spread(graph, whole, predicted(whole), target, options, book())


def planned(way: Parallel, *, optimize: Optimize = "speed", batch: int = 4) -> Plan:
    target = Target("t", resources=("cores", 4), clusters=TWO)
    options = replace(Options(), parallel=way, optimize=optimize)
    graph = spread_net(net(batch), way)
    kernels = profile(graph, book(), target, options)
    costs = predicted(kernels)
    tiles = core_plan(graph, kernels, costs, target, options, book())
    schedule = schedule_cores(graph, kernels, costs, tiles, target, options)
    return graph, kernels, tiles, schedule, target, options


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("optimize", ["speed", "ram"])
@pytest.mark.parametrize("way", WAYS)
def test_each_way_passes_both_audits(way: Parallel, optimize: Optimize, batch: int) -> None:
    found = planned(way, optimize=optimize, batch=batch)
    graph, kernels, tiles, schedule, target, options = found
    audit_cores(graph, kernels, tiles, schedule)
    audit(graph, kernels, tiles, schedule, target, options)
    assert [use.memory for use in schedule.memories] == ["left.l1", "right.l1"]


@pytest.mark.parametrize(("way", "batch"), [("data", 1), *((way, 4) for way in WAYS)])
def test_no_wait_can_be_left_out(way: Parallel, batch: int) -> None:
    graph, kernels, tiles, schedule, _, _ = planned(way, batch=batch)
    plans = list(without_a_wait(schedule))
    assert plans
    for fewer in plans:
        with pytest.raises(AuditError, match="nothing orders step"):
            audit_cores(graph, kernels, tiles, fewer)


def test_a_stream_waits_for_what_the_run_before_still_needs() -> None:
    _, _, _, schedule, _, _ = planned("pipeline")
    lags = {wait.lag for step in schedule.steps for wait in step.waits}
    assert lags == {0, 1}


def test_a_cluster_that_reads_another_without_communication_is_seen() -> None:
    graph, kernels, tiles, schedule, target, options = planned("model")
    silent = replace(graph, clusters=replace(graph.clusters, communications=()))
    with pytest.raises(AuditError, match=r"touches .*, which is (left|right)'s"):
        audit(silent, kernels, tiles, schedule, target, options)


def test_a_batch_is_cut_at_the_input_and_joined_at_the_output() -> None:
    graph = spread_net(net(), "data")
    kinds = [(found.kind, found.sources) for found in graph.clusters.communications]
    assert kinds == [("scatter", ("",)), ("scatter", ("",)), ("gather", ("left", "right"))]
    assert graph.tensor["a.left"].shape == (2, 8, 8, 8)
    assert graph.outputs == ("y",)
    assert set(graph.constants) >= {"w1", "w2", "w3"}


def test_a_single_image_is_cut_by_rows_with_those_that_windows_need() -> None:
    graph = spread_net(net(1), "data")
    assert graph.clusters.parallel == "data"
    assert graph.tensor["b.left"].shape == (1, 8, 4, 8)
    ops = {op.name: op for op in graph.ops}
    assert graph.tensor[ops["second.left"].inputs[0]].shape == (1, 8, 5, 8)
    assert dict(ops["second.left"].attributes)["pads"] == (1, 1, 0, 1)
    assert dict(ops["second.right"].attributes)["pads"] == (0, 1, 1, 1)
    kinds = [(found.kind, found.sources) for found in graph.clusters.communications]
    # The rows of the input, one row beside the cut for each, and all rows for the mean.
    assert kinds == [
        *[("scatter", ("",))] * 2,
        *[("scatter", ("right",)), ("scatter", ("left",))],
        ("gather", ("left", "right")),
    ]


def test_a_batch_of_one_without_rows_is_refused() -> None:
    graph = net(1)
    shapes = {"e": (1, 8), "y": (1, 6), "w3": (8, 6)}
    dense = replace(
        graph,
        inputs=("e",),
        tensors=tuple(t for t in graph.tensors if t.name in shapes),
        ops=graph.ops[-1:],
        constants=("w3",),
    )
    with pytest.raises(UserError) as caught:
        spread_net(dense, "data")
    assert caught.value.what == "a batch of 1 cannot be divided among 2 clusters"


def test_clusters_with_more_cores_get_more_of_a_batch() -> None:
    target = Target("t", resources=("cores", 4), clusters=(Cluster("big", 3), Cluster("small", 1)))
    graph = spread_net(net(), "data", target)
    assert graph.tensor["a.big"].shape[0] == 3
    assert graph.tensor["a.small"].shape[0] == 1


def test_replicated_parameters_are_constants_of_each_cluster() -> None:
    target = Target("t", resources=("cores", 4), clusters=TWO, parameters="replicated")
    graph = spread_net(net(), "data", target)
    assert {piece.source for piece in graph.clusters.pieces} == {"w1", "w2", "w3"}
    assert len(graph.clusters.pieces) == 6
    assert "w1" not in graph.constants


def test_channels_are_gathered_only_before_what_needs_all() -> None:
    graph = spread_net(net(1), "model")
    gathers = [op for op in graph.ops if op.name in graph.clusters.communication]
    # Before the second convolution and the dense layer, in each cluster; and the output.
    assert len(gathers) == 5
    assert graph.tensor["c.left"].shape == (1, 4, 8, 8)
    cut = {(p.source, p.axis, p.first, p.last) for p in graph.clusters.pieces}
    assert cut >= {("w1", 0, 0, 4), ("w1", 0, 4, 8), ("w3", 1, 0, 3), ("w3", 1, 3, 6)}


@pytest.mark.parametrize(
    "op",
    [
        Op("last", "Concat", ("a", "a"), ("y",), (("axis", 1),), "", 13),
        Op("last", "Split", ("a",), ("y", "z"), (("axis", 1),), "", 13),
    ],
    ids=lambda op: op.kind,
)
def test_what_joins_or_splits_channels_gathers_them(op: Op) -> None:
    shapes = {"x": (1, 4, 8, 8), "w": (8, 4, 1, 1), "a": (1, 8, 8, 8)}
    shapes |= {name: (1, 16 // len(op.outputs) ** 2, 8, 8) for name in op.outputs}
    tensors = tuple(Tensor(name, "float32", shape) for name, shape in shapes.items())
    first = Op("first", "Conv", ("x", "w"), ("a",), (), "", 13)
    graph = spread_net(Graph("net", ("x",), op.outputs, tensors, (first, op), ("w",)), "model")
    gathers = [each for each in graph.ops if each.name in graph.clusters.communication]
    (last,) = [each for each in graph.ops if each.name.startswith("last")]
    assert set(last.inputs) <= {each.outputs[0] for each in gathers}


def test_a_pipeline_hands_on_what_later_layers_read() -> None:
    graph = spread_net(net(1), "pipeline")
    (copy,) = graph.clusters.communications
    assert copy.kind == "copy"
    groups = [set(group.ops) for group in graph.clusters.groups]
    assert "first" in groups[0]
    assert "dense" in groups[1]


def test_an_operator_that_joins_samples_is_refused_by_name() -> None:
    graph = net()
    axes = Tensor("axes", "int64", (1,))
    mean = Op("mix", "ReduceMean", ("y", "axes"), ("z",), (("keepdims", 1),), "", 18)
    mixed = replace(
        graph,
        outputs=("z",),
        tensors=(*graph.tensors, axes, Tensor("z", "float32", (1, 6))),
        ops=(*graph.ops, mean),
        constants=(*graph.constants, "axes"),
        values=(Value("axes", (1,), (0,)),),
    )
    with pytest.raises(UserError) as caught:
        spread_net(mixed, "data")
    assert caught.value.what == "'mix' (ReduceMean) cannot be divided by batch"
    assert "sums over axis 0 of 'y'" in caught.value.why


def test_auto_divides_the_batch_if_there_is_one() -> None:
    assert spread_net(net(4), "auto").clusters.parallel == "data"


def test_auto_says_why_no_way_goes() -> None:
    small = tuple(replace(c, memories=(Memory("l1", 64),)) for c in TWO)
    target = Target("t", resources=("cores", 4), clusters=small)
    with pytest.raises(UserError, match="no way to spread it over the clusters goes") as caught:
        spread_net(net(1), "auto", target)
    data, model, pipeline = caught.value.details
    assert data.startswith("data: the arena of cluster 'left' needs ")
    assert model.startswith("model: the arena of cluster 'left' needs ")
    assert pipeline.startswith("pipeline: the arena of cluster 'left' needs ")


@pytest.mark.parametrize(
    ("times", "weights", "ends"),
    [
        ((1, 1, 1, 1), (1, 1), (2, 4)),
        ((5, 1, 1, 1), (1, 1), (1, 4)),
        ((1, 1, 1, 1), (3, 1), (3, 4)),
        ((7,), (1, 1), (0, 1)),
    ],
)
def test_the_longest_part_is_shortest(
    times: tuple[int, ...], weights: tuple[int, ...], ends: tuple[int, ...]
) -> None:
    assert partition(times, weights) == ends
