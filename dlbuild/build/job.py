"""What a stage is given: bytes by name, and only those settings that are in its key."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dlbuild.ir.batch import Batch
from dlbuild.ir.target import Options, Target


@dataclass(frozen=True)
class Tolerance:
    """How far outputs may be from the reference; None = the default of the dtype."""

    rtol: float | None = None
    atol: float | None = None
    lsb: int | None = None


@dataclass(frozen=True)
class Settings:
    """What the recipe says of one build. Fields that a stage does not declare have their defaults.

    model: the name, which is the C prefix too. source: the .onnx file; samples: an .npz; folders:
    where rules and templates are, packs first. measurements: their file, which need not exist.
    No path may reach a result.
    """

    model: str
    source: Path = Path()
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    state: tuple[tuple[str, str], ...] = ()
    batch: Batch | None = None
    samples: Path | None = None
    tolerance: Tolerance = field(default_factory=Tolerance)
    target: Target = field(default_factory=lambda: Target(""))
    options: Options = field(default_factory=Options)
    folders: tuple[Path, ...] = ()
    measurements: Path | None = None


@dataclass(frozen=True)
class Job:
    """One run of a stage. inputs: content of the files that it reads, by their names."""

    settings: Settings
    inputs: Mapping[str, bytes]


Run = Callable[[Job], Mapping[str, bytes]]
"""A stage: the files that it makes, by their names. Same job, same bytes."""


@dataclass(frozen=True)
class ModelFiles:
    """What a gate sees of one model."""

    model: str
    options: Options
    files: Mapping[str, bytes]
