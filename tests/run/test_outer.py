"""What a build around ours is given: C alone, a stamp, a depfile, and the names of files."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from dlbuild.build.cache import LAYOUT

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
RECIPE = """\
version: 1
models:
  net: {source: net.onnx}
targets:
  pc: {extends: host}
"""
MARKS = ("--stamp", "out/stamp", "--depfile=out/stamp.d")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    shutil.copy(DIGITS / "digits_int8.onnx", tmp_path / "net.onnx")
    (tmp_path / "dlbuild.yaml").write_text(RECIPE)
    (tmp_path / "out").mkdir()
    os.utime(tmp_path / "net.onnx", (1, 1))
    return tmp_path


def dlbuild(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "dlbuild", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def files(folder: Path) -> set[str]:
    return {path.name for path in (folder / "build/dlbuild/pc/net").iterdir() if path.is_file()}


def prerequisites(folder: Path) -> list[str]:
    rule = (folder / "out" / "stamp.d").read_text().partition("\n\n")[0]
    return rule.partition(":")[2].replace("\\\n", " ").split()


def test_sources_alone_need_no_compiler(project: Path) -> None:
    said = dlbuild(project, "build", "--sources")
    assert "compile" not in said
    assert {"net.c", "net.h", "net_weights.c", "net_weights.h"} <= files(project)
    assert not any(name.endswith((".o", ".a")) for name in files(project))


def test_what_a_build_does_not_make_is_removed(project: Path) -> None:
    dlbuild(project, "build")
    assert "libnet.a" in files(project)
    dlbuild(project, "build", "--sources")
    assert "libnet.a" not in files(project)
    dlbuild(project, "build")
    assert "libnet.a" in files(project)


def test_outputs_are_the_files_that_a_build_of_sources_writes(project: Path) -> None:
    dlbuild(project, "build", "--sources", *MARKS)
    (listed,) = json.loads(dlbuild(project, "outputs", "--sources", "--json"))
    named = {path for path in listed["files"].values() if "/plan/" not in path}
    assert named == {f"build/dlbuild/pc/net/{name}" for name in files(project)}


def test_a_depfile_names_models_recipe_and_dlbuild_itself(project: Path) -> None:
    dlbuild(project, "build", "--sources", *MARKS)
    found = prerequisites(project)
    assert (project / "net.onnx").as_posix() in found
    assert (project / "dlbuild.yaml").as_posix() in found
    assert any(name.endswith("/rules/ops/conv.yaml") for name in found)
    assert any(name.endswith("/dlbuild/build/engine.py") for name in found)
    assert any("/onnx-" in name for name in found)
    assert all(Path(name).is_file() for name in found)


def test_a_depfile_that_was_deleted_is_written_again(project: Path) -> None:
    dlbuild(project, "build", "--sources", *MARKS)
    then = (project / "out" / "stamp.d").read_text()
    (project / "out" / "stamp.d").unlink()
    assert dlbuild(project, "build", "--sources", *MARKS) == "nothing to do\n"
    assert (project / "out" / "stamp.d").read_text() == then


def test_a_stamp_is_as_old_as_the_start_of_the_build(project: Path) -> None:
    dlbuild(project, "build", "--sources", *MARKS)
    stamp = project / "out" / "stamp"
    first = stamp.stat().st_mtime_ns
    assert first < (project / "build/dlbuild/pc/net/net.c").stat().st_mtime_ns
    dlbuild(project, "build", "--sources", *MARKS)
    assert stamp.stat().st_mtime_ns > first


def test_a_build_that_fails_leaves_the_stamp(project: Path) -> None:
    dlbuild(project, "build", "--sources", *MARKS)
    first = (project / "out" / "stamp").stat().st_mtime_ns
    (project / "net.onnx").write_bytes(b"no model")
    done = subprocess.run(
        [sys.executable, "-m", "dlbuild", "build", "--sources", *MARKS],
        cwd=project,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
    assert (project / "out" / "stamp").stat().st_mtime_ns == first


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            ("--depfile", "x.d"),
            "--depfile says what a stamp depends on\n  fix: add --stamp FILE\n",
        ),
        (
            ("--stamp", "x", "--goal", "y"),
            "--goal names the stamp in a depfile\n  fix: add --depfile FILE\n",
        ),
        (
            ("--check", "--json"),
            "argument --json: not allowed with argument --check\n  fix: see dlbuild build --help\n",
        ),
    ],
)
def test_options_that_would_say_nothing_are_refused(
    project: Path, options: Sequence[str], expected: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dlbuild", "build", *options],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (2, f"dlbuild build: error: {expected}")


def test_a_file_that_was_edited_by_hand_is_restored_and_named(project: Path) -> None:
    dlbuild(project, "build", "--sources")
    (project / "build/dlbuild/pc/net/net.h").write_text("edited")
    assert dlbuild(project, "build", "--sources") == "build/dlbuild/pc/net/net.h: restored\n"


def test_embed_prints_places_that_are_there(project: Path) -> None:
    places = json.loads(dlbuild(project, "embed", "--json"))
    assert all(Path(place).exists() for place in places.values())
    assert dlbuild(project, "embed", "cmake") == f"{places['cmake']}\n"


def test_flat_copies_are_made_again_and_removed_with_their_model(project: Path) -> None:
    flat = ("build", "--sources", "--flat", "flat")
    dlbuild(project, *flat)
    folder = project / "flat"
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["net.c", "net.h", "net_weights.c", "net_weights.h"]
    (folder / "net.c").unlink()
    dlbuild(project, *flat)
    assert dlbuild(project, *flat) == "nothing to do\n"
    assert (folder / "net.c").is_file()
    (project / "dlbuild.yaml").write_text(RECIPE.replace("net: {", "other: {"))
    dlbuild(project, *flat)
    assert not (folder / "net.c").exists()
    assert (folder / "other.c").is_file()


def test_a_build_folder_that_is_gone_comes_from_the_store(project: Path) -> None:
    dlbuild(project, "build", "--sources", *MARKS)
    folder = project / "build"
    then = {path: path.read_bytes() for path in folder.rglob("*.[ch]")}
    shutil.rmtree(folder)
    (project / "out" / "stamp.d").unlink()
    said = dlbuild(project, "build", "--sources", *MARKS)
    assert said.startswith("all ")
    assert {path: path.read_bytes() for path in folder.rglob("*.[ch]")} == then
    assert (project / "out" / "stamp.d").is_file()
    assert dlbuild(project, "build", "--sources", *MARKS) == "nothing to do\n"
    assert "up to date" in dlbuild(project, "explain")


def test_a_build_folder_that_is_gone_is_built_if_an_input_changed(project: Path) -> None:
    dlbuild(project, "build", "--sources")
    shutil.rmtree(project / "build")
    (project / "dlbuild.yaml").write_text(RECIPE + "builds:\n  - {model: net, hook: true}\n")
    assert "net@pc: render" in dlbuild(project, "build", "--sources")


def test_contents_that_the_store_lost_are_built_again(project: Path, cache: Path) -> None:
    dlbuild(project, "build", "--sources")
    then = (project / "build/dlbuild/pc/net/net.c").read_bytes()
    shutil.rmtree(project / "build")
    shutil.rmtree(cache / "v1" / "cas")
    assert "net@pc: render" in dlbuild(project, "build", "--sources")
    assert (project / "build/dlbuild/pc/net/net.c").read_bytes() == then


def test_a_store_that_cannot_be_written_is_named(project: Path) -> None:
    (project / "store").mkdir()
    (project / "store" / LAYOUT).write_text("in the way")
    done = subprocess.run(
        [sys.executable, "-m", "dlbuild", "build", "--sources"],
        cwd=project,
        env={**os.environ, "DLBUILD_CACHE_DIR": str(project / "store")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr.endswith(
        f"warning: results are not kept for later builds: {project}/store: Not a directory\n"
        "  fix: make room there, or set DLBUILD_CACHE_DIR to another folder\n"
    )
    assert "net.c" in files(project)


def test_json_tells_of_stages_and_of_nothing_to_do(project: Path) -> None:
    build = ("build", "--sources", "--json")
    lines = [json.loads(line) for line in dlbuild(project, *build).splitlines()]
    assert {line["stage"] for line in lines if line["event"] == "stage"} >= {"parse", "render"}
    assert lines[-1]["is_ok"]
    end = {"event": "end", "is_ok": True, "run": 0, "found": 0}
    assert json.loads(dlbuild(project, *build)) == end
    (project / "build/dlbuild/pc/net/net.c").unlink()
    restored = [json.loads(line) for line in dlbuild(project, *build).splitlines()]
    assert restored == [{"event": "restored", "path": "build/dlbuild/pc/net/net.c"}, end]


def test_what_is_replayed_is_not_mixed_with_another_command(project: Path) -> None:
    dlbuild(project, "build", "--sources")
    dlbuild(project, "build")
    (project / "build/dlbuild/pc/net/net.c").unlink()
    said = dlbuild(project, "build", "--sources")
    assert said == "build/dlbuild/pc/net/net.c: restored\n"
    assert "net.c" in files(project)
    assert "libnet.a" not in files(project)


def test_a_port_is_among_the_files_of_an_outer_build(project: Path) -> None:
    several = "{extends: host, resources: {threads: 2}}"
    (project / "dlbuild.yaml").write_text(RECIPE.replace("{extends: host}", several))
    dlbuild(project, "build", "--sources", "--flat", "flat")
    said = dlbuild(project, "outputs", "--sources", "--make")
    assert "DLBUILD_pc_net_PORT := build/dlbuild/pc/net/dlb_port_cores.c\n" in said
    assert {"dlb_port.h", "dlb_port_cores.c"} <= {p.name for p in (project / "flat").iterdir()}


def test_the_first_rule_behind_the_include_stays_the_default_goal(project: Path) -> None:
    (project / "Makefile").write_text(
        "include $(shell $(DLBUILD) embed make)\n"
        "$(eval $(call dlbuild_models,pc,net))\n"
        "firmware: $(NET_SOURCES)\n\ttouch $@\n"
    )
    command = ["make", f"DLBUILD={sys.executable} -m dlbuild"]
    subprocess.run(command, cwd=project, check=True, capture_output=True)
    assert (project / "firmware").is_file()
