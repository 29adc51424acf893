"""A training step over clusters: copies of its state, what is added up where, what audits see."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from dlbuild.base.errors import UserError
from dlbuild.base.paths import builtin_folder
from dlbuild.ir.batch import Batch
from dlbuild.ir.clusters import Communication, Parallel
from dlbuild.ir.graph import Graph, Op
from dlbuild.ir.profile import Profile
from dlbuild.ir.schedule import Schedule
from dlbuild.ir.target import Cluster, Memory, Options, Target
from dlbuild.ir.tile_plan import TilePlan
from dlbuild.rulebook.load import RuleBook, load_rules
from dlbuild.stages.audit import AuditError, audit
from dlbuild.stages.audit_cores import audit_cores
from dlbuild.stages.audit_state import state_faults
from dlbuild.stages.batch import split_batch
from dlbuild.stages.clusters import spread
from dlbuild.stages.cores import schedule_cores
from dlbuild.stages.parse import parse
from dlbuild.stages.predicted import predicted
from dlbuild.stages.profile import profile
from dlbuild.stages.split import core_plan
from tests.waits import without_a_wait

SAMPLES = 8
Plan = tuple[Graph, Profile, TilePlan, Schedule, Target, Options]


@cache
def book() -> RuleBook:
    return load_rules((builtin_folder(),))


def node(kind: str, inputs: str, output: str, **attributes: int) -> onnx.NodeProto:
    made: onnx.NodeProto = helper.make_node(kind, inputs.split(), [output], f"the_{output}")
    made.attribute.extend(helper.make_attribute(key, value) for key, value in attributes.items())
    return made


def step(folder: Path, parts: int) -> Graph:
    """Return a step of gradient descent with momentum on a linear model, its batch in parts."""
    nodes = [
        node("Gemm", "x w", "z", transB=1),
        node("Sub", "z t", "error"),
        node("Gemm", "error x", "slope", transA=1),
        node("Mul", "v half", "slower"),
        node("Add", "slower slope", "v_next"),
        node("Mul", "v_next rate", "change"),
        node("Sub", "w change", "w_next"),
        node("Mul", "error error", "squares"),
        node("ReduceSum", "squares", "loss", keepdims=0),
    ]
    floats = TensorProto.FLOAT

    def info(name: str, *shape: int) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, floats, shape)

    graph = helper.make_graph(
        nodes,
        "step",
        [
            info("x", SAMPLES, 3),
            info("t", SAMPLES, 2),
            info("rate"),
            info("w", 2, 3),
            info("v", 2, 3),
        ],
        [info("loss"), info("error", SAMPLES, 2), info("w_next", 2, 3), info("v_next", 2, 3)],
        [
            numpy_helper.from_array(np.ones((2, 3), np.float32), "w"),
            numpy_helper.from_array(np.array(0.5, np.float32), "half"),
        ],
    )
    file = folder / "step.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    file.write_bytes(model.SerializeToString())
    parsed = parse(file, {}, book(), "step", {"w_next": "w", "v_next": "v"})
    return split_batch(parsed, book(), Batch(("x", "t"), parts)).graph


def clusters(*counts: int, size: int = 1 << 20) -> Target:
    """Return a target with clusters of so many cores: c0, c1, ..."""
    found = tuple(Cluster(f"c{n}", k, (Memory("l1", size),)) for n, k in enumerate(counts))
    return Target("t", resources=("cores", sum(counts)), clusters=found)


def over(graph: Graph, target: Target, options: Options | None = None) -> Graph:
    options = options or Options()
    whole = profile(graph, book(), target, options)
    return spread(graph, whole, predicted(whole), target, options, book())


def planned(graph: Graph, target: Target, options: Options | None = None) -> Plan:
    options = options or Options()
    made = over(graph, target, options)
    kernels = profile(made, book(), target, options)
    costs = predicted(kernels)
    tiles = core_plan(made, kernels, costs, target, options, book())
    return (
        made,
        kernels,
        tiles,
        schedule_cores(made, kernels, costs, tiles, target, options),
        target,
        options,
    )


def check(plan: Plan) -> None:
    graph, kernels, tiles, schedule, target, options = plan
    audit_cores(graph, kernels, tiles, schedule)
    audit(graph, kernels, tiles, schedule, target, options)


def reduces(graph: Graph) -> list[tuple[Op, Communication]]:
    known = graph.clusters.communication
    return [
        (op, known[op.name])
        for op in graph.ops
        if getattr(known.get(op.name), "kind", "") == "reduce"
    ]


def test_each_cluster_has_a_copy_of_the_state_and_updates_it(tmp_path: Path) -> None:
    graph = over(step(tmp_path, 2), clusters(1, 1))
    assert graph.inputs == ("x", "t", "rate", "w", "v", "w.c1", "v.c1")
    assert graph.outputs == ("loss", "error", "w_next", "v_next", "w_next.c1", "v_next.c1")
    assert graph.replicas == {
        "w.c1": "w",
        "w_next.c1": "w_next",
        "v.c1": "v",
        "v_next.c1": "v_next",
    }
    assert [s.initial for s in graph.states] == ["w_initial", "", "w_initial", ""]
    place = graph.clusters.cluster_of
    for output, cluster in (("w_next", "c0"), ("w_next.c1", "c1")):
        assert place[graph.producer[output].name] == cluster


def test_partial_sums_are_added_up_in_the_same_order_in_each_cluster(tmp_path: Path) -> None:
    graph = over(step(tmp_path, 4), clusters(1, 1, 1, 1))
    order = ("c0", "c1", "c2", "c3")
    found = reduces(graph)
    assert [communication.sources for _, communication in found] == [order] * 5
    of_slope = [op for op, _ in found if op.outputs[0].startswith("slope")]
    assert len(of_slope) == 4
    assert {op.inputs for op in of_slope} == {("slope.0", "slope.1", "slope.2", "slope.3")}
    # Nobody but the first needs the loss.
    assert [op.outputs[0] for op, _ in found if "loss" in op.outputs[0]] == ["loss"]


def test_parts_of_one_cluster_are_added_up_before_they_leave_it(tmp_path: Path) -> None:
    graph = over(step(tmp_path, 4), clusters(1, 1))
    assert {op.inputs for op, _ in reduces(graph)} == {
        ("slope.sum.c0", "slope.sum.c1"),
        ("loss.sum.c0", "loss.sum.c1"),
    }
    assert graph.producer["slope.sum.c1"].inputs == ("slope.2", "slope.3")


def test_clusters_with_more_cores_get_more_parts(tmp_path: Path) -> None:
    graph = over(step(tmp_path, 4), clusters(3, 1))
    place = graph.clusters.cluster_of
    assert [place[graph.producer[f"z.{n}"].name] for n in range(4)] == ["c0", "c0", "c0", "c1"]


def test_too_few_parts_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        over(step(tmp_path, 2), clusters(1, 1, 1, 1), Options(parallel="data"))
    assert caught.value.what == "2 parts of the batch cannot be dealt to 4 clusters"
    assert caught.value.fix == "set 'parts' of 'batch' to 4 or another multiple of that"


@pytest.mark.parametrize("way", ["model", "pipeline"])
def test_a_state_that_is_not_replicated_is_refused_by_its_name(
    tmp_path: Path, way: Parallel
) -> None:
    with pytest.raises(UserError) as caught:
        over(step(tmp_path, 2), clusters(1, 1), Options(parallel=way))
    assert caught.value.what == f"the state 'w' does not go with 'parallel: {way}'"
    assert caught.value.fix == "set parallel: data, or resources in place of clusters"


@pytest.mark.parametrize(("counts", "parts"), [((1, 1), 2), ((1, 3), 4)])
def test_a_state_without_parts_of_a_batch_is_refused_by_its_name(
    tmp_path: Path, counts: tuple[int, ...], parts: int
) -> None:
    with pytest.raises(UserError) as caught:
        over(step(tmp_path, 1), clusters(*counts))
    assert caught.value.what == (
        "the state 'w' does not go with clusters if the batch is not in parts"
    )
    assert caught.value.fix.startswith(f"set batch: {{inputs: [...], parts: {parts}}}")
    over(step(tmp_path, parts), clusters(*counts))


@pytest.mark.parametrize("optimize", ["speed", "ram"])
@pytest.mark.parametrize("counts", [(1, 1), (2, 2), (1, 1, 1, 1)])
def test_plans_pass_both_audits_and_no_wait_can_be_left_out(
    tmp_path: Path, counts: tuple[int, ...], optimize: Literal["speed", "ram"]
) -> None:
    plan = planned(step(tmp_path, 4), clusters(*counts), Options(optimize=optimize))
    check(plan)
    graph, kernels, tiles, schedule, _, _ = plan
    plans = list(without_a_wait(schedule))
    assert plans
    for fewer in plans:
        with pytest.raises(AuditError, match="nothing orders step"):
            audit_cores(graph, kernels, tiles, fewer)


def test_each_copy_lies_in_the_memory_of_its_cluster_and_counts_there(tmp_path: Path) -> None:
    _, _, _, schedule, _, _ = planned(step(tmp_path, 2), clusters(1, 1))
    for name, memory in (("w", "c0.l1"), ("v", "c0.l1"), ("w.c1", "c1.l1"), ("v.c1", "c1.l1")):
        assert schedule.buffer[name].memory == memory
    copies = 2 * 2 * 3 * 4
    assert all(use.height_bytes > copies for use in schedule.memories)


def test_a_copy_that_does_not_fit_is_refused_by_the_name_of_its_cluster(tmp_path: Path) -> None:
    target = clusters(1, 1)
    first, second = target.clusters
    small = replace(second, memories=(Memory("l1", 40),))
    with pytest.raises(UserError) as caught:
        planned(
            step(tmp_path, 2),
            replace(target, clusters=(first, small)),
            Options(parallel="data"),
        )
    assert "the arena of cluster 'c1' needs " in caught.value.what
    assert "of l1, the budget is 40 B" in caught.value.what


def test_partial_sums_in_another_order_are_seen(tmp_path: Path) -> None:
    plan = planned(step(tmp_path, 2), clusters(1, 1))
    graph = plan[0]
    turned = next(op for op, _ in reduces(graph) if op.outputs == ("slope.c1",))
    ops = tuple(replace(op, inputs=op.inputs[::-1]) if op == turned else op for op in graph.ops)
    with pytest.raises(AuditError, match=r"_next.c1 is made of x.0.\w+, ._next of x.1.\w+"):
        check((replace(graph, ops=ops), *plan[1:]))


def test_an_update_by_other_numbers_is_seen(tmp_path: Path) -> None:
    plan = planned(step(tmp_path, 2), clusters(1, 1))
    graph = plan[0]
    changed = graph.producer["slower.c1"]
    ops = tuple(
        replace(op, inputs=(op.inputs[0], "rate")) if op == changed else op for op in graph.ops
    )
    with pytest.raises(AuditError, match=r"_next.c1 is made of rate, ._next of half"):
        check((replace(graph, ops=ops), *plan[1:]))


def test_copies_that_do_not_begin_alike_are_seen(tmp_path: Path) -> None:
    plan = planned(step(tmp_path, 2), clusters(1, 1))
    graph = plan[0]
    states = tuple(replace(s, initial="") for s in graph.states if s.replica_of == "w")
    others = tuple(s for s in graph.states if s.replica_of != "w")
    with pytest.raises(AuditError, match=r"w.c1 and w do not begin alike"):
        check((replace(graph, states=(*others, *states)), *plan[1:]))


def test_two_copies_in_one_memory_are_seen(tmp_path: Path) -> None:
    graph, _, _, schedule, _, _ = planned(step(tmp_path, 2), clusters(1, 1))
    buffers = tuple(
        replace(b, memory="c0.l1", offset_bytes=4096) if "v.c1" in (b.tensor, b.alias_of) else b
        for b in schedule.buffers
    )
    faults = list(state_faults(graph, replace(schedule, buffers=buffers)))
    assert faults == ["two copies of v lie in one memory"]


def test_replicated_constants_are_of_each_cluster_and_the_first_values_of_all(
    tmp_path: Path,
) -> None:
    target = replace(clusters(1, 1), parameters="replicated")
    graph = step(tmp_path, 2)
    plan = planned(graph, target)
    check(plan)
    assert "w_initial" in plan[0].constants
