"""YAML with the place of every word: duplicate keys refused, errors at the line with a caret."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

import yaml

from dlbuild.base.errors import UserError
from dlbuild.base.spelling import suggestion

Plain = None | bool | int | float | str

MOST_DIGITS = 1000
"""Of a whole number; more are as good as infinitely many."""

_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?")
_WORDS: Mapping[str, Plain] = {"true": True, "false": False, "null": None, "~": None, "": None}
_QUOTES = ("'", '"', "|", ">")
_OTHER_BOOLEANS = {"yes": "true", "on": "true", "no": "false", "off": "false"}


@dataclass(frozen=True, slots=True)
class Source:
    """A text and the name under which errors cite it."""

    name: str
    lines: tuple[str, ...]

    def error(
        self, line: int, column: int, what: str, *, why: str = "", fix: str = ""
    ) -> UserError:
        """Return an error at a place, both numbers counted from one, with its line and a caret."""
        text = self.lines[line - 1] if 0 < line <= len(self.lines) else ""
        number = str(line)
        pointer = re.sub(r"[^\t]", " ", text[: column - 1]) + "^"
        return UserError(
            what,
            where=f"{self.name}:{line}:{column}",
            excerpt=(f"{number} | {text}", f"{' ' * len(number)} | {pointer}"),
            why=why,
            fix=fix,
            exit_code=2,
        )


@dataclass(frozen=True, slots=True)
class _Node:
    """A part of a YAML text. line, column: from one."""

    source: Source = field(repr=False)
    line: int
    column: int

    @property
    def where(self) -> str:
        """`file:line:column`."""
        return f"{self.source.name}:{self.line}:{self.column}"

    def error(self, what: str, *, why: str = "", fix: str = "") -> UserError:
        """Return an error at this place."""
        return self.source.error(self.line, self.column, what, why=why, fix=fix)


@dataclass(frozen=True, slots=True)
class Scalar(_Node):
    """One word or text. `quoted` texts are never numbers or booleans."""

    text: str
    quoted: bool = False

    @property
    def value(self) -> Plain:
        """What the text says: only `true` and `false` are booleans, `010` and dates are text."""
        if self.quoted:
            return self.text
        if self.text in _WORDS:
            return _WORDS[self.text]
        if _INTEGER.fullmatch(self.text):
            return int(self.text, 0) if len(self.text) <= MOST_DIGITS else inf
        if _FLOAT.fullmatch(self.text):
            return float(self.text)
        return self.text


@dataclass(frozen=True, slots=True)
class Items(_Node):
    """A list."""

    items: tuple[Node, ...]

    def __iter__(self) -> Iterator[Node]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


@dataclass(frozen=True, slots=True)
class Table(_Node):
    """A mapping from texts, in the order of the file."""

    values: Mapping[str, Node]
    keys: Mapping[str, Scalar]

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def __iter__(self) -> Iterator[str]:
        return iter(self.values)

    def __getitem__(self, key: str) -> Node:
        return self.values[key]

    def get(self, key: str) -> Node | None:
        """Return the value of a key, or None."""
        return self.values.get(key)

    def check_keys(self, known: Collection[str], owner: str) -> None:
        """Refuse a key that is not known. owner: what has the keys, as the message says it."""
        for key, node in self.keys.items():
            if key not in known:
                raise node.error(f"{owner} has no key '{key}'", fix=suggestion(key, known))

    def require(self, key: str, owner: str, example: str = "") -> Node:
        """Return the value of a key that must be there."""
        if key not in self.values:
            raise self.error(f"{owner} needs the key '{key}'", fix=example and f"add {example}")
        return self.values[key]


Node = Scalar | Items | Table


def read_file(path: Path, name: str = "") -> Node | None:
    """Return the one document of a file, None if it is empty.

    Args:
        path: the file.
        name: how errors cite it; the path as given if empty.

    Raises:
        UserError: unreadable, not UTF-8, not YAML, a duplicate key, or more than one document.
    """
    name = name or path.as_posix()
    documents = read_documents(file_text(path, name), name)
    if len(documents) > 1:
        raise documents[1].error("a second document begins here", fix="keep one per file")
    return documents[0] if documents else None


def file_text(path: Path, name: str) -> str:
    """Return the text of a file, or say why it cannot be read."""
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"byte {error.start} is not UTF-8", where=name, fix="save it as UTF-8", exit_code=2
        ) from None
    except OSError as error:
        raise UserError(f"cannot read it: {error.strerror}", where=name, exit_code=2) from None


def read_documents(text: str, name: str) -> tuple[Node, ...]:
    """Return the documents of a YAML text; empty ones are left out."""
    source = Source(name, tuple(text.splitlines()))
    found: list[Node] = []
    try:
        for document in yaml.compose_all(text, Loader=yaml.CBaseLoader):
            node = _Conversion(source).node(document)
            if not (isinstance(node, Scalar) and node.text == "" and not node.quoted):
                found.append(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = (error.problem or "this is not YAML").replace("\n", " ")
        if mark is None:
            raise UserError(what, where=name, exit_code=2) from None
        raise source.error(mark.line + 1, mark.column + 1, what, fix=_yaml_fix(what)) from None
    except yaml.YAMLError as error:
        raise UserError(str(error).splitlines()[0], where=name, exit_code=2) from None
    return tuple(found)


def table(node: Node, owner: str) -> Table:
    """Return `node` as a table, or say what it is instead."""
    if isinstance(node, Table):
        return node
    raise node.error(f"{owner} must be a table of keys, this is {_kind(node)}")


def items(node: Node, owner: str) -> Items:
    """Return `node` as a list, or say what it is instead."""
    if isinstance(node, Items):
        return node
    raise node.error(
        f"{owner} must be a list, this is {_kind(node)}",
        fix=f"write [{node.text}]" if isinstance(node, Scalar) and node.text else "",
    )


def text(node: Node, owner: str) -> str:
    """Return the text of a scalar; a number or boolean must be quoted to be one."""
    if isinstance(node, Scalar):
        if isinstance(node.value, str):
            return node.value
        if node.value is not None:
            raise node.error(
                f"{owner} must be a text, this is {_kind(node)}", fix=f'write "{node.text}"'
            )
    raise node.error(f"{owner} must be a text, this is {_kind(node)}")


def word(node: Node, owner: str) -> str:
    """Return what stands there, unquoted numbers too: for texts with a grammar of their own."""
    if isinstance(node, Scalar) and node.value is not None:
        return node.text
    raise node.error(f"{owner} must be one word or text, this is {_kind(node)}")


def flag(node: Node, owner: str) -> bool:
    """Return a boolean: `true` or `false`, nothing else."""
    if isinstance(node, Scalar):
        if isinstance(node.value, bool):
            return node.value
        other = _OTHER_BOOLEANS.get(node.text.lower()) or {"true": "true", "false": "false"}.get(
            node.text.lower()
        )
        raise node.error(
            f"{owner} must be true or false, this is {_kind(node)}",
            fix=f"write {other}" if other else "",
        )
    raise node.error(f"{owner} must be true or false, this is {_kind(node)}")


def integer(node: Node, owner: str, least: int | None = None) -> int:
    """Return a whole number, not less than `least`."""
    if isinstance(node, Scalar):
        value = node.value
        if isinstance(value, int) and not isinstance(value, bool):
            if least is not None and value < least:
                raise node.error(f"{owner} must be at least {least}, this is {value}")
            return value
    raise node.error(f"{owner} must be a whole number, this is {_kind(node)}")


def number(node: Node, owner: str) -> float:
    """Return a number that a double can hold."""
    if isinstance(node, Scalar):
        value = node.value
        if isinstance(value, int | float) and not isinstance(value, bool):
            if abs(value) <= sys.float_info.max:
                return float(value)
            raise node.error(f"{owner} is too great", fix="give a smaller number")
    raise node.error(f"{owner} must be a number, this is {_kind(node)}")


def _kind(node: Node) -> str:
    if isinstance(node, Table):
        return "a table"
    if isinstance(node, Items):
        return "a list"
    value = node.value
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return f"the boolean {node.text}"
    return f"the number {node.text}" if isinstance(value, int | float) else f"'{node.text}'"


def _yaml_fix(problem: str) -> str:
    if "cannot start any token" in problem:
        return "indent with spaces, and quote a text that begins with this character"
    return "quote the text" if "mapping values are not allowed" in problem else ""


class _Conversion:
    """Turns PyYAML's nodes into ours, what an alias names once, however often it is named."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._done: dict[yaml.Node, Node] = {}
        self._open: set[yaml.Node] = set()
        """Those around the one at hand: an alias of one of them would never end."""

    def node(self, node: yaml.Node) -> Node:
        """Return ours."""
        found = self._done.get(node)
        if found is None:
            found = self._done[node] = self._converted(node)
        return found

    def _converted(self, node: yaml.Node) -> Node:
        source = self._source
        line, column = node.start_mark.line + 1, node.start_mark.column + 1
        if node in self._open:
            raise source.error(line, column, "this anchor contains itself")
        if not node.tag.startswith("tag:yaml.org,2002:"):
            what = f"the tag '{node.tag}' is not used here"
            raise source.error(line, column, what, fix="write the value without it")
        if isinstance(node, yaml.ScalarNode):
            return Scalar(source, line, column, node.value, node.style in _QUOTES)
        self._open.add(node)
        found = self._inner(node, line, column)
        self._open.remove(node)
        return found

    def _inner(self, node: yaml.Node, line: int, column: int) -> Items | Table:
        source = self._source
        if isinstance(node, yaml.SequenceNode):
            return Items(source, line, column, tuple(map(self.node, node.value)))
        keys: dict[str, Scalar] = {}
        values: dict[str, Node] = {}
        for key_node, value_node in node.value:
            key = self.node(key_node)
            if not isinstance(key, Scalar):
                raise key.error("a key must be one word")
            if key.text in keys:
                first = f"first at {keys[key.text].where}"
                raise key.error(f"the key '{key.text}' is given twice", why=first)
            keys[key.text] = key
            values[key.text] = self.node(value_node)
        return Table(source, line, column, values, keys)
