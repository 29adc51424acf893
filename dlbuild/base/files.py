"""Files that are there whole or not at all, and keep their times if their content stays."""

import os
import threading
import time
from pathlib import Path

_DEFAULT_MODE = 0o666


def write_atomically(path: Path, content: bytes, through: Path, mode: int = _DEFAULT_MODE) -> None:
    """Write a file so that it is there whole or not at all.

    Args:
        path: the file; its folder exists.
        content: all of it.
        through: a folder of the same file system for what is not yet whole; made if absent. What
            a killed process leaves there, `sweep` removes.
        mode: who may read and write it, exactly; by default what the umask leaves.

    Raises:
        OSError: the folder or the disk does not allow it.
    """
    # Two builds, and two threads of one, may write the same file at once.
    temporary = through / f"{path.name}.{os.getpid()}.{threading.get_native_id()}"
    try:
        try:
            temporary.write_bytes(content)
        except FileNotFoundError:
            through.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(content)
        if mode != _DEFAULT_MODE:
            temporary.chmod(mode)
        temporary.replace(path)
    except OSError as error:
        # That of a full disk does not say which file.
        raise OSError(error.errno, error.strerror, path.as_posix()) from None
    finally:
        remove(temporary)


def write_if_changed(path: Path, content: bytes, through: Path) -> bool:
    """Write a file unless it has this content already, then leave its times alone too.

    Raises:
        OSError: as `write_atomically`.
    """
    if read(path) == content:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, content, through)
    return True


def sweep(through: Path, older_than_s: float = 0) -> None:
    """Remove what killed processes left in the folder of unfinished files."""
    try:
        for path in through.iterdir():
            if path.stat().st_mtime <= time.time() - older_than_s:
                remove(path)
    except OSError:
        return  # it is not there, or another process sweeps it


def read(path: Path) -> bytes | None:
    """Return the content of a file, or None if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def remove(path: Path) -> None:
    """Remove a file if that is possible."""
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return
