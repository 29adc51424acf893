"""What each stage was made from last time, and which files were written: for explain and clean."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from dlbuild.base.digest import canonical_json
from dlbuild.base.files import write_atomically

FORMAT = 1
LEDGER = "ledger.json"
"""Its name in the folder of the state."""
UNFINISHED = "tmp"
"""Folder beside the ledger for files that are not yet whole."""


@dataclass(frozen=True)
class Record:
    """The last time that a stage had to be made anew.

    parts: all that was in its key, by name. outputs: digests by file. why: reasons in words.
    changed: files whose content differed from the time before. build: number of that build.
    was_run: false if the store had the result.
    """

    parts: Mapping[str, str]
    outputs: Mapping[str, str]
    why: tuple[str, ...]
    changed: tuple[str, ...]
    build: int
    was_run: bool


@dataclass
class Ledger:
    """Records by build label and stage; `written`: digest of each file in the build folder."""

    number: int = 0
    records: dict[str, dict[str, Record]] = field(default_factory=dict)
    written: dict[str, dict[str, str]] = field(default_factory=dict)

    def record(self, label: str, stage: str) -> Record | None:
        """Return the last record of a stage."""
        return self.records.get(label, {}).get(stage)

    def set_record(self, label: str, stage: str, record: Record) -> None:
        """Replace the record of a stage."""
        self.records.setdefault(label, {})[stage] = record


def read_ledger(path: Path) -> Ledger:
    """Read a ledger; whatever is wrong with the file, the result is an empty one."""
    try:
        content = json.loads(path.read_bytes())
        if content["format"] != FORMAT:
            return Ledger()
        records = {
            label: {stage: _record(fields) for stage, fields in stages.items()}
            for label, stages in content["records"].items()
        }
        return Ledger(content["number"], records, content["written"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Ledger()


def write_ledger(path: Path, ledger: Ledger) -> None:
    """Write a ledger.

    Raises:
        OSError: the folder or the disk does not allow it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    content = canonical_json({"format": FORMAT, **asdict(ledger)}) + b"\n"
    write_atomically(path, content, path.parent / UNFINISHED)


def _record(fields: Mapping[str, object]) -> Record:
    parts, outputs, why, changed = (fields[k] for k in ("parts", "outputs", "why", "changed"))
    number = fields["build"]
    if not (isinstance(parts, dict) and isinstance(outputs, dict) and isinstance(number, int)):
        raise TypeError(fields)
    if not (isinstance(why, list) and isinstance(changed, list)):
        raise TypeError(fields)
    return Record(parts, outputs, tuple(why), tuple(changed), number, fields["was_run"] is True)
