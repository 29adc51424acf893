"""What the comments of the C say of its memories: how full each is, and what lies where in it."""

from dlbuild.emit.comments import wrapped
from dlbuild.emit.literals import COLUMNS
from dlbuild.ir.schedule import Schedule
from dlbuild.stages.arena import CALLER, Arena, NearRoom, lifetime_table
from dlbuild.stages.sources import Sources


def memory_lines(model: Sources, schedule: Schedule, room: Arena) -> list[str]:
    """Return what is said of an arena."""
    use = room.use
    budget = _budget(use.budget_bytes)
    cluster, _, memory = use.memory.rpartition(".")
    title = f"Arena of cluster {cluster}" if cluster else "Arena"
    lines = [
        f"{title}: {room.size_bytes:,} B of {memory}, {budget}; these steps in this order need",
        f"{use.bound_bytes:,} B at least. What lies in it, from which step to which:",
        "",
    ]
    lines += lifetime_table([b for b in schedule.buffers if b.memory == use.memory])
    callers = [b for b in schedule.buffers if b.memory == CALLER and not b.alias_of]
    if callers and use == schedule.memories[0]:
        names = ", ".join(model.face.port(b.tensor).name for b in callers)
        note = f"Not counted, because the caller holds them: {names}."
        lines += ["", *wrapped(note, COLUMNS - len(" * "))]
    return lines


def near_lines(schedule: Schedule, near: NearRoom) -> list[str]:
    """Return what is said of the near memory: how full it is, and what stays in it."""
    use = near.use
    lines = [
        f"Near memory: {near.size_bytes:,} B of {use.memory}, {_budget(use.budget_bytes)}; these",
        f"steps need {use.bound_bytes:,} B at least. Windows of one kernel at a time lie in it",
    ]
    here = [b for b in schedule.buffers if b.memory == use.memory]
    staying = [b for b in here if not b.dtype]
    if not staying:
        return [*lines[:1], lines[1] + "."]
    return [*lines, "beside what stays from one kernel to the next:", "", *lifetime_table(staying)]


def _budget(size_bytes: int | None) -> str:
    return "no budget" if size_bytes is None else f"budget {size_bytes:,} B"
