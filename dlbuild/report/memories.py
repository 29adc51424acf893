"""How each memory of a build is filled, as plain text: how far, by what, and when most."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dlbuild.base.units import bytes_text
from dlbuild.emit.comments import shortened
from dlbuild.ir.schedule import MemoryUse, Schedule
from dlbuild.report.text import table_text
from dlbuild.stages.budget import live_at_peak

_HEADER = ("memory", "used", "bound", "ratio", "budget", "left", "peak")
_ARENA = "the arena: activations, kernel scratch, alignment, interface buffers placed there"
_NEAR = "windows of the kernel that runs, partial sums, and tensors that stay between kernels"


@dataclass(frozen=True, slots=True)
class Filled:
    """One memory of a build.

    budget_bytes, left_bytes: None without a budget; the declared stack is taken off where the
    arena lies. peak: the kernel of the fullest step. live: what that step needs, largest first.
    """

    memory: str
    counted: str
    used_bytes: int
    bound_bytes: int
    budget_bytes: int | None
    left_bytes: int | None
    step: int
    peak: str
    live: tuple[tuple[str, int], ...]

    @property
    def ratio(self) -> float:
        """Bytes used over what no plan of these steps can be below."""
        return self.used_bytes / self.bound_bytes if self.bound_bytes else 1.0

    def as_json(self) -> Mapping[str, object]:
        """Return what `--json` prints."""
        return {
            "memory": self.memory,
            "counted": self.counted,
            "used_bytes": self.used_bytes,
            "bound_bytes": self.bound_bytes,
            "ratio": round(self.ratio, 3),
            "budget_bytes": self.budget_bytes,
            "left_bytes": self.left_bytes,
            "peak_step": self.step,
            "peak": self.peak,
            "live": [{"name": name, "bytes": size} for name, size in self.live],
        }


def filled(schedule: Schedule, stack_bytes: int) -> Iterator[Filled]:
    """Yield how each memory of a schedule is filled. stack_bytes: the declared one, or 0."""
    for use in schedule.memories:
        stack = 0 if use.is_near else stack_bytes
        left = None if use.budget_bytes is None else use.budget_bytes - use.height_bytes - stack
        counted = _NEAR if use.is_near else _ARENA
        yield Filled(
            memory=use.memory,
            counted=f"{counted}; not the stack, {stack} B" if stack else counted,
            used_bytes=use.height_bytes,
            bound_bytes=use.bound_bytes,
            budget_bytes=use.budget_bytes,
            left_bytes=left,
            step=use.peak_step,
            peak=_kernel(schedule, use),
            live=tuple(live_at_peak(schedule, use)),
        )


def _kernel(schedule: Schedule, use: MemoryUse) -> str:
    return schedule.steps[use.peak_step].kernel if schedule.steps else ""


def memories_text(build: str, found: Sequence[Filled]) -> Iterator[str]:
    """Yield the lines of one build."""
    rows = [
        (
            one.memory,
            f"{one.used_bytes:,}",
            f"{one.bound_bytes:,}",
            f"{one.ratio:.3f}",
            "-" if one.budget_bytes is None else f"{one.budget_bytes:,}",
            "-" if one.left_bytes is None else f"{one.left_bytes:,}",
            f"step {one.step} ({one.peak})",
        )
        for one in found
    ]
    yield f"memories of {build}, in bytes"
    yield from (f"  {line}" for line in table_text(_HEADER, rows))
    for one in found:
        kept = [f"{shortened(name)} {bytes_text(size)}" for name, size in one.live]
        live = ", ".join(kept) or "nothing"
        yield f"  {one.memory} holds {one.counted}"
        yield f"  {one.memory} at its peak: {live}"
