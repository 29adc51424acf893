"""Files for the build around ours: what to rebuild when, and how to add the model to it."""

from collections.abc import Sequence

from dlbuild.base.errors import UserError


def depfile(outputs: Sequence[str], inputs: Sequence[str], *, phony: bool = False) -> str:
    """Return a Make rule without a recipe: each output depends on all inputs.

    phony: give each input an empty rule, so that Make does not stop if it is gone (as gcc -MP).

    Raises:
        UserError: a name that Make and Ninja read differently (a `#` or `$`, or a line break).
    """
    targets = " ".join(map(_escaped, outputs))
    sources = " \\\n  ".join(map(_escaped, inputs))
    rule = f"{targets}: \\\n  {sources}\n" if inputs else f"{targets}:\n"
    return rule + "".join(f"\n{_escaped(name)}:\n" for name in inputs if phony)


def make_fragment(name: str, ports: Sequence[str] = (), images: Sequence[str] = ()) -> str:
    """Return a Makefile to include: variables for the model's sources, folder and archive.

    ports: C files with the functions of dlb_port.h that the model calls.
    images: forms of the model's weights, to be flashed apart.
    """
    prefix = name.upper()
    folder = f"$({prefix}_FOLDER)"
    headers = f"{folder}/{name}.h {folder}/{name}_weights.h"
    headers += f" {folder}/dlb_port.h" if ports else ""
    ported = "".join(f" {folder}/{file}" for file in ports)
    flashed = "".join(f" {folder}/{file}" for file in images)
    image = f"""\
# The model's weights, to be flashed apart.
{prefix}_IMAGES :={flashed}
"""
    more = f" $({prefix}_IMAGES)" if images else ""
    return f"""\
# Model '{name}': include this file, then compile {prefix}_SOURCES or link {prefix}_ARCHIVE.
{prefix}_FOLDER := $(patsubst %/,%,$(dir $(lastword $(MAKEFILE_LIST))))
{prefix}_SOURCES := {folder}/{name}.c {folder}/{name}_weights.c
{prefix}_HEADERS := {headers}
# A port for the model's copies and cores, if it has any and the firmware has none of its own.
{prefix}_PORT :={ported}
{prefix}_ARCHIVE := {folder}/lib{name}.a
{prefix}_CPPFLAGS := -I{folder}
{prefix}_LDLIBS := -lm
{image if images else ""}\
DLBUILD_FILES_{name} := $({prefix}_SOURCES) $({prefix}_HEADERS) $({prefix}_PORT){more}
"""


def cmake_fragment(name: str, ports: Sequence[str] = (), images: Sequence[str] = ()) -> str:
    """Return a CMake file to include: the model as a library, from source and as compiled.

    ports: C files with the functions of dlb_port.h that the model calls; the library has them.
    images: forms of the model's weights; they are the property DLBUILD_IMAGES of the library.
    """
    ported = "".join(f'\n    "${{CMAKE_CURRENT_LIST_DIR}}/{file}"' for file in ports)
    flashed = " ".join(f'"${{CMAKE_CURRENT_LIST_DIR}}/{file}"' for file in images)
    image = f"""\
  # The model's weights, to be flashed apart.
  set_property(TARGET {name} {name}_archive PROPERTY DLBUILD_IMAGES
    {flashed})
"""
    return f"""\
# Model '{name}': include() this file, then link '{name}' (compiled with your flags) or
# '{name}_archive' (as dlbuild compiled it).
if(NOT TARGET {name})
  add_library({name} STATIC
    "${{CMAKE_CURRENT_LIST_DIR}}/{name}.c"
    "${{CMAKE_CURRENT_LIST_DIR}}/{name}_weights.c"{ported})
  target_include_directories({name} PUBLIC "${{CMAKE_CURRENT_LIST_DIR}}")
  target_link_libraries({name} PUBLIC m)
  add_library({name}_archive STATIC IMPORTED)
  set_target_properties({name}_archive PROPERTIES
    IMPORTED_LOCATION "${{CMAKE_CURRENT_LIST_DIR}}/lib{name}.a"
    INTERFACE_INCLUDE_DIRECTORIES "${{CMAKE_CURRENT_LIST_DIR}}"
    INTERFACE_LINK_LIBRARIES m)
{image if images else ""}\
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
