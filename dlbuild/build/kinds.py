"""Kinds of values in dlbuild.yaml. Each checks a node and states itself as JSON Schema draft-07."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from dlbuild.base.digest import Json
from dlbuild.base.errors import UserError
from dlbuild.base.spelling import suggestion
from dlbuild.base.units import QuantityError, Unit, read_quantity
from dlbuild.base.yamlsrc import Node, Scalar, Table, flag, integer, items, number, table, word

Schema = dict[str, Json]


class Kind(Protocol):
    """What a value may be."""

    def check(self, node: Node, owner: str) -> None:
        """Refuse a node that is not of this kind. owner: how the message names the value."""

    def schema(self) -> Schema:
        """State the kind as JSON Schema."""


@dataclass(frozen=True)
class Key:
    """One key of a table. later: known, but no stage honours it yet, so it is refused.

    example: how it may be written, for who left out what is required.
    """

    name: str
    kind: Kind
    about: str
    required: bool = False
    later: bool = False
    example: str = ""


@dataclass(frozen=True)
class Text:
    """Any text. shape: a regular expression that it must match, with its meaning in `like`."""

    shape: str = ""
    like: str = ""

    def check(self, node: Node, owner: str) -> None:
        """Refuse what is not one text of the shape."""
        said = word(node, owner)
        if self.shape and not re.fullmatch(self.shape, said):
            raise node.error(f"{owner} cannot be '{said}'", fix=f"use {self.like}")

    def schema(self) -> Schema:
        """State the kind as JSON Schema."""
        return {"type": "string", **({"pattern": f"^({self.shape})$"} if self.shape else {})}


@dataclass(frozen=True)
class Whole:
    """A whole number from `least` to `most`. only: the values that stages honour now."""

    least: int = 0
    only: int | None = None
    most: int | None = None

    def check(self, node: Node, owner: str) -> None:
        """Refuse what is not such a number."""
        value = integer(node, owner, self.least)
        if self.most is not None and value > self.most:
            raise node.error(f"{owner} must be at most {self.most}, this is {value}")
        if self.only is not None and value != self.only:
            raise _not_yet(node, f"{owner}: {value}", f"use {self.only}")

    def schema(self) -> Schema:
        """State the kind as JSON Schema."""
        most: Schema = {} if self.most is None else {"maximum": self.most}
        return {"type": "integer", "minimum": self.least, **most}


@dataclass(frozen=True)
class Real:
    """A number from `least` to `most`."""

    least: float | None = None
    most: float | None = None

    def check(self, node: Node, owner: str) -> None:
        """Refuse what is not a number, or too small or great a one."""
        value = number(node, owner)
        if self.least is not None and not value >= self.least:
            raise node.error(f"{owner} cannot be {value:g}", fix=f"give {self.least:g} or more")
        if self.most is not None and value > self.most:
            raise node.error(f"{owner} cannot be {value:g}", fix=f"give {self.most:g} or less")

    def schema(self) -> Schema:
        """State the kind as JSON Schema."""
        return {"type": "number"}


@dataclass(frozen=True)
class Flag:
    """`true` or `false`. only: the one value that stages honour now."""

    only: bool | None = None

    def check(self, node: Node, owner: str) -> None:
        """Refuse what is not a boolean."""
        value = flag(node, owner)
        if self.only is not None and value != self.only:
            raise _not_yet(node, f"{owner}: {str(value).lower()}", f"use {str(self.only).lower()}")

    def schema(self) -> Schema:
        """State the kind as JSON Schema."""
        return {"type": "boolean"}


@dataclass(frozen=True)
class Quantity:
    """A number with a unit."""

    unit: Unit

    def check(self, node: Node, owner: str) -> None:
        """Refuse a bare number and a wrong unit, and show the right one."""
        try:
            read_quantity(word(node, owner), self.unit)
        except QuantityError as error:
            raise node.error(f"{owner}: {error}", fix=error.fix) from None

    def schema(self) -> Schema:
        """State the kind as JSON Schema."""
        names = "|".join(re.escape(name) for name in self.unit.factor)
        return {"type": "string", "pattern": f"^[0-9]+(\\.[0-9]+)? *({names})$"}


@dataclass(frozen=True)
class Choice:
    """One of a few words. later: known words that no stage honours yet."""

    words: tuple[str, ...]
    later: tuple[str, ...] = ()

    def check(self, node: Node, owner: str) -> None:
        """Refuse any other word."""
        said = word(node, owner)
        if said in self.later:
            raise _not_yet(node, f"{owner}: '{said}'", f"use {self.words[0]}")
        if said not in self.words:
            raise node.error(f"{owner} cannot be '{said}'", fix=suggestion(said, self.words))

    def schema(self) -> Schema:
        """State the kind as JSON Schema."""
        return {"enum": [*self.words, *self.later]}


@dataclass(frozen=True)
class ListOf:
    """A list of one kind; `or_one`: a single value may stand without brackets."""

    kind: Kind
    or_one: bool = False

    def check(self, node: Node, owner: str) -> None:
        """Refuse what is not a list, and each wrong item."""
        if self.or_one and isinstance(node, Scalar):
            self.kind.check(node, owner)
            return
        for item in items(node, owner):
            self.kind.check(item, owner)

    def schema(self) -> Schema:
        """State the kind as JSON Schema."""
        inner = self.kind.schema()
        several: Schema = {"type": "array", "items": inner}
        return {"anyOf": [inner, several]} if self.or_one else several


@dataclass(frozen=True)
class MapOf:
    """A table whose keys are names that the user chooses. noun: what each entry is.

    names: a regular expression for the keys, with its meaning in `like`.
    """

    kind: Kind
    noun: str
    names: str = ""
    like: str = ""

    def check(self, node: Node, owner: str) -> None:
        """Refuse a wrong name and a wrong value."""
        entries = table(node, owner)
        for name, key in entries.keys.items():
            if self.names and not re.fullmatch(self.names, name):
                raise key.error(f"{self.noun} cannot be named '{name}'", fix=f"use {self.like}")
            self.kind.check(entries[name], f"{self.noun} '{name}'")

    def schema(self) -> Schema:
        """State the kind as JSON Schema."""
        named: Schema = {"propertyNames": {"pattern": f"^({self.names})$"}} if self.names else {}
        return {"type": "object", "additionalProperties": self.kind.schema(), **named}


@dataclass(frozen=True)
class Record:
    """A table with known keys. short: the kind of the value when it stands without a table."""

    keys: tuple[Key, ...]
    short: Kind | None = None

    @property
    def key(self) -> Mapping[str, Key]:
        """Each key by its name."""
        return {key.name: key for key in self.keys}

    def check(self, node: Node, owner: str) -> None:
        """Refuse unknown, missing and not yet supported keys, and wrong values."""
        if self.short and not isinstance(node, Table):
            self.short.check(node, owner)
            return
        entries = table(node, owner)
        known = self.key
        entries.check_keys(known, owner)
        for key in self.keys:
            if key.required:
                entries.require(key.name, owner, key.example)
        for name, mark in entries.keys.items():
            if known[name].later:
                raise _not_yet(mark, f"'{name}'", "leave it out")
            known[name].kind.check(entries[name], f"'{name}'")

    def schema(self) -> Schema:
        """State the kind as JSON Schema."""
        required: Schema = {"required": [k.name for k in self.keys if k.required]}
        record: Schema = {
            "type": "object",
            "additionalProperties": False,
            "properties": {key.name: _described(key) for key in self.keys},
            **(required if required["required"] else {}),
        }
        return {"anyOf": [self.short.schema(), record]} if self.short else record


def _described(key: Key) -> Schema:
    about = f"{key.about} (not yet supported)" if key.later else key.about
    return {"description": about, **key.kind.schema()}


def _not_yet(node: Node, what: str, fix: str) -> UserError:
    return node.error(f"{what} is not yet supported", fix=fix)
