import os
from pathlib import Path

import pytest

from dlbuild.base.digest import sha256
from dlbuild.build.cache import Store, write_atomically, write_if_changed


def test_a_content_is_found_by_its_digest(tmp_path: Path) -> None:
    store = Store(tmp_path)
    digest = store.put(b"abc")
    assert digest == sha256(b"abc")
    assert Store(tmp_path).get(digest) == b"abc"
    assert store.get(sha256(b"other")) is None


def test_a_result_is_found_by_its_key(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.keep_result("12ab", {"graph": "d1", "weights": "d2"})
    assert Store(tmp_path).result("12ab") == {"graph": "d1", "weights": "d2"}
    assert store.result("34cd") is None


@pytest.mark.parametrize("damage", [b"", b"ab", b"abd", b"abc "])
def test_a_damaged_content_is_a_miss_and_is_replaced(tmp_path: Path, damage: bytes) -> None:
    store = Store(tmp_path)
    digest = store.put(b"abc")
    (path,) = (tmp_path / "v1" / "cas").rglob(digest)
    path.write_bytes(damage)
    assert store.get(digest) is None
    assert store.put(b"abc") == digest
    assert store.get(digest) == b"abc"


def test_a_damaged_result_is_a_miss(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.keep_result("12ab", {"graph": "d1"})
    (path,) = (tmp_path / "v1" / "results").rglob("12ab")
    path.write_bytes(path.read_bytes().replace(b"d1", b"d2"))
    assert store.result("12ab") is None


def test_a_store_that_cannot_be_written_serves_from_memory(tmp_path: Path) -> None:
    (tmp_path / "v1").write_text("in the way")
    store = Store(tmp_path)
    assert store.get(store.put(b"abc")) == b"abc"
    store.keep_result("12ab", {"graph": "d1"})
    assert store.result("12ab") is None


def test_the_oldest_contents_go_when_the_store_is_full(tmp_path: Path) -> None:
    store = Store(tmp_path)
    digests = [store.put(bytes([number]) * 100) for number in range(5)]
    for age, digest in enumerate(digests):
        (path,) = (tmp_path / "v1" / "cas").rglob(digest)
        os.utime(path, (age, age))
    store.trim({digests[0]}, 500)
    assert all(store.get(digest) for digest in digests)
    store.trim({digests[0]}, 400)
    kept = [digest in digests[:1] + digests[3:] for digest in digests]
    assert [store.get(digest) is not None for digest in digests] == kept


def test_backup_programs_are_told_to_skip_it(tmp_path: Path) -> None:
    Store(tmp_path).put(b"abc")
    tag = (tmp_path / "v1" / "CACHEDIR.TAG").read_text()
    assert tag.startswith("Signature: 8a477f597d28d172789f06886806bc55")


def test_an_equal_file_keeps_its_times(tmp_path: Path) -> None:
    path = tmp_path / "a" / "x.c"
    assert write_if_changed(path, b"1")
    os.utime(path, ns=(1, 1))
    assert not write_if_changed(path, b"1")
    assert path.stat().st_mtime_ns == 1
    assert write_if_changed(path, b"2")
    assert path.read_bytes() == b"2"


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "y").write_text("")
    with pytest.raises(OSError, match="x"):
        write_atomically(tmp_path / "x", b"1")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
