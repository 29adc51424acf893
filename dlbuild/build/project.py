"""What dlbuild.yaml asks for, read and resolved. Apart from its reader, which few builds need."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dlbuild.base.paths import builtin_folder
from dlbuild.build.job import Tolerance
from dlbuild.ir.batch import Batch
from dlbuild.ir.target import Options, Target


@dataclass(frozen=True)
class Model:
    """One network: its files and what the user says of its tensors.

    state: each output with the input that it is carried to, in the order of their parameters.
    """

    name: str
    source: Path
    shapes: Mapping[str, tuple[int, ...]]
    samples: Path | None
    tolerance: Tolerance
    state: tuple[tuple[str, str], ...]
    batch: Batch | None = None


@dataclass(frozen=True)
class Build:
    """One model for one target. where: the line that asks for it, if there is one."""

    model: str
    target: str
    options: Options

    @property
    def label(self) -> str:
        """`model@target`, as status lines and errors say it."""
        return f"{self.model}@{self.target}"


@dataclass(frozen=True)
class Recipe:
    """All that dlbuild.yaml asks for.

    packs: rule folders before the built-in one, in order. files: every YAML file that was read
    or would be if it existed in a pack, for the no-op check.
    """

    models: Mapping[str, Model]
    targets: Mapping[str, Target]
    builds: tuple[Build, ...]
    packs: tuple[Path, ...]
    files: tuple[Path, ...]

    @property
    def folders(self) -> tuple[Path, ...]:
        """Folders with rules, templates and targets: packs first, the built-in one last."""
        return (*self.packs, builtin_folder())
