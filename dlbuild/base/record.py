"""`dataclass(frozen=True)` in half the time: a command defines about three hundred of them.

The standard library compiles six methods for each class. Here only `__init__` is compiled; the
others are closures that compare, hash, print and refuse as the standard library's do. All else, as
`fields`, `replace` and slots, is the standard library's, and so is each class that is not frozen or
asks for more than `frozen` and `slots`. Fields of a frozen class are told apart only by their
defaults and by whether they are printed.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError
from operator import attrgetter
from typing import TYPE_CHECKING, Any

Method = Callable[..., Any]

_set = object.__setattr__
_delete = object.__delattr__


def _dataclass(cls: type | None = None, /, **options: bool) -> Any:  # noqa: ANN401 - as dataclasses
    """Make a class a dataclass, or return the decorator that does."""
    if cls is not None or not options.get("frozen") or not options.keys() <= {"frozen", "slots"}:
        return dataclasses.dataclass(cls, **options)
    slots = options.get("slots", False)

    def made(plain: type) -> type:
        # Python sets __hash__ to None where a class has an __eq__ of its own.
        own = {name for name, value in vars(plain).items() if value is not None}
        found: type = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(plain)
        methods = [_init(found), *_comparing(found), *_refusing(found)]
        for method in [*methods, *(_state(found) if slots else ())]:
            if method.__name__ not in own:
                method.__qualname__ = f"{found.__qualname__}.{method.__name__}"
                setattr(found, method.__name__, method)
        return found

    return made


def _init(cls: type) -> Method:
    """Return `__init__`. `_set` stands for an argument left out whose default is made anew."""
    scope: dict[str, Any] = {"_set": _set}
    arguments, body = ["self"], []
    for field in dataclasses.fields(cls):
        name, value = field.name, field.name
        is_plain = field.init and field.compare and field.hash is None and not field.kw_only
        assert is_plain, f"{cls.__name__}.{name}: declare it by the standard library's dataclass"
        if field.default is not MISSING:
            scope[f"_default_{name}"] = field.default
            arguments.append(f"{name}=_default_{name}")
        elif field.default_factory is not MISSING:
            scope[f"_make_{name}"] = field.default_factory
            arguments.append(f"{name}=_set")
            value = f"_make_{name}() if {name} is _set else {name}"
        else:
            arguments.append(name)
        body.append(f" _set(self, {name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        body.append(" self.__post_init__()")
    text = "\n".join([f"def __init__({', '.join(arguments)}):", *(body or [" pass"])])
    exec(text, scope)  # noqa: S102 - of names of fields only, as dataclasses do
    made: Method = scope["__init__"]
    return made


def _comparing(cls: type) -> list[Method]:
    """Return `__repr__`, `__eq__` and `__hash__`."""
    members = dataclasses.fields(cls)
    shown = [member.name for member in members if member.repr]
    values = _getter([member.name for member in members])

    def __repr__(self: object) -> str:  # noqa: N807
        parts = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{self.__class__.__qualname__}({parts})"

    def __eq__(self: object, other: object) -> Any:  # noqa: N807, ANN401 - may be NotImplemented
        if other.__class__ is self.__class__:
            return values(self) == values(other)
        return NotImplemented

    def __hash__(self: object) -> int:  # noqa: N807
        return hash(values(self))

    return [__repr__, __eq__, __hash__]


def _getter(names: list[str]) -> Callable[[object], tuple[Any, ...]]:
    """Return the function from an object to its fields."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda one: tuple(getattr(one, name) for name in names)


def _refusing(cls: type) -> list[Method]:
    """Return `__setattr__` and `__delattr__`; one derived may have more attributes."""
    names = frozenset(member.name for member in dataclasses.fields(cls))

    def __setattr__(self: object, name: str, value: object) -> None:  # noqa: N807
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        _set(self, name, value)

    def __delattr__(self: object, name: str) -> None:  # noqa: N807
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        _delete(self, name)

    return [__setattr__, __delattr__]


def _state(cls: type) -> list[Method]:
    """Return `__getstate__` and `__setstate__`, which copies and pickles of slots need."""
    names = [member.name for member in dataclasses.fields(cls)]

    def __getstate__(self: object) -> list[Any]:  # noqa: N807
        return [getattr(self, name) for name in names]

    def __setstate__(self: object, state: list[Any]) -> None:  # noqa: N807
        for name, value in zip(names, state, strict=True):
            _set(self, name, value)

    return [__getstate__, __setstate__]


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414 - exported
else:
    dataclass = _dataclass
