"""A build folder that is gone is made again from the store, before anything heavy is imported.

A build that succeeded keeps its snapshot, its ledger and its depfile in the user's store under the
name of its command and folder. If all inputs are still as the snapshot says, the outputs are those
of that build: they are read from the store, each verified, and written.
"""

from dataclasses import dataclass
from pathlib import Path

from dlbuild.base.digest import digest
from dlbuild.base.errors import UserError
from dlbuild.base.files import read, write_if_changed
from dlbuild.build.cache import Store, cache_folder
from dlbuild.build.fastpath import STATE_FOLDER, snapshot_path, write_whole
from dlbuild.build.ledger import LEDGER, UNFINISHED
from dlbuild.build.lock import locked
from dlbuild.build.marks import kept_rule
from dlbuild.build.remembered import still_holding, with_outputs

_PARTS = ("snapshot", "ledger", "rule")


def keep_for_replay(out: Path, request: list[str], made: Store) -> None:
    """Keep what a build has just left in its folder, if there is a store that outlives it.

    made: the build's store, which knows what is in it.
    """
    folder = cache_folder()
    snapshot = read(Path(snapshot_path(out.as_posix(), request)))
    ledger = read(out / STATE_FOLDER / LEDGER)
    if folder is None or snapshot is None or ledger is None:
        return
    outputs: dict[str, str] = {}
    if not still_holding(snapshot.decode(), request, outputs):
        return
    store = Store(folder)
    for path, content_digest in outputs.items():
        if not made.has(content_digest):
            # What no stage made, such as a depfile.
            store.put(read(Path(path)) or b"")
    rule = read(Path(kept_rule(out.as_posix(), request))) or b""
    parts = zip(_PARTS, (snapshot, ledger, rule), strict=True)
    store.keep_result(_key(out, request), {name: store.put(content) for name, content in parts})


@dataclass(frozen=True)
class Replayed:
    """The files that had to be written, of how many."""

    written: tuple[str, ...]
    count: int


def replay(out: Path, request: list[str]) -> Replayed | None:
    """Make the files of the last build of this command again.

    Returns:
        What was done; None if something changed, is missing, or is in the way.
    """
    folder = cache_folder()
    if folder is None:
        return None
    store = Store(folder)
    kept = store.result(_key(out, request))
    if kept is None or set(kept) != set(_PARTS):
        return None
    snapshot, ledger, rule = (store.get(kept[name]) for name in _PARTS)
    if snapshot is None or ledger is None or rule is None:
        return None
    outputs: dict[str, str] = {}
    now = still_holding(snapshot.decode(), request, outputs)
    contents = {path: store.get(found) for path, found in outputs.items()} if now else {}
    if not contents or None in contents.values():
        return None
    try:
        with locked(out):
            there = read(out / STATE_FOLDER / LEDGER)
            if there not in (None, ledger):
                return None  # other builds were here since
            through = out / STATE_FOLDER / UNFINISHED
            written = tuple(
                path
                for path, content in contents.items()
                if content is not None and write_if_changed(Path(path), content, through)
            )
            write_if_changed(out / STATE_FOLDER / LEDGER, ledger, through)
            if rule:
                write_whole(kept_rule(out.as_posix(), request), rule.decode())
            write_whole(snapshot_path(out.as_posix(), request), with_outputs(now, outputs))
    except (OSError, UserError):
        return None  # the build itself says what is wrong
    return Replayed(written, len(outputs))


def _key(out: Path, request: list[str]) -> str:
    words = [*request, Path.cwd().as_posix(), out.absolute().as_posix()]
    return digest({"files of the last build": words})
