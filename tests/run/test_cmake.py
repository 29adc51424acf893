"""The CMake package: found, refused, moved, and used in ways that broke others."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import yaml
from onnx import numpy_helper

from tests.conftest import Needs

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "embed" / "cmake"
PROJECT = """\
cmake_minimum_required(VERSION 3.20)
project(firmware C)
find_package(dlbuild 0.1 CONFIG REQUIRED)
dlbuild_add_model(digits_int8 TARGET pc)
add_executable(firmware main.c)
target_link_libraries(firmware PRIVATE digits_int8)
"""
MAIN = """\
#include "digits_int8.h"

static int8_t image[DIGITS_INT8_IMAGE_LEN];
static int8_t probabilities[DIGITS_INT8_PROBABILITIES_LEN];

int main(void)
{
    return digits_int8_run(image, probabilities);
}
"""
RECIPE = """\
version: 1
models:
  digits_int8: {source: digits_int8.onnx}
targets:
  pc: {extends: host}
"""


@pytest.fixture(autouse=True, scope="module")
def _cmake(needs: Needs) -> None:
    needs("cmake", "ninja")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    shutil.copy(ROOT / "examples" / "digits" / "digits_int8.onnx", folder)
    for name, text in (
        ("CMakeLists.txt", PROJECT),
        ("main.c", MAIN),
        ("dlbuild.yaml", RECIPE),
    ):
        (folder / name).write_text(text)
    return folder


def cmake(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["cmake", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def configured(
    folder: Path, *arguments: str, package: Path = PACKAGE
) -> subprocess.CompletedProcess[str]:
    given = (f"-Ddlbuild_DIR={package}", f"-DDLBUILD_PYTHON={sys.executable}", *arguments)
    return cmake(folder, "-S", ".", "-B", "build", *given)


def built(folder: Path, *arguments: str) -> str:
    """Configure and build, and return what the build says."""
    done = configured(folder, *arguments)
    assert done.returncode == 0, done.stderr
    return again(folder)


def again(folder: Path) -> str:
    done = cmake(folder, "--build", "build", "--parallel", "4")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def faults(folder: Path, *arguments: str, package: Path = PACKAGE) -> str:
    """Return the words of what CMake says of a project that it refuses."""
    done = configured(folder, *arguments, package=package)
    assert done.returncode != 0, done.stdout
    return " ".join(done.stderr.split())


@pytest.mark.parametrize("generator", ["Ninja", "Unix Makefiles"])
def test_two_libraries_in_two_folders_start_dlbuild_once(project: Path, generator: str) -> None:
    (project / "CMakeLists.txt").write_text(
        PROJECT + "add_subdirectory(second)\ntarget_link_libraries(firmware PRIVATE second)\n"
    )
    (project / "second").mkdir()
    (project / "second" / "CMakeLists.txt").write_text(
        "dlbuild_add_model(second MODEL digits_int8 TARGET pc RECIPE ../dlbuild.yaml)\n"
    )
    said = built(project, "-G", generator)
    assert said.count("digits_int8@pc: parse") == 1
    assert "digits_int8@pc" not in again(project)


@pytest.mark.parametrize("generator", ["Ninja", "Unix Makefiles"])
def test_a_project_with_the_policies_of_an_old_cmake_comes_to_rest(
    project: Path, generator: str
) -> None:
    (project / "sub").mkdir()
    for name in ("main.c", "dlbuild.yaml", "digits_int8.onnx"):
        (project / name).rename(project / "sub" / name)
    (project / "sub" / "CMakeLists.txt").write_text(PROJECT.partition("project(firmware C)\n")[2])
    (project / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.10)\nproject(firmware C)\nadd_subdirectory(sub)\n"
    )
    built(project, "-G", generator)
    os.utime(project / "sub" / "digits_int8.onnx")
    assert "nothing to do" in again(project)
    assert "nothing to do" not in again(project)


def test_the_archive_that_dlbuild_compiled_can_be_linked(project: Path) -> None:
    text = PROJECT.replace("TARGET pc)", "TARGET pc ARCHIVE)")
    (project / "CMakeLists.txt").write_text(text)
    said = built(project, "-G", "Ninja")
    assert "digits_int8@pc: archive" in said
    assert "digits_int8.c.o" not in said
    assert subprocess.run([project / "build" / "firmware"], check=False).returncode == 0


def test_a_cross_build_finds_the_package_though_it_hides_those_of_this_machine(
    project: Path, needs: Needs
) -> None:
    needs("arm-none-eabi-gcc")
    (project / "CMakeLists.txt").write_text(
        PROJECT.partition("add_executable")[0].replace("TARGET pc", "TARGET board")
    )
    (project / "dlbuild.yaml").write_text(
        RECIPE.replace("pc: {extends: host}", "board: {extends: cortex-m4f}")
    )
    (project / "cross.cmake").write_text(
        "set(CMAKE_SYSTEM_NAME Generic)\n"
        "set(CMAKE_SYSTEM_PROCESSOR arm)\n"
        "set(CMAKE_C_COMPILER arm-none-eabi-gcc)\n"
        'set(CMAKE_C_FLAGS_INIT "-mcpu=cortex-m4 -mthumb")\n'
        "set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)\n"
        "set(CMAKE_FIND_ROOT_PATH /nowhere)\n"
        "set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)\n"
        "set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)\n"
    )
    built(project, "-G", "Ninja", "-DCMAKE_TOOLCHAIN_FILE=cross.cmake")
    head = (project / "build" / "libdigits_int8.a").read_bytes()[:8]
    assert head == b"!<arch>\n"


def test_an_installed_package_can_be_moved(project: Path, tmp_path: Path) -> None:
    place = tmp_path / "moved" / "site-packages"
    (place / "dlbuild" / "_builtin").mkdir(parents=True)
    shutil.copy(ROOT / "dlbuild" / "__init__.py", place / "dlbuild")
    shutil.copytree(ROOT / "embed", place / "dlbuild" / "_builtin" / "embed")
    package = place / "dlbuild" / "_builtin" / "embed" / "cmake"
    done = configured(project, package=package)
    assert done.returncode == 0, done.stderr


def test_another_minor_version_is_not_found(project: Path) -> None:
    text = PROJECT.replace("dlbuild 0.1", "dlbuild 0.0.9")
    (project / "CMakeLists.txt").write_text(text)
    assert 'compatible with requested version "0.0.9"' in faults(project)


def test_a_later_version_is_not_found(project: Path) -> None:
    text = PROJECT.replace("dlbuild 0.1", "dlbuild 0.2")
    (project / "CMakeLists.txt").write_text(text)
    assert 'compatible with requested version "0.2"' in faults(project)


def test_a_range_of_versions_is_understood(project: Path) -> None:
    text = PROJECT.replace("dlbuild 0.1", "dlbuild 0.0...<1")
    (project / "CMakeLists.txt").write_text(text)
    done = configured(project)
    assert done.returncode == 0, done.stderr


def test_a_python_without_dlbuild_is_named(project: Path, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'No module named dlbuild' >&2\nexit 1\n")
    python.chmod(0o755)
    assert f"'{python} -m dlbuild' does not run; install dlbuild for it" in faults(
        project, f"-DDLBUILD_PYTHON={python}"
    )


def test_a_python_with_another_version_is_refused(project: Path, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 9.9\n")
    python.chmod(0o755)
    assert f"but '{python}' has dlbuild 9.9; set dlbuild_DIR to what" in faults(
        project, f"-DDLBUILD_PYTHON={python}"
    )


def test_a_model_that_the_recipe_does_not_have_is_refused(project: Path) -> None:
    text = PROJECT.replace("digits_int8 TARGET pc", "kws TARGET pc")
    (project / "CMakeLists.txt").write_text(text)
    assert (
        "dlbuild_add_model(kws): nothing is built for MODEL 'kws' and TARGET 'pc' "
        "models: digits_int8 targets: pc"
    ) in faults(project)


def test_a_fault_of_the_recipe_is_shown_with_its_line(project: Path) -> None:
    (project / "dlbuild.yaml").write_text(RECIPE.replace("source:", "sauce:"))
    assert "dlbuild.yaml:3:17: error: 'digits_int8' has no key 'sauce'" in faults(project).replace(
        "model 'digits_int8'", "'digits_int8'"
    )


def test_an_unknown_argument_is_refused(project: Path) -> None:
    text = PROJECT.replace("TARGET pc", "TARGETS pc")
    (project / "CMakeLists.txt").write_text(text)
    assert "dlbuild_add_model(digits_int8): unknown or without a value: TARGETS;pc" in faults(
        project
    )


def test_options_reach_the_build(project: Path) -> None:
    text = PROJECT.replace("TARGET pc", "TARGET pc OPTIONS hook=true").partition("add_exec")[0]
    (project / "CMakeLists.txt").write_text(text)
    built(project, "-G", "Ninja")
    (header,) = (project / "build" / "dlbuild").glob("*/pc/digits_int8/digits_int8.h")
    assert "hook" in header.read_text()


@pytest.mark.parametrize("generator", ["Ninja", "Unix Makefiles"])
def test_new_weights_are_flashed_beside_the_same_program(project: Path, generator: str) -> None:
    """The image is copied where a project would call a programmer of flash."""
    text = PROJECT.replace("TARGET pc", "TARGET pc OPTIONS weights=image image_address=4096")
    flash = """\
add_custom_target(flash
  COMMAND ${CMAKE_COMMAND} -E copy $<TARGET_PROPERTY:digits_int8,DLBUILD_IMAGES> .
  DEPENDS digits_int8 COMMAND_EXPAND_LISTS VERBATIM)
"""
    (project / "CMakeLists.txt").write_text(text + flash)
    built(project, "-G", generator)
    program = project / "build" / "firmware"
    linked_at = program.stat().st_mtime_ns
    first = _flashed(project)
    model = onnx.load(project / "digits_int8.onnx")
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype == np.int8 and array.ndim > 1:
            tensor.CopyFrom(numpy_helper.from_array(array[..., ::-1].copy(), tensor.name))
    onnx.save(model, project / "digits_int8.onnx")
    assert "Building C" not in again(project)
    second = _flashed(project)
    assert program.stat().st_mtime_ns == linked_at
    assert {name: len(content) for name, content in first.items()} == {
        name: len(content) for name, content in second.items()
    }
    assert all(first[name] != second[name] for name in first)


def _flashed(project: Path) -> dict[str, bytes]:
    done = cmake(project, "--build", "build", "--target", "flash")
    assert done.returncode == 0, done.stdout + done.stderr
    names = ("digits_int8_image.bin", "digits_int8_image.hex")
    return {name: (project / "build" / name).read_bytes() for name in names}


def test_the_sources_may_be_read_only(project: Path) -> None:
    for path in project.iterdir():
        path.chmod(0o444)
    build = project.parent / "elsewhere"
    given = (f"-Ddlbuild_DIR={PACKAGE}", f"-DDLBUILD_PYTHON={sys.executable}")
    before = sorted(path.name for path in project.iterdir())
    done = cmake(project, "-S", ".", "-B", str(build), *given)
    assert done.returncode == 0, done.stderr
    assert cmake(project, "--build", str(build)).returncode == 0
    assert sorted(path.name for path in project.iterdir()) == before


# What stands in for the two SDKs: just the functions and targets of theirs that our files use.
ZEPHYR = """\
cmake_minimum_required(VERSION 3.20)
project(firmware C)
set(CONFIG_DLBUILD y)
set(PYTHON_EXECUTABLE "{python}")
add_library(zephyr_interface INTERFACE)
add_executable(app {example}/src/main.c)
add_subdirectory({root}/embed/zephyr dlbuild)
zephyr_dlbuild_model(digits_int8 RECIPE {example}/../dlbuild.yaml TARGET pc)
"""
ESP_IDF = """\
cmake_minimum_required(VERSION 3.20)
project(firmware C)
function(idf_build_get_property variable name)
  set(${{variable}} "{python}" PARENT_SCOPE)
endfunction()
macro(idf_component_register)
  add_library(main STATIC {example}/main/main.c)
  set(COMPONENT_LIB main)
endmacro()
include({root}/embed/esp-idf/dlbuild/project_include.cmake)
add_subdirectory({example}/main main)
"""


@pytest.mark.parametrize(("text", "example"), [(ZEPHYR, "zephyr"), (ESP_IDF, "esp-idf")])
def test_the_example_of_an_sdk_builds_with_a_stand_in(
    text: str, example: str, tmp_path: Path
) -> None:
    place = {"python": sys.executable, "root": ROOT, "example": ROOT / "examples/embed" / example}
    (tmp_path / "CMakeLists.txt").write_text(text.format(**place))
    done = cmake(tmp_path, "-S", ".", "-B", "build")
    assert done.returncode == 0, done.stderr
    assert "digits_int8" in again(tmp_path)


def test_esp_idf_reads_components_without_a_compiler(tmp_path: Path) -> None:
    early = "set(CMAKE_BUILD_EARLY_EXPANSION 1)\n"
    place = {"python": sys.executable, "root": ROOT, "example": ROOT / "examples/embed/esp-idf"}
    (tmp_path / "CMakeLists.txt").write_text(
        ESP_IDF.format(**place).replace("include(", f"{early}include(", 1)
    )
    done = cmake(tmp_path, "-S", ".", "-B", "build")
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "build" / "dlbuild").exists()


def test_kconfig_and_module_of_zephyr_name_what_is_there() -> None:
    module = yaml.safe_load((ROOT / "embed/zephyr/zephyr/module.yml").read_text())
    folder = ROOT / "embed" / "zephyr"
    assert (folder / module["build"]["cmake"] / "CMakeLists.txt").is_file()
    assert "config DLBUILD\n" in (folder / module["build"]["kconfig"]).read_text()
