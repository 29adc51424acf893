"""Which steps must wait for which: where they touch the same bytes, and one of them writes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dlbuild.ir.profile import Kernel, Profile
from dlbuild.ir.schedule import Buffer, Schedule, Step, Wait
from dlbuild.ir.tile_plan import NO_TILES, TilePlan, Touch
from dlbuild.stages.scratch import scratch_name
from dlbuild.stages.sharing import CALLER

NOTHING = -1
"""What a core knows at the start of another: no step is done."""


@dataclass(frozen=True, slots=True)
class Use:
    """What a step does to bytes of one memory. touch: None = all of a tensor."""

    step: int
    tensor: str
    is_write: bool
    first_byte: int
    end_byte: int
    touch: Touch | None


@dataclass
class _Shown:
    """The uses of one tensor so far. latest: of each core the last step among them."""

    uses: list[Use]
    latest: list[int]


class Uses:
    """What each step of a schedule touches."""

    def __init__(self, profile: Profile, tiles: TilePlan, schedule: Schedule) -> None:
        self._profile = profile
        self._buffer = schedule.buffer
        self._touches: dict[tuple[str, int], list[Touch]] = {}
        for touch in tiles.touches:
            self._touches.setdefault((touch.kernel, touch.tile), []).append(touch)

    def of(self, step: Step) -> Iterator[Use]:
        """Yield the uses of a step, each tensor once as read and once as written."""
        if not step.is_code:
            return
        touches = self._touches.get((step.kernel, step.tile))
        if touches is None:
            kernel: Kernel = self._profile.kernel[step.kernel]
            for names, is_write in ((kernel.reads, False), (kernel.writes, True)):
                for tensor in dict.fromkeys(names):
                    buffer = self._buffer[tensor]
                    first = buffer.offset_bytes
                    end = first + buffer.size_bytes
                    yield Use(step.number, tensor, is_write, first, end, None)
            scratch = self._buffer.get(scratch_name(step.kernel, NO_TILES, ""))
            if scratch is not None:
                first = scratch.offset_bytes
                end = first + scratch.size_bytes
                yield Use(
                    step.number,
                    scratch.tensor,
                    is_write=True,
                    first_byte=first,
                    end_byte=end,
                    touch=None,
                )
            return
        for touch in touches:
            first = self._buffer[touch.tensor].offset_bytes
            ends = first + touch.first_byte, first + touch.end_byte
            yield Use(step.number, touch.tensor, touch.is_write, *ends, touch)


def region_of(buffer: Buffer) -> str:
    """Name the bytes that a buffer lies in: a memory, or an array of the caller's."""
    return (
        f"{CALLER} {buffer.alias_of or buffer.tensor}" if buffer.memory == CALLER else buffer.memory
    )


def meet(one: Use, other: Use) -> bool:
    """Say whether two uses of the same region may touch one byte, one of them writing it."""
    if not (one.is_write or other.is_write):
        return False
    if one.first_byte >= other.end_byte or other.first_byte >= one.end_byte:
        return False
    if one.tensor != other.tensor or one.touch is None or other.touch is None:
        return True
    return one.touch.meets(other.touch)


def with_waits(  # noqa: PLR0913 - a plan, and how cores meet
    profile: Profile,
    tiles: TilePlan,
    schedule: Schedule,
    count: int,
    layers: Mapping[str, int] | None = None,
    *,
    is_stream: bool = False,
) -> Schedule:
    """Return a schedule whose steps wait for those that they meet on other cores.

    A wait is left out if another one implies it: each core knows what is done of all others,
    from its own waits and from what those knew that it waited for.

    Args:
        profile: the kernels.
        tiles: what each step touches.
        schedule: steps with their cores, and places of tensors.
        count: of cores.
        layers: of each kernel, for cores that all meet before a layer begins; else None.
        is_stream: a core may begin the next run while others are still at this one.
    """
    if is_stream:
        steps = _of_stream(_Maker(profile, tiles, schedule, count), schedule.steps)
        return replace(schedule, steps=steps)
    maker = _Maker(profile, tiles, schedule, count)
    return replace(schedule, steps=tuple(maker.steps(schedule.steps, layers)))


RUNS = 8
"""So many runs on paper, at most, until the waits of one are those of the one before."""


def _of_stream(maker: "_Maker", steps: Sequence[Step]) -> tuple[Step, ...]:
    """Return the steps with the waits of a run that follows others without a pause.

    Each run is one more copy of the steps behind the last: what a core knows of it is known of the
    run before too. Waits for a run before the first one are for what has been done.
    """
    before: tuple[Step, ...] = ()
    for run in range(RUNS):
        first = run * len(steps)
        copies = [replace(step, number=first + step.number) for step in steps]
        made = maker.steps(copies, None)
        found = tuple(
            replace(step, waits=tuple(_lagging(wait, run, len(steps)) for wait in with_waits.waits))
            for step, with_waits in zip(steps, made, strict=True)
        )
        if run > 1 and found == before:
            return found
        before = found
    raise AssertionError("the waits of a stream do not settle")


def _lagging(wait: Wait, run: int, n_steps: int) -> Wait:
    return Wait(wait.core, wait.step % n_steps, run - wait.step // n_steps)


class _Maker:
    def __init__(self, profile: Profile, tiles: TilePlan, schedule: Schedule, count: int) -> None:
        self._uses = Uses(profile, tiles, schedule)
        self._count = count
        self._known = [[NOTHING] * count for _ in range(count)]
        self._after: dict[int, list[int]] = {}
        self._core: dict[int, int] = {}
        self._shown: dict[str, _Shown] = {}
        self._beside = _overlapping(schedule.buffers)

    def steps(self, steps: Sequence[Step], layers: Mapping[str, int] | None) -> Iterator[Step]:
        """Yield the steps with their waits."""
        layer, gate = 0, list[int]()
        last = [NOTHING] * self._count
        for step in steps:
            if not step.is_code:
                yield step
                continue
            if layers and layers[step.kernel] != layer:
                layer, gate = layers[step.kernel], [s for s in last if s != NOTHING]
            needed = [*gate, *self._met(step)]
            yield replace(step, waits=tuple(self._waits(step, needed)))
            last[step.core] = step.number
            self._core[step.number] = step.core
            self._known[step.core][step.core] = step.number
            self._after[step.number] = list(self._known[step.core])

    def _met(self, step: Step) -> Iterator[int]:
        """Yield the steps of other cores that this one meets and does not know to be done."""
        known = self._known[step.core]
        uses = list(self._uses.of(step))
        for use in uses:
            for tensor in self._beside[use.tensor]:
                shown = self._shown.get(tensor)
                if shown is None or all(a <= b for a, b in zip(shown.latest, known, strict=True)):
                    continue
                for other in shown.uses:
                    is_known = other.step <= known[self._core[other.step]]
                    if not is_known and meet(use, other):
                        yield other.step
        for use in uses:
            shown = self._shown.setdefault(use.tensor, _Shown([], [NOTHING] * self._count))
            shown.uses.append(use)
            shown.latest[step.core] = step.number

    def _waits(self, step: Step, needed: Sequence[int]) -> Iterator[Wait]:
        """Yield the waits for the steps that are needed, the latest first."""
        known = self._known[step.core]
        for number in sorted(set(needed), reverse=True):
            core = self._core[number]
            if core == step.core or number <= known[core]:
                continue
            yield Wait(core, number)
            known[:] = map(max, known, self._after[number])


def _overlapping(buffers: Sequence[Buffer]) -> Mapping[str, tuple[str, ...]]:
    """Return for each tensor those that lie in some of its bytes, itself too."""
    found: dict[str, list[str]] = {buffer.tensor: [] for buffer in buffers}
    regions: dict[str, list[Buffer]] = {}
    for buffer in buffers:
        regions.setdefault(region_of(buffer), []).append(buffer)
    for inside in regions.values():
        ordered = sorted(inside, key=lambda buffer: buffer.offset_bytes)
        for number, one in enumerate(ordered):
            end = one.offset_bytes + one.size_bytes
            found[one.tensor].append(one.tensor)
            for other in ordered[number + 1 :]:
                if other.offset_bytes >= end:
                    break
                found[one.tensor].append(other.tensor)
                found[other.tensor].append(one.tensor)
    return {tensor: tuple(names) for tensor, names in found.items()}
