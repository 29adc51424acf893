"""A store of file contents by their SHA-256, and of stage results by their keys.

    v1/cas/ab/abcd...   contents
    v1/ac/12/1234...    which contents a stage made: an ActionResult, as in Bazel's caches

One store serves all projects of a user (`cache_folder`), and any number of builds at once.
Everything is verified when read. Whatever is wrong with the store, a damaged entry or a full or
read-only disk, is a miss: the stage runs again.
"""

import os
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dlbuild.base.digest import sha256
from dlbuild.base.files import read, remove, sweep, write_atomically
from dlbuild.build.action_result import Digest, decode, encode

LAYOUT = "v1"
"""Folder of this layout: an older dlbuild beside this one has its own."""
LIMIT_BYTES = 5 * 2**30
"""What a store may hold before the contents that were not used for longest go."""
RECENT_BYTES = 64 * 2**20
"""What a build may hold in memory of what it has read or put."""
KEPT = 0.8
"""The part of the limit that is left then, so that not each build trims."""

_HOUR_S, _DAY_S = 60 * 60, 24 * 60 * 60
_TAG = b"Signature: 8a477f597d28d172789f06886806bc55\n# Made by dlbuild; may be deleted.\n"


def cache_folder() -> Path | None:
    """Return the folder of the user's store: $DLBUILD_CACHE_DIR, or where XDG puts it.

    None if there is no home folder; the build folder then has a store of its own.
    """
    named = os.environ.get("DLBUILD_CACHE_DIR")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(base):  # noqa: PTH117 - the XDG specification ignores relative paths
        return Path(base, "dlbuild")
    home = os.path.expanduser("~")  # noqa: PTH111 - pathlib raises if there is none
    return Path(home, ".cache", "dlbuild") if os.path.isdir(home) else None  # noqa: PTH112 - as above


def open_store(state: Path, remote: "Far | None" = None) -> "Store":
    """Return the user's store; if it cannot be written, that of a build folder, backed by it.

    remote: asked for what neither has.
    """
    shared = cache_folder()
    if shared is None:
        return Store(state, remote=remote)
    try:
        shared.mkdir(parents=True, exist_ok=True)
        if os.access(shared, os.W_OK):
            return Store(shared, remote=remote)
    except OSError:
        pass  # it is in the way of a file, or on a disk that is read-only
    return Store(state, behind=Store(shared), remote=remote)


class Far(Protocol):
    """A store of another machine (`build.remote`), imported only where one is named."""

    def entry(self, key: str) -> bytes | None:
        """Return the entry of a result."""

    def content(self, digest: str, size_bytes: int | None = None) -> bytes | None:
        """Return a content, verified."""

    def keep(self, key: str, entry: bytes, contents: Mapping[str, bytes]) -> None:
        """Upload a result, if it may."""


@dataclass(frozen=True)
class Usage:
    """What a store holds. results, contents: how many; size_bytes: of both."""

    results: int
    contents: int
    size_bytes: int


class Store:
    """The store in one folder; made when first written to.

    What cannot be written, on a full or read-only disk, is kept in memory for this run.
    behind: another store that is asked for what is not here. remote: asked last; what it has is
    kept here, and what is made here may be kept there.
    """

    def __init__(
        self, folder: Path, behind: "Store | None" = None, remote: Far | None = None
    ) -> None:
        self._folder = folder / LAYOUT
        self._behind = behind
        self._remote = remote
        self._unfinished = self._folder / "tmp"
        self._unwritten: dict[str, bytes] = {}
        self._sizes: dict[str, int] = {}
        self._promised: dict[str, int] = {}  # what results of the remote store name
        self._grown_bytes = 0
        self._recent: dict[str, bytes] = {}
        self._recent_left = 0
        self._guard = threading.Lock()
        self.fault = ""
        """Why something could not be kept here, the last time it could not."""
        self.keeps_in_memory = False
        """Whether what was put or read stays in memory, since something empties the folder."""

    def put(self, content: bytes) -> str:
        """Keep a content and return its digest."""
        digest = sha256(content)
        self._sizes[digest] = len(content)
        if digest in self._recent:
            return digest
        # Read, not only looked for: a damaged file must not stand for what is put here.
        if self.get(digest) is None:
            is_written = self._write(self._path("cas", digest), content)
            if not is_written or self.keeps_in_memory:
                self._unwritten[digest] = content
            self._note(digest, content)
        return digest

    def get(self, digest: str) -> bytes | None:
        """Return a content, or None if it is not here or damaged (then it is removed)."""
        for held in (self._unwritten, self._recent):
            if (known := held.get(digest)) is not None:
                return known
        path = self._path("cas", digest)
        content = read(path)
        if content is not None and sha256(content) != digest:
            remove(path)
            content = None
        if content is not None:
            _use(path)
        elif self._behind is not None:
            content = self._behind.get(digest)
        if content is None and self._remote is not None and digest in self._promised:
            content = self._remote.content(digest, self._promised[digest])
            if content is not None and not self._write(path, content):
                self._unwritten[digest] = content
        if content is not None:
            self._sizes[digest] = len(content)
            self._note(digest, content)
            if self.keeps_in_memory:
                self._unwritten[digest] = content
        return content

    def hold_recent(self, size_bytes: int = RECENT_BYTES) -> None:
        """Hold so much of what is read or put from now on, so that it is read and hashed once."""
        self._recent_left = size_bytes

    def _note(self, digest: str, content: bytes) -> None:
        with self._guard:
            if digest in self._recent or len(content) > self._recent_left:
                return
            self._recent[digest] = content
            self._recent_left -= len(content)

    def has(self, digest: str) -> bool:
        """Say whether a content is here whole, without noting a use."""
        if digest in self._recent:
            return True
        content = self._unwritten.get(digest) or read(self._path("cas", digest))
        if content is None or sha256(content) != digest:
            return False
        self._sizes[digest] = len(content)
        return True

    def keep_result(self, key: str, outputs: Mapping[str, str]) -> None:
        """Keep which contents a stage made; they were put into or read from this store."""
        sized = {name: Digest(hash_, self._sizes[hash_]) for name, hash_ in outputs.items()}
        entry = encode(sized)
        self._write(self._path("ac", key), entry)
        if self._remote is not None:
            contents = {hash_: self.get(hash_) for hash_ in dict.fromkeys(outputs.values())}
            whole = {hash_: content for hash_, content in contents.items() if content is not None}
            if len(whole) == len(contents):
                self._remote.keep(key, entry, whole)

    def result(self, key: str) -> Mapping[str, str] | None:
        """Return what `keep_result` was given, or None."""
        path = self._path("ac", key)
        entry = read(path)
        found = decode(entry) if entry is not None else None
        if found is None:
            if entry is not None:
                remove(path)
            found_behind = self._behind.result(key) if self._behind else None
            return self._far_result(key) if found_behind is None else found_behind
        _use(path)
        return {name: digest.hash for name, digest in found.items()}

    def _far_result(self, key: str) -> Mapping[str, str] | None:
        """Return a result of the remote store, if it has all of it, and keep it here."""
        entry = self._remote.entry(key) if self._remote is not None else None
        found = decode(entry) if entry is not None else None
        if entry is None or found is None:
            return None
        self._promised.update({digest.hash: digest.size_bytes for digest in found.values()})
        contents = [self.get(digest.hash) for digest in found.values()]
        if None in contents:
            return None  # it has lost some; the stage is run, and makes them all
        self._write(self._path("ac", key), entry)
        return {name: digest.hash for name, digest in found.items()}

    def tidy(self, limit_bytes: int = LIMIT_BYTES) -> None:
        """Remove what is too much or was left half written, if it is time to look for it."""
        note = self._folder / "grown"
        try:
            grown_bytes = int(read(note) or b"0") + self._grown_bytes
            if not self._grown_bytes:
                return
            self._grown_bytes = 0
            if grown_bytes > limit_bytes * (1 - KEPT) / 2:
                self.trim(limit_bytes)
                grown_bytes = 0
            write_atomically(note, str(grown_bytes).encode(), self._unfinished)
        except (OSError, ValueError):
            remove(note)

    def trim(self, limit_bytes: int = LIMIT_BYTES) -> int:
        """Remove what was not used for longest if all together is larger than the limit.

        Returns:
            The number of bytes that were removed.
        """
        sweep(self._unfinished, _DAY_S)
        found = sorted((status.st_mtime_ns, status.st_size, path) for path, status in self._all())
        size_bytes = sum(size for _, size, _ in found)
        if size_bytes <= limit_bytes:
            return 0
        excess = left = size_bytes - int(limit_bytes * KEPT)
        for _, size, path in found:
            if left > 0:
                remove(path)
                left -= size
        return excess - left

    def usage(self) -> Usage:
        """Return what the store holds."""
        found = [(path.parts[-3], status.st_size) for path, status in self._all()]
        results = sum(kind == "ac" for kind, _ in found)
        return Usage(results, len(found) - results, sum(size for _, size in found))

    def verify(self) -> list[Path]:
        """Read everything, and return what was damaged and is removed."""
        damaged = []
        for path, _ in self._all():
            content = read(path)
            is_result = path.parts[-3] == "ac"
            if content is None:
                continue  # another process removed it
            if decode(content) is None if is_result else sha256(content) != path.name:
                remove(path)
                damaged.append(path)
        return damaged

    def _all(self) -> Iterator[tuple[Path, os.stat_result]]:
        for kind in ("ac", "cas"):
            try:
                paths = sorted((self._folder / kind).glob("*/*"))
            except OSError:
                continue
            for path in paths:
                try:
                    yield path, path.stat()
                except OSError:
                    continue  # another process removed it

    def _path(self, kind: str, digest: str) -> Path:
        return self._folder / kind / digest[:2] / digest

    def _write(self, path: Path, content: bytes) -> bool:
        """Say whether it worked; a store that cannot be written is only slower."""
        try:
            if not path.parent.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                tag = self._folder / "CACHEDIR.TAG"
                if not tag.exists():
                    write_atomically(tag, _TAG, self._unfinished)
            write_atomically(path, content, self._unfinished, mode=0o444)
        except OSError as fault:
            self.fault = f"{self._folder.parent}: {fault.strerror}"
            return False
        self._grown_bytes += len(content)
        return True


def _use(path: Path) -> None:
    """Note that an entry is in use, at most once in an hour."""
    try:
        if time.time() - path.stat().st_mtime > _HOUR_S:
            os.utime(path)
    except OSError:
        return  # on a read-only disk
