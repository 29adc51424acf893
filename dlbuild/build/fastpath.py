"""Is there anything to do? Answered by `stat` alone, before anything heavy is imported.

A build that succeeded leaves a snapshot: of every file that it read or wrote and every folder that
it searched the signature (times, size, inode) and the content, and where its programs were found.
The same command with the same snapshot has nothing to do. What has another signature is looked at
in `remembered`. Only light modules of the standard library may be imported here, and not even
`collections.abc`, which takes as long as a hundred files.

Only the head of a snapshot is read here. It has few lines, since to split many takes as long as
`stat`: the format, the command, all paths, a hash of their signatures, then one line for each
absent folder and each program, and an empty one.
"""

import os
import sys

FORMAT = "dlbuild snapshot 4"
STATE_FOLDER = ".dlbuild"
_PRIME = 4294967291
"""The largest of 32 bits."""


def is_untouched(build_folder: str, request: list[str]) -> bool:
    """Say whether `request` was done here already and nothing was touched since."""
    try:
        return _is_untouched(snapshot_path(build_folder, request), request)
    except (OSError, ValueError):  # a file is gone; the snapshot is damaged
        return False


def _is_untouched(snapshot: str, request: list[str]) -> bool:
    head = b""
    with open(snapshot, "rb") as file:  # noqa: PTH123 - pathlib costs 5 ms
        for line in file:
            if line == b"\n":
                break
            head += line
        else:
            return False
    form, asked, paths, then, *others, _ = head.decode().split("\n")
    if form != FORMAT or asked != asked_line(request):
        return False
    found: list[int] = []
    for path in paths.split("\t"):
        found += signature(os.stat(path))  # noqa: PTH116 - as above
    return hash_of(found) == then and all(_is_as_then(line) for line in others)


def hash_of(signatures: list[int]) -> str:
    """Return 64 bits of many signatures; Python, which is a part of the command, makes them."""
    return str(hash(tuple(signatures)))


def _is_as_then(line: str) -> bool:
    kind, name, then = line.split("\t")
    return find_program(name) == then if kind == "program" else not os.path.isdir(name)  # noqa: PTH112 - as above


def signature(status: os.stat_result) -> tuple[int, int, int, int]:
    """Return what changes whenever a file does: times in ns, size in bytes, inode."""
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


def snapshot_path(build_folder: str, request: list[str]) -> str:
    """Return where the snapshot of a command is kept."""
    asked = asked_line(request)
    return f"{build_folder}/{STATE_FOLDER}/done/{_name(asked)}"


def _name(asked: str) -> str:
    """Return a file name; two commands of one name take turns, as the snapshot has the command."""
    return f"{int.from_bytes(asked.encode(), 'big') % _PRIME:08x}"


def write_whole(path: str, text: str) -> None:
    """Write a file of the state, making its folder, so that it is there whole or not at all.

    Raises:
        OSError: the folder or the disk does not allow it.
    """
    folder, name = os.path.split(path)
    unfinished = f"{folder}/../tmp"
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - as above
    os.makedirs(unfinished, exist_ok=True)  # noqa: PTH103 - as above
    temporary = f"{unfinished}/{name}.{os.getpid()}"
    with open(temporary, "w", encoding="utf-8") as file:  # noqa: PTH123 - as above
        file.write(text)
    os.replace(temporary, path)  # noqa: PTH105 - as above


def find_program(command: str) -> str:
    """Return the file that a command would run, or the empty text."""
    if os.sep in command:
        return command
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        path = os.path.join(folder, command)  # noqa: PTH118 - as above
        if os.access(path, os.X_OK):
            return path
    return ""


def asked_line(request: list[str]) -> str:
    """Return a command as one line; another dlbuild, Python or path of imports is another one."""
    # Without -P the first entry is the current folder or that of the console script.
    paths = sys.path if sys.flags.safe_path else sys.path[1:]
    words = [*request, os.path.dirname(__file__), sys.version, *paths]  # noqa: PTH120 - as above
    return repr(words)
