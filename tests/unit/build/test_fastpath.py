import os
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from dlbuild.base.digest import sha256
from dlbuild.build import remembered
from dlbuild.build.fastpath import find_program, is_untouched
from dlbuild.build.remembered import remember, touched_alone

REQUEST = ["build"]
MADE = b"int x;"


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which a build with one input, one output and one program has ended."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "bin").mkdir()
    Path("in/a.yaml").write_text("a")
    Path("bin/cc").write_text("#!/bin/sh")
    Path("bin/cc").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    time.sleep(0.05)
    assert leave()
    return tmp_path


def nothing_to_do(folder: str, request: list[str]) -> bool:
    return is_untouched(folder, request) or touched_alone(folder, request)


def leave(reading_ns: int | None = None, *, code: Sequence[str] = ()) -> bool:
    now_ns = time.time_ns()
    Path("a.c").write_bytes(MADE)
    return remember(
        "out",
        REQUEST,
        inputs=["in/a.yaml", *code],
        models=[],
        outputs={"a.c": sha256(MADE)},
        folders=["in", "absent"],
        programs=["cc"],
        started_ns=now_ns,
        reading_ns=reading_ns or now_ns,
    )


@pytest.mark.usefixtures("built")
class TestNothingToDo:
    def test_right_after_a_build(self) -> None:
        assert is_untouched("out", REQUEST)
        assert nothing_to_do("out", REQUEST)

    def test_not_for_another_request_or_folder(self) -> None:
        assert not nothing_to_do("out", [*REQUEST, "board"])
        assert not nothing_to_do("other", REQUEST)

    def test_after_a_touch_without_a_change(self) -> None:
        os.utime("in/a.yaml", ns=(1, 1))
        assert not is_untouched("out", REQUEST)
        assert nothing_to_do("out", REQUEST)
        time.sleep(0.05)
        assert touched_alone("out", REQUEST)
        assert is_untouched("out", REQUEST)

    def test_a_touched_file_is_read_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        os.utime("in/a.yaml", ns=(1, 1))
        Path("in/.swp").write_text("")
        time.sleep(0.05)
        assert nothing_to_do("out", REQUEST)
        monkeypatch.setattr(remembered, "file_digest", lambda _: "not read")
        monkeypatch.setattr(os, "listdir", lambda _: ["not read"])
        assert nothing_to_do("out", REQUEST)

    def test_a_file_touched_just_now_is_read_again(self) -> None:
        (path,) = Path("out/.dlbuild/done").iterdir()
        before = path.read_bytes()
        os.utime("in/a.yaml", ns=(1, 1))
        assert nothing_to_do("out", REQUEST)
        assert path.read_bytes() == before

    def test_not_after_an_edit_of_an_input(self) -> None:
        Path("in/a.yaml").write_text("ab")
        assert not nothing_to_do("out", REQUEST)

    def test_not_after_an_edit_that_keeps_size_and_time(self) -> None:
        status = Path("in/a.yaml").stat()
        Path("in/a.yaml").write_text("b")
        os.utime("in/a.yaml", ns=(status.st_atime_ns, status.st_mtime_ns))
        assert not nothing_to_do("out", REQUEST)

    def test_not_if_another_file_of_equal_time_takes_its_place(self) -> None:
        status = Path("in/a.yaml").stat()
        Path("new").write_text("b")
        os.utime("new", ns=(status.st_atime_ns, status.st_mtime_ns))
        Path("new").replace("in/a.yaml")
        assert not nothing_to_do("out", REQUEST)

    def test_not_after_an_edit_of_an_output(self) -> None:
        Path("a.c").write_bytes(MADE[::-1])
        assert not nothing_to_do("out", REQUEST)

    @pytest.mark.parametrize("name", ["a.c", "in/a.yaml", "bin/cc"])
    def test_not_if_a_file_is_gone(self, name: str) -> None:
        Path(name).unlink()
        assert not nothing_to_do("out", REQUEST)

    def test_not_if_a_file_appears_in_a_folder(self) -> None:
        Path("in/b.yaml").write_text("")
        assert not nothing_to_do("out", REQUEST)

    def test_not_if_an_absent_folder_appears_with_files(self) -> None:
        Path("absent").mkdir()
        Path("absent/b.yaml").write_text("")
        assert not nothing_to_do("out", REQUEST)

    def test_byte_code_and_hidden_files_do_not_matter(self) -> None:
        Path("in/__pycache__").mkdir()
        Path("in/.swp").write_text("")
        assert nothing_to_do("out", REQUEST)

    def test_not_if_another_compiler_comes_first(
        self, built: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (built / "first").mkdir()
        (built / "first" / "cc").write_text("#!/bin/sh")
        (built / "first" / "cc").chmod(0o755)
        monkeypatch.setenv("PATH", f"{built}/first:{built}/bin")
        assert find_program("cc") == f"{built}/first/cc"
        assert not nothing_to_do("out", REQUEST)

    def test_not_if_a_link_points_elsewhere(self, built: Path) -> None:
        status = Path("in/a.yaml").stat()
        Path("other").write_text("b")
        os.utime("other", ns=(status.st_atime_ns, status.st_mtime_ns))
        Path("in/a.yaml").unlink()
        Path("in/a.yaml").symlink_to(built / "other")
        assert not nothing_to_do("out", REQUEST)

    @pytest.mark.parametrize("keep", [0, 1, 20, -1, -4])
    def test_not_with_a_cut_snapshot(self, keep: int) -> None:
        os.utime("in/a.yaml", ns=(1, 1))  # so that each part of it is read
        (path,) = Path("out/.dlbuild/done").iterdir()
        path.write_bytes(path.read_bytes()[:keep])
        assert not nothing_to_do("out", REQUEST)

    @pytest.mark.parametrize("place", [b"dlbuild", b"in/a.yaml", b"file ", b"program\t", b"end"])
    @pytest.mark.parametrize("damage", [b"\xff", b"strange\tx\n", b"\n", b"in\t", b"file a\t"])
    def test_not_with_a_damaged_snapshot(self, damage: bytes, place: bytes) -> None:
        os.utime("in/a.yaml", ns=(1, 1))  # so that each part of it is read
        (path,) = Path("out/.dlbuild/done").iterdir()
        path.write_bytes(path.read_bytes().replace(place, damage + place, 1))
        assert not nothing_to_do("out", REQUEST)

    def test_not_with_a_cut_head(self) -> None:
        (path,) = Path("out/.dlbuild/done").iterdir()
        head = path.read_bytes().partition(b"\n\n")[0]
        for keep in range(len(head) + 2):
            path.write_bytes(head[:keep])
            assert not nothing_to_do("out", REQUEST)

    def test_a_damaged_digest_does_not_matter_before_a_touch(self) -> None:
        (path,) = Path("out/.dlbuild/done").iterdir()
        path.write_bytes(path.read_bytes().replace(sha256(b"a").encode(), b"0", 1))
        assert nothing_to_do("out", REQUEST)
        os.utime("in/a.yaml", ns=(1, 1))
        assert not nothing_to_do("out", REQUEST)

    def test_not_for_another_request_of_the_same_name(self) -> None:
        (path,) = Path("out/.dlbuild/done").iterdir()
        path.write_bytes(path.read_bytes().replace(b"'build'", b"'built'", 1))
        assert not nothing_to_do("out", REQUEST)


@pytest.mark.usefixtures("built")
def test_an_input_edited_during_the_build_leaves_no_snapshot() -> None:
    reading_ns = time.time_ns()
    Path("in/a.yaml").write_text("late")
    assert not leave(reading_ns)
    assert not nothing_to_do("out", REQUEST)


@pytest.mark.usefixtures("built")
def test_an_input_written_just_before_the_program_was_started_leaves_one() -> None:
    Path("in/a.yaml").write_text("a retrained model")
    assert leave(reading_ns=time.time_ns() + 100_000_000)
    assert nothing_to_do("out", REQUEST)


@pytest.mark.usefixtures("built")
def test_our_code_edited_after_the_program_was_started_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remembered, "__file__", str(tmp_path / "dlbuild" / "build" / "any.py"))
    code = tmp_path / "dlbuild" / "rule.py"
    code.parent.mkdir()
    code.write_text("late")
    assert not leave(reading_ns=time.time_ns() + 100_000_000, code=[str(code)])


@pytest.mark.usefixtures("built")
def test_an_output_edited_during_the_build_leaves_no_snapshot() -> None:
    done = remember(
        "out",
        REQUEST,
        inputs=[],
        models=[],
        outputs={"a.c": sha256(b"what was made")},
        folders=[],
        programs=[],
        started_ns=time.time_ns(),
        reading_ns=time.time_ns(),
    )
    assert not done
