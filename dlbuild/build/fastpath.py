"""Is there anything to do? Answered by `stat` alone, before anything heavy is imported.

A build that succeeded leaves a snapshot: the signature (times, size, inode) and SHA-256 of every
file that it read or wrote, the names in every folder that it searched, and where its programs
were found. The same command with the same snapshot has nothing to do. Only light modules of the
standard library may be imported here, and not even `collections.abc`, which takes as long as a
hundred files.
"""

import os
import sys
import time

FORMAT = "dlbuild snapshot 3"
STATE_FOLDER = ".dlbuild"
_END = "end"
_OUTPUT = "output"
_MODEL = "model"
"""An input file that may change in its numbers alone (`build.retrain`)."""
_FILES = ("file", _MODEL, _OUTPUT)
_TICK_NS = 20_000_000
"""Coarser than the clock of any common file system's time stamps."""
_noted: dict[tuple[str, str], str] = {}
"""Of files that `read_noted` read, by path and signature: the SHA-256."""


def nothing_to_do(build_folder: str, request: list[str]) -> bool:
    """Say whether `request` was done here already and nothing has changed since.

    What was only touched is noted, so that its content is not read again the next time.
    """
    snapshot = snapshot_path(build_folder, request)
    try:
        with open(snapshot, encoding="utf-8") as file:  # noqa: PTH123 - pathlib costs 5 ms
            text = file.read()
    except (OSError, ValueError):
        return False
    now = still_holding(text, request)
    if now and now != text:
        try:
            write_whole(snapshot, now)
        except OSError:
            return True  # a read-only disk; it still holds
    return bool(now)


def still_holding(text: str, request: list[str], outputs: dict[str, str] | None = None) -> str:
    """Return a snapshot as it is now, or the empty text if it is damaged or no longer holds.

    outputs: if given, outputs are not looked at: their paths and digests are put into it instead.
    """
    lines = text.split("\n")
    # The last line stands there only if all others do.
    if lines[:2] != [FORMAT, _asked(request)] or lines[-1] != _END:
        return ""
    now = lines[:2]
    try:
        for line in lines[2:-1]:
            kind, path, then, *rest = line.split("\t")
            if outputs is not None and kind == _OUTPUT:
                outputs[path] = rest[0]
                continue
            # The first of these is what `_held` does too; done here it takes half as long.
            is_as_then = kind in _FILES and _signature(os.stat(path)) == then  # noqa: PTH116 - as above
            held = line if is_as_then else _held(line)
            if not held:
                return ""
            now.append(held)
    except (OSError, ValueError, TypeError, IndexError):
        return ""
    now.append(_END)
    return "\n".join(now)


def changed_models(build_folder: str, request: list[str]) -> list[str]:
    """Return the models that changed since `request` was done, if nothing but models did."""
    changed = []
    try:
        with open(snapshot_path(build_folder, request), encoding="utf-8") as file:  # noqa: PTH123 - as above
            lines = file.read().split("\n")
        if lines[:2] != [FORMAT, _asked(request)] or lines[-1] != _END:
            return []
        for line in lines[2:-1]:
            if not _held(line):
                kind, path, *_ = line.split("\t")
                if kind != _MODEL:
                    return []
                changed.append(path)
    except (OSError, ValueError, TypeError, IndexError):
        return []
    return changed


def with_contents(text: str, digests: dict[str, str]) -> str:
    """Return a snapshot of whose models and outputs some have other contents now.

    digests: of the contents that these have to have. The empty text if one has not, or if something
    else is not as the snapshot says.
    """
    time.sleep(_TICK_NS / 1e9)  # as in `remember`
    lines = text.split("\n")
    now = lines[:2]
    try:
        for line in lines[2:-1]:
            kind, path, *rest = line.split("\t")
            digest = digests.get(path)
            if kind not in (_MODEL, _OUTPUT) or digest in (None, rest[-1]):
                held = _held(line)
            else:
                signature = _signature(os.stat(path))  # noqa: PTH116 - as above
                is_right = file_digest(path) == digest
                held = "\t".join((kind, path, signature, str(digest))) if is_right else ""
            if not held:
                return ""
            now.append(held)
    except (OSError, ValueError, TypeError, IndexError):
        return ""
    return "\n".join((*now, _END))


def with_outputs(text: str, outputs: dict[str, str]) -> str:
    """Return a snapshot that has none with these outputs, as they are now.

    Raises:
        OSError: one is not there.
    """
    time.sleep(_TICK_NS / 1e9)  # as in `remember`
    lines = text.split("\n")
    found = [
        "\t".join((_OUTPUT, path, _signature(os.stat(path)), digest))  # noqa: PTH116 - as above
        for path, digest in outputs.items()
    ]
    return "\n".join((*lines[:2], *found, *lines[2:]))


def _held(line: str) -> str:
    """Return a line of a snapshot as it is now, or the empty text if it no longer holds."""
    kind, path, *rest = line.split("\t")
    if kind in _FILES:
        if _signature(os.stat(path)) == rest[0]:  # noqa: PTH116 - as above
            return line
        return _same_file(line, path, *rest)
    if kind == "folder":
        return _same_folder(line, path, *rest)
    return _same_program(line, path, *rest) if kind == "program" else ""


def remember(  # noqa: PLR0913 - the parts of a snapshot
    build_folder: str,
    request: list[str],
    *,
    inputs: list[str],
    models: list[str],
    outputs: dict[str, str],
    folders: list[str],
    programs: list[str],
    started_ns: int,
    reading_ns: int,
) -> bool:
    """Leave a snapshot after a success, unless an input changed since it was read.

    build_folder: where the state is kept.
    request: the command.
    inputs, models: files read, and those of them that are models.
    outputs: SHA-256 of each file written.
    folders: folders searched for files.
    programs: commands run, by name.
    started_ns: when the program was started, whose code is an input too.
    reading_ns: when it began to read all other inputs, more than a tick after that.
    """
    found = {word: find_program(word) for name in programs for word in (name, *name.split())}
    paths = sorted({*inputs, *(path for path in found.values() if os.path.isfile(path))})  # noqa: PTH113 - as above
    time.sleep(_TICK_NS / 1e9)  # so that any later change of an output shows in its times
    lines = [FORMAT, _asked(request)]
    own = _package_folder() + os.sep
    try:
        for path in (*paths, *outputs):
            status = os.stat(path)  # noqa: PTH116 - as above
            signature = _signature(status)
            digest = _noted.get((path, signature)) or file_digest(path)
            begun_ns = started_ns if path.startswith(own) else reading_ns
            is_settled = status.st_ctime_ns <= begun_ns - _TICK_NS
            if not (digest == outputs[path] if path in outputs else is_settled):
                return False
            kind = _OUTPUT if path in outputs else _MODEL if path in models else "file"
            lines.append(f"{kind}\t{path}\t{signature}\t{digest}")
        lines += ["\t".join(("folder", path, *_folder(path))) for path in sorted({*folders})]
    except OSError:
        return False
    lines += [f"program\t{name}\t{path}" for name, path in found.items()]
    if any("\n" in line for line in lines) or any(path.count("\t") for path in paths):
        return False
    try:
        write_whole(snapshot_path(build_folder, request), "\n".join((*lines, _END)))
    except OSError:
        return False  # a full disk, or the next build has swept what was unfinished
    return True


def _package_folder() -> str:
    # Without links, as inputs are named.
    return os.path.dirname(os.path.dirname(os.path.realpath(__file__)))  # noqa: PTH120 - as above


def snapshot_path(build_folder: str, request: list[str]) -> str:
    """Return where the snapshot of a command is kept."""
    asked = _asked(request)
    return f"{build_folder}/{STATE_FOLDER}/done/{_name(asked)}"


def _name(asked: str) -> str:
    """Return a file name; two commands of one name take turns, as the snapshot has the command."""
    value = 2166136261  # FNV-1a of 32 bits; zlib would have to be loaded
    for byte in asked.encode():
        value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return f"{value:08x}"


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


def _signature(status: os.stat_result) -> str:
    """Return what changes whenever a file does: times, size, inode."""
    return f"{status.st_mtime_ns} {status.st_ctime_ns} {status.st_size} {status.st_ino}"


def file_digest(path: str) -> str:
    """Return the SHA-256 of a file."""
    import hashlib  # noqa: PLC0415 - costs 5 ms and is seldom needed

    with open(path, "rb") as file:  # noqa: PTH123 - as above
        return hashlib.sha256(file.read(), usedforsecurity=False).hexdigest()


def read_noted(path: str) -> tuple[bytes, str]:
    """Return the content of a file and its SHA-256, which `remember` need not make again.

    What is written at one tick of the clock may have one signature, but `remember` takes no input
    that is as young as that.

    Raises:
        OSError: it cannot be read.
    """
    import hashlib  # noqa: PLC0415 - as below

    signature = _signature(os.stat(path))  # noqa: PTH116 - as above
    with open(path, "rb") as file:  # noqa: PTH123 - as above
        content = file.read()
    digest = hashlib.sha256(content, usedforsecurity=False).hexdigest()
    _noted[path, signature] = digest
    return content, digest


def _folder(path: str) -> tuple[str, str]:
    """Return the signature of a folder and the names in it; of an absent one, nothing.

    Byte code and hidden files are left out.
    """
    if not os.path.isdir(path):  # noqa: PTH112 - as above
        return "", ""
    names = os.listdir(path)  # noqa: PTH208 - as above
    shown = sorted(name for name in names if not name.startswith((".", "__pycache__")))
    return _signature(os.stat(path)), "/".join(shown)  # noqa: PTH116 - as above


def find_program(command: str) -> str:
    """Return the file that a command would run, or the empty text."""
    if os.sep in command:
        return command
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        path = os.path.join(folder, command)  # noqa: PTH118 - as above
        if os.access(path, os.X_OK):
            return path
    return ""


def _asked(request: list[str]) -> str:
    """Return a command as one line; another dlbuild, Python or path of imports is another one."""
    # Without -P the first entry is the current folder or that of the console script.
    paths = sys.path if sys.flags.safe_path else sys.path[1:]
    words = [*request, os.path.dirname(__file__), sys.version, *paths]  # noqa: PTH120 - as above
    return repr(words)


def _same_file(line: str, path: str, then: str, digest: str) -> str:
    status = os.stat(path)  # noqa: PTH116 - as above
    now = _signature(status)
    if f" {status.st_size} " not in then or file_digest(path) != digest:
        return ""
    kind = line[: line.index("\t")]
    return f"{kind}\t{path}\t{now}\t{digest}" if _is_settled(status, path) else line


def _same_folder(line: str, path: str, then: str, names: str) -> str:
    is_there = os.path.isdir(path)  # noqa: PTH112 - as above
    if not is_there:
        return "" if then and names else line
    status = os.stat(path)  # noqa: PTH116 - as above
    if _signature(status) == then:
        return line
    if _folder(path)[1] != names:
        return ""
    is_settled = _is_settled(status, path)
    return "\t".join(("folder", path, _signature(status), names)) if is_settled else line


def _same_program(line: str, name: str, path: str) -> str:
    return line if find_program(name) == path else ""


def _is_settled(status: os.stat_result, path: str) -> bool:
    """Say whether any later change will show in the times: not if it was changed just now."""
    is_old = status.st_ctime_ns < time.time_ns() - _TICK_NS
    return is_old and _signature(os.stat(path)) == _signature(status)  # noqa: PTH116 - as above
