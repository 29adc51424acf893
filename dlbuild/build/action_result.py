"""Results of stages as entries of Bazel's caches: messages `ActionResult`.

remote_execution.proto of the Remote Execution API, version 2: output_files = 2 {path = 1,
digest = 2 {hash = 1, size_bytes = 2}}, execution_metadata = 9 {worker = 1}. Such an entry does not
verify itself, so the worker's name has the SHA-256 of all else in it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from dlbuild.base.digest import sha256
from dlbuild.base.wire import WireError, field, fields

_WORKER = "dlbuild "


@dataclass(frozen=True, order=True)
class Digest:
    """A content: its SHA-256 and its size."""

    hash: str
    size_bytes: int


def encode(outputs: Mapping[str, Digest]) -> bytes:
    """Return the entry of a result."""
    files = b"".join(field(2, _file(name, outputs[name])) for name in sorted(outputs))
    worker = f"{_WORKER}{sha256(files)}".encode()
    return files + field(9, field(1, worker))


def decode(entry: bytes) -> dict[str, Digest] | None:
    """Return what `encode` was given, or None if the entry is damaged or another program's."""
    try:
        found: dict[str, Digest] = {}
        worker = ""
        for number, value in fields(entry):
            if number == 2 and isinstance(value, memoryview):  # noqa: PLR2004 - see the module
                name, digest = _read_file(value)
                found[name] = digest
            elif number == 9 and isinstance(value, memoryview):  # noqa: PLR2004 - as above
                worker = _text(value, 1)
    except (WireError, UnicodeDecodeError):
        return None
    files = b"".join(field(2, _file(name, found[name])) for name in sorted(found))
    return found if worker == f"{_WORKER}{sha256(files)}" else None


def _file(name: str, digest: Digest) -> bytes:
    # A size of 0 is not written, as in every encoder of proto3.
    size = field(2, digest.size_bytes) if digest.size_bytes else b""
    return field(1, name.encode()) + field(2, field(1, digest.hash.encode()) + size)


def _read_file(message: memoryview) -> tuple[str, Digest]:
    for number, value in fields(message):
        if number == 2 and isinstance(value, memoryview):  # noqa: PLR2004 - see the module
            sizes = [size for n, size in fields(value) if n == 2 and isinstance(size, int)]  # noqa: PLR2004 - as above
            return _text(message, 1), Digest(_text(value, 1), sum(sizes))
    raise WireError("a file without a digest")


def _text(message: memoryview, wanted: int) -> str:
    for number, value in fields(message):
        if number == wanted and isinstance(value, memoryview):
            return bytes(value).decode()
    return ""
