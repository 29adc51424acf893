"""Does what is planned fit the memories of the target? If not: what is live, and what would do."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dlbuild.base.errors import UserError
from dlbuild.base.units import bytes_text
from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Profile
from dlbuild.ir.schedule import Buffer, MemoryUse, Schedule
from dlbuild.ir.target import Memory, Target
from dlbuild.stages.problem import Bytes

LISTED = 6
"""So many tensors are named at the peak, the largest first."""


ARENA, WINDOWS = "arena", "windows and what stays"


@dataclass(frozen=True, slots=True)
class Demand:
    """What one model needs of one memory.

    what: ARENA, WINDOWS in a near memory, or `code and tables`. share: models of one group never
    run at once, so that their arenas may lie on each other; the empty group shares with nobody.
    """

    model: str
    memory: str
    size_bytes: Bytes
    what: str = ARENA
    share: str = ""


def check_model(graph: Graph, profile: Profile, schedule: Schedule, target: Target) -> None:
    """Refuse a schedule whose arena, with the declared stack, exceeds the budget of its memory.

    Raises:
        UserError: names the step that needs most, what lives then, and the budget that would do.
    """
    for use in schedule.memories:
        if use.budget_bytes is None:
            continue
        stack_bytes = 0 if use.is_near else target.stack_bytes or 0
        needed = use.height_bytes + stack_bytes
        if needed <= use.budget_bytes:
            continue
        stack = f" and the stack {bytes_text(stack_bytes)}" if stack_bytes else ""
        cluster, _, memory = use.memory.rpartition(".")
        owner = f"the arena of cluster '{cluster}'" if cluster else "the arena"
        there = f" in cluster '{cluster}'" if cluster else ""
        raise UserError(
            f"{owner} needs {bytes_text(use.height_bytes)}{stack} of {memory}, "
            f"the budget is {bytes_text(use.budget_bytes)}",
            where=f"{graph.name}@{target.name}",
            details=(_peak(graph, profile, schedule, use), _bound(schedule, use, target)),
            fix=f"set {memory}: {size_text(needed)}{there}",
        )


def check_target(target: Target, demands: Sequence[Demand]) -> None:
    """Refuse models that together exceed a budget of their target.

    Raises:
        UserError: names each model's demand and the budget that would do.
    """
    for memory in (*target.memories, *_of_clusters(target)):
        here = [demand for demand in demands if demand.memory == memory.name]
        is_arena = any(demand.what == ARENA for demand in here)
        stack = target.stack_bytes or 0 if is_arena else 0
        needed = total(here) + stack
        if memory.size_bytes is None or needed <= memory.size_bytes:
            continue
        details = [_line(demand) for demand in here]
        if stack:
            details.append(f"stack: {bytes_text(stack)}")
        hint = ", or give models that never run at once one 'share' group" if is_arena else ""
        fix = f"set {memory.name}: {size_text(needed)}{hint}"
        if any(demand.what == WINDOWS for demand in here):
            # With more of it each model would only use more.
            fix = f"build each model for a target of its own, with its part of {memory.name}"
        raise UserError(
            f"the models need {bytes_text(needed)} of {memory.name}, "
            f"the budget is {bytes_text(memory.size_bytes)}",
            where=target.name,
            details=details,
            fix=fix,
        )


def _of_clusters(target: Target) -> Iterator[Memory]:
    """Yield the memories of clusters, as schedules call them."""
    for cluster in target.clusters:
        for memory in cluster.memories:
            yield replace(memory, name=f"{cluster.name}.{memory.name}")


def total(demands: Sequence[Demand]) -> Bytes:
    """Add up demands of one memory; of the arenas of a `share` group only the largest counts."""
    alone = sum(d.size_bytes for d in demands if not _is_shared(d))
    groups: dict[str, int] = {}
    for demand in demands:
        if _is_shared(demand):
            groups[demand.share] = max(groups.get(demand.share, 0), demand.size_bytes)
    return Bytes(alone + sum(groups.values()))


def size_text(size_bytes: int) -> str:
    """Return a size as a recipe writes it, exactly: `21.5 KiB`, `16001 B`."""
    kib = 1024
    if size_bytes % (kib // 4) == 0 and size_bytes >= kib:
        return f"{size_bytes / kib:.2f}".rstrip("0").rstrip(".") + " KiB"
    return f"{size_bytes} B"


def _is_shared(demand: Demand) -> bool:
    return bool(demand.share) and demand.what == ARENA


def _line(demand: Demand) -> str:
    group = f" (share: {demand.share})" if _is_shared(demand) else ""
    return f"{demand.model}: {demand.what} {bytes_text(demand.size_bytes)}{group}"


def _peak(graph: Graph, profile: Profile, schedule: Schedule, use: MemoryUse) -> str:
    name = schedule.steps[use.peak_step].kernel
    kinds = {op.name: op.kind for op in graph.ops}
    kind = kinds[profile.kernel[name].anchor]
    # A kernel's name is short and the one in the C; a tensor's may fill the line.
    writer = {tensor: kernel.name for kernel in profile.kernels for tensor in kernel.writes}
    lives = [
        f"{writer.get(tensor, tensor)} {bytes_text(size)}"
        for tensor, size in live_at_peak(schedule, use)
    ]
    more = [f"and {len(lives) - LISTED} more"] if len(lives) > LISTED else []
    listed = ", ".join([*lives[:LISTED], *more])
    return f"peak: step {use.peak_step} ({kind} '{name}'), live: {listed}"


def live_at_peak(schedule: Schedule, use: MemoryUse) -> list[tuple[str, Bytes]]:
    """Return what the peak step of a memory keeps, largest first, shared bytes counted once.

    A block of tensors that share bytes has the name of the one that the step finds or leaves in
    it, and the size of the whole.
    """
    blocks: dict[str, list[Buffer]] = {}
    for buffer in schedule.buffers:
        if buffer.memory == use.memory:
            blocks.setdefault(buffer.alias_of or buffer.tensor, []).append(buffer)
    found = []
    for members in blocks.values():
        begun = [b for b in members if b.first_step <= use.peak_step]
        if not begun or all(b.last_step <= use.peak_step for b in members):
            continue
        start = min(b.offset_bytes for b in members)
        size = max(b.offset_bytes + b.size_bytes for b in members) - start
        found.append((max(begun, key=lambda b: b.first_step).tensor, Bytes(size)))
    return sorted(found, key=lambda entry: (-entry[1], entry[0]))


def _bound(schedule: Schedule, use: MemoryUse, target: Target) -> str:
    kind, count = target.resources
    way = "in strips of rows" if any(step.strip for step in schedule.steps) else "layer by layer"
    if count > 1:
        way += f" (no strips with {count} {kind})"
    bound = f"lower bound {way}: {bytes_text(use.bound_bytes)}"
    if use.bound_bytes == use.height_bytes:
        return f"{bound}, reached"
    return f"{bound}, the placement is {use.height_bytes / use.bound_bytes:.3f} times that"
