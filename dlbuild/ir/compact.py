"""Dataclasses as short JSON that is read fast: for what one stage leaves to the next.

A dataclass is a list of its name and its fields, a tuple a list that begins with the empty name, a
path one that begins with `path`, and a mapping an object in its own order. Nothing is checked but
that names are known: a file that is read was written by the same code, since that is in the key of
its stage, and its digest was compared.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TypeVar

from dlbuild.base.errors import UserError

Json = bool | int | float | str | None | list["Json"] | dict[str, "Json"]

T = TypeVar("T")

_PATH = "path"


def pack(value: object) -> bytes:
    """Return a value of dataclasses, tuples, mappings, texts and numbers as JSON."""
    return json.dumps(_packed(value), separators=(",", ":")).encode("ascii")


def unpack(content: bytes, kind: type[T], inner: Iterable[type] = ()) -> T:
    """Return the value that `pack` wrote.

    Args:
        content: the JSON.
        kind: the dataclass of the whole.
        inner: the dataclasses that may be in it.

    Raises:
        UserError: it is not such a file.
    """
    makers: dict[str, Callable[..., object]] = {one.__name__: one for one in (kind, *inner)}
    makers[_PATH] = Path
    try:
        value = _unpacked(json.loads(content), makers)
    except (ValueError, KeyError, TypeError, IndexError):
        value = None
    if not isinstance(value, kind):
        raise UserError(
            f"not a file of {kind.__name__} of this version of dlbuild",
            fix="delete the build folder and build again",
        )
    return value


def _packed(value: object) -> Json:
    match value:
        case bool() | int() | str() | None:
            return value
        case float():
            return float(value)  # a subclass (numpy's) has another text
        case tuple():
            return ["", *map(_packed, value)]
        case Path():
            return [_PATH, value.as_posix()]
        case Mapping():
            return {str(key): _packed(part) for key, part in value.items()}
        case _:
            assert is_dataclass(value), f"{type(value).__name__} is not a dataclass"
            parts = (_packed(getattr(value, field.name)) for field in fields(value))
            return [type(value).__name__, *parts]


def _unpacked(tree: Json, makers: Mapping[str, Callable[..., object]]) -> object:
    if isinstance(tree, list):
        parts = [_unpacked(part, makers) for part in tree[1:]]
        name = tree[0]
        return makers[str(name)](*parts) if name else tuple(parts)
    if isinstance(tree, dict):
        return {key: _unpacked(part, makers) for key, part in tree.items()}
    return tree
