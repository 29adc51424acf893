"""Random networks: every schedule passes the audit, and the audit sees what a replay sees.

The replay here has one token for each byte and shares no code with the audit: each kernel writes
its outputs before it reads, unless the pair is in place, so that a plan which only works by luck
fails.
"""

from dataclasses import dataclass, replace

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dlbuild.ir.graph import Graph, Op, Tensor
from dlbuild.ir.profile import Alias, Kernel, Profile
from dlbuild.ir.schedule import Buffer, Schedule
from dlbuild.ir.target import Memory, Options, Target
from dlbuild.ir.tile_plan import TilePlan
from dlbuild.stages.audit import AuditError, audit
from dlbuild.stages.schedule import arrange
from dlbuild.stages.tile import tile
from tests.kernels import kernel

SIZE = {"int8": 1, "int16": 2, "float32": 4}
TARGET = Target("board", (Memory("sram", align_bytes=1),))


@dataclass(frozen=True)
class Case:
    graph: Graph
    profile: Profile
    tiles: TilePlan
    options: Options
    plan: Schedule


@st.composite
def cases(draw: st.DrawFn) -> Case:
    tensors = [Tensor("x0", draw(st.sampled_from(sorted(SIZE))), (draw(st.integers(1, 6)),))]
    if draw(st.booleans()):
        tensors.append(Tensor("x1", "int8", (draw(st.integers(1, 6)),)))
    inputs = [t.name for t in tensors]
    kernels = []
    for number in range(draw(st.integers(1, 8))):
        name = f"t{number}"
        reads = draw(st.lists(st.sampled_from(tensors), min_size=1, max_size=3, unique=True))
        source, names = reads[0], " ".join(t.name for t in reads)
        form = draw(st.sampled_from(("compute", "in place", "view")))
        if form == "view":
            first = draw(st.integers(0, source.count - 1))
            made = Tensor(name, source.dtype, (draw(st.integers(1, source.count - first)),))
            alias = Alias(source.name, first * SIZE[source.dtype])
            kernels.append(kernel(f"k{number}", source.name, name, alias=alias))
        elif form == "in place":
            made = replace(source, name=name)
            pairs = tuple((t.name, name) for t in reads if t.size_bytes == made.size_bytes)
            kernels.append(kernel(f"k{number}", names, name, in_place=pairs))
        else:
            made = Tensor(name, draw(st.sampled_from(sorted(SIZE))), (draw(st.integers(1, 6)),))
            kernels.append(kernel(f"k{number}", names, name))
        tensors.append(made)
    written = [k.writes[0] for k in kernels]
    outputs = draw(st.lists(st.sampled_from(written), min_size=1, max_size=3, unique=True))
    graph = Graph(
        "net",
        tuple(inputs),
        tuple(outputs),
        tuple(tensors),
        tuple(Op(k.anchor, "Any", k.reads, k.writes) for k in kernels),
        (),
    )
    options = Options(
        input=draw(st.sampled_from(("caller", "arena"))),
        output=draw(st.sampled_from(("caller", "arena"))),
    )
    profile = Profile(tuple(kernels))
    tiles = tile(graph, profile, TARGET, options)
    return Case(graph, profile, tiles, options, arrange(graph, profile, tiles, TARGET, options))


Byte = tuple[str, int]


def cells(plan: Schedule, name: str) -> list[Byte]:
    """Name the bytes in which a tensor lies."""
    buffer = plan.buffer[name]
    space = buffer.memory
    if space == "caller":
        space += " " + (buffer.alias_of or buffer.tensor)
    return [(space, buffer.offset_bytes + i) for i in range(buffer.size_bytes)]


class Replay:
    """What each byte holds while a plan runs."""

    def __init__(self, case: Case, plan: Schedule) -> None:
        self.plan = plan
        self.held: dict[Byte, Byte] = {}
        self.value = {
            t.name: [(t.name, i) for i in range(t.size_bytes)] for t in case.graph.tensors
        }

    def finds(self, name: str) -> bool:
        return [self.held.get(cell) for cell in cells(self.plan, name)] == self.value[name]

    def fill(self, name: str) -> None:
        self.held.update(zip(cells(self.plan, name), self.value[name], strict=True))

    def runs(self, work: Kernel) -> bool:
        """Write, then find unharmed what was read, unless it is in place."""
        if not all(self.finds(name) for name in work.reads):
            return False
        for name in work.writes:
            self.fill(name)
        in_place = {
            source
            for source, output in work.in_place
            if cells(self.plan, source) == cells(self.plan, output)
        }
        return all(self.finds(name) for name in work.reads if name not in in_place)

    def renames(self, work: Kernel) -> bool:
        if work.alias is None or not self.finds(work.alias.source):
            return False
        (name,) = work.writes
        first = work.alias.offset_bytes
        part = self.value[work.alias.source][first : first + len(self.value[name])]
        self.value[name] = part
        return True


def computes_the_model(case: Case, plan: Schedule) -> bool:
    replay = Replay(case, plan)
    for name in case.graph.inputs:
        replay.fill(name)
    for step in plan.steps:
        work = case.profile.kernel[step.kernel]
        if not (replay.runs(work) if step.is_code else replay.renames(work)):
            return False
    kept = (name for name in case.graph.inputs if case.options.input == "caller")
    return all(replay.finds(name) for name in (*kept, *case.graph.outputs))


def is_accepted(case: Case, plan: Schedule) -> bool:
    try:
        audit(case.graph, case.profile, case.tiles, plan, TARGET, case.options)
    except AuditError:
        return False
    return True


@given(cases())
@settings(max_examples=300, deadline=None, derandomize=True)
def test_every_schedule_computes_the_model_and_passes_the_audit(case: Case) -> None:
    assert computes_the_model(case, case.plan)
    audit(case.graph, case.profile, case.tiles, case.plan, TARGET, case.options)
    (use,) = case.plan.memories
    assert use.bound_bytes <= use.height_bytes


def whole_life(plan: Schedule) -> tuple[Buffer, ...]:
    return tuple(replace(b, first_step=0, last_step=len(plan.steps)) for b in plan.buffers)


@given(cases(), st.data())
@settings(max_examples=300, deadline=None, derandomize=True)
def test_the_audit_refuses_every_change_that_breaks_the_model(
    case: Case, data: st.DataObject
) -> None:
    plan = case.plan
    kind = data.draw(st.sampled_from(("offset", "order", "code", "alias", "memory")))
    victim = data.draw(st.integers(0, len(plan.buffers) - 1))
    buffer = plan.buffers[victim]
    if kind == "order":
        order = data.draw(st.permutations(range(len(plan.steps))))
        steps = tuple(replace(plan.steps[old], number=new) for new, old in enumerate(order))
        plan = replace(plan, steps=steps)
        if data.draw(st.booleans()):
            plan = replace(plan, buffers=whole_life(plan))
    elif kind == "code":
        number = data.draw(st.integers(0, len(plan.steps) - 1))
        flipped = replace(plan.steps[number], is_code=not plan.steps[number].is_code)
        plan = replace(plan, steps=(*plan.steps[:number], flipped, *plan.steps[number + 1 :]))
    else:
        moved = {
            "offset": replace(buffer, offset_bytes=data.draw(st.integers(0, 24)), align_bytes=1),
            "alias": replace(buffer, alias_of=data.draw(st.sampled_from(["", *plan.buffer]))),
            "memory": replace(buffer, memory="sram" if buffer.memory == "caller" else "caller"),
        }[kind]
        plan = replace(plan, buffers=(*plan.buffers[:victim], moved, *plan.buffers[victim + 1 :]))
        inside = [b for b in plan.buffers if b.memory == "sram"]
        top = max((b.offset_bytes + b.size_bytes for b in inside), default=0)
        element = max((SIZE[case.graph.tensor[b.tensor].dtype] for b in inside), default=1)
        use = replace(plan.memories[0], height_bytes=-(-top // element) * element, bound_bytes=0)
        plan = replace(plan, memories=(use,))
    assume(not computes_the_model(case, plan))
    assert not is_accepted(case, plan)


@given(cases(), st.data())
@settings(max_examples=200, deadline=None, derandomize=True)
def test_the_audit_refuses_a_life_that_is_too_short(case: Case, data: st.DataObject) -> None:
    plan = case.plan
    victim = data.draw(st.integers(0, len(plan.buffers) - 1))
    buffer = plan.buffers[victim]
    shorter = data.draw(
        st.sampled_from(
            (
                replace(buffer, first_step=buffer.first_step + 1),
                replace(buffer, last_step=buffer.last_step - 1),
            )
        )
    )
    uses = [
        step.number
        for step in plan.steps
        if buffer.tensor
        in (*case.profile.kernel[step.kernel].reads, *case.profile.kernel[step.kernel].writes)
    ]
    assume(any(not shorter.first_step <= step < shorter.last_step for step in uses))
    buffers = (*plan.buffers[:victim], shorter, *plan.buffers[victim + 1 :])
    assert not is_accepted(case, replace(plan, buffers=buffers))
