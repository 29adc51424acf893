"""Compare list scheduling with the optimum on branchy graphs.

    python bench/scheduling.py [--seconds S] [--only N]

Fifty graphs are made from fixed seeds: half like NASNet (cells of branches that are added and
joined, each fed by the two cells before), half like RandWire (the random small-world graphs of
Watts and Strogatz, directed, one operator at each node). Each is dealt to 2, 3 or 4 cores by
`schedule: list`. OR-tools' CP-SAT finds the least makespan without any cost of waiting, or a bound
below it; so the ratio counts what waits cost against the schedule.

Then a graph of 1,000 nodes is scheduled twice, places and waits included.

Passed: the median ratio is at most 1.05, the worst 1.25; the large graph takes less than 10 s of
CPU time and comes out equal. Needs `pip install 'dlbuild[bench]'`. Ends with `N passed, M failed`;
the exit status is 1 if M > 0.
"""

import argparse
import random
import sys
import time
from collections.abc import Iterator, Sequence
from statistics import median

from ortools.sat.python import cp_model

from dlbuild.ir import codec
from dlbuild.ir.costs import Costs, KernelCost
from dlbuild.ir.graph import Graph, Op, Tensor
from dlbuild.ir.profile import Kernel, Profile
from dlbuild.ir.target import Options, Target
from dlbuild.ir.tile_plan import Tile, TilePlan
from dlbuild.stages.cores import schedule_cores
from dlbuild.stages.deal import Dealer

GRAPHS = 50
CORES = (2, 3, 4)
MEDIAN, WORST = 1.05, 1.25
LARGE, LARGE_SECONDS = 1000, 10

Node = tuple[tuple[int, ...], int]
"""The nodes that one reads, and what it costs in instructions."""

COST = {"separable": 60_000, "dilated": 75_000, "pool": 12_000, "identity": 3_000, "add": 4_000}
"""About what int8 kernels on 16x16x16 cost on a small core."""


def main() -> int:
    """Compare, print a table and the verdict."""
    parser = argparse.ArgumentParser(description="Compare list scheduling with the optimum.")
    parser.add_argument("--seconds", type=float, default=10.0, help="of CP-SAT for each graph")
    parser.add_argument("--only", type=int, default=GRAPHS, help="so many graphs")
    given = parser.parse_args()
    print(f"{'graph':14} {'nodes':>5} {'cores':>5} {'list':>10} {'CP-SAT':>10} {'':8} {'ratio':>6}")
    ratios = []
    for number in range(given.only):
        name, nodes = ("nasnet", nasnet(number)) if number % 2 else ("randwire", randwire(number))
        cores = CORES[number % len(CORES)]
        made = listed(nodes, cores)
        least, is_proved = optimum(nodes, cores, made, given.seconds)
        ratios.append(made / least)
        kind = "optimum" if is_proved else "bound"
        print(
            f"{name:10} {number:3} {len(nodes):5} {cores:5} {made:10,} {least:10,} {kind:8}"
            f" {ratios[-1]:6.3f}",
            flush=True,
        )
    faults = [median(ratios) > MEDIAN, max(ratios) > WORST, *large()]
    print(f"median {median(ratios):.3f}, worst {max(ratios):.3f} of {len(ratios)} graphs")
    print(f"{faults.count(False)} passed, {faults.count(True)} failed")
    return 1 if any(faults) else 0


def cost_of(kind: str, chance: random.Random, width: int = 1) -> int:
    """Return what an operator costs: by its kind, give or take a third."""
    return int(COST[kind] * width * chance.uniform(0.67, 1.33))


def nasnet(seed: int) -> list[Node]:
    """Return cells of five blocks: each adds what two operators make of earlier results."""
    chance = random.Random(seed)  # noqa: S311 - a graph, no secret
    nodes: list[Node] = [((), cost_of("separable", chance))]
    cells = [0, 0]
    for number in range(chance.randint(2, 5)):
        width = 1 + number // 2
        inside = [cells[-2], cells[-1]]
        used: set[int] = set()
        for _ in range(5):
            sides = []
            for source in chance.choices(inside, k=2):
                kind = chance.choice(("separable", "separable", "dilated", "pool", "identity"))
                nodes.append(((source,), cost_of(kind, chance, width)))
                sides.append(len(nodes) - 1)
                used.add(source)
            nodes.append((tuple(sides), cost_of("add", chance, width)))
            inside.append(len(nodes) - 1)
        loose = tuple(node for node in inside[2:] if node not in used)
        nodes.append((loose or (inside[-1],), cost_of("add", chance, width)))
        cells.append(len(nodes) - 1)
    return nodes


def randwire(seed: int, count: int = 0) -> list[Node]:
    """Return a small world: a ring of near neighbours, of which some edges lead elsewhere."""
    chance = random.Random(seed)  # noqa: S311 - a graph, no secret
    count = count or chance.randint(16, 60)
    near, again = chance.choice(((4, 0.25), (4, 0.75), (6, 0.5)))
    reads: list[set[int]] = [set() for _ in range(count)]
    for node in range(count):
        for step in range(1, near // 2 + 1):
            other = (node + step) % count
            if chance.random() < again:
                other = chance.choice([n for n in range(count) if n != node])
            reads[max(node, other)].add(min(node, other))
    return [(tuple(sorted(read)), cost_of("separable", chance)) for read in reads]


def planned(nodes: Sequence[Node]) -> tuple[Graph, Profile, Costs]:
    """Return a graph as the planning stages have it, one kernel for each node."""
    kernels = []
    for number, (reads, cost) in enumerate(nodes):
        inputs = tuple(f"t{read}" for read in reads) or ("x",)
        work = (cost, cost, 256, 256, cost)
        kernels.append(
            Kernel(
                f"k{number}", f"n{number}", (), (), "r#R", "", inputs, (f"t{number}",), (), *work
            )
        )
    read = {tensor for kernel in kernels for tensor in kernel.reads}
    names = ("x", *(f"t{number}" for number in range(len(nodes))))
    outputs = tuple(name for name in names[1:] if name not in read)
    tensors = tuple(Tensor(name, "int8", (256,)) for name in names)
    ops = tuple(Op(k.anchor, "Any", k.reads, k.writes) for k in kernels)
    costs = Costs("instructions", tuple(KernelCost(k.name, k.cycles) for k in kernels))
    return Graph("net", ("x",), outputs, tensors, ops, ()), Profile(tuple(kernels)), costs


def listed(nodes: Sequence[Node], cores: int) -> int:
    """Return the makespan of list scheduling."""
    _, profile, costs = planned(nodes)
    tiles = TilePlan(tuple(Tile(kernel.name) for kernel in profile.kernels))
    return Dealer(profile, costs, ("cores", cores)).deal(tiles, "list").makespan


def optimum(nodes: Sequence[Node], cores: int, most: int, seconds: float) -> tuple[int, bool]:
    """Return the least makespan and whether it is proved; else a bound below it.

    No makespan is less than the work divided by the cores; CP-SAT is told so.
    """
    model = cp_model.CpModel()
    starts = [model.new_int_var(0, most, f"s{number}") for number in range(len(nodes))]
    intervals = []
    for number, (reads, cost) in enumerate(nodes):
        intervals.append(model.new_fixed_size_interval_var(starts[number], cost, f"i{number}"))
        for read in reads:
            model.add(starts[number] >= starts[read] + nodes[read][1])
    model.add_cumulative(intervals, [1] * len(nodes), cores)
    end = model.new_int_var(-(-sum(cost for _, cost in nodes) // cores), most, "end")
    for start, (_, cost) in zip(starts, nodes, strict=True):
        model.add(end >= start + cost)
    model.minimize(end)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 2
    solver.parameters.random_seed = 1
    status = solver.solve(model)
    if status == cp_model.OPTIMAL:
        return round(solver.objective_value), True
    return max(round(solver.best_objective_bound), 1), False


def large() -> Iterator[bool]:
    """Schedule a large graph twice; yield whether that takes too long, and whether it differs."""
    graph, profile, costs = planned(randwire(1, LARGE))
    tiles = TilePlan(tuple(Tile(kernel.name) for kernel in profile.kernels))
    made = []
    begin = time.process_time()
    for _ in range(2):
        plan = schedule_cores(
            graph,
            profile,
            costs,
            tiles,
            Target("t", resources=("cores", 4)),
            Options(schedule="list"),
        )
        made.append(codec.encode(plan))
    taken = (time.process_time() - begin) / 2
    print(f"{LARGE:,} nodes on 4 cores: {taken:.1f} s of CPU time")
    yield taken > LARGE_SECONDS
    yield made[0] != made[1]


if __name__ == "__main__":
    sys.exit(main())
