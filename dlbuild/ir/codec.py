"""Canonical JSON of the dataclasses in `ir`: equal values give equal bytes, and the reverse.

One field of the outermost value on a line, one element of a long list on a line, so that two
plans can be compared with `diff`. A field that has its default is left out. Text is ASCII with
JSON's escapes. A float is written with the digits that give the same float again; the three that
JSON lacks are {"float": "nan"}, {"float": "inf"} and {"float": "-inf"}.
"""

import json
import math
import re
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from dlbuild.base.errors import UserError

FORMAT = 1
"""Raised when a field is renamed, gets another meaning or another default."""

Json = bool | int | float | str | None | list["Json"] | dict[str, "Json"]

T = TypeVar("T")

_LINE = 88


def encode(value: object) -> bytes:
    """Return the canonical JSON of a dataclass of `ir`, with its kind and format number."""
    kind = _kind_of(type(value))
    tree = _object(value)
    assert not {"kind", "format"} & tree.keys(), f"{kind} is not the outermost value of a file"
    entries = [f'"kind": {_text(kind)}', f'"format": {FORMAT}']
    entries += [f"{_text(name)}: {_block(part)}" for name, part in tree.items()]
    return ("{\n  " + ",\n  ".join(entries) + "\n}\n").encode("ascii")


def decode(data: bytes, kind: type[T], where: str = "") -> T:
    """Return the value that `encode` wrote.

    Args:
        data: bytes of one file.
        kind: the dataclass that the file must hold.
        where: what to call the file in an error.

    Raises:
        UserError: not JSON, another kind, another format number, or a field that does not fit.
    """
    expected = _kind_of(kind)
    try:
        tree = json.loads(data)
    except ValueError as fault:
        raise _refusal(f"not a {expected} file: {fault}", where) from fault
    if not isinstance(tree, dict) or "kind" not in tree:
        raise _refusal(f"not a {expected} file: it has no 'kind'", where)
    found, number = tree.pop("kind"), tree.pop("format", None)
    if found != expected:
        raise _refusal(f"this is a {found} file, a {expected} file is due", where)
    if number != FORMAT:
        raise _refusal(f"this {expected} has format {number}, dlbuild reads format {FORMAT}", where)
    try:
        value = _reader_of(kind)(tree)
    except _MisfitError as misfit:
        raise _refusal(f"this {expected} does not fit its format: {misfit}", where) from misfit
    assert isinstance(value, kind)
    return value


class _MisfitError(Exception):
    """A part of the JSON is not what the type says; the text says which."""


def _refusal(what: str, where: str) -> UserError:
    return UserError(what, where=where, fix="remove the file and build again")


def _kind_of(cls: type) -> str:
    """`TilePlan` is `tile_plan` in a file."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()


def _text(tree: Json) -> str:
    return json.dumps(tree, allow_nan=False)


def _block(tree: Json) -> str:
    """Write a value of the outermost level: a long or nested list takes a line for each element."""
    line = _text(tree)
    if isinstance(tree, list) and (
        len(line) > _LINE or any(isinstance(part, dict) for part in tree)
    ):
        return "[\n    " + ",\n    ".join(_text(part) for part in tree) + "\n  ]"
    if isinstance(tree, dict) and len(line) > _LINE:
        entries = (f"{_text(name)}: {_text(part)}" for name, part in tree.items())
        return "{\n    " + ",\n    ".join(entries) + "\n  }"
    return line


def _object(value: object) -> dict[str, Json]:
    assert is_dataclass(value), f"{type(value).__name__} is not a dataclass"
    entries: dict[str, Json] = {}
    for field in fields(value):
        part = getattr(value, field.name)
        default = _default_of(field)
        # The text too: -0.0 and True equal 0.0 and 1, but are other values.
        if default is not MISSING and part == default and repr(part) == repr(default):
            continue
        entries[field.name] = _json(part)
    return entries


def _default_of(field: "Field[object]") -> object:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return field.default


def _json(value: object) -> Json:
    match value:
        case bool() | int() | str() | None:
            return value
        case float() if math.isfinite(value):
            return float(value)  # a subclass (numpy's) has another text
        case float():
            return {"float": repr(float(value))}
        case tuple():
            return [_json(part) for part in value]
        case Mapping():
            return {str(key): _json(value[key]) for key in sorted(value)}
        case _:
            return dict(_object(value))


Reader = Callable[[Json], object]


def _reader_of(kind: object) -> Reader:
    return _reader(kind)


@cache
def _reader(kind: object) -> Reader:
    """Return the function that turns JSON into a value of the type `kind`."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _union_reader(tuple(_reader(choice) for choice in arguments))
    if origin is Literal:
        return _plain_reader(lambda tree: tree in arguments, f"one of {list(arguments)}")
    if origin is tuple:
        return _tuple_reader(arguments)
    if origin is not None and issubclass(origin, Mapping):
        return _mapping_reader(_reader(arguments[1]))
    if kind is float:
        return _float_reader
    if isinstance(kind, type) and is_dataclass(kind):
        return _dataclass_reader(kind)
    assert isinstance(kind, type), f"no JSON form for {kind}"
    return _plain_reader(lambda tree: type(tree) is kind, kind.__name__)


def _plain_reader(fits: Callable[[Json], bool], due: str) -> Reader:
    def read(tree: Json) -> object:
        if not fits(tree):
            raise _MisfitError(f"{json.dumps(tree)} is not {due}")
        return tree

    return read


def _float_reader(tree: Json) -> object:
    if isinstance(tree, dict) and list(tree) == ["float"] and isinstance(tree["float"], str):
        return float(tree["float"])
    if type(tree) not in (float, int):
        raise _MisfitError(f"{json.dumps(tree)} is not float")
    return tree


def _union_reader(choices: tuple[Reader, ...]) -> Reader:
    def read(tree: Json) -> object:
        reasons = []
        for choice in choices:
            try:
                return choice(tree)
            except _MisfitError as misfit:
                reasons.append(str(misfit))
        raise _MisfitError("; ".join(dict.fromkeys(reasons)))

    return read


def _tuple_reader(arguments: tuple[object, ...]) -> Reader:
    is_any_length = len(arguments) == 2 and arguments[1] is Ellipsis  # noqa: PLR2004 - (T, ...)
    parts = [_reader(argument) for argument in arguments if argument is not Ellipsis]

    def read(tree: Json) -> object:
        if not isinstance(tree, list):
            raise _MisfitError(f"{json.dumps(tree)} is not a list")
        if is_any_length:
            return tuple(map(parts[0], tree))
        if len(tree) != len(parts):
            raise _MisfitError(f"{json.dumps(tree)} has not {len(parts)} elements")
        return tuple(part(element) for part, element in zip(parts, tree, strict=True))

    return read


def _mapping_reader(part: Reader) -> Reader:
    def read(tree: Json) -> object:
        if not isinstance(tree, dict):
            raise _MisfitError(f"{json.dumps(tree)} is not an object")
        return {key: part(element) for key, element in tree.items()}

    return read


def _dataclass_reader(cls: type) -> Reader:
    hints = get_type_hints(cls)
    members = fields(cls)
    readers = {member.name: _reader(hints[member.name]) for member in members}
    required = {m.name for m in members if _default_of(m) is MISSING}

    def read(tree: Json) -> object:
        if not isinstance(tree, dict):
            raise _MisfitError(f"{json.dumps(tree)} is not a {cls.__name__}")
        if missing := sorted(required - tree.keys()):
            raise _MisfitError(f"{cls.__name__} lacks '{missing[0]}'")
        if strange := sorted(tree.keys() - readers.keys()):
            raise _MisfitError(f"{cls.__name__} has no field '{strange[0]}'")
        return cls(**{name: readers[name](part) for name, part in tree.items()})

    return read
