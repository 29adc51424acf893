"""The rules of a folder that is known to be sound, read when their operators are asked for."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import RLock

from dlbuild.rulebook.rule import OpRule

_OPERATOR = re.compile(r"^(?:op: *|  )(\w+)\b", re.MULTILINE)
"""What may be the name of an operator: the value of `op`, or a key of `ops` of a family.

A key of another table in its place has a file read too early, which does no harm.
"""


class SoundRules(Mapping[tuple[str, str], tuple[OpRule, ...]]):
    """Rules by domain and operator, in the order of the files.

    texts: what is in each file. read: returns the rules of one.
    """

    def __init__(
        self,
        texts: Mapping[Path, str],
        read: Callable[[Path, str], Iterable[OpRule]],
    ) -> None:
        self._read = read
        self._texts = texts
        self._naming: dict[str, list[Path]] = {}
        for path, text in texts.items():
            for kind in frozenset(_OPERATOR.findall(text)):
                self._naming.setdefault(kind, []).append(path)
        self._of_file: dict[Path, dict[tuple[str, str], list[OpRule]]] = {}
        self._found: dict[tuple[str, str], tuple[OpRule, ...]] = {}
        self._lock = RLock()

    def __getitem__(self, key: tuple[str, str]) -> tuple[OpRule, ...]:
        with self._lock:
            if key not in self._found:
                files = [self._rules_in(path) for path in self._naming.get(key[1], ())]
                self._found[key] = tuple(rule for rules in files for rule in rules.get(key, ()))
            if not self._found[key]:
                raise KeyError(key)
            return self._found[key]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        with self._lock:
            files = [self._rules_in(path) for path in self._texts]
        return iter(dict.fromkeys(key for rules in files for key in rules))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _rules_in(self, path: Path) -> Mapping[tuple[str, str], Sequence[OpRule]]:
        if path not in self._of_file:
            found: dict[tuple[str, str], list[OpRule]] = {}
            for rule in self._read(path, self._texts[path]):
                found.setdefault((rule.domain, rule.kind), []).append(rule)
            self._of_file[path] = found
        return self._of_file[path]
