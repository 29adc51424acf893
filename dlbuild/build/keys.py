"""The key of a stage: every thing that can change its result, by name."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from sys import version_info

from dlbuild.base.digest import Json, canonical_json, digest, sha256
from dlbuild.base.installed import installed
from dlbuild.base.paths import builtin_folder
from dlbuild.build.code import CodeDigests
from dlbuild.build.job import Settings
from dlbuild.build.project import Build, Recipe
from dlbuild.build.remembered import read_noted
from dlbuild.build.stage import Gate, Stage
from dlbuild.ir.target import Board, Options, Target

Identify = Callable[[str], str]
"""From a command (`cc`) to the text that tells one version of it from another."""


_LEFT_OUT = (".", "__pycache__")
_PATHS = ("source", "samples")
"""Settings that are files: their contents are in the key, not their names."""


@dataclass(frozen=True)
class KeyMaker:
    """Makes the parts of keys; reads each rule, template and source file once."""

    recipe: Recipe
    identify: Identify
    code: CodeDigests = field(default_factory=CodeDigests)

    def settings(self, stage: Stage, build: Build) -> Settings:
        """Return only what the stage declares, all else at its default."""
        model, target = self.recipe.models[build.model], self.recipe.targets[build.target]
        seen = _of_target(stage, build)
        return replace(
            Settings(build.model),
            **{name: getattr(model, name) for name in stage.model},
            target=replace(Target(""), **{name: getattr(target, name) for name in seen}),
            options=replace(
                Options(), **{name: getattr(build.options, name) for name in stage.options}
            ),
            folders=self.recipe.folders if stage.folders else (),
            measurements=measurements_of(build) if stage.measurements else None,
        )

    def parts(
        self, stage: Stage, build: Build, inputs: Mapping[str, str], sources: Mapping[str, str]
    ) -> dict[str, str]:
        """Return all that the stage depends on.

        Args:
            stage: the stage.
            build: one model for one target.
            inputs: digests of the files that it reads.
            sources: digests of the model's own files, by names without a path.
        """
        settings = self.settings(stage, build)
        found = {
            "stage": f"{stage.name} {stage.version}",
            "model": build.model,
            "python": f"{version_info.major}.{version_info.minor}",
        }
        found |= {
            f"code {name}": value
            for module in filter(None, (stage.module, stage.again))
            for name, value in self.code.reachable(module).items()
        }
        found |= {f"library {name}": installed(name)[0] or "absent" for name in stage.libraries}
        found |= {f"option {name}": _text(settings.options, name) for name in stage.options}
        found |= {
            f"target {name}": _text(settings.target, name)
            for name in _of_target(stage, build)
            if name != "board"
        }
        if "board" in stage.target and settings.target.board is not None:
            found |= _board_parts(settings.target.board)
        found |= {
            f"setting {name}": _text(settings, name) for name in stage.model if name not in _PATHS
        }
        for folder in stage.folders:
            found |= self.folder_digests[folder]
        # A measurement is of what one compiler makes, which need not be there otherwise.
        is_measured = stage.measurements and settings.measurements is not None
        counting = stage.counting if _counts(stage, build) else ()
        for program in (*stage.programs, *counting, *(("cc",) if is_measured else ())):
            command: str = getattr(settings.target.toolchain, program)
            found[f"program {command}"] = sha256(self.identify(command).encode())
        found |= {f"input {name}": inputs[name] for name in stage.reads}
        if stage.measurements:
            found["measurements"] = "named" if settings.measurements else "none"
        return found | {f"source {name}": value for name, value in sources.items()}

    def gate_key(
        self,
        gate: Gate,
        target: Target,
        together: Sequence[Build],
        files: Sequence[Mapping[str, str]],
    ) -> str:
        """Return the key of a check. files: of each build, the digests of what the check reads."""
        models = [
            {"model": one.model, "options": _plain(one.options), "files": digests}
            for one, digests in zip(together, files, strict=True)
        ]
        return digest(
            {
                "gate": gate.name,
                "code": self.gate_code(gate),
                "target": _plain(target),
                "of": models,
            }
        )

    def gate_code(self, gate: Gate) -> str:
        """Return the digest of the code of a check."""
        return digest(dict(self.code.reachable(gate.module)))

    @cached_property
    def folder_digests(self) -> Mapping[str, Mapping[str, str]]:
        """Digests of rules and templates; names say the pack by its number, never by its path."""
        found: dict[str, dict[str, str]] = {"rules/ops": {}, "templates": {}, "boards": {}}
        for number, folder in enumerate(self.recipe.folders, start=1):
            pack = "" if folder == builtin_folder() else f" of pack {number}"
            for kind, digests in found.items():
                for path in files_under(folder / kind):
                    name = path.relative_to(folder).as_posix()
                    _, digests[f"file {name}{pack}"] = read_noted(path.as_posix())
        return found


def _counts(stage: Stage, build: Build) -> bool:
    """Return whether a stage compiles to see what takes less flash."""
    return bool(stage.counting) and build.options.optimize == "size"


def _of_target(stage: Stage, build: Build) -> tuple[str, ...]:
    """Return the fields of the target that a stage may see."""
    more = ("toolchain",) if _counts(stage, build) and "toolchain" not in stage.target else ()
    return (*stage.target, *more)


def measurements_of(build: Build) -> Path | None:
    """Return the file of measurements that a build names."""
    return Path(build.options.profile) if build.options.profile else None


def key_of(parts: Mapping[str, str]) -> str:
    """Return the key: the SHA-256 of all parts."""
    return digest(dict(parts))


def files_under(folder: Path) -> list[Path]:
    """Return the files of a folder and those inside it, hidden ones and byte code left out."""
    found = []
    for inside, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(_LEFT_OUT)]
        found += [f"{inside}/{name}" for name in names if not name.startswith(_LEFT_OUT)]
    # In the order of their parts, as paths are compared.
    ordered = sorted(found, key=lambda path: path.split("/"))
    return [Path(path) for path in ordered if os.path.isfile(path)]  # noqa: PTH113 - 10 times faster


def _board_parts(board: Board) -> dict[str, str]:
    """Name what a program is linked with by content: its files, and what they may include."""
    found = {"target board.ldflags": canonical_json(list(board.ldflags)).decode()}
    named = [Path(path) for path in (board.script, *board.sources) if path]
    folders = dict.fromkeys(path.parent for path in named)
    beside = [path for f in folders for path in sorted([*f.glob("*.h"), *f.glob("*.ld")])]
    for number, path in enumerate(dict.fromkeys((*named, *beside)), start=1):
        found[f"file {number} of the board, {path.name}"] = sha256(path.read_bytes())
    return found


def _text(owner: Settings | Target | Options, name: str) -> str:
    """Return a field as short canonical JSON."""
    return canonical_json(_plain(getattr(owner, name))).decode()


def _plain(value: object) -> Json:
    plain: Json = asdict(_Box(value))["value"]
    return plain


@dataclass(frozen=True)
class _Box:
    """Lets `asdict` turn a field of any type into lists, tables and numbers."""

    value: object
