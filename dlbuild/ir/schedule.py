"""What the schedule stage decided: when each task runs, and where each tensor lies."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, slots=True)
class Buffer:
    """A tensor's place. Lifetimes are steps, half-open: [first_step, last_step).

    memory: a memory of the target, or `caller` (interface buffers), where offset is 0.
    alias_of: another buffer in whose bytes it lies (in place or view), or the empty name.
    rows: of a ring, how many it keeps; 0 = the whole tensor is there.
    dtype: of working memory, which is no tensor of the model; else the empty name.
    """

    tensor: str
    memory: str
    offset_bytes: int
    size_bytes: int
    first_step: int
    last_step: int
    align_bytes: int = 1
    alias_of: str = ""
    rows: int = 0
    dtype: str = ""


@dataclass(frozen=True, slots=True)
class Wait:
    """Before a step: until another core has done its step `step`, and so all before that.

    lag: in which run, if several follow each other in a stream: 0 = the same, 1 = the one before.
    """

    core: int
    step: int
    lag: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the schedule: a tile of a kernel on a core. `is_code` is false for an alias.

    Each core does its steps in the order of their numbers. waits: what they wait for.

    strip: the number, from 1, of the strip it belongs to; steps of a strip are neighbours and run
    together. 0 = none.
    """

    number: int
    kernel: str
    tile: int = 0
    core: int = 0
    is_code: bool = True
    strip: int = 0
    waits: tuple[Wait, ...] = ()


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """How one memory is filled: arena height, provable lower bound, budget, fullest step.

    is_near: it holds no arena, but windows of kernels and tensors that stay between them.
    """

    memory: str
    height_bytes: int
    bound_bytes: int
    budget_bytes: int | None
    peak_step: int
    is_near: bool = False


@dataclass(frozen=True)
class Schedule:
    """Order, place and time of everything."""

    steps: tuple[Step, ...]
    buffers: tuple[Buffer, ...]
    memories: tuple[MemoryUse, ...]
    solver: str = ""

    @property
    def near(self) -> tuple[MemoryUse, ...]:
        """How near memories are filled."""
        return tuple(use for use in self.memories if use.is_near)

    @cached_property
    def buffer(self) -> Mapping[str, Buffer]:
        """Each buffer by its tensor."""
        return {b.tensor: b for b in self.buffers}
