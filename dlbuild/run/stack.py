"""The greatest stack that a model needs, from the call graph that gcc writes beside an object."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from dlbuild.base.errors import UserError

_NODE = re.compile(r'^node: \{ title: "([^"]*)" label: "([^"]*)"', re.MULTILINE)
_EDGE = re.compile(r'^edge: \{ sourcename: "([^"]*)" targetname: "([^"]*)"', re.MULTILINE)
_STACK = re.compile(r"(\d+) bytes \((\w+(?:,\w+)*)\)")


@dataclass(frozen=True, slots=True)
class Stack:
    """The worst case of one function.

    path: functions from it to the deepest one. unknown: functions called whose stack no object
    of ours tells (the C library's), in alphabetical order.
    """

    size_bytes: int
    path: tuple[str, ...]
    unknown: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Function:
    """Bytes of stack of one function, and what it calls."""

    size_bytes: int
    calls: tuple[str, ...]


def worst_stack(
    call_graph: str, function: str, others: Mapping[str, Function] | None = None
) -> Stack | None:
    """Return the worst case of `function`, None if nobody knows it.

    Args:
        call_graph: text of a `.ci` file of `-fcallgraph-info=su`; may be empty.
        function: where to begin.
        others: functions that the call graph does not have.

    Raises:
        UserError: a function calls itself, or has a stack without bound.
    """
    functions = {**(others or {}), **_functions(call_graph)}
    if function not in functions:
        return None
    size_bytes, path = _deepest(functions, function, ())
    reached = _reached(functions, function)
    unknown = tuple(sorted(name for name in reached if name not in functions))
    return Stack(size_bytes, path, unknown)


def _functions(call_graph: str) -> Mapping[str, Function]:
    calls: dict[str, dict[str, None]] = {}
    for source, called in _EDGE.findall(call_graph):
        calls.setdefault(_plain(source), {})[_plain(called)] = None
    found: dict[str, Function] = {}
    for title, label in _NODE.findall(call_graph):
        stack = _STACK.search(label)
        if stack is None:
            continue
        if "dynamic" in stack[2] and "bounded" not in stack[2]:
            raise UserError(
                f"function '{_plain(title)}' has a stack without bound",
                why="its compiler reports a dynamic allocation",
            )
        found[_plain(title)] = Function(int(stack[1]), tuple(calls.get(_plain(title), ())))
    return found


def _plain(title: str) -> str:
    """A static function's title is `file.c:name`."""
    return title.rpartition(":")[2]


def _deepest(
    functions: Mapping[str, Function], name: str, above: tuple[str, ...]
) -> tuple[int, tuple[str, ...]]:
    if name in above:
        raise UserError(f"function '{name}' calls itself", details=(" -> ".join((*above, name)),))
    if name not in functions:
        return 0, ()
    below = [_deepest(functions, called, (*above, name)) for called in functions[name].calls]
    size_bytes, path = max(below, key=lambda found: found[0], default=(0, ()))
    return functions[name].size_bytes + size_bytes, (name, *path)


def _reached(functions: Mapping[str, Function], start: str) -> set[str]:
    reached: set[str] = set()
    waiting = [start]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += functions[name].calls if name in functions else ()
    return reached
