import os
from pathlib import Path

import pytest

from dlbuild.base.files import sweep, write_atomically, write_if_changed


def test_an_equal_file_keeps_its_times(tmp_path: Path) -> None:
    path = tmp_path / "a" / "x.c"
    assert write_if_changed(path, b"1", tmp_path)
    os.utime(path, ns=(1, 1))
    assert not write_if_changed(path, b"1", tmp_path)
    assert path.stat().st_mtime_ns == 1
    assert write_if_changed(path, b"2", tmp_path)
    assert path.read_bytes() == b"2"


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "y").write_text("")
    with pytest.raises(OSError, match="x"):
        write_atomically(tmp_path / "x", b"1", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_the_folder_of_unfinished_files_is_made(tmp_path: Path) -> None:
    write_atomically(tmp_path / "x", b"1", tmp_path / "tmp")
    assert (tmp_path / "x").read_bytes() == b"1"
    assert list((tmp_path / "tmp").iterdir()) == []


def test_what_a_killed_process_left_is_swept(tmp_path: Path) -> None:
    for name, time in (("old", 0), ("new", 2**33)):
        (tmp_path / name).write_bytes(b"")
        os.utime(tmp_path / name, (time, time))
    sweep(tmp_path, 60)
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    sweep(tmp_path / "absent")
