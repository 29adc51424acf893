"""Check a tile plan the simple way: replay every task, and see what lies in the near memory."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod

import numpy as np
import numpy.typing as npt

from dlbuild.ir.dtype import DTYPES
from dlbuild.ir.graph import Graph
from dlbuild.ir.profile import Profile
from dlbuild.ir.target import Options, Target
from dlbuild.ir.tile_plan import NearBuffer, TilePlan, Tiling, resident_names
from dlbuild.rulebook.derive import loaded_operands
from dlbuild.rulebook.handwritten import packed_access, spanning, with_kernel
from dlbuild.rulebook.instance import Access, Instance, Nest, Operand
from dlbuild.rulebook.kernels import instance_of, wish_of
from dlbuild.rulebook.load import RuleBook
from dlbuild.rulebook.operands import read_operands
from dlbuild.rulebook.tiles import window
from dlbuild.stages.audit import AuditError

Box = Mapping[str, tuple[int, int]]
Hull = tuple[tuple[int, int], ...]


def audit_tiles(  # noqa: PLR0913, PLR0917 - the inputs of the stage, and what it made
    graph: Graph,
    profile: Profile,
    plan: TilePlan,
    target: Target,
    options: Options,
    book: RuleBook,
) -> None:
    """Prove that each tiling computes its kernel within the near memory.

    Raises:
        AuditError: names the kernel, the task and the operand of the first fault found.
    """
    memories = {memory.name: memory for memory in target.memories}
    wish = wish_of(target, options)
    staying = resident_names(profile, plan)
    for tiling in plan.tilings:
        for level in (tiling, tiling.outer):
            memory = memories[level.memory] if level else None
            if level and memory and level.near_bytes > (memory.size_bytes or level.near_bytes):
                raise AuditError(f"{tiling.kernel} needs {level.near_bytes} B of {memory.name}")
        instance = instance_of(profile.kernel[tiling.kernel], graph, book, wish)
        nest, operands = instance.nests[0], instance.operands
        own: Iterator[str] = iter(())
        if tiling.is_handwritten:
            instance = with_kernel(instance, tiling.form)
            nest, operands = _by_hand(tiling, instance)
            own = _hand_faults(tiling, instance, staying)
        unmoved = _unmoved(tiling, operands, nest, graph, staying)
        for fault in (*own, *unmoved, *tiling_faults(tiling, nest, operands)):
            raise AuditError(f"{tiling.kernel}: {fault}")


def _by_hand(tiling: Tiling, instance: Instance) -> tuple[Nest, tuple[Operand, ...]]:
    """Return what tasks of a hand-written kernel touch: as the nest, but packed constants."""
    (nest,), by_hand = instance.nests, instance.handwritten
    assert by_hand is not None
    used = {operand.name for operand in read_operands(instance)}
    operands = tuple(
        o for o in instance.operands if o.role == "output" or (o.name in used - by_hand.rooms)
    )
    blocks = by_hand.blocks
    extent = dict(nest.extent)
    axes = [blocks.axis] if blocks else []
    if tiling.is_by_rows:
        axes += [a for a in (*by_hand.rows, *by_hand.columns) if nest.extent[a] > 1]
    access = {name: spanning(found, axes, extent) for name, found in nest.access.items()}
    buffers = {buffer.operand: buffer for buffer in tiling.buffers}
    is_cut = blocks is not None and blocks.axis in {cut.axis for cut in tiling.parts}
    for operand in operands if blocks else ():
        buffer = buffers.get(operand.name)
        is_packed = all(known.operand != operand.name for known in nest.access.values())
        if blocks and buffer and is_packed and (is_cut or buffer.shape != operand.shape):
            rest = f"rest of {operand.name}"
            extent[rest] = prod(operand.shape[1:])
            axis = rest if extent[rest] > 1 else ""
            channels = nest.extent[blocks.axis]
            access[operand.name] = packed_access(operand, blocks, channels, axis)
    return replace(nest, access=access, extent=extent), operands


def _hand_faults(tiling: Tiling, instance: Instance, staying: frozenset[str]) -> Iterator[str]:
    """Yield what a hand-written kernel cannot be asked for, and working memory that is short."""
    (nest,), by_hand = instance.nests, instance.handwritten
    assert by_hand is not None
    blocks = by_hand.blocks
    for cut in (cut for level in tiling.levels for cut in level.loops):
        if blocks and cut.axis == blocks.axis:
            if cut.size % blocks.of or nest.extent[cut.axis] % cut.size:
                yield f"{cut.size} of the channels {cut.axis} are computed at a time"
            if any(o.tensor in staying for o in _of_channels(instance, cut.axis)):
                yield f"channels along {cut.axis} are read in parts where they lie"
        elif not (tiling.is_by_rows and cut.axis in (*by_hand.rows, *by_hand.columns)):
            yield f"a hand-written kernel is cut along {cut.axis}"
    form = by_hand.forms[tiling.form]
    count = form.count_of(0) if tiling.is_by_rows else form.count
    shapes = {buffer.operand: buffer.shape for buffer in tiling.buffers}
    for name in by_hand.rooms if count else ():
        if prod(shapes.get(name, (0,))) < count:
            yield f"{name} has no {count} numbers of working memory"


def _of_channels(instance: Instance, axis: str) -> Iterator[Operand]:
    """Yield the operands that the template reads itself and whose place depends on a channel."""
    (nest,), by_hand = instance.nests, instance.handwritten
    for access in nest.access.values():
        is_used = by_hand is not None and access.operand in by_hand.uses
        if is_used and any(axis in index.axes() for index in access.index):
            yield instance.operand(access.operand)


def _unmoved(
    tiling: Tiling,
    operands: Sequence[Operand],
    nest: Nest,
    graph: Graph,
    staying: frozenset[str],
) -> Iterator[str]:
    """Operands without a window stay in the near memory, or are one number of the table."""
    moved = {buffer.operand for buffer in tiling.buffers}
    read = {a.operand for a in nest.access.values()}
    for operand in operands:
        is_read = operand.name in read or tiling.is_handwritten
        if not is_read or operand.name in moved or operand.tensor in staying:
            continue
        is_constant = operand.role == "constant" or operand.tensor in graph.constants
        if not is_constant or prod(operand.shape) != 1:
            yield f"{operand.name} is neither moved nor near"


def tiling_faults(tiling: Tiling, nest: Nest, operands: Sequence[Operand]) -> Iterator[str]:
    """Yield what is wrong with a tiling of a nest."""
    yield from _buffer_faults(tiling)
    yield from _loop_faults(tiling, nest)
    yield from _replay(tiling, nest, operands)
    if tiling.outer:
        yield from tiling_faults(tiling.outer, nest, operands)
        yield from _part_faults(tiling, tiling.outer, nest, operands)


def _part_faults(
    tiling: Tiling, outer: Tiling, nest: Nest, operands: Sequence[Operand]
) -> Iterator[str]:
    """What a task touches lies in the windows of its part, and parts have as many tasks each."""
    if outer.reduction:
        yield "a result is cut into partial sums by the parts"
    staged = {buffer.operand for buffer in outer.buffers}
    for operand in operands:
        if operand.name not in staged:
            continue
        if operand.name not in {buffer.operand for buffer in tiling.buffers}:
            yield f"{operand.name} comes into the memory between and no further"
        inner, around = _Hulls(tiling, nest, operand), _Hulls(outer, nest, operand)
        for part in _boxes(outer, nest):
            whole = around.over(part)
            tasks = list(_inside(tiling, nest, part))
            if len(tasks) * outer.tasks != tiling.tasks:
                yield f"a part has {len(tasks)} tasks of {tiling.tasks} in {outer.tasks} parts"
            for box in tasks:
                hull = inner.over(box)
                if any(a < c or b > d for (a, b), (c, d) in zip(hull, whole, strict=True)):
                    yield f"a task touches {operand.name} outside the window of its part"


def _buffer_faults(tiling: Tiling) -> Iterator[str]:
    """Buffers hold their windows and do not overlap."""
    for number, one in enumerate(tiling.buffers):
        needed = int(np.prod(one.shape)) * DTYPES[one.dtype].bits // 8
        if needed > one.stride_bytes:
            yield f"the buffer of {one.operand} has {one.stride_bytes} B for {needed} B"
        if one.offset_bytes * 8 % DTYPES[one.dtype].bits:
            yield f"the buffer of {one.operand} is not aligned"
        for other in tiling.buffers[:number]:
            ends = [b.offset_bytes + b.copies * b.stride_bytes for b in (one, other)]
            if one.offset_bytes < ends[1] and other.offset_bytes < ends[0]:
                yield f"the buffers of {one.operand} and {other.operand} overlap"


def _loop_faults(tiling: Tiling, nest: Nest) -> Iterator[str]:
    """Each axis is cut once, and sums are complete before the next tile is begun."""
    axes = [cut.axis for cut in tiling.loops]
    for axis in axes:
        if axes.count(axis) != 1 or axis not in (*nest.domain, *nest.reduce):
            yield f"the axis {axis} is cut {axes.count(axis)} times, or there is none"
    inner = axes[len(axes) - len(tiling.reduction) :] if tiling.reduction else []
    if set(inner) != set(tiling.reduction):
        yield "a loop over results is inside one over parts of them"
    for axis in axes:
        if (axis in tiling.reduction) == (axis in nest.domain):
            yield f"the axis {axis} is both of the domain and of the reduction, or of none"


def _replay(tiling: Tiling, nest: Nest, operands: Sequence[Operand]) -> Iterator[str]:
    """Run all tasks: what each reads is in a buffer, what it writes is written nowhere else."""
    buffers = {buffer.operand: buffer for buffer in tiling.buffers}
    # A result that stays is written where it lies, each task its part.
    outputs = [o for o in operands if o.role == "output"]
    brought = [o for o in operands if o.role != "output" and o.name in buffers]
    held: dict[str, tuple[Hull | None, ...]] = {}
    slot = dict.fromkeys(buffers, 0)
    written = {o.name: np.zeros(_shape(nest, o), np.uint8) for o in outputs}
    traffic = tasks = transfers = 0
    hulls = {o.name: _Hulls(tiling, nest, o) for o in (*outputs, *brought)}
    in_part = tiling.tasks // tiling.outer.tasks if tiling.outer else tiling.tasks
    for box in _boxes(tiling, nest):
        is_first = tasks % in_part == 0
        if is_first:
            held = {}  # a part begins with nothing there
        tasks += 1
        is_last = all(box[a][1] == nest.extent[a] for a in tiling.reduction)
        touched = {o.name: hulls[o.name].over(box) for o in (*outputs, *brought)}
        yield from _size_faults(tasks - 1, touched, buffers)
        leaving = outputs if is_last else []
        for operand in leaving:
            written[operand.name][tuple(slice(a, b) for a, b in touched[operand.name])] += 1
        coming = []
        for operand in brought:
            name, hull = operand.name, touched[operand.name]
            now = held.get(name, (None,) * buffers[name].copies)
            if now[slot[name]] != hull:
                coming.append(operand)
                slot[name] = 0 if is_first else (slot[name] + 1) % buffers[name].copies
                held[name] = _with(now, slot[name], hull)
        moved = [*coming, *(o for o in leaving if o.name in buffers)]
        traffic += sum(_hull_bytes(touched[o.name], o) for o in moved)
        transfers += len(moved)
    for name, counts in written.items():
        yield from _written_faults(name, counts)
    if (tasks, transfers, traffic) != (tiling.tasks, tiling.transfers, tiling.traffic_bytes):
        yield (
            f"{tasks} tasks move {traffic} B in {transfers} windows, the plan says"
            f" {tiling.tasks}, {tiling.traffic_bytes} B and {tiling.transfers}"
        )


def _hull_bytes(hull: Hull, operand: Operand) -> int:
    return prod(b - a for a, b in hull) * DTYPES[operand.dtype].bits // 8


def _size_faults(
    task: int, touched: Mapping[str, Hull], buffers: Mapping[str, NearBuffer]
) -> Iterator[str]:
    for name, hull in touched.items():
        if name not in buffers:
            continue
        if any(b - a > n for (a, b), n in zip(hull, buffers[name].shape, strict=True)):
            yield f"task {task} touches more of {name} than its buffer holds"


class _Hulls:
    """What tasks touch of an operand, once for each part of the axes on which that depends."""

    def __init__(self, tiling: Tiling, nest: Nest, operand: Operand) -> None:
        accesses = [a for a in nest.access.values() if a.operand == operand.name]
        axes = {axis for a in accesses for index in a.index for axis in index.axes()}
        self._axes = [cut.axis for cut in tiling.parts if cut.axis in axes]
        is_looked_up = operand.name in loaded_operands(nest) or not accesses
        is_whole = is_looked_up or len({a.view for a in accesses}) != 1 or not accesses[0].view
        self._whole = tuple((0, n) for n in _shape(nest, operand)) if is_whole else None
        self._nest, self._accesses = nest, accesses
        self._known: dict[tuple[tuple[int, int], ...], Hull] = {}

    def over(self, box: Box) -> Hull:
        key = tuple([box[axis] for axis in self._axes])
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._whole or _hull(self._nest, self._accesses, box)
        return found


def _written_faults(name: str, counts: npt.NDArray[np.uint8]) -> Iterator[str]:
    if counts.min(initial=1) != 1 or counts.max(initial=1) != 1:
        yield f"an element of {name} is written {counts.min()} to {counts.max()} times"


def _with(held: tuple[Hull | None, ...], slot: int, hull: Hull) -> tuple[Hull | None, ...]:
    return tuple(hull if number == slot else old for number, old in enumerate(held))


def _boxes(tiling: Tiling, nest: Nest) -> Iterator[Box]:
    """Yield what each task covers of the axes that are cut, part after part."""
    if tiling.outer is None:
        yield from _inside(tiling, nest, {})
        return
    for part in _inside(tiling.outer, nest, {}):
        yield from _inside(tiling, nest, part)


def _inside(tiling: Tiling, nest: Nest, part: Box) -> Iterator[Box]:
    ranges = []
    for cut in tiling.loops:
        first, end = part.get(cut.axis, (0, nest.extent[cut.axis]))
        ranges.append([(at, min(at + cut.size, end)) for at in range(first, end, cut.size)])
    for chosen in product(*ranges):
        yield {**part, **{cut.axis: r for cut, r in zip(tiling.loops, chosen, strict=True)}}


def _shape(nest: Nest, operand: Operand) -> tuple[int, ...]:
    views = {a.view for a in nest.access.values() if a.operand == operand.name}
    view = next(iter(views)) if len(views) == 1 else operand.shape
    return view or (1,)


def _hull(nest: Nest, accesses: Sequence[Access], box: Box) -> Hull:
    """Return the smallest window around all that a task touches of an operand."""
    windows = [window(nest, access, box) for access in accesses]
    found = []
    for parts, extent in zip(zip(*windows, strict=True), accesses[0].view, strict=True):
        first, last = min(p.first for p in parts), max(p.last for p in parts)
        # Of a window that is all padding, one element is moved all the same.
        first = min(first, extent - 1)
        found.append((first, max(last, first + 1)))
    return tuple(found)
