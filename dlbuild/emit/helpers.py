"""The small C functions that kernels call, emitted only where one is called."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

import jinja2

FOLDER = "helpers/"
SUFFIX = ".c"
NAME = re.compile(r"[A-Za-z_]\w*")

MATH = re.compile(
    r"\b(?:(?:exp|log|sqrt|sin|cos|tan|asin|acos|atan|sinh|cosh|tanh|asinh|acosh|atanh|floor|ceil"
    r"|trunc|erf|rint|fabs|pow|fmod|atan2|copysign)f?|isnan|isinf)\s*\(|\bINFINITY\b|\bNAN\b"
)
MEMORY = re.compile(r"\bmem(?:cpy|set)\(")
VECTOR = re.compile(r"\b__ARM_FEATURE_MVE\b")
BOOL = re.compile(r"\b(?:bool|true|false)\b")


VECTORS = "arm_mve.h"
"""Included only where the compiler has MVE."""


@lru_cache(maxsize=1)  # to look through the folders takes as long as the search in a text
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
    known = set(helper_names(environment))
    found: dict[str, None] = {}

    def visit(text: str, caller: str = "") -> None:
        for name in sorted(set(NAME.findall(text)) & known - {caller} - found.keys()):
            visit(helper_text(environment, name), name)
            found[name] = None

    for text in texts:
        visit(text)
    return tuple(found)


def includes_of(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the standard headers that C texts need, in alphabetical order."""
    whole = "\n".join(texts)
    found = ["stdint.h"]
    if MATH.search(whole):
        found.append("math.h")
    if BOOL.search(whole):
        found.append("stdbool.h")
    if MEMORY.search(whole):
        found.append("string.h")
    if VECTOR.search(whole):
        found.append(VECTORS)
    return tuple(sorted(found))
