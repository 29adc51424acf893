"""The small C functions that kernels call, emitted only where one is called."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

import jinja2

FOLDER = "helpers/"
SUFFIX = ".c"
NAME = re.compile(r"[A-Za-z_]\w*")

VECTORS = "arm_mve.h"
"""Included only where the compiler has MVE."""

_CALL = re.compile(r"([A-Za-z_]\w*)\s*\(")
_REAL = (
    *("exp", "log", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh"),
    *("asinh", "acosh", "atanh", "floor", "ceil", "trunc", "erf", "rint", "fabs", "pow", "fmod"),
    *("atan2", "copysign"),
)
_CALLED = {
    "math.h": frozenset((*_REAL, *(f"{name}f" for name in _REAL), "isnan", "isinf")),
    "string.h": frozenset(("memcpy", "memset")),
}
_NAMED = {
    "math.h": frozenset(("INFINITY", "NAN")),
    "stdbool.h": frozenset(("bool", "true", "false")),
    VECTORS: frozenset(("__ARM_FEATURE_MVE",)),
}


@lru_cache(maxsize=2)  # to look through the folders takes as long as the search in a text
def helper_names(environment: jinja2.Environment) -> tuple[str, ...]:
    """Return the names of all helpers on the search path, in alphabetical order."""
    found = environment.list_templates(filter_func=_is_helper)
    return tuple(sorted(name[len(FOLDER) : -len(SUFFIX)] for name in found))


def _is_helper(name: str) -> bool:
    return name.startswith(FOLDER) and name.endswith(SUFFIX)


def helper_text(environment: jinja2.Environment, name: str) -> str:
    """Return the C of one helper: a comment and a static inline function, a type or a macro."""
    assert environment.loader is not None
    return environment.loader.get_source(environment, f"{FOLDER}{name}{SUFFIX}")[0]


def helpers_of(environment: jinja2.Environment, texts: Iterable[str]) -> tuple[str, ...]:
    """Return the helpers that C texts call, each after those that it calls itself."""
    known = frozenset(helper_names(environment))
    found: dict[str, None] = {}

    def visit(words: frozenset[str], caller: str = "") -> None:
        for name in sorted((words & known) - {caller} - found.keys()):
            visit(_words_of(helper_text(environment, name)), name)
            found[name] = None

    for text in texts:
        visit(_words_of(text))
    return tuple(found)


def includes_of(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the standard headers that C texts need, in alphabetical order."""
    return tuple(sorted({"stdint.h"}.union(*map(_headers_of, texts))))


@lru_cache(maxsize=256)  # most helpers are those of several kernels
def _headers_of(text: str) -> frozenset[str]:
    words = _words_of(text)
    named = {header for header, names in _NAMED.items() if words & names}
    mentioned = {header: words & names for header, names in _CALLED.items()}
    calls = set(_CALL.findall(text)) if any(mentioned.values()) else set()
    return frozenset(named | {header for header, names in mentioned.items() if names & calls})


@lru_cache(maxsize=256)
def _words_of(text: str) -> frozenset[str]:
    return frozenset(NAME.findall(text))
