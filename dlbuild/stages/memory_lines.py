"""What the C says of its memories: how full each is, what lies where in it, in which section."""

from dlbuild.emit.comments import wrapped
from dlbuild.emit.literals import COLUMNS
from dlbuild.ir.schedule import Schedule
from dlbuild.stages.arena import CALLER, Arena, NearRoom, lifetime_table, near_rooms
from dlbuild.stages.sources import Context, Sources


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


def _near_lines(schedule: Schedule, near: NearRoom) -> list[str]:
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


def near_texts(model: Sources, schedule: Schedule) -> list[Context]:
    """Return each near memory: its room, the attribute of its section, its comment."""
    return [
        {
            "room": room,
            "section": section_attribute(section_of(model, room.use.memory)),
            "lines": _near_lines(schedule, room),
        }
        for room in near_rooms(model.graph, schedule, model.target)
    ]


def section_of(model: Sources, memory: str) -> str:
    """Return the section of a memory, the empty text if it has none."""
    cluster, _, name = memory.rpartition(".")
    memories = next(
        (c.memories for c in model.target.clusters if c.name == cluster), model.target.memories
    )
    return next((m.section for m in memories if m.name == name), "")


def section_attribute(section: str) -> str:
    """Return the attribute that puts a variable into a section."""
    return "" if section in ("", ".bss") else f'__attribute__((section("{section}")))'
