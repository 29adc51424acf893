"""A store that others share: Bazel's HTTP protocol, https://bazel.build/remote/caching.

`GET` and `PUT` of `/ac/<key>` for results and `/cas/<sha256>` for contents; 404 is a miss. Any
server for Bazel will do, and so will any that keeps files. Whatever is wrong with it, dead, slow,
lying or full, costs time and nothing else: what it sends is verified, and after a few failures it
is not asked again in this process.
"""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import unquote, urlsplit

from dlbuild.base.digest import sha256
from dlbuild.base.errors import UserError
from dlbuild.build.action_result import decode

_FAILURES = 3
"""So many in a row, and the server is left alone."""
_CONNECT_S, _IDLE_S, _WHOLE_S = 1.0, 5.0, 5.0
_LEAST_BYTES_PER_S = 2**18
_RESULT_BYTES = 2**20
_CONTENT_BYTES = 2**30
_PIECE_BYTES = 2**16
_OK = range(200, 300)
_MISSING = 404


class RemoteError(Exception):
    """An answer that is none."""


@dataclass(frozen=True)
class Place:
    """Where a remote store is and how to speak to it. token: of bearer authorisation."""

    url: str
    uploads: bool = False
    token: str = ""
    ca_file: str = ""


@dataclass
class Remote:
    """A remote store. warnings: one sentence for each way in which it failed."""

    place: Place
    warnings: list[str] = field(default_factory=list)
    _failures: dict[str, int] = field(default_factory=dict)
    _kept: set[str] = field(default_factory=set)
    _local: threading.local = field(default_factory=threading.local)
    _open: list[HTTPConnection] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Take the address apart.

        Raises:
            UserError: it is none of HTTP.
        """
        parts = urlsplit(self.place.url)
        try:
            is_known = parts.scheme in ("http", "https") and bool(parts.hostname)
            self._host, self._port = parts.hostname or "", parts.port
        except ValueError:
            is_known = False
        if not is_known:
            raise UserError(
                f"'{self.place.url}' is no address of a remote cache",
                fix="write http://HOST/FOLDER or https://HOST/FOLDER",
                exit_code=2,
            )
        self._is_secret = parts.scheme == "https"
        self._path = parts.path.rstrip("/")
        self._headers = {}
        if self.place.token:
            self._headers["Authorization"] = f"Bearer {self.place.token}"
        elif parts.username is not None:
            said = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
            self._headers["Authorization"] = f"Basic {base64.b64encode(said).decode()}"

    def entry(self, key: str) -> bytes | None:
        """Return the entry of a result as `action_result` encodes it; None if there is none."""
        found = self._get(f"/ac/{key}", _RESULT_BYTES)
        # A key says nothing of the entry, so the entry has its own checksum.
        return None if found is None or self._is_bad(decode(found) is None) else found

    def content(self, digest: str, size_bytes: int | None = None) -> bytes | None:
        """Return a content; None if it is not there or is another. size_bytes: if it is known."""
        limit = _CONTENT_BYTES if size_bytes is None else size_bytes
        found = self._get(f"/cas/{digest}", limit)
        if found is None or self._is_bad(sha256(found) != digest):
            return None
        self._kept.add(digest)
        return found

    def keep(self, key: str, entry: bytes, contents: Mapping[str, bytes]) -> None:
        """Upload a result: its contents first, so that no reader finds an entry without them."""
        if not self.place.uploads:
            return
        for digest, content in contents.items():
            if digest not in self._kept:
                if not self._put(f"/cas/{digest}", content):
                    return
                self._kept.add(digest)
        self._put(f"/ac/{key}", entry)

    def close(self) -> None:
        """Close the connections of all threads; the next question opens one again."""
        for connection in self._open:
            connection.close()
        self._open.clear()
        self._local = threading.local()

    def _get(self, path: str, limit_bytes: int) -> bytes | None:
        if self._is_off("read"):
            return None
        try:
            status, content = self._exchange("GET", path, None, limit_bytes)
        except (OSError, HTTPException, RemoteError) as error:
            self._failed("read", _reason(error))
            return None
        if status == _MISSING:
            self._failures["read"] = 0
            return None
        if status not in _OK:
            self._failed("read", f"it answers {status}")
            return None
        return content

    def _put(self, path: str, content: bytes) -> bool:
        if self._is_off("write"):
            return False
        try:
            status, _ = self._exchange("PUT", path, content, _RESULT_BYTES)
        except (OSError, HTTPException, RemoteError) as error:
            self._failed("write", _reason(error))
            return False
        if status in _OK:
            self._failures["write"] = 0
            return True
        self._failed("write", f"it answers {status}")
        return False

    def _is_bad(self, is_bad: bool) -> bool:  # noqa: FBT001 - the answer to what it is called
        if is_bad:
            self._failed("read", "it sends something else than was asked for")
        else:
            self._failures["read"] = 0
        return is_bad

    def _is_off(self, way: str) -> bool:
        return self._failures.get(way, 0) >= _FAILURES

    def _failed(self, way: str, why: str) -> None:
        self._failures[way] = self._failures.get(way, 0) + 1
        shown = urlsplit(self.place.url)
        where = f"{shown.scheme}://{shown.hostname}{f':{self._port}' if self._port else ''}"
        verb = "read from" if way == "read" else "written to"
        said = f"remote cache {where}{self._path} cannot be {verb}: {why}"
        if said not in self.warnings:
            self.warnings.append(said)

    def _exchange(
        self, method: str, path: str, body: bytes | None, limit_bytes: int
    ) -> tuple[int, bytes]:
        """Ask once; once more if the connection was kept from before and has ended meanwhile."""
        is_kept = getattr(self._local, "connection", None) is not None
        try:
            return self._ask(method, path, body, limit_bytes)
        except (ConnectionError, HTTPException):
            self._close()
            if not is_kept:
                raise
            return self._ask(method, path, body, limit_bytes)
        except BaseException:
            self._close()
            raise

    def _ask(
        self, method: str, path: str, body: bytes | None, limit_bytes: int
    ) -> tuple[int, bytes]:
        connection = self._connection()
        size_bytes = len(body) if body is not None else limit_bytes
        whole_s = _WHOLE_S + size_bytes / _LEAST_BYTES_PER_S
        until = time.monotonic() + whole_s
        connection.sock.settimeout(whole_s if body else _IDLE_S)
        connection.request(method, self._path + path, body=body, headers=self._headers)
        connection.sock.settimeout(_IDLE_S)
        answer = connection.getresponse()
        pieces: list[bytes] = []
        length = 0
        while piece := answer.read1(_PIECE_BYTES):
            length += len(piece)
            if length > limit_bytes and answer.status in _OK:
                self._close()
                raise RemoteError("it sends more than was asked for")
            if time.monotonic() > until or length > _CONTENT_BYTES:
                self._close()
                raise TimeoutError
            pieces.append(piece)
        announced = answer.length
        if announced:  # of a body that was cut, what is missing
            self._close()
            raise RemoteError("it sends less than it announced")
        answer.close()  # read1 leaves a response open that it has read to its end
        if answer.will_close:
            self._close()
        return answer.status, b"".join(pieces)

    def _connection(self) -> HTTPConnection:
        """Return this thread's connection, open."""
        kept: HTTPConnection | None = getattr(self._local, "connection", None)
        if kept is None:
            if self._is_secret:
                import ssl  # noqa: PLC0415 - 10 ms that http does not need

                context = ssl.create_default_context(cafile=self.place.ca_file or None)
                kept = HTTPSConnection(self._host, self._port, timeout=_CONNECT_S, context=context)
            else:
                kept = HTTPConnection(self._host, self._port, timeout=_CONNECT_S)
            self._open.append(kept)
            self._local.connection = kept
            kept.connect()
        return kept

    def _close(self) -> None:
        kept: HTTPConnection | None = getattr(self._local, "connection", None)
        self._local.connection = None
        if kept is not None:
            kept.close()
            self._open.remove(kept)


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "it does not answer in time"
    return str(error) or type(error).__name__
