"""What kernels cost: measured on a target and kept in a file, or predicted."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one kernel function costs on one target.

    signature: of its C text, the compiler and its flags, and the target. unit: of `cost`, such as
    `instructions` or `ns`. about: for people, what the kernel is.
    """

    target: str
    about: str
    signature: str
    unit: str
    cost: int


@dataclass(frozen=True)
class Measurements:
    """A file of measurements, which users commit: shared by all models and targets that name it."""

    entries: tuple[Measurement, ...] = ()

    @cached_property
    def of(self) -> Mapping[str, Measurement]:
        """Each measurement by its signature."""
        return {entry.signature: entry for entry in self.entries}

    def with_entries(self, more: tuple[Measurement, ...]) -> "Measurements":
        """Return these and others, which win; in the order of a file."""
        merged = {**self.of, **{entry.signature: entry for entry in more}}
        return Measurements(tuple(sorted(merged.values(), key=_place)))

    def only(self, signatures: frozenset[str], targets: frozenset[str]) -> "Measurements":
        """Return these without those of `targets` whose signature is not among `signatures`."""
        kept = (e for e in self.entries if e.signature in signatures or e.target not in targets)
        return Measurements(tuple(kept))


def _place(entry: Measurement) -> tuple[str, str, str]:
    return entry.target, entry.about, entry.signature


@dataclass(frozen=True, slots=True)
class KernelCost:
    """What one kernel of a model costs, in the unit of its `Costs`.

    signature: empty if the build names no measurement file.
    """

    kernel: str
    cost: int
    signature: str = ""
    is_measured: bool = False


@dataclass(frozen=True)
class Costs:
    """What each kernel of a profile costs, in its order.

    unit: `cycles` if predicted by the target's cost table, else that of the measurements; kernels
    without one have their prediction in that unit.
    """

    unit: str
    kernels: tuple[KernelCost, ...]

    @cached_property
    def of(self) -> Mapping[str, KernelCost]:
        """Each cost by its kernel."""
        return {found.kernel: found for found in self.kernels}

    @property
    def total(self) -> int:
        """The sum over all kernels."""
        return sum(found.cost for found in self.kernels)
