"""Is there anything to do? Answered by `stat` alone, before anything heavy is imported.

A build that succeeded leaves a snapshot: the signature (times, size, inode) and SHA-256 of every
file that it read or wrote, the names in every folder that it searched, and where its programs
were found. The same command with the same snapshot has nothing to do. Only light modules of the
standard library may be imported here.
"""

import hashlib
import json
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence

FORMAT = 1
STATE_FOLDER = ".dlbuild"
_TICK_NS = 20_000_000
"""Coarser than the clock of any common file system's time stamps."""

_Signature = list[int]


def nothing_to_do(build_folder: str, request: Sequence[str]) -> bool:
    """Say whether `request` was done here already and nothing has changed since."""
    try:
        with open(_snapshot_path(build_folder, request), "rb") as file:  # noqa: PTH123 - pathlib costs 5 ms
            snapshot = json.load(file)
        return (
            snapshot["format"] == FORMAT
            and all(_is_same_file(path, *entry) for path, entry in snapshot["files"].items())
            and all(_is_same_folder(path, *entry) for path, entry in snapshot["folders"].items())
            and all(find_program(name) == path for name, path in snapshot["programs"].items())
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def remember(  # noqa: PLR0913 - the parts of a snapshot
    build_folder: str,
    request: Sequence[str],
    *,
    inputs: Iterable[str],
    outputs: Mapping[str, str],
    folders: Iterable[str],
    programs: Iterable[str],
    started_ns: int,
) -> bool:
    """Leave a snapshot after a success, unless an input changed since the start.

    Args:
        build_folder: where the state is kept.
        request: the command.
        inputs: files read.
        outputs: SHA-256 of each file written.
        folders: folders searched for files.
        programs: commands run, by name.
        started_ns: when the build began.
    """
    found = {name: find_program(name) for name in programs}
    paths = sorted({*inputs, *(path for path in found.values() if path)})
    time.sleep(_TICK_NS / 1e9)  # so that any later change of an output shows in its times
    try:
        times = {path: signature(path) for path in (*paths, *outputs)}
        digests = {path: file_digest(path) for path in times}
        listed = {path: [_folder_times(path), listing(path)] for path in sorted({*folders})}
    except OSError:
        return False
    if any(times[path][1] > started_ns - _TICK_NS for path in paths):
        return False
    if any(digests[path] != digest for path, digest in outputs.items()):
        return False
    files = {path: [times[path], digests[path]] for path in times}
    snapshot = {"format": FORMAT, "files": files, "folders": listed, "programs": found}
    path = _snapshot_path(build_folder, request)
    os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120 - as above
    temporary = f"{path}.{os.getpid()}.tmp"
    with open(temporary, "w", encoding="utf-8") as file:  # noqa: PTH123 - as above
        json.dump(snapshot, file)
    os.replace(temporary, path)  # noqa: PTH105 - as above
    return True


def signature(path: str) -> _Signature:
    """Return what changes whenever a file does: times, size, inode."""
    status = os.stat(path)  # noqa: PTH116 - as above
    return [status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino]


def file_digest(path: str) -> str:
    """Return the SHA-256 of a file."""
    with open(path, "rb") as file:  # noqa: PTH123 - as above
        return hashlib.sha256(file.read(), usedforsecurity=False).hexdigest()


def listing(folder: str) -> list[str]:
    """Return the names in a folder, byte code and hidden files left out; none if it is absent."""
    if not os.path.isdir(folder):  # noqa: PTH112 - as above
        return []
    return sorted(n for n in os.listdir(folder) if not n.startswith((".", "__pycache__")))  # noqa: PTH208 - as above


def find_program(command: str) -> str:
    """Return the file that a command would run, or the empty text."""
    if os.sep in command:
        return command
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        path = os.path.join(folder, command)  # noqa: PTH118 - as above
        if os.access(path, os.X_OK):
            return path
    return ""


def _snapshot_path(build_folder: str, request: Sequence[str]) -> str:
    """One file for each command; another dlbuild or Python has others."""
    asked = [*request, os.path.dirname(__file__), sys.version]  # noqa: PTH120 - as above
    name = hashlib.sha256(json.dumps(asked).encode(), usedforsecurity=False).hexdigest()[:16]
    return f"{build_folder}/{STATE_FOLDER}/done/{name}.json"


def _is_same_file(path: str, then: _Signature, digest: str) -> bool:
    now = signature(path)
    return now == then or (now[2] == then[2] and file_digest(path) == digest)


def _folder_times(path: str) -> _Signature:
    return signature(path) if os.path.isdir(path) else []  # noqa: PTH112 - as above


def _is_same_folder(path: str, then: _Signature, names: list[str]) -> bool:
    return _folder_times(path) == then or listing(path) == names
