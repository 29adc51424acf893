"""A store of file contents by their SHA-256, and of stage results by their keys.

    v1/cas/ab/abcd...   contents
    v1/results/12/12..  which contents a stage made: a line of SHA-256, then JSON

Everything is verified when read. Whatever is wrong with the store, a damaged entry or a full or
read-only disk, is a miss: the stage runs again.
"""

import json
import os
import threading
from collections.abc import Collection, Mapping
from pathlib import Path

from dlbuild.base.digest import canonical_json, sha256

LIMIT_BYTES = 2**30
"""What a store may hold before the oldest contents go."""

_TAG = b"Signature: 8a477f597d28d172789f06886806bc55\n# Made by dlbuild; may be deleted.\n"


class Store:
    """The store in one folder; made when first written to.

    What cannot be written, on a full or read-only disk, is kept in memory for this run.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "v1"
        self._unwritten: dict[str, bytes] = {}

    def put(self, content: bytes) -> str:
        """Keep a content and return its digest."""
        digest = sha256(content)
        # Read, not only looked for: a damaged file must not stand for what is put here.
        if self.get(digest) is None and not self._write(self._path("cas", digest), content):
            self._unwritten[digest] = content
        return digest

    def get(self, digest: str) -> bytes | None:
        """Return a content, or None if it is not here or damaged (then it is removed)."""
        if digest in self._unwritten:
            return self._unwritten[digest]
        path = self._path("cas", digest)
        content = _read(path)
        if content is not None and sha256(content) != digest:
            _remove(path)
            return None
        return content

    def keep_result(self, key: str, outputs: Mapping[str, str]) -> None:
        """Keep which contents a stage made; they must be in the store already."""
        body = canonical_json(dict(outputs))
        self._write(self._path("results", key), sha256(body).encode() + b"\n" + body)

    def result(self, key: str) -> Mapping[str, str] | None:
        """Return what `keep_result` was given, or None."""
        path = self._path("results", key)
        found = _read(path)
        if found is None:
            return None
        line, _, body = found.partition(b"\n")
        if sha256(body).encode() != line:
            _remove(path)
            return None
        return {str(name): str(digest) for name, digest in json.loads(body).items()}

    def trim(self, keep: Collection[str], limit_bytes: int = LIMIT_BYTES) -> None:
        """Remove the oldest contents if all together are larger than the limit.

        keep: digests that stay, those of the last build.
        """
        try:
            files = [path for path in (self._folder / "cas").rglob("*") if path.is_file()]
            found = sorted((path.stat().st_mtime_ns, path.stat().st_size, path) for path in files)
        except OSError:
            return  # another build removed one
        excess = sum(size for _, size, _ in found) - limit_bytes
        if excess <= 0:
            return
        excess += limit_bytes // 5  # room for the next builds, so that not each one trims
        for _, size, path in found:
            if excess > 0 and path.name not in keep:
                _remove(path)
                excess -= size

    def _path(self, kind: str, digest: str) -> Path:
        return self._folder / kind / digest[:2] / digest

    def _write(self, path: Path, content: bytes) -> bool:
        """Say whether it worked; a store that cannot be written is only slower."""
        try:
            if not path.parent.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                tag = self._folder / "CACHEDIR.TAG"
                if not tag.exists():
                    write_atomically(tag, _TAG)
            write_atomically(path, content)
        except OSError:
            return False
        return True


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all.

    Raises:
        OSError: the folder or the disk does not allow it.
    """
    # Two builds, and two threads of one, may write the same file at once.
    temporary = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_native_id()}.tmp")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:
        # That of a full disk does not say which file.
        raise OSError(error.errno, error.strerror, path.as_posix()) from None
    finally:
        _remove(temporary)


def write_if_changed(path: Path, content: bytes) -> bool:
    """Write a file unless it has this content already, then leave its times alone too."""
    if _read(path) == content:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, content)
    return True


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return
