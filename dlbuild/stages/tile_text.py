"""A kernel that runs through a near memory, as C: its tasks, their copies, and what runs them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from dlbuild.emit.comments import filled
from dlbuild.emit.ctypes import storage
from dlbuild.emit.environment import Environment
from dlbuild.emit.helpers import helper_text, helpers_of, includes_of
from dlbuild.emit.kernel import KernelText, Parameter, render_kernel
from dlbuild.ir.target import Registers
from dlbuild.ir.tile_plan import NearBuffer, Tiling
from dlbuild.rulebook.instance import Instance
from dlbuild.stages.arena import MEMBER
from dlbuild.stages.tile_fields import Fields, Span, fields_of
from dlbuild.stages.tile_nest import NearKernel, near_kernel, near_pitch, order_of
from dlbuild.stages.tile_space import Moved, TileSpace

_MARGIN = "    "


@dataclass(frozen=True, slots=True)
class _Copy:
    """How a window of an operand is copied, in C.

    loops: (variable, count) of the copies of two dimensions that it takes. call: one of them.
    count: how many that are.
    """

    loops: tuple[tuple[str, str], ...]
    call: str
    count: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Room:
    """The buffers of an operand: its C type, and where they are."""

    operand: str
    ctype: str
    places: tuple[str, ...]
    copy: _Copy


@dataclass(frozen=True, slots=True)
class Group:
    """Operands whose windows change together, so that one channel serves them.

    name: of the first. changes: the condition that the next windows are others.
    """

    name: str
    rooms: tuple[_Room, ...]
    is_output: bool
    changes: str

    @property
    def count(self) -> str:
        """The number of copies in C."""
        fixed = sum(not room.copy.count for room in self.rooms)
        moving = [_unsigned(room.copy.count) for room in self.rooms if room.copy.count]
        return " + ".join([*moving, *([f"{fixed}U"] if fixed else [])])

    @property
    def is_double(self) -> bool:
        """Whether each has two buffers."""
        return len(self.rooms[0].places) > 1

    @property
    def channel(self) -> str:
        """The name of the channel in C."""
        return f"COPY_{self.name.upper()}"

    def places(self, at: str) -> list[str]:
        """Return the far and near pointers that a function which copies takes."""
        index = f"[{at}]" if self.is_double else ""
        found: list[str] = []
        for room in self.rooms:
            pair = [room.operand, f"{room.operand}_near{index}"]
            found += reversed(pair) if self.is_output else pair
        return found


def tile_texts(  # noqa: PLR0913 - keywords; each is a decision of another stage
    instance: Instance,
    name: str,
    space: TileSpace,
    tiling: Tiling,
    *,
    orders: dict[str, tuple[int, ...]],
    constants: frozenset[str],
    environment: Environment,
    registers: Registers | None,
) -> tuple[KernelText, ...]:
    """Return the kernel of a task and the function that runs all tasks; the latter is called.

    Args:
        instance: the kernel.
        name: its C name.
        space: the ways to cut it.
        tiling: how it is cut.
        orders: axis order of each operand in the far memory.
        constants: operands in the weight table.
        environment: where templates are.
        registers: see `render_kernel`.
    """
    near = near_kernel(instance, space, tiling, orders)
    moved = frozenset(m.operand.name for m in space.moved)
    kernels = [
        render_kernel(
            made,
            kernel,
            near.orders,
            restrict=frozenset(o.name for o in made.operands),
            constants=constants - moved,
            environment=environment,
            registers=registers,
        )
        for made, kernel in ((near.compute, name), (near.finish, f"{name}_finish"))
        if made is not None
    ]
    driver = _Driver(instance, name, space, tiling, near, kernels).text(environment)
    return (*kernels, driver)


class _Driver:
    def __init__(  # noqa: PLR0913, PLR0917 - what the text is made of
        self,
        instance: Instance,
        name: str,
        space: TileSpace,
        tiling: Tiling,
        near: NearKernel,
        kernels: Sequence[KernelText],
    ) -> None:
        self._instance, self._name, self._space = instance, name, space
        self._tiling, self._near, self._kernels = tiling, near, kernels
        self._fields: Fields = fields_of(space, tiling)
        self._buffers = {b.operand: b for b in tiling.buffers}

    def text(self, environment: Environment) -> KernelText:
        parameters = self._parameters()
        groups = self._groups()
        head = [self._declared(p) for p in parameters]
        text = environment.get_template("kernels/tiles.c.j2").render(
            name=self._name,
            tasks=self._tiling.tasks,
            fields=self._fields.members,
            groups=[(group, self._copier(group)) for group in groups],
            signature=filled(f"static void {self._name}_tiles(", head, ")"),
            inputs=[group for group in groups if not group.is_output],
            outputs=[group for group in groups if group.is_output],
            calls=[self._call(kernel, groups) for kernel in self._kernels],
            last=self._last(),
            start=self._start,
        )
        helpers = helpers_of(environment, [text])
        texts = [text, *(helper_text(environment, helper) for helper in helpers)]
        return KernelText(text, self._comment(), parameters, helpers, includes_of(texts))

    def _groups(self) -> list[Group]:
        """Put operands together whose windows change in the same tasks."""
        alike: dict[tuple[bool, int, tuple[str, ...]], list[Moved]] = {}
        for moved in self._space.moved:
            copies = self._buffers[moved.operand.name].copies
            fields = self._fields.changes[moved.operand.name]
            alike.setdefault((moved.is_output, copies, fields), []).append(moved)
        found = []
        for number, ((is_output, _, fields), members) in enumerate(alike.items()):
            tests = [f"(next.{field} != task.{field})" for field in fields]
            changes = " || ".join(tests) if len(tests) > 1 else "".join(tests).strip("()")
            rooms = tuple(self._room(number, moved) for moved in members)
            found.append(Group(rooms[0].operand, rooms, is_output, changes))
        return found

    def _copier(self, group: Group) -> str:
        """Return the head of the function that copies a group's windows."""
        verb = "send" if group.is_output else "bring"
        parameters = [f"const {self._name}_task_t *task"] if self._fields.members else []
        for room in group.rooms:
            name, ctype = room.operand, room.ctype
            const = ("", "const ") if group.is_output else ("const ", "")
            pair = [f"{const[0]}{ctype} *{name}", f"{const[1]}{ctype} *near_{name}"]
            parameters += reversed(pair) if group.is_output else pair
        return filled(f"static uint32_t {self._name}_{verb}_{group.name}(", parameters, ")")

    def _start(self, group: Group, prefix: str, task: str, at: str) -> str:
        """Return the statement that copies a group's windows; prefix: what is before the call."""
        verb = "send" if group.is_output else "bring"
        arguments = [f"&{task}"] if self._fields.members else []
        arguments += group.places(at)
        return filled(f"{prefix}{self._name}_{verb}_{group.name}(", arguments, ");")

    def _parameters(self) -> tuple[Parameter, ...]:
        """Return the whole operands that are moved, and what is passed by value."""
        moved = {m.operand.name for m in self._space.moved}
        by_value = {p.operand: p for kernel in self._kernels for p in kernel.parameters}
        found = []
        for operand in self._instance.operands:
            if operand.name in moved:
                ctype = storage(operand.dtype)
                found.append(
                    Parameter(
                        operand.name, ctype, by_value=False, is_const=operand.role != "output"
                    )
                )
            elif operand.name in by_value:
                found.append(by_value[operand.name])
        return tuple(found)

    def _declared(self, parameter: Parameter) -> str:
        if parameter.by_value:
            return f"{parameter.ctype} {parameter.operand}"
        const = "const " if parameter.is_const else ""
        return f"{const}{parameter.ctype} *{parameter.operand}"

    def _comment(self) -> str:
        tiling = self._tiling
        tasks = "1 task" if tiling.tasks == 1 else f"{tiling.tasks:,} tasks"
        cuts = ", ".join(f"{cut.axis} by {cut.size}" for cut in tiling.loops) or "uncut"
        return (
            f"/* {self._name} through the near memory: {tasks} ({cuts}),\n"
            f" * {tiling.traffic_bytes:,} B in {tiling.transfers:,} windows, "
            f"{tiling.near_bytes:,} B of near memory.\n */"
        )

    def _room(self, number: int, moved: Moved) -> _Room:
        operand = moved.operand
        buffer = self._buffers[operand.name]
        ctype = storage(operand.dtype)
        places = tuple(
            _place(ctype, buffer.offset_bytes + at * buffer.stride_bytes, moved.element_bytes)
            for at in range(buffer.copies)
        )
        copy = _copied(number, moved, buffer, self._fields.spans[operand.name])
        return _Room(operand.name, ctype, places, copy)

    def _call(self, kernel: KernelText, groups: Sequence[Group]) -> str:
        now = {
            room.operand: f"{room.operand}_near"
            + (f"[{group.name}_now]" if group.is_double else "")
            for group in groups
            for room in group.rooms
        }
        arguments = []
        for parameter in kernel.parameters:
            name = parameter.operand
            if name in now:
                arguments.append(now[name])
            elif name in self._buffers:
                buffer = self._buffers[name]
                ctype = storage(buffer.dtype)
                arguments.append(_place(ctype, buffer.offset_bytes, _bytes(ctype)))
            else:
                arguments.append(name)
        for given in kernel.given:
            value = self._fields.given[given]
            arguments.append(f"task.{value}" if isinstance(value, str) else str(value))
        function = kernel.text.split("static void ", 1)[1].split("(", 1)[0]
        depth = 1 if self._tiling.tasks == 1 else 2
        margin = _MARGIN * (depth + (kernel is not self._kernels[0]))
        return filled(f"{margin}{function}(", arguments, ");")

    def _last(self) -> str:
        """Return the condition that a result is complete, or nothing: it always is."""
        tests = []
        for axis in self._tiling.reduction:
            extent = self._space.nest.extent[axis]
            size = next(cut.size for cut in self._tiling.loops if cut.axis == axis)
            last = (-(-extent // size) - 1) * size
            tests.append(f"task.{axis}_first == {last}")
        return tests[0] if len(tests) == 1 else " && ".join(f"({test})" for test in tests)


def _place(ctype: str, offset_bytes: int, element_bytes: int) -> str:
    return f"&near.{MEMBER[ctype]}[{offset_bytes // element_bytes}]"


def _bytes(ctype: str) -> int:
    return max(int(MEMBER[ctype][1:]) // 8, 1)


def _copied(number: int, moved: Moved, buffer: NearBuffer, spans: Sequence[Span]) -> _Copy:
    """Return the copies of a window: runs of bytes, rows of runs, loops over the rest."""
    far, near = moved.pitch, near_pitch(moved, buffer)
    axes = [axis for axis in order_of(moved) if buffer.shape[axis] > 1]
    run, size = [str(moved.element_bytes)], 1
    while axes and len(run) == 1 and far[axes[-1]] == near[axes[-1]] == size:
        count = spans[axes.pop()].count
        if isinstance(count, int):
            size *= count
            run = [str(size * moved.element_bytes)]
        else:
            run.append(f"task->{count}")
    rows = axes.pop() if axes else None
    loops = tuple((f"at{level}", _count(spans[axis])) for level, axis in enumerate(axes))
    variable = {axis: loop[0] for axis, loop in zip(axes, loops, strict=True)}
    near_at = _sum([_product(variable[a], near[a]) for a in axes])
    far_at = _sum(
        [_product(_from(span.first, variable.get(a)), far[a]) for a, span in enumerate(spans)]
    )
    ends = (_at(moved.operand.name, far_at), _at(f"near_{moved.operand.name}", near_at))
    pitches = [0, 0] if rows is None else [far[rows], near[rows]]
    source, target = (ends[1], ends[0]) if moved.is_output else ends
    order = (0, 1) if moved.is_output else (1, 0)
    arguments = [
        f"{number}U",
        target,
        source,
        _unsigned(run),
        "1U" if rows is None else _unsigned([_count(spans[rows])]),
        *(f"{pitches[which] * moved.element_bytes}U" for which in order),
    ]
    inside = _MARGIN * (1 + len(loops))
    return _Copy(
        loops,
        filled(f"{inside}dlb_copy_start(", arguments, ");"),
        tuple(count for _, count in loops),
    )


def _at(pointer: str, index: str) -> str:
    return pointer if index == "0" else f"&{pointer}[{index}]"


def _count(span: Span) -> str:
    return str(span.count) if isinstance(span.count, int) else f"task->{span.count}"


def _from(first: str | int, variable: str | None) -> str:
    start = f"task->{first}" if isinstance(first, str) else str(first)
    if variable is None:
        return start
    return variable if start == "0" else f"({start} + {variable})"


def _product(value: str, factor: int) -> str:
    if value == "0":
        return "0"
    return value if factor == 1 else f"({value} * {factor})"


def _sum(parts: Sequence[str]) -> str:
    found = [part for part in parts if part != "0"]
    text = " + ".join(found) or "0"
    return text[1:-1] if len(found) == 1 and text.startswith("(") else text


def _unsigned(factors: Sequence[str]) -> str:
    """Return a product as an unsigned number in C."""
    known = prod(int(f) for f in factors if f.isdigit())
    others = [f for f in factors if not f.isdigit()]
    if not others:
        return f"{known}U"
    words = [*others, *([str(known)] if known != 1 else [])]
    return f"(uint32_t){words[0]}" if len(words) == 1 else f"(uint32_t)({' * '.join(words)})"
