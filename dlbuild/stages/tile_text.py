"""A kernel that runs through a near memory, as C: its tasks, their copies, and what runs them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dlbuild.emit.comments import filled
from dlbuild.emit.ctypes import storage
from dlbuild.emit.environment import Environment
from dlbuild.emit.handwritten import render
from dlbuild.emit.helpers import helper_text, helpers_of, includes_of
from dlbuild.emit.kernel import KernelText, Parameter
from dlbuild.emit.literals import COLUMNS
from dlbuild.ir.target import Registers
from dlbuild.ir.tile_plan import Tiling
from dlbuild.rulebook.instance import Instance
from dlbuild.stages.arena import MEMBER, NEAR
from dlbuild.stages.tile_copy import Copy, Source, copied, unsigned
from dlbuild.stages.tile_fields import PART, Fields, fields_of
from dlbuild.stages.tile_hand import AT, HandKernel, hand_kernel
from dlbuild.stages.tile_nest import near_kernel, near_pitch
from dlbuild.stages.tile_space import Moved, TileSpace

_MARGIN = "    "


@dataclass(frozen=True, slots=True)
class _Room:
    """The buffers of an operand: its C type, and where they are."""

    operand: str
    ctype: str
    places: tuple[str, ...]
    copy: Copy


@dataclass(frozen=True, slots=True)
class Group:
    """Operands whose windows change together, so that one channel serves them.

    name: of the first. tests: one of these holds in C if the next windows are others.
    """

    name: str
    rooms: tuple[_Room, ...]
    is_output: bool
    tests: tuple[str, ...]

    def when_changed(self, margin: str) -> str:
        """Return the head of a statement for windows that change, broken as clang-format does."""
        if len(self.tests) == 1:
            return f"{margin}if ({self.tests[0]}) {{"
        line, lines = f"{margin}if (", []
        for number, test in enumerate(self.tests, start=1):
            word = f"({test}) ||" if number < len(self.tests) else f"({test})) {{"
            space = "" if line.endswith("(") else " "
            if number > 1 and len(line) + len(space) + len(word) > COLUMNS:
                lines.append(line)
                line, space = f"{margin}    ", ""
            line += space + word
        return "\n".join([*lines, line])

    @property
    def count(self) -> str:
        """The number of copies in C."""
        fixed = sum(not room.copy.count for room in self.rooms)
        moving = [unsigned(room.copy.count) for room in self.rooms if room.copy.count]
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
    moved = frozenset(m.operand.name for m in space.moved)
    by_hand = hand_kernel(instance, space, tiling, orders, constants) if space.hand else None
    near = by_hand or near_kernel(instance, space, tiling, orders)
    kernels = [
        render(
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
    if tiling.outer is None:
        driver = _Driver(instance, name, space, tiling, kernels, by_hand=by_hand)
        return (*kernels, driver.text(environment))
    staged = space.keeping(buffer.operand for buffer in tiling.outer.buffers)
    part = f"{name}_part"
    inner = _Driver(instance, part, space, tiling, kernels, f"{name}_task_t", by_hand=by_hand)
    tasks = inner.text(environment)
    first = inner.channels
    outer = _Driver(instance, name, staged, tiling.outer, [tasks], room=NEAR[1], channel=first)
    return (*kernels, *outer.declared(environment), tasks, outer.text(environment))


class _Driver:
    """The function that runs the tasks of one level.

    part: the C type of the part that they are of; if that is given, a level further out brings the
    windows from which they bring theirs.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what the text is made of
        self,
        instance: Instance,
        name: str,
        space: TileSpace,
        tiling: Tiling,
        kernels: Sequence[KernelText],
        part: str = "",
        room: str = NEAR[0],
        channel: int = 0,
        by_hand: HandKernel | None = None,
    ) -> None:
        self._instance, self._name, self._space = instance, name, space
        self._tiling, self._kernels = tiling, kernels
        self._fields: Fields = fields_of(space, tiling)
        self._buffers = {b.operand: b for b in tiling.buffers}
        self._sources = dict(sources_of(space, tiling))
        self._part = part if tiling.outer and tiling.outer.loops else ""
        self._room_name, self._channel, self._is_outer = room, channel, room != NEAR[0]
        self._by_hand = by_hand.call if by_hand else None

    @property
    def channels(self) -> int:
        """How many channels it takes."""
        return len(self._groups())

    @property
    def _tasks(self) -> int:
        outer = self._tiling.outer
        return self._tiling.tasks // (outer.tasks if outer else 1)

    def declared(self, environment: Environment) -> tuple[KernelText, ...]:
        """Return what a function before this one has to know: the struct of a task."""
        if not self._fields.members:
            return ()
        text = self._struct(environment)
        helpers = helpers_of(environment, [text])
        comment, rest = text.split("\n", 1)
        return (KernelText(rest, comment, (), helpers, includes_of([text])),)

    def _struct(self, environment: Environment) -> str:
        name = self._name
        given = ["int32_t number", *([f"const {self._part} *{PART}"] if self._part else [])]
        return (
            environment.get_template("kernels/tile_task.c.j2")
            .render(
                name=name,
                head=filled(f"static {name}_task_t {name}_task(", given, ")"),
                fields=self._fields.members,
                part=self._part,
                of="part" if self._is_outer else "task",
            )
            .rstrip("\n")
        )

    def text(self, environment: Environment) -> KernelText:
        parameters = self._parameters()
        groups = self._groups()
        head = [self._declared(p) for p in parameters]
        head += [f"const {self._part} *{PART}"] if self._part else []
        text = environment.get_template("kernels/tiles.c.j2").render(
            name=self._name,
            tasks=self._tasks,
            fields=self._fields.members,
            struct="" if self._is_outer else self._struct(environment),
            part=self._part,
            channel=self._channel,
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
        given = (PART,) if self._part else ()
        return KernelText(text, self._comment(), parameters, helpers, includes_of(texts), given)

    def _groups(self) -> list[Group]:
        """Put operands together whose windows change in the same tasks."""
        alike: dict[tuple[bool, int, tuple[str, ...]], list[Moved]] = {}
        for moved in self._space.moved:
            copies = self._buffers[moved.operand.name].copies
            fields = self._fields.changes[moved.operand.name]
            alike.setdefault((moved.is_output, copies, fields), []).append(moved)
        found = []
        for number, ((is_output, _, fields), members) in enumerate(alike.items()):
            tests = tuple(f"next.{field} != task.{field}" for field in fields)
            channel = self._channel + number
            rooms = tuple(self._room(channel, moved) for moved in members)
            found.append(Group(rooms[0].operand, rooms, is_output, tests))
        return found

    def _copier(self, group: Group) -> str:
        """Return the head of the function that copies a group's windows."""
        verb = "send" if group.is_output else "bring"
        parameters = [f"const {self._name}_task_t *task"] if self._fields.members else []
        parameters += [f"const {self._part} *{PART}"] if self._part else []
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
        arguments += [PART] if self._part else []
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
            elif operand.name in by_value and operand.name not in self._buffers:
                found.append(by_value[operand.name])
        return tuple(found)

    def _declared(self, parameter: Parameter) -> str:
        if parameter.by_value:
            return f"{parameter.ctype} {parameter.operand}"
        const = "const " if parameter.is_const else ""
        return f"{const}{parameter.ctype} *{parameter.operand}"

    def _comment(self) -> str:
        tiling = self._tiling
        word = "part" if self._is_outer else "task"
        tasks = f"{tiling.tasks:,} {word}{'s' if tiling.tasks != 1 else ''}"
        cuts = ", ".join(f"{cut.axis} by {cut.size}" for cut in tiling.loops) or "uncut"
        way = "the memory between" if self._is_outer else "the near memory"
        return (
            f"/* {self._name} through {way}: {tasks} ({cuts}),\n"
            f" * {tiling.traffic_bytes:,} B in {tiling.transfers:,} windows, "
            f"{sum(b.copies * b.stride_bytes for b in tiling.buffers):,} B of {way}.\n */"
        )

    def _room(self, channel: int, moved: Moved) -> _Room:
        operand = moved.operand
        buffer = self._buffers[operand.name]
        ctype = storage(operand.dtype)
        places = tuple(
            self._place(ctype, buffer.offset_bytes + at * buffer.stride_bytes, moved.element_bytes)
            for at in range(buffer.copies)
        )
        spans = self._fields.spans[operand.name]
        copy = copied(channel, moved, buffer, spans, self._sources[operand.name])
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
                arguments.append(self._pointer(name, now[name]))
            elif name in self._buffers:
                buffer = self._buffers[name]
                ctype = storage(buffer.dtype)
                arguments.append(self._place(ctype, buffer.offset_bytes, _bytes(ctype)))
            else:
                arguments.append(self._pointer(name, name))
        arguments += ["&task" if given == PART else self._number(given) for given in kernel.given]
        function = kernel.text.split("static void ", 1)[1].split("(", 1)[0]
        depth = 2 if self._fields.members else 1
        margin = _MARGIN * (depth + (kernel is not self._kernels[0]))
        if self._by_hand is None or not self._by_hand.turns:
            return filled(f"{margin}{function}(", arguments, ");")
        head = f"{margin}for (int32_t {AT} = 0; {AT} < {self._by_hand.turns}; ++{AT}) {{"
        return "\n".join(
            [head, filled(f"{margin}{_MARGIN}{function}(", arguments, ");"), f"{margin}}}"]
        )

    def _pointer(self, operand: str, pointer: str) -> str:
        return self._by_hand.argument(operand, pointer) if self._by_hand else pointer

    def _number(self, given: str) -> str:
        if self._by_hand:
            return self._by_hand.given[given]
        value = self._fields.given[given]
        return f"task.{value}" if isinstance(value, str) else str(value)

    def _place(self, ctype: str, offset_bytes: int, element_bytes: int) -> str:
        return f"&{self._room_name}.{MEMBER[ctype]}[{offset_bytes // element_bytes}]"

    def _last(self) -> str:
        """Return the condition that a result is complete, or nothing: it always is."""
        tests = []
        for axis in self._tiling.reduction:
            extent = self._space.nest.extent[axis]
            size = next(cut.size for cut in self._tiling.loops if cut.axis == axis)
            last = (-(-extent // size) - 1) * size
            tests.append(f"task.{axis}_first == {last}")
        return tests[0] if len(tests) == 1 else " && ".join(f"({test})" for test in tests)


def _bytes(ctype: str) -> int:
    return max(int(MEMBER[ctype][1:]) // 8, 1)


def sources_of(space: TileSpace, tiling: Tiling) -> Iterator[tuple[str, Source]]:
    """Yield each operand that is moved, and how it lies where its windows come from or go to."""
    outer = tiling.outer
    between = {b.operand: b for b in outer.buffers} if outer else {}
    fields = fields_of(space.keeping(between), outer) if outer else None
    for moved in space.moved:
        name = moved.operand.name
        if fields and name in between:
            origins = [span.first for span in fields.spans[name]]
            yield name, Source(near_pitch(moved, between[name]), origins)
        else:
            yield name, Source(moved.pitch, [0] * len(moved.view))
