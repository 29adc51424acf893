"""Schedules of several cores: what the audit proves, and that it sees each fault."""

import random
import time
from dataclasses import replace
from typing import Literal

import pytest

from dlbuild.ir.costs import Costs, KernelCost
from dlbuild.ir.graph import Graph, Op, Tensor
from dlbuild.ir.profile import Kernel, Profile
from dlbuild.ir.schedule import Schedule, Step, Wait
from dlbuild.ir.target import Options, Target
from dlbuild.ir.tile_plan import Tile, TilePlan
from dlbuild.stages.audit import AuditError, audit
from dlbuild.stages.audit_cores import audit_cores
from dlbuild.stages.cores import schedule_cores
from dlbuild.stages.deal import Dealer
from dlbuild.stages.timeline import makespan
from tests.waits import without_a_wait

Deal = Literal["auto", "round_robin", "list"]


def branchy(count: int, seed: int) -> tuple[Graph, Profile, Costs]:
    """Return a random net: each kernel reads one to three of the last eight results."""
    chance = random.Random(seed)  # noqa: S311 - a net, no secret
    names = ["x"]
    kernels = []
    for number in range(count):
        reads = tuple(dict.fromkeys(chance.choice(names[-8:]) for _ in range(chance.randint(1, 3))))
        writes = (f"t{number}",)
        work = (100, 200, 10, 10, chance.randint(500, 5000))
        kernels.append(
            Kernel(f"k{number}", f"n{number}", (), (), "r#R", "", reads, writes, (), *work)
        )
        names += writes
    read = {tensor for kernel in kernels for tensor in kernel.reads}
    outputs = tuple(name for name in names[1:] if name not in read)
    tensors = tuple(Tensor(name, "int8", (chance.randint(8, 64),)) for name in names)
    ops = tuple(Op(k.anchor, "Any", k.reads, k.writes) for k in kernels)
    graph = Graph("net", ("x",), outputs, tensors, ops, ())
    costs = Costs("cycles", tuple(KernelCost(k.name, k.cycles) for k in kernels))
    return graph, Profile(tuple(kernels)), costs


def planned(
    seed: int, policy: Deal, kind: str = "cores", cores: int = 3, count: int = 24
) -> tuple[Graph, Profile, Costs, TilePlan, Schedule, Target, Options]:
    graph, profile, costs = branchy(count, seed)
    tiles = TilePlan(tuple(Tile(kernel.name) for kernel in profile.kernels))
    target = Target("t", resources=(kind, cores))
    options = Options(schedule=policy)
    schedule = schedule_cores(graph, profile, costs, tiles, target, options)
    return graph, profile, costs, tiles, schedule, target, options


@pytest.mark.parametrize("kind", ["cores", "pes"])
@pytest.mark.parametrize("policy", ["round_robin", "list", "auto"])
@pytest.mark.parametrize("seed", range(6))
def test_every_deal_passes_both_audits(seed: int, policy: Deal, kind: str) -> None:
    graph, profile, _, tiles, schedule, target, options = planned(seed, policy, kind)
    audit_cores(graph, profile, tiles, schedule)
    audit(graph, profile, tiles, schedule, target, options)
    assert {step.core for step in schedule.steps} == {0, 1, 2}


@pytest.mark.parametrize("policy", ["round_robin", "list"])
@pytest.mark.parametrize("seed", range(4))
def test_no_wait_can_be_left_out(seed: int, policy: Deal) -> None:
    graph, profile, _, tiles, schedule, _, _ = planned(seed, policy)
    plans = list(without_a_wait(schedule))
    assert plans
    for fewer in plans:
        with pytest.raises(AuditError, match="nothing orders step"):
            audit_cores(graph, profile, tiles, fewer)


def test_a_wait_for_what_comes_later_is_seen() -> None:
    graph, profile, _, tiles, schedule, _, _ = planned(1, "list")
    last = next(s for s in reversed(schedule.steps) if s.core != schedule.steps[0].core)
    first = replace(schedule.steps[0], waits=(Wait(last.core, last.number),))
    steps = (first, *schedule.steps[1:])
    with pytest.raises(AuditError, match="waits for ever"):
        audit_cores(graph, profile, tiles, replace(schedule, steps=steps))


def test_a_wait_for_the_wrong_core_is_seen() -> None:
    graph, profile, _, tiles, schedule, _, _ = planned(1, "list")

    def wrong(step: Step) -> Step:
        return replace(step, waits=tuple(replace(w, core=step.core) for w in step.waits))

    steps = tuple(wrong(step) for step in schedule.steps)
    with pytest.raises(AuditError, match="does not do"):
        audit_cores(graph, profile, tiles, replace(schedule, steps=steps))


def test_elements_that_run_in_step_meet_behind_each_layer() -> None:
    _, profile, costs, _, schedule, target, _ = planned(2, "list", "pes")
    level = Dealer(profile, costs, target.resources).level
    done = dict.fromkeys(range(3), -1)
    known = [dict(done) for _ in range(3)]
    after: dict[int, dict[int, int]] = {}
    for step in schedule.steps:
        mine = known[step.core]
        for wait in step.waits:
            theirs = after[wait.step]
            mine |= {c: max(mine[c], theirs[c]) for c in mine}
        earlier = [
            s
            for s in schedule.steps
            if level[s.kernel] < level[step.kernel] and s.core != step.core
        ]
        assert all(mine[s.core] >= s.number for s in earlier)
        mine[step.core] = step.number
        after[step.number] = dict(mine)


def test_list_scheduling_is_near_its_bound_and_hardly_ever_behind_round_robin() -> None:
    ratios = []
    for seed in range(50):
        _, profile, costs, tiles, schedule, _, _ = planned(seed, "list", count=30)
        _, _, _, _, other, _, _ = planned(seed, "round_robin", count=30)
        dealer = Dealer(profile, costs, ("cores", 3))
        bound = max(*dealer.ranks.values(), -(-costs.total // 3))
        found = makespan(schedule, tiles, costs)
        assert found <= makespan(other, tiles, costs) * 1.1
        ratios.append(found / bound)
    assert sorted(ratios)[25] < 1.1


def test_a_thousand_kernels_are_dealt_the_same_way_each_time_and_soon() -> None:
    begin = time.process_time()
    first = planned(7, "list", cores=4, count=1000)[4]
    assert time.process_time() - begin < 10
    assert planned(7, "list", cores=4, count=1000)[4] == first
