"""A remote store against servers that are dead, slow, lying or full: they only cost time."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from dlbuild.base.digest import sha256
from dlbuild.base.errors import UserError
from dlbuild.build import remote
from dlbuild.build.cache import Store
from dlbuild.build.remote import Place, Remote

KEY = sha256(b"key")
CONTENT = b"content of a stage"
Act = Callable[["Handler", str], bool]
"""What a server does instead; false: it answers as it should."""


@dataclass
class Server:
    """A server of Bazel's protocol in this process, with a fault."""

    files: dict[str, bytes] = field(default_factory=dict)
    act: Act = lambda _handler, _method: False
    requests: list[tuple[str, str, str]] = field(default_factory=list)
    url: str = ""
    remotes: list[Remote] = field(default_factory=list)

    def remote(self, url: str = "", *, uploads: bool = True, token: str = "") -> Remote:
        self.remotes.append(Remote(Place(url or self.url, uploads, token)))
        return self.remotes[-1]

    def paths(self, method: str) -> list[str]:
        return [path for said, path, _ in self.requests if said == method]


class Handler(BaseHTTPRequestHandler):
    """Keeps what is put and gives it back, unless the server acts otherwise."""

    protocol_version = "HTTP/1.1"
    server: "Listener"

    def do_GET(self) -> None:
        self.answered("GET")

    def do_PUT(self) -> None:
        self.answered("PUT")

    def answered(self, method: str) -> None:
        behind = self.server.behind
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        behind.requests.append((method, self.path, self.headers.get("Authorization", "")))
        if behind.act(self, method):
            return
        if method == "PUT":
            behind.files[self.path] = body
            self.say(201, b"")
        elif self.path in behind.files:
            self.say(200, behind.files[self.path])
        else:
            self.say(404, b"")

    def say(self, status: int, body: bytes, announced: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if announced is None else announced))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


class Listener(ThreadingHTTPServer):
    """The server of a test."""

    daemon_threads = True
    behind: Server

    def handle_error(self, *_: object) -> None: ...  # clients that leave are part of the tests


@pytest.fixture
def server() -> Iterator[Server]:
    behind = Server()
    listener = Listener(("127.0.0.1", 0), Handler)
    listener.behind = behind
    behind.url = f"http://127.0.0.1:{listener.server_port}/cache"
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield behind
    for far in behind.remotes:
        far.close()
    listener.shutdown()
    listener.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_CONNECT_S", 0.3)
    monkeypatch.setattr(remote, "_IDLE_S", 0.3)
    monkeypatch.setattr(remote, "_WHOLE_S", 0.3)


def made(store: Store) -> None:
    """Do as a stage that had to run."""
    store.keep_result(KEY, {"graph": store.put(CONTENT)})


def found(store: Store) -> bytes | None:
    """Do as a stage that looks for its result."""
    outputs = store.result(KEY)
    return store.get(outputs["graph"]) if outputs else None


def test_what_one_store_makes_another_finds(server: Server, tmp_path: Path) -> None:
    made(Store(tmp_path / "a", remote=server.remote()))
    assert found(Store(tmp_path / "b", remote=server.remote())) == CONTENT
    assert server.paths("PUT") == [f"/cache/cas/{sha256(CONTENT)}", f"/cache/ac/{KEY}"]


def test_what_was_found_is_not_asked_for_again(server: Server, tmp_path: Path) -> None:
    made(Store(tmp_path / "a", remote=server.remote()))
    found(Store(tmp_path / "b", remote=server.remote()))
    server.requests.clear()
    assert found(Store(tmp_path / "b", remote=server.remote())) == CONTENT
    assert server.requests == []


def test_a_check_without_files_is_a_result_too(server: Server, tmp_path: Path) -> None:
    Store(tmp_path / "a", remote=server.remote()).keep_result(KEY, {})
    assert Store(tmp_path / "b", remote=server.remote()).result(KEY) == {}


def test_a_reader_uploads_nothing(server: Server, tmp_path: Path) -> None:
    made(Store(tmp_path / "a", remote=server.remote(uploads=False)))
    assert server.paths("PUT") == []


def test_a_user_and_a_token_are_sent(server: Server) -> None:
    server.remote(server.url.replace("//", "//me:secret%40home@")).entry(KEY)
    server.remote(token="t0ken").entry(KEY)  # noqa: S106 - of a test
    assert [said for _, _, said in server.requests] == [
        "Basic bWU6c2VjcmV0QGhvbWU=",
        "Bearer t0ken",
    ]


def test_a_password_is_not_in_a_warning() -> None:
    dead = Remote(Place("http://me:secret@127.0.0.1:9/x"))
    assert dead.entry(KEY) is None
    (warning,) = dead.warnings
    assert "http://127.0.0.1:9/x" in warning
    assert "secret" not in warning


@pytest.mark.parametrize("url", ["ftp://x/y", "cache.example.org", "http://", "http://x:port"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(UserError, match="is no address of a remote cache"):
        Remote(Place(url))


def garbage(handler: Handler, _method: str) -> bool:
    handler.wfile.write(b"\x00\x01 this is no HTTP\r\n\r\n")
    handler.close_connection = True
    return True


def cut(handler: Handler, method: str) -> bool:
    if method == "GET" and handler.path in handler.server.behind.files:
        content = handler.server.behind.files[handler.path]
        handler.say(200, content[:-3], len(content))
        handler.close_connection = True
        return True
    return False


def drips(handler: Handler, method: str) -> bool:
    if method == "PUT":
        return False
    handler.send_response(200)
    handler.send_header("Content-Length", "100")
    handler.end_headers()
    for _ in range(20):
        handler.wfile.write(b"x")
        handler.wfile.flush()
        time.sleep(0.1)
    handler.close_connection = True
    return True


def answers(status: int) -> Act:
    def act(handler: Handler, _method: str) -> bool:
        handler.say(status, b"no")
        return True

    return act


def sends(body: bytes) -> Act:
    def act(handler: Handler, method: str) -> bool:
        if method == "GET":
            handler.say(200, body)
        return method == "GET"

    return act


def sends_other_contents(handler: Handler, method: str) -> bool:
    if method == "GET" and "/cas/" in handler.path:
        handler.say(200, bytes(len(CONTENT)))
        return True
    return False


def sleeps(_handler: Handler, _method: str) -> bool:
    time.sleep(0.6)
    return False


def leaves(handler: Handler, _method: str) -> bool:
    handler.close_connection = True
    return True


FAULTS: dict[str, Act] = {
    "answers 403": answers(403),
    "answers 500": answers(500),
    "answers 507, as it is full": answers(507),
    "answers 302": answers(302),
    "answers 401": answers(401),
    "sends an empty body": sends(b""),
    "sends a page of a captive portal": sends(b"<html>please log in</html>" * 100),
    "sends other contents": sends_other_contents,
    "sends more than was asked for": sends(bytes(2**21)),
    "cuts what it sends": cut,
    "drips": drips,
    "speaks no HTTP": garbage,
    "sleeps": sleeps,
    "closes the connection": leaves,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_server_with_a_fault_costs_time_alone(fault: str, server: Server, tmp_path: Path) -> None:
    made(Store(tmp_path / "a", remote=server.remote()))
    server.act = FAULTS[fault]
    far = server.remote()
    began = time.monotonic()
    for number in range(6):
        store = Store(tmp_path / f"b{number}", remote=far)
        assert found(store) in (None, CONTENT)
        made(store)
        assert found(store) == CONTENT
        assert found(Store(tmp_path / f"b{number}")) == CONTENT
    assert time.monotonic() - began < 8
    assert far.warnings


@pytest.mark.parametrize("fault", ["answers 500", "speaks no HTTP", "closes the connection"])
def test_a_server_that_fails_is_left_alone(fault: str, server: Server) -> None:
    server.act = FAULTS[fault]
    far = server.remote()
    for _ in range(20):
        assert far.entry(KEY) is None
    assert len(server.requests) == 3


def test_a_miss_is_no_failure(server: Server) -> None:
    far = server.remote()
    for _ in range(20):
        assert far.entry(KEY) is None
    assert (len(server.requests), far.warnings) == (20, [])


def test_a_full_server_is_still_read(server: Server, tmp_path: Path) -> None:
    made(Store(tmp_path / "a", remote=server.remote()))
    far = server.remote()
    server.act = lambda handler, method: method == "PUT" and answers(507)(handler, method)
    for number in range(6):
        far.keep(sha256(bytes([number])), b"", {sha256(b"x"): b"x"})
    assert found(Store(tmp_path / "b", remote=far)) == CONTENT
    assert far.warnings == [f"remote cache {server.url} cannot be written to: it answers 507"]


def test_a_dead_server_is_a_miss(tmp_path: Path) -> None:
    far = Remote(Place("http://127.0.0.1:9", uploads=True))
    store = Store(tmp_path, remote=far)
    made(store)
    assert found(store) == CONTENT
    assert "cannot be" in far.warnings[0]


def test_a_connection_that_ended_meanwhile_is_opened_again(server: Server, tmp_path: Path) -> None:
    far = server.remote()
    made(Store(tmp_path / "a", remote=far))

    def once(handler: Handler, _method: str) -> bool:
        server.act = lambda _handler, _method: False
        handler.close_connection = True
        return True

    server.act = once
    assert found(Store(tmp_path / "b", remote=far)) == CONTENT
    assert far.warnings == []


def test_a_content_that_the_server_lost_makes_a_miss(server: Server, tmp_path: Path) -> None:
    made(Store(tmp_path / "a", remote=server.remote()))
    del server.files[f"/cache/cas/{sha256(CONTENT)}"]
    store = Store(tmp_path / "b", remote=server.remote())
    assert store.result(KEY) is None
    made(store)
    assert found(store) == CONTENT


def test_an_entry_that_was_tampered_with_is_a_miss(server: Server, tmp_path: Path) -> None:
    made(Store(tmp_path / "a", remote=server.remote()))
    other = b"what another stage made"
    server.files[f"/cache/cas/{sha256(other)}"] = other
    path = f"/cache/ac/{KEY}"
    server.files[path] = server.files[path].replace(
        sha256(CONTENT).encode(), sha256(other).encode()
    )
    far = server.remote()
    assert Store(tmp_path / "b", remote=far).result(KEY) is None
    assert "sends something else" in far.warnings[0]
