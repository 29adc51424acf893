import os
from pathlib import Path

import pytest

from dlbuild.base.digest import sha256
from dlbuild.build.cache import Store, Usage, cache_folder, open_store


def test_a_content_is_found_by_its_digest(tmp_path: Path) -> None:
    store = Store(tmp_path)
    digest = store.put(b"abc")
    assert digest == sha256(b"abc")
    assert Store(tmp_path).get(digest) == b"abc"
    assert store.get(sha256(b"other")) is None


def test_a_result_is_found_by_its_key(tmp_path: Path) -> None:
    store = Store(tmp_path)
    made = {"graph": store.put(b"1"), "weights": store.put(b"")}
    store.keep_result("12ab", made)
    assert Store(tmp_path).result("12ab") == made
    assert store.result("34cd") is None


@pytest.mark.parametrize("damage", [b"", b"ab", b"abd", b"abc "])
def test_a_damaged_content_is_a_miss_and_is_replaced(tmp_path: Path, damage: bytes) -> None:
    store = Store(tmp_path)
    digest = store.put(b"abc")
    (path,) = (tmp_path / "v1" / "cas").rglob(digest)
    path.chmod(0o644)
    path.write_bytes(damage)
    assert store.get(digest) is None
    assert store.put(b"abc") == digest
    assert store.get(digest) == b"abc"


def test_a_damaged_result_is_a_miss(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.keep_result("12ab", {"graph": store.put(b"abc"), "weights": store.put(b"")})
    (path,) = (tmp_path / "v1" / "ac").rglob("12ab")
    entry = path.read_bytes()
    path.chmod(0o644)
    for place in range(len(entry)):
        for bit in range(8):
            flipped = bytes([*entry[:place], entry[place] ^ 1 << bit, *entry[place + 1 :]])
            for damaged in (flipped, entry[:place]):
                path.write_bytes(damaged)
                assert store.result("12ab") is None
                assert not path.exists()


def test_a_store_that_cannot_be_written_serves_from_memory(tmp_path: Path) -> None:
    (tmp_path / "v1").write_text("in the way")
    store = Store(tmp_path)
    digest = store.put(b"abc")
    assert store.get(digest) == b"abc"
    store.keep_result("12ab", {"graph": digest})
    assert store.result("12ab") is None


def test_what_was_not_used_for_longest_goes_when_the_store_is_full(tmp_path: Path) -> None:
    store = Store(tmp_path)
    digests = [store.put(bytes([number]) * 100) for number in range(10)]
    for age, digest in enumerate(digests):
        (path,) = (tmp_path / "v1" / "cas").rglob(digest)
        os.utime(path, (age, age))
    store.get(digests[0])
    assert store.trim(1000) == 0
    assert store.trim(999) == 300
    kept = [digest in (digests[0], *digests[4:]) for digest in digests]
    assert [store.get(digest) is not None for digest in digests] == kept


def test_a_store_trims_itself_once_it_has_grown(tmp_path: Path) -> None:
    for number in range(20):
        store = Store(tmp_path)
        store.put(bytes([number]) * 100)
        store.tidy(1000)
    assert store.usage().size_bytes <= 1100


def test_verify_removes_what_is_damaged(tmp_path: Path) -> None:
    store = Store(tmp_path)
    digest = store.put(b"abc")
    store.keep_result("12ab", {"graph": digest})
    assert store.verify() == []
    assert store.usage() == Usage(1, 1, 3 + (tmp_path / "v1/ac/12/12ab").stat().st_size)
    for path in (tmp_path / "v1/ac/12/12ab", tmp_path / f"v1/cas/{digest[:2]}/{digest}"):
        path.chmod(0o644)
        path.write_bytes(b"x")
    assert [path.name for path in store.verify()] == ["12ab", digest]
    assert store.usage() == Usage(0, 0, 0)


def test_contents_are_not_meant_to_be_edited(tmp_path: Path) -> None:
    digest = Store(tmp_path).put(b"abc")
    (path,) = (tmp_path / "v1" / "cas").rglob(digest)
    assert path.stat().st_mode & 0o777 == 0o444


def test_backup_programs_are_told_to_skip_it(tmp_path: Path) -> None:
    Store(tmp_path).put(b"abc")
    tag = (tmp_path / "v1" / "CACHEDIR.TAG").read_text()
    assert tag.startswith("Signature: 8a477f597d28d172789f06886806bc55")


def test_the_folder_is_named_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLBUILD_CACHE_DIR", "/a")
    monkeypatch.setenv("XDG_CACHE_HOME", "/b")
    monkeypatch.setenv("HOME", "/")
    assert cache_folder() == Path("/a")
    monkeypatch.delenv("DLBUILD_CACHE_DIR")
    assert cache_folder() == Path("/b/dlbuild")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_folder() == Path("/.cache/dlbuild")
    monkeypatch.setenv("HOME", "/dev/null")
    assert cache_folder() is None


def test_a_cache_that_cannot_be_written_is_still_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = Store(tmp_path / "shared")
    digest = shared.put(b"abc")
    shared.keep_result("12ab", {"graph": digest})
    monkeypatch.setenv("DLBUILD_CACHE_DIR", str(tmp_path / "shared"))
    monkeypatch.setattr(os, "access", lambda *_: False)
    store = open_store(tmp_path / "state")
    assert store.result("12ab") == {"graph": digest}
    assert store.get(digest) == b"abc"
    store.keep_result("34cd", {"graph": digest, "weights": store.put(b"new")})
    assert Store(tmp_path / "state").result("34cd") is not None
    assert shared.result("34cd") is None
