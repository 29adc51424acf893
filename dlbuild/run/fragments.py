"""Files for the build around ours: what to rebuild when, and how to add the model to it."""

from collections.abc import Sequence

from dlbuild.base.errors import UserError


def depfile(outputs: Sequence[str], inputs: Sequence[str]) -> str:
    """Return a Make rule without a recipe: each output depends on all inputs.

    Raises:
        UserError: a name that Make and Ninja read differently (a `#` or `$`, or a line break).
    """
    targets = " ".join(map(_escaped, outputs))
    sources = " \\\n  ".join(map(_escaped, inputs))
    return f"{targets}: \\\n  {sources}\n" if inputs else f"{targets}:\n"


def make_fragment(name: str) -> str:
    """Return a Makefile to include: variables for the model's sources, folder and archive."""
    prefix = name.upper()
    return f"""\
# Model '{name}': include this file, then compile {prefix}_SOURCES or link {prefix}_ARCHIVE.
{prefix}_FOLDER := $(patsubst %/,%,$(dir $(lastword $(MAKEFILE_LIST))))
{prefix}_SOURCES := $({prefix}_FOLDER)/{name}.c $({prefix}_FOLDER)/{name}_weights.c
{prefix}_ARCHIVE := $({prefix}_FOLDER)/lib{name}.a
{prefix}_CPPFLAGS := -I$({prefix}_FOLDER)
{prefix}_LDLIBS := -lm
"""


def cmake_fragment(name: str) -> str:
    """Return a CMake file to include: the model as a library, from source and as compiled."""
    return f"""\
# Model '{name}': include() this file, then link '{name}' (compiled with your flags) or
# '{name}_archive' (as dlbuild compiled it).
if(NOT TARGET {name})
  add_library({name} STATIC
    "${{CMAKE_CURRENT_LIST_DIR}}/{name}.c"
    "${{CMAKE_CURRENT_LIST_DIR}}/{name}_weights.c")
  target_include_directories({name} PUBLIC "${{CMAKE_CURRENT_LIST_DIR}}")
  target_link_libraries({name} PUBLIC m)
  add_library({name}_archive STATIC IMPORTED)
  set_target_properties({name}_archive PROPERTIES
    IMPORTED_LOCATION "${{CMAKE_CURRENT_LIST_DIR}}/lib{name}.a"
    INTERFACE_INCLUDE_DIRECTORIES "${{CMAKE_CURRENT_LIST_DIR}}"
    INTERFACE_LINK_LIBRARIES m)
endif()
"""


def _escaped(path: str) -> str:
    for mark in "#$\n\r":
        if mark in path:
            shown = {"\n": "a line break", "\r": "a line break"}.get(mark, f"'{mark}'")
            raise UserError(
                f"the file name {path!r} has {shown} in it",
                why="Make and Ninja read it differently, so that each build would start anew",
                fix="rename the file",
            )
    return path.replace(" ", "\\ ")
