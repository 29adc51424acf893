"""One build at a time in a build folder."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from dlbuild.base.errors import UserError
from dlbuild.build.fastpath import STATE_FOLDER

try:
    import fcntl
except ImportError:  # Windows: two builds at once in one folder are the user's to avoid
    fcntl = None  # type: ignore[assignment]


@contextlib.contextmanager
def locked(out: Path) -> Iterator[None]:
    """Let one build at a time into a build folder; another waits.

    Raises:
        UserError: the folder cannot be written.
    """
    path = out / STATE_FOLDER / "lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("ab")
    except OSError as error:
        raise UserError(
            f"cannot write here: {error.strerror}",
            where=out.as_posix(),
            fix="name another build folder with -B DIR",
        ) from None
    with file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
