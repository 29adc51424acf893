"""The C of all models in one folder, for outer builds that compile only what lies there."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from dlbuild.base.errors import UserError
from dlbuild.base.files import read, remove, write_if_changed
from dlbuild.build.engine import Engine, path_of
from dlbuild.build.fastpath import STATE_FOLDER

_FILES = (
    *("header", "source", "weights_header", "weights_source", "weights_binary"),
    *("port_header", "port_source", "cores_source", "image", "image_hex"),
)


def write_flat(engine: Engine, folder: Path) -> Mapping[str, str]:
    """Write them, each if its content differs, and return the digest of each path.

    What an earlier build wrote there and this one does not is removed.

    Raises:
        UserError: two builds would write different files of one name.
    """
    found: dict[Path, str] = {}
    for one in engine.keys.recipe.builds:
        for name in _FILES:
            content = engine.content(one, name)
            if not content:
                continue
            path = folder / path_of(engine.out, one, name).name
            digest = engine.outputs[one.label][name]
            if found.setdefault(path, digest) != digest:
                raise UserError(
                    f"two targets would write {path.name}",
                    where=folder.as_posix(),
                    fix="name one target, with --target",
                    exit_code=2,
                )
            write_if_changed(path, content, folder)
    _remove_former(engine.out / STATE_FOLDER / "flat", [path.as_posix() for path in found])
    return {path.as_posix(): digest for path, digest in found.items()}


def _remove_former(note: Path, written: Sequence[str]) -> None:
    former = (read(note) or b"").decode().splitlines()
    for path in sorted({*former} - {*written}):
        remove(Path(path))
    write_if_changed(note, "\n".join(written).encode(), note.parent)
