"""What a snapshot says of each file, folder and program, one by one.

Behind the head that `fastpath` reads it has all signatures, then what the paths are and hold, and
an end, which stands there only if all else does.

As rows: kind, path, signature and content, divided by tabs. The content of a file is its SHA-256,
that of a folder the names in it. Only light modules of the standard library may be imported here.
"""

import os
import time

from dlbuild.build.fastpath import (
    FORMAT,
    asked_line,
    find_program,
    hash_of,
    signature,
    snapshot_path,
    write_whole,
)

_END = "end"
_OUTPUT = "output"
_MODEL = "model"
"""An input file that may change in its numbers alone (`build.retrain`)."""
_FILES = ("file", _MODEL, _OUTPUT)
_PROGRAM = "program"
_FOLDER = "folder"
_TICK_NS = 20_000_000
"""Coarser than the clock of any common file system's time stamps."""
_PARTS = 4
"""Numbers of a signature."""
_FAULTS = (OSError, ValueError, TypeError, IndexError)
"""What a damaged text raises, and a file that is gone."""
_noted: dict[tuple[str, str], str] = {}
"""Of files that `read_noted` read, by path and signature: the SHA-256."""


def rows_of(text: str) -> tuple[str, list[str]]:
    """Return the command of a snapshot and its rows.

    Raises:
        ValueError: the text is damaged, or of another format.
    """
    form, asked, paths, _, *others, empty, signatures, contents, end = text.split("\n")
    if (form, empty, end) != (FORMAT, "", _END):
        raise ValueError(form)
    numbers = signatures.split(" ")
    if len(numbers) % _PARTS:
        raise ValueError(signatures)
    then = [" ".join(numbers[at : at + _PARTS]) for at in range(0, len(numbers), _PARTS)]
    rows = []
    for path, old, holds in zip(paths.split("\t"), then, contents.split("\t"), strict=True):
        kind, content = holds.split(" ", 1)
        rows.append(f"{kind}\t{path}\t{old}\t{content}")
    return asked, [*rows, *others]


def text_of(asked: str, rows: list[str]) -> str:
    """Return the text of a snapshot."""
    paths: list[str] = []
    numbers: list[str] = []
    contents: list[str] = []
    others: list[str] = []
    for row in rows:
        kind, path, then, *content = row.split("\t")
        if content:
            paths.append(path)
            numbers += then.split(" ")
            contents.append(f"{kind} {content[0]}")
        else:
            others.append(row)
    head = FORMAT, asked, "\t".join(paths), hash_of([int(number) for number in numbers]), *others
    return "\n".join((*head, "", " ".join(numbers), "\t".join(contents), _END))


def touched_alone(build_folder: str, request: list[str]) -> bool:
    """Say whether `request` was done here already and nothing was changed since, only touched.

    What was touched is noted, so that its content is not read again the next time.
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
    now = []
    try:
        asked, rows = rows_of(text)
        if asked != asked_line(request):
            return ""
        for row in rows:
            kind, path, *rest = row.split("\t")
            if outputs is not None and kind == _OUTPUT:
                outputs[path] = rest[1]
                continue
            held = _held(row)
            if not held:
                return ""
            now.append(held)
    except _FAULTS:
        return ""
    return text_of(asked, now)


def changed_models(build_folder: str, request: list[str]) -> list[str]:
    """Return the models that changed since `request` was done, if nothing but models did."""
    changed = []
    try:
        with open(snapshot_path(build_folder, request), encoding="utf-8") as file:  # noqa: PTH123 - as above
            asked, rows = rows_of(file.read())
        if asked != asked_line(request):
            return []
        for row in rows:
            if not _held(row):
                kind, path, *_ = row.split("\t")
                if kind != _MODEL:
                    return []
                changed.append(path)
    except _FAULTS:
        return []
    return changed


def with_contents(text: str, digests: dict[str, str]) -> str:
    """Return a snapshot of whose models and outputs some have other contents now.

    digests: of the contents that these have to have. The empty text if one has not, or if something
    else is not as the snapshot says.
    """
    time.sleep(_TICK_NS / 1e9)  # as in `remember`
    now = []
    try:
        asked, rows = rows_of(text)
        for row in rows:
            kind, path, *rest = row.split("\t")
            digest = digests.get(path)
            if kind not in (_MODEL, _OUTPUT) or digest in (None, rest[-1]):
                held = _held(row)
            else:
                seen = _seen(os.stat(path))  # noqa: PTH116 - as above
                is_right = file_digest(path) == digest
                held = "\t".join((kind, path, seen, str(digest))) if is_right else ""
            if not held:
                return ""
            now.append(held)
    except _FAULTS:
        return ""
    return text_of(asked, now)


def with_outputs(text: str, outputs: dict[str, str]) -> str:
    """Return a snapshot that has none with these outputs, as they are now.

    Raises:
        OSError: one is not there.
        ValueError: the text is damaged.
    """
    time.sleep(_TICK_NS / 1e9)  # as in `remember`
    asked, rows = rows_of(text)
    found = [
        "\t".join((_OUTPUT, path, _seen(os.stat(path)), digest))  # noqa: PTH116 - as above
        for path, digest in outputs.items()
    ]
    return text_of(asked, [*found, *rows])


def _held(row: str) -> str:
    """Return a row as it is now, or the empty text if it no longer holds."""
    kind, path, *rest = row.split("\t")
    if kind in _FILES:
        if _seen(os.stat(path)) == rest[0]:  # noqa: PTH116 - as above
            return row
        return _same_file(kind, row, path, *rest)
    if kind == _FOLDER:
        return _same_folder(row, path, *rest)
    return _same_program(row, path, *rest) if kind == _PROGRAM else ""


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
    rows = []
    own = _package_folder() + os.sep
    try:
        for path in (*paths, *outputs):
            status = os.stat(path)  # noqa: PTH116 - as above
            seen = _seen(status)
            digest = _noted.get((path, seen)) or file_digest(path)
            begun_ns = started_ns if path.startswith(own) else reading_ns
            is_settled = status.st_ctime_ns <= begun_ns - _TICK_NS
            if not (digest == outputs[path] if path in outputs else is_settled):
                return False
            kind = _OUTPUT if path in outputs else _MODEL if path in models else "file"
            rows.append(f"{kind}\t{path}\t{seen}\t{digest}")
        rows += ["\t".join((_FOLDER, path, *_folder(path))) for path in sorted({*folders})]
    except OSError:
        return False
    rows += [f"{_PROGRAM}\t{name}\t{path}" for name, path in found.items()]
    if any("\n" in row for row in rows) or any("\t" in path for path in paths):
        return False
    try:
        write_whole(snapshot_path(build_folder, request), text_of(asked_line(request), rows))
    except OSError:
        return False  # a full disk, or the next build has swept what was unfinished
    return True


def _package_folder() -> str:
    # Without links, as inputs are named.
    return os.path.dirname(os.path.dirname(os.path.realpath(__file__)))  # noqa: PTH120 - as above


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

    seen = _seen(os.stat(path))  # noqa: PTH116 - as above
    with open(path, "rb") as file:  # noqa: PTH123 - as above
        content = file.read()
    digest = hashlib.sha256(content, usedforsecurity=False).hexdigest()
    _noted[path, seen] = digest
    return content, digest


def _seen(status: os.stat_result) -> str:
    """Return a signature as rows have it."""
    return " ".join(map(str, signature(status)))


def _folder(path: str) -> tuple[str, ...]:
    """Return the signature of a folder and the names in it; of an absent one, the empty text alone.

    Byte code and hidden files are left out.
    """
    if not os.path.isdir(path):  # noqa: PTH112 - as above
        return ("",)
    names = os.listdir(path)  # noqa: PTH208 - as above
    shown = sorted(name for name in names if not name.startswith((".", "__pycache__")))
    return _seen(os.stat(path)), "/".join(shown)  # noqa: PTH116 - as above


def _same_file(kind: str, row: str, path: str, then: str, digest: str) -> str:
    status = os.stat(path)  # noqa: PTH116 - as above
    if f" {status.st_size} " not in then or file_digest(path) != digest:
        return ""
    return "\t".join((kind, path, _seen(status), digest)) if _is_settled(status, path) else row


def _same_folder(row: str, path: str, then: str, names: str = "") -> str:
    is_there = os.path.isdir(path)  # noqa: PTH112 - as above
    if not is_there:
        return "" if then and names else row
    status = os.stat(path)  # noqa: PTH116 - as above
    now = _seen(status)
    if now == then:
        return row
    if _folder(path)[-1] != names:
        return ""
    return f"{_FOLDER}\t{path}\t{now}\t{names}" if _is_settled(status, path) else row


def _same_program(row: str, name: str, path: str) -> str:
    return row if find_program(name) == path else ""


def _is_settled(status: os.stat_result, path: str) -> bool:
    """Say whether any later change will show in the times: not if it was changed just now."""
    is_old = status.st_ctime_ns < time.time_ns() - _TICK_NS
    return is_old and signature(os.stat(path)) == signature(status)  # noqa: PTH116 - as above
