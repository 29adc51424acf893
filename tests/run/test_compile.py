from pathlib import Path

import pytest

from dlbuild.base.errors import UserError
from dlbuild.ir.target import Memory, Options, Target, Toolchain
from dlbuild.run.compile import archive, compile_file
from dlbuild.run.fragments import cmake_fragment, depfile, make_fragment
from dlbuild.run.packages import package_of, way_to
from dlbuild.run.size import Size, flash_memory, size_from, size_of
from dlbuild.run.stack import worst_stack
from dlbuild.run.toolchain import accepts, identify

HOST = Target("host")
FILES = {
    "kws.h": b"int kws_run(int x);\n",
    "kws.c": b'#include "kws.h"\n'
    b"static int sum[1000];\n"
    b"int kws_run(int x)\n{\n    sum[0] += x;\n    return sum[0];\n}\n",
}


def test_the_same_source_gives_the_same_object_in_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    debug = Target("host", toolchain=Toolchain(cflags=("-g",)))
    first = compile_file("kws.c", FILES, debug, Options())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("CPATH", "/nonexistent")

    second = compile_file("kws.c", FILES, debug, Options())

    assert first.content == second.content
    assert str(tmp_path).encode() not in second.content


def test_compiling_leaves_no_file_where_it_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    accepts.cache_clear()

    compile_file("kws.c", FILES, HOST, Options())

    assert list(tmp_path.iterdir()) == []


def test_an_archive_has_no_time_or_owner_in_it() -> None:
    objects = {"kws.o": compile_file("kws.c", FILES, HOST, Options()).content}

    first, second = (archive("libkws.a", objects, HOST) for _ in range(2))

    assert first == second
    assert first.startswith(b"!<arch>\n")
    assert b"kws.o/          0           0     0     644" in first


def test_a_compiler_that_refuses_is_shown() -> None:
    files = {"kws.c": b"int kws(void)\n{\n    int x;\n    return 0;\n}\n"}

    with pytest.raises(UserError) as caught:
        compile_file("kws.c", files, HOST, Options(), "kws@host")

    assert "kws@host: error: cc refuses kws.c\n" in str(caught.value)
    assert "  kws.c:1:5: error: no previous prototype for 'kws'" in str(caught.value)
    assert "  fix: check 'cflags' and 'cc' of the target's toolchain" in str(caught.value)


def test_a_missing_compiler_says_what_to_install() -> None:
    absent = Target("board", toolchain=Toolchain(cc="riscv32-none-elf-gcc"))

    with pytest.raises(UserError) as caught:
        compile_file("kws.c", FILES, absent, Options())

    assert str(caught.value) == (
        "error: there is no program 'riscv32-none-elf-gcc'\n"
        "  why: the target's toolchain names it\n"
        "  fix: install it (Debian: apt-get install gcc-riscv32-none-elf),"
        " or name another in 'toolchain'"
    )


@pytest.mark.parametrize(
    ("command", "package"),
    [
        ("cc", "gcc"),
        ("ar", "binutils"),
        ("clang-14", "clang-14"),
        ("arm-none-eabi-gcc", "gcc-arm-none-eabi"),
        ("arm-none-eabi-size", "binutils-arm-none-eabi"),
        ("arm-none-eabi-gcc-12.2.1", "gcc-arm-none-eabi"),
    ],
)
def test_a_program_is_in_a_debian_package(command: str, package: str) -> None:
    assert package_of(command) == package


@pytest.mark.parametrize(
    ("command", "way"),
    [
        ("gccc", "did you mean 'gcc'? Else install it, or name another in 'toolchain'"),
        ("arm-noneeabi-gcc", "did you mean 'arm-none-eabi-gcc'? Else install it, or name another"),
        ("gcc-13", "install it (Debian: apt-get install gcc-13), or name another in 'toolchain'"),
        ("armclang-lite", "install it, or name another in 'toolchain'"),
    ],
)
def test_a_program_that_is_not_there_may_be_misspelt(command: str, way: str) -> None:
    assert way_to(command, "toolchain").startswith(way)


def test_a_program_is_known_by_its_version() -> None:
    assert "Free Software Foundation" in identify("gcc")


def test_an_object_has_the_size_of_its_sections() -> None:
    made = compile_file("kws.c", FILES, HOST, Options())

    size = size_of("kws.o", made.content, HOST)

    assert size.bss == 4000
    assert 0 < size.text < 64
    assert size.flash_bytes == size.text + size.rodata


def test_sections_are_counted_by_what_they_are() -> None:
    text = """kws.o  :
section               size   addr
.text                   10      0
.text.kws_run          100      0
.rodata.kws_w           20      0
.rodata                  3      0
.bss.arena            4000      0
.data                    8      0
.my_flash_section       50      0
.comment                38      0
.ARM.attributes         46      0
.note.GNU-stack          0      0
Total                 4275
"""

    assert size_from(text) == Size(text=110, rodata=73, data=8, bss=4000)


def test_sizes_add_up() -> None:
    assert Size(1, 2, 3, 4) + Size(10, 20, 30, 40) == Size(11, 22, 33, 44)


def test_tables_lie_in_the_memory_that_holds_weights() -> None:
    sram = Memory("sram", holds=("arena",))
    flash = Memory("flash", holds=("weights",))

    assert flash_memory(Target("t", memories=(sram, flash))) == flash
    assert flash_memory(Target("t", memories=(Memory("sram"), Memory("flash")))) == Memory("flash")
    assert flash_memory(Target("t", memories=(Memory("sram"),))) is None


CALL_GRAPH = """graph: { title: "kws.c"
node: { title: "kws.c:conv1" label: "conv1\\nkws.c:3:13\\n40 bytes (static)\\n0 dynamic objects" }
node: { title: "kws.c:dense2" label: "dense2\\nkws.c:9:13\\n16 bytes (static)\\n0 dynamic" }
node: { title: "kws_run" label: "kws_run\\nkws.c:20:5\\n24 bytes (static)\\n0 dynamic objects" }
node: { title: "expf" label: "expf\\n<built-in>" shape : ellipse }
edge: { sourcename: "kws_run" targetname: "kws.c:conv1" label: "kws.c:22:5" }
edge: { sourcename: "kws_run" targetname: "kws.c:dense2" label: "kws.c:23:5" }
edge: { sourcename: "kws.c:dense2" targetname: "expf" label: "kws.c:10:5" }
}
"""


def test_the_worst_stack_is_that_of_the_deepest_path() -> None:
    stack = worst_stack(CALL_GRAPH, "kws_run")

    assert stack is not None
    assert stack.size_bytes == 64
    assert stack.path == ("kws_run", "conv1")
    assert stack.unknown == ("expf",)


def test_a_function_that_is_not_in_the_call_graph_has_no_stack() -> None:
    assert worst_stack("", "kws_run") is None


def test_recursion_is_refused() -> None:
    loop = 'edge: { sourcename: "kws.c:conv1" targetname: "kws_run" label: "" }\n'

    with pytest.raises(UserError) as caught:
        worst_stack(CALL_GRAPH + loop, "kws_run")

    assert str(caught.value) == (
        "error: function 'kws_run' calls itself\n  kws_run -> conv1 -> kws_run"
    )


def test_the_compilers_own_call_graph_is_understood() -> None:
    made = compile_file("kws.c", FILES, Target("gcc", toolchain=Toolchain(cc="gcc")), Options())

    stack = worst_stack(made.call_graph, "kws_run")

    assert stack is not None
    assert stack.path == ("kws_run",)


def test_a_dependency_file_escapes_spaces() -> None:
    assert depfile(["kws.c", "kws.h"], ["dlbuild.yaml", "my model.onnx"]) == (
        "kws.c kws.h: \\\n  dlbuild.yaml \\\n  my\\ model.onnx\n"
    )


def test_a_name_that_ninja_and_make_read_differently_is_refused() -> None:
    with pytest.raises(UserError) as caught:
        depfile(["kws.c"], ["a#b.onnx"])

    assert str(caught.value) == (
        "error: the file name 'a#b.onnx' has '#' in it\n"
        "  why: Make and Ninja read it differently, so that each build would start anew\n"
        "  fix: rename the file"
    )


def test_fragments_name_the_models_files() -> None:
    assert "KWS_SOURCES := $(KWS_FOLDER)/kws.c $(KWS_FOLDER)/kws_weights.c" in make_fragment("kws")
    assert '"${CMAKE_CURRENT_LIST_DIR}/kws_weights.c")' in cmake_fragment("kws")


def test_a_compiler_that_is_broken_off_does_not_say_which_flags_it_knows(tmp_path: Path) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\nkill -9 $$\n")
    compiler.chmod(0o755)

    with pytest.raises(UserError, match="broken off when asked for -fcallgraph-info=su"):
        accepts(str(compiler), "-fcallgraph-info=su")
