"""`dlbuild embed`: where the files are with which other builds take dlbuild in."""

import argparse
import json

from dlbuild.base.paths import builtin_folder
from dlbuild.cli.arguments import Parser

WAYS = {
    "cmake": ("embed/cmake", "a CMake package: set dlbuild_DIR to it, then find_package(dlbuild)"),
    "make": ("embed/make/dlbuild.mk", "a file for GNU Make to include"),
    "bazel": ("embed/bazel", "the repository rules_dlbuild"),
    "zephyr": ("embed/zephyr", "a module for ZEPHYR_EXTRA_MODULES"),
    "esp-idf": ("embed/esp-idf", "a folder for EXTRA_COMPONENT_DIRS"),
    "platformio": ("embed/platformio/dlbuild_platformio.py", "a script for extra_scripts"),
}


def arguments(parser: Parser) -> None:
    """Add its options."""
    about = "; ".join(f"{name}: {what}" for name, (_, what) in WAYS.items())
    parser.add_argument("way", nargs="?", choices=WAYS, help=about)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(given: argparse.Namespace) -> int:
    """Print one place, or all of them."""
    places = {name: (builtin_folder() / path).as_posix() for name, (path, _) in WAYS.items()}
    if given.way:
        print(json.dumps(places[given.way]) if given.json else places[given.way])
    elif given.json:
        print(json.dumps(places))
    else:
        width = max(map(len, WAYS))
        print("\n".join(f"{name:<{width}}  {place}" for name, place in places.items()))
    return 0
