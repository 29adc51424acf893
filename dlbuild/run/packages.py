"""The Debian packages of compilers, binary utilities and emulators."""

import re
from difflib import get_close_matches
from pathlib import Path

_VERSION_SUFFIX = re.compile(r"-\d+(\.\d+)*$")
_PACKAGES = {
    "cc": "gcc",
    "ar": "binutils",
    "size": "binutils",
    "nm": "binutils",
    "objdump": "binutils",
    "qemu-system-riscv32": "qemu-system-misc",
    "qemu-system-riscv64": "qemu-system-misc",
}
_OF_THEIR_OWN = re.compile(r"gcc|clang|python3|valgrind|qemu-.*")
"""Programs that have a package of their own name."""

_COMPILERS = ("gcc", "cc")
_UTILITIES = ("ar", "size", "nm", "objdump")
_LIBRARIES = {
    "arm-none-eabi": "libnewlib-arm-none-eabi",
    "riscv64-unknown-elf": "picolibc-riscv64-unknown-elf",
}
_KNOWN = (
    *("clang", "gcc", "python3", "qemu-system-arm", "valgrind"),
    *_PACKAGES,
    *(f"{triple}-{tool}" for triple in _LIBRARIES for tool in (*_COMPILERS, *_UTILITIES)),
)
_IS_NEAR = 0.85
"""How much of a name a misspelt one has at least."""


def package_of(command: str) -> str:
    """Return the package that has a program, empty if it is not known."""
    name = Path(command).name
    plain = _VERSION_SUFFIX.sub("", name)
    if name in _PACKAGES:
        return _PACKAGES[name]
    if _OF_THEIR_OWN.fullmatch(plain):
        return name
    triple, _, tool = plain.rpartition("-")
    if triple and tool in _COMPILERS:
        return f"gcc-{triple}"
    return f"binutils-{triple}" if triple and tool in _UTILITIES else ""


def library_package(compiler: str) -> str:
    """Return the package that has the C library of a compiler."""
    name = Path(compiler.split(maxsplit=1)[0] if compiler.split() else compiler).name
    triple = _VERSION_SUFFIX.sub("", name).rpartition("-")[0]
    return _LIBRARIES.get(triple, f"libc6-dev-{triple}-cross" if triple else "libc6-dev")


def way_to(command: str, key: str) -> str:
    """Say how to come by a program that is not there, or what it was probably meant to be called.

    Args:
        command: its name.
        key: which key of a target names it.
    """
    name = Path(command).name
    near = get_close_matches(name, _KNOWN, n=1, cutoff=_IS_NEAR)
    if near and near[0] != name and not _VERSION_SUFFIX.search(name):
        return f"did you mean '{near[0]}'? Else install it, or name another in '{key}'"
    package = package_of(name)
    of_debian = f" (Debian: apt-get install {package})" if package else ""
    return f"install it{of_debian}, or name another in '{key}'"
