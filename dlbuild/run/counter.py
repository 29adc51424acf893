"""QEMU's plugin that counts instructions, built from its source when it is needed."""

import tempfile
from pathlib import Path

from dlbuild.base.digest import sha256
from dlbuild.base.errors import UserError
from dlbuild.run.board import boards_folder
from dlbuild.run.toolchain import resolve, run

_COMPILER = "cc"


def counter(folder: Path) -> Path:
    """Return the plugin; it is built into `folder` if it is not there.

    Raises:
        UserError: there is no C compiler for this machine, or it refuses.
    """
    source = boards_folder() / "counter.c"
    made = folder.resolve() / f"counter-{sha256(source.read_bytes())[:16]}.so"
    if not made.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as own:
            fresh = Path(own).resolve() / made.name
            flags = ["-O2", "-fPIC", "-shared", str(source), "-o", str(fresh)]
            done = run([*resolve(_COMPILER), *flags], folder)
            if done.status == 0:
                fresh.replace(made)
        if done.status != 0:
            raise UserError(
                "the plugin that counts instructions cannot be compiled",
                where=source.name,
                details=done.text.splitlines()[:20],
            )
    return made
