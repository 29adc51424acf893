"""Check a finished plan the simple way, sharing no code with what made it.

Nothing here is clever: every rule is a loop over steps or over pairs of buffers, and the plan is
replayed on a map of what each byte holds. A plan that fails is never stored.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dlbuild.ir.dtype import DTYPES
from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Kernel, Profile
from dlbuild.ir.schedule import Buffer, Schedule, Step
from dlbuild.ir.target import Options, Target
from dlbuild.ir.tile_plan import TilePlan
from dlbuild.stages.audit_clusters import cluster_faults, known_memories
from dlbuild.stages.audit_near import near_faults, needed_windows
from dlbuild.stages.audit_rows import replay_rows
from dlbuild.stages.audit_scratch import is_one_room, needed_scratch, scratch_faults
from dlbuild.stages.audit_state import interface_of, state_faults
from dlbuild.stages.audit_strips import ring_bytes, strip_faults
from dlbuild.stages.contents import Contents


class AuditError(Exception):
    """A plan that would compute wrong results. This is a fault of dlbuild's, not of the user's."""


def audit(  # noqa: PLR0913, PLR0917 - one argument for each stage that came before
    graph: Graph,
    profile: Profile,
    tiles: TilePlan,
    schedule: Schedule,
    target: Target,
    options: Options,
) -> None:
    """Prove that a schedule computes the model within its budgets.

    Raises:
        AuditError: names the step and the tensors of the first fault found.
    """
    plan = _Plan(graph, profile, tiles, schedule, target, options)
    replay = _replay_of_rows if tiles.strips else _replay
    checks = (_steps, _strips, _buffers, _interface, _memories, _working, _lifetimes, _overlaps)
    for check in (*checks, replay):
        for fault in check(plan):
            raise AuditError(fault)


@dataclass(frozen=True, slots=True)
class _Plan:
    graph: Graph
    profile: Profile
    tiles: TilePlan
    schedule: Schedule
    target: Target
    options: Options

    def kernel(self, step: Step) -> Kernel:
        return self.profile.kernel[step.kernel]

    def is_single(self, kernel: Kernel) -> bool:
        """Say whether a kernel runs as one task."""
        is_cut = kernel.name in [tiling.kernel for tiling in self.tiles.tilings]
        return not is_cut and [t.kernel for t in self.tiles.tiles].count(kernel.name) == 1

    def is_callers_input(self, buffer: Buffer) -> bool:
        """Say whether a buffer lies in bytes that only the caller may write."""
        root = buffer.alias_of or buffer.tensor
        return buffer.memory == "caller" and root in self.graph.inputs


def _at(step: Step) -> str:
    return f"step {step.number} ({step.kernel})"


def _region(buffer: Buffer) -> str:
    """Name the address space: each buffer of the caller's is one of its own."""
    root = buffer.alias_of or buffer.tensor
    return f"caller's {root}" if buffer.memory == "caller" else buffer.memory


def _element_bytes(plan: _Plan, buffer: Buffer) -> int:
    dtype = buffer.dtype or plan.graph.tensor[buffer.tensor].dtype
    return max(DTYPES[dtype].bits // 8, 1)


def _shares_bytes(one: Buffer, other: Buffer) -> bool:
    return (
        _region(one) == _region(other)
        and one.offset_bytes < other.offset_bytes + other.size_bytes
        and other.offset_bytes < one.offset_bytes + one.size_bytes
    )


def _steps(plan: _Plan) -> Iterator[str]:
    """Each task once, numbered through, and nothing read before all of it is written."""
    due = [(tile.kernel, tile.number) for tile in plan.tiles.tiles]
    done = [(step.kernel, step.tile) for step in plan.schedule.steps]
    for task in sorted({*due, *done}):
        if due.count(task) != 1 or done.count(task) != 1:
            yield (
                f"tile {task[1]} of {task[0]} is planned {due.count(task)} times"
                f" and scheduled {done.count(task)} times"
            )
    names = [kernel.name for kernel in plan.profile.kernels]
    for name in names:
        if names.count(name) != 1 or name not in [kernel for kernel, _ in due]:
            yield f"kernel {name} occurs {names.count(name)} times or has no tile"
    for number, step in enumerate(plan.schedule.steps):
        if step.number != number:
            yield f"{_at(step)} is in place {number}"
        kernel = plan.profile.kernel.get(step.kernel)
        if kernel is None:
            yield f"{_at(step)} is no kernel of the profile"
        elif not step.is_code and kernel.alias is None:
            yield f"{_at(step)} computes, but has no code"
    yield from _written_once(plan)


def _written_once(plan: _Plan) -> Iterator[str]:
    written = [name for kernel in plan.profile.kernels for name in kernel.writes]
    for name in written:
        if written.count(name) != 1 or name in plan.graph.inputs:
            yield f"{name} is written more than once, or is an input"
    for name in plan.graph.outputs:
        if name not in written:
            yield f"output {name} is never written"


def _buffers(plan: _Plan) -> Iterator[str]:
    """Each activation has one buffer of its size, aligned, inside the bytes it shares."""
    buffers = plan.schedule.buffers
    names = [buffer.tensor for buffer in buffers]
    written = [name for kernel in plan.profile.kernels for name in kernel.writes]
    sums = {s.name: s.count * DTYPES[s.dtype].bits // 8 for s in plan.tiles.sums}
    sums |= needed_scratch(plan.profile, plan.tiles)
    sums |= needed_windows(plan.tiles)
    for name in (*plan.graph.inputs, *written, *sums):
        if names.count(name) != 1:
            yield f"{name} has {names.count(name)} buffers"
    for buffer in buffers:
        if buffer.tensor not in (*plan.graph.inputs, *written, *sums):
            yield f"{buffer.tensor} has a buffer, but nobody writes it"
            continue
        due = sums.get(buffer.tensor) or _tensor_bytes(plan, buffer)
        if buffer.size_bytes != due or buffer.offset_bytes < 0:
            yield (
                f"the buffer of {buffer.tensor} has {buffer.size_bytes} B"
                f" at {buffer.offset_bytes}, the tensor {due} B"
            )
        element = _element_bytes(plan, buffer)
        if buffer.offset_bytes % element or buffer.offset_bytes % buffer.align_bytes:
            yield f"{buffer.tensor} lies at {buffer.offset_bytes}, which is not aligned"
        if buffer.alias_of:
            yield from _inside(plan, buffer)


def _tensor_bytes(plan: _Plan, buffer: Buffer) -> int:
    """Return the bytes of a tensor, of a ring those of the rows that are kept."""
    return ring_bytes(plan.tiles, buffer, plan.graph.tensor[buffer.tensor].size_bytes)


def _inside(plan: _Plan, buffer: Buffer) -> Iterator[str]:
    root = plan.schedule.buffer.get(buffer.alias_of)
    if root is None or root.alias_of or root.memory != buffer.memory:
        yield f"{buffer.tensor} lies in {buffer.alias_of}, which is no buffer of its own"
        return
    end = root.offset_bytes + root.size_bytes
    if buffer.offset_bytes < root.offset_bytes or buffer.offset_bytes + buffer.size_bytes > end:
        yield f"{buffer.tensor} is not inside {root.tensor}"


def _interface(plan: _Plan) -> Iterator[str]:
    """Inputs and outputs lie where the options say, each output in bytes of its own."""
    inputs, outputs = interface_of(plan.graph)
    for names, option in ((inputs, plan.options.input), (outputs, plan.options.output)):
        for name in names:
            buffer = plan.schedule.buffer[name]
            if (buffer.memory == "caller") != (option not in ("arena", "streamed")):
                yield f"{name} lies in {buffer.memory}, the option says {option}"
            if buffer.memory == "caller" and (buffer.alias_of or buffer.offset_bytes):
                yield f"{name} is the caller's, but lies in {buffer.alias_of}"
    # Of a streamed input the user keeps nothing in the arena.
    kept = (*(() if plan.options.input == "streamed" else inputs), *outputs)
    for name in outputs:
        for other in kept:
            if other != name and _shares_bytes(
                plan.schedule.buffer[name], plan.schedule.buffer[other]
            ):
                yield f"output {name} shares bytes with {other}"
    interface = [name for name in kept if plan.schedule.buffer[name].memory == "caller"]
    for buffer in plan.schedule.buffers:
        if buffer.memory == "caller" and (buffer.alias_of or buffer.tensor) not in interface:
            yield f"{buffer.tensor} lies in bytes of the caller's that do not exist"


def _memories(plan: _Plan) -> Iterator[str]:
    """Heights are what the buffers say, bounds are below them, budgets hold."""
    known = known_memories(plan.target)
    uses = {use.memory: use for use in plan.schedule.memories}
    for buffer in plan.schedule.buffers:
        if buffer.memory not in ("caller", *uses):
            yield f"{buffer.tensor} lies in {buffer.memory}, of which no use is stated"
        memory = known.get(buffer.memory)
        if memory and not buffer.alias_of and buffer.offset_bytes % memory.align_bytes:
            yield f"{buffer.tensor} lies at {buffer.offset_bytes}, not aligned for {memory.name}"
    for use in plan.schedule.memories[: max(len(plan.target.clusters), 1)]:
        memory = known.get(use.memory)
        owner = f"{use.memory.partition('.')[0]}." if plan.target.clusters else ""
        is_stated = any(name.startswith(owner) for name in known)
        if is_stated and (memory is None or (memory.holds and "arena" not in memory.holds)):
            yield f"{use.memory} may not hold the arena"
        if use.budget_bytes != (memory.size_bytes if memory else None):
            yield f"the budget of {use.memory} is not {use.budget_bytes}"
        here = [buffer for buffer in plan.schedule.buffers if buffer.memory == use.memory]
        top = max([0, *(buffer.offset_bytes + buffer.size_bytes for buffer in here)])
        element = max([1, *(_element_bytes(plan, buffer) for buffer in here)])
        if not 0 <= use.height_bytes - top < element or use.height_bytes % element:
            yield f"{use.memory} is filled to {top} B, not to {use.height_bytes}"
        if use.bound_bytes > use.height_bytes:
            yield f"{use.memory} is below its lower bound"
        stack = plan.target.stack_bytes or 0
        if use.budget_bytes is not None and use.height_bytes + stack > use.budget_bytes:
            yield f"{use.memory} holds {use.height_bytes + stack} B, more than its budget"


def _working(plan: _Plan) -> Iterator[str]:
    yield from near_faults(plan.tiles, plan.schedule, plan.target)
    yield from cluster_faults(plan.graph, plan.profile, plan.schedule, plan.target)
    yield from scratch_faults(plan.profile, plan.tiles, plan.schedule)
    yield from state_faults(plan.graph, plan.schedule)


def _lifetimes(plan: _Plan) -> Iterator[str]:
    """Each buffer lives from its first writing to its last reading, an output to the end."""
    steps = plan.schedule.steps
    for name in plan.graph.inputs:
        if plan.schedule.buffer[name].first_step != 0:
            yield f"input {name} does not live from the start"
    for name in plan.graph.outputs:
        if plan.schedule.buffer[name].last_step < len(steps):
            yield f"output {name} does not live to the end"
    for step in steps:
        kernel = plan.kernel(step)
        for name in (*kernel.reads, *kernel.writes):
            buffer = plan.schedule.buffer.get(name)
            if buffer is None:
                yield f"{_at(step)} uses {name}, which has no buffer"
            elif not buffer.first_step <= step.number < buffer.last_step:
                yield (
                    f"{_at(step)} uses {name}, which lives in"
                    f" [{buffer.first_step}, {buffer.last_step})"
                )


def _overlaps(plan: _Plan) -> Iterator[str]:
    """Two living buffers share bytes only as view and source, or in place during one step."""
    buffers = plan.schedule.buffers
    for number, one in enumerate(buffers):
        for other in buffers[:number]:
            first = max(one.first_step, other.first_step)
            last = min(one.last_step, other.last_step)
            if first >= last or not _shares_bytes(one, other):
                continue
            if _slides(plan, one, other) or _slides(plan, other, one):
                continue  # the replay proves that no byte is overwritten too early
            if (one.alias_of or one.tensor) != (other.alias_of or other.tensor):
                yield f"step {first}: {one.tensor} and {other.tensor} share bytes undeclared"
            elif not (_is_view(plan, one, other) or is_one_room(one, other)) and not (
                last == first + 1 and _is_in_place(plan, plan.schedule.steps[first], one, other)
            ):
                yield f"step {first}: {one.tensor} and {other.tensor} may not share bytes"


def _slides(plan: _Plan, upper: Buffer, lower: Buffer) -> bool:
    """Say whether a strip writes the one over the other, both alive together in it alone."""
    for step in plan.schedule.steps:
        if not step.strip:
            continue
        strip = plan.tiles.strips[step.strip - 1]
        names = [s.number for s in plan.schedule.steps if s.strip == step.strip]
        is_alone = upper.last_step <= names[-1] + 1 and lower.first_step >= names[0]
        for overlap in strip.overlaps:
            pair = (_origin(plan, overlap.upper), _origin(plan, overlap.lower))
            if is_alone and pair == (_origin(plan, upper.tensor), _origin(plan, lower.tensor)):
                return True
    return False


def _is_view(plan: _Plan, one: Buffer, other: Buffer) -> bool:
    """Say whether both are the bytes of one tensor, found through steps without code."""
    return _origin(plan, one.tensor) == _origin(plan, other.tensor)


def _origin(plan: _Plan, name: str) -> str:
    for step in plan.schedule.steps:
        kernel = plan.kernel(step)
        if name in kernel.writes and kernel.alias is not None and not step.is_code:
            return _origin(plan, kernel.alias.source)
    return name


def _is_in_place(plan: _Plan, step: Step, one: Buffer, other: Buffer) -> bool:
    kernel = plan.kernel(step)
    return plan.is_single(kernel) and any(
        (source.tensor, output.tensor) in kernel.in_place
        and source.offset_bytes == output.offset_bytes
        and output.size_bytes <= source.size_bytes
        for source, output in ((one, other), (other, one))
    )


def _strips(plan: _Plan) -> Iterator[str]:
    return strip_faults(plan.profile, plan.tiles, plan.schedule)


def _replay_of_rows(plan: _Plan) -> Iterator[str]:
    """Run the plan on a map of owners; what a whole step writes is checked as always."""
    for step in plan.schedule.steps:
        if step.is_code and not step.strip:
            yield from _clobbered(plan, step)
    yield from replay_rows(plan.graph, plan.profile, plan.tiles, plan.schedule)


def _replay(plan: _Plan) -> Iterator[str]:
    """Run the plan on a map of contents: each read must find what it asks for."""
    contents = Contents()
    for name in plan.graph.inputs:
        buffer = plan.schedule.buffer[name]
        contents.write(_region(buffer), buffer.offset_bytes, buffer.size_bytes, name)
    done: dict[str, int] = {}
    for step in plan.schedule.steps:
        kernel = plan.kernel(step)
        for name in kernel.reads:
            if not _is_there(plan, contents, name):
                yield f"{_at(step)} reads {name}, whose bytes hold something else"
        if not step.is_code:
            assert kernel.alias is not None, "checked by _steps"
            for name in kernel.writes:
                contents.view(name, kernel.alias.source, kernel.alias.offset_bytes)
            continue
        yield from _clobbered(plan, step)
        done[kernel.name] = done.get(kernel.name, 0) + 1
        is_whole = done[kernel.name] == [t.kernel for t in plan.tiles.tiles].count(kernel.name)
        for name in kernel.writes:
            buffer = plan.schedule.buffer[name]
            content = name if is_whole else f"part of {name}"
            contents.write(_region(buffer), buffer.offset_bytes, buffer.size_bytes, content)
    for name in plan.graph.outputs:
        if not _is_there(plan, contents, name):
            yield f"output {name} does not hold its value at the end"


def _is_there(plan: _Plan, contents: Contents, name: str) -> bool:
    buffer = plan.schedule.buffer[name]
    return contents.holds(_region(buffer), buffer.offset_bytes, buffer.size_bytes, name)


def _clobbered(plan: _Plan, step: Step) -> Iterator[str]:
    """What a step writes is the plan's to write and nothing that the same step reads."""
    kernel = plan.kernel(step)
    written = [plan.schedule.buffer[name] for name in kernel.writes]
    read = [plan.schedule.buffer[name] for name in kernel.reads]
    yield from _written_twice(step, written)
    for output in written:
        if plan.is_callers_input(output):
            yield f"{_at(step)} writes {output.tensor} into an input of the caller's"
        for source in read:
            if _shares_bytes(source, output) and not _is_in_place(plan, step, source, output):
                yield f"{_at(step)} writes {output.tensor} over {source.tensor}, which it reads"


def _written_twice(step: Step, written: Sequence[Buffer]) -> Iterator[str]:
    for number, output in enumerate(written):
        for other in written[:number]:
            if _shares_bytes(output, other):
                yield f"{_at(step)} writes {output.tensor} and {other.tensor} to the same bytes"
