"""A remote cache of nginx: what one user built, another does not build again.

    python bench/remote.py

Two check-outs in folders of different names, two caches: the second runs no stage. Then the server
is read-only, its contents are tampered with and cut, it wants a password, it speaks TLS, it dies;
each time the result is that of a clean build. Where Bazel is installed it keeps its own results on
the same server. Ends with `N passed, M failed`; the exit status is 1 if M > 0. Without nginx it is
skipped.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import embedding_bazel

ROOT = Path(__file__).resolve().parent.parent
NGINX = """\
daemon off;
error_log {work}/error.log;
pid {work}/nginx.pid;
worker_processes 1;
events {{ worker_connections 64; }}
http {{
  access_log {work}/access.log;
  client_max_body_size 1g;
  client_body_temp_path {work}/body;
  proxy_temp_path {work}/proxy; fastcgi_temp_path {work}/fast;
  uwsgi_temp_path {work}/uwsgi; scgi_temp_path {work}/scgi;
  server {{
    listen 127.0.0.1:{port};
    location /cache/ {{ alias {work}/files/; dav_methods PUT; create_full_put_path on; }}
    location /mirror/ {{ alias {work}/files/; dav_methods PUT; limit_except GET {{ deny all; }} }}
    location /private/ {{
      alias {work}/files/; dav_methods PUT; create_full_put_path on;
      auth_basic "cache"; auth_basic_user_file {work}/users;
    }}
  }}
  server {{
    listen 127.0.0.1:{tls_port} ssl;
    ssl_certificate {work}/cert.pem; ssl_certificate_key {work}/key.pem;
    location /cache/ {{ alias {work}/files/; dav_methods PUT; create_full_put_path on; }}
  }}
}}
"""


@dataclass
class Lab:
    """nginx on free ports, and check-outs of one project."""

    work: Path
    port: int
    tls_port: int
    clean: Mapping[str, bytes] = field(default_factory=dict)
    _count: int = 0

    @property
    def files(self) -> Path:
        """What the server keeps."""
        return self.work / "files"

    def url(self, place: str) -> str:
        """Return the address of one of the server's places."""
        return f"http://127.0.0.1:{self.port}/{place}"

    def build(self, *options: str, **environment: str) -> tuple[list[str], str]:
        """Build a new check-out with a new cache; return the stages that ran, and warnings.

        Raises:
            AssertionError: it fails, or an output is not that of a clean build.
        """
        self._count += 1
        folder = self.work / f"check-out-{'x' * self._count}"
        folder.mkdir()
        shutil.copy(ROOT / "examples/digits/digits_int8.onnx", folder / "net.onnx")
        recipe = "version: 1\nmodels: {net: {source: net.onnx}}\ntargets: {pc: {extends: host}}\n"
        (folder / "dlbuild.yaml").write_text(recipe)
        done = subprocess.run(
            [sys.executable, "-m", "dlbuild", "build", *options],
            cwd=folder,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "DLBUILD_CACHE_DIR": str(folder / "cache"),
                **environment,
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        made = {
            path.name: path.read_bytes()
            for path in sorted((folder / "build/dlbuild/pc/net").iterdir())
            if path.is_file() and path.suffix != ".d"
        }
        self.clean = self.clean or made
        assert made == self.clean, "an output is not that of a clean build"
        ran = [line for line in done.stdout.splitlines() if line.endswith(" s)")]
        return ran, done.stderr

    def fill(self) -> None:
        """Let a build fill the server anew."""
        shutil.rmtree(self.files, ignore_errors=True)
        ran, said = self.build("--remote-cache", self.url("cache"), "--remote-upload=always")
        assert ran, "an empty server had results"
        assert not said, said


def second_user(lab: Lab) -> None:
    """The second user builds nothing."""
    lab.fill()
    ran, said = lab.build("--remote-cache", lab.url("cache"))
    assert (ran, said) == ([], ""), ran or said


def environment(lab: Lab) -> None:
    """The address and the right to write come from the environment too."""
    shutil.rmtree(lab.files, ignore_errors=True)
    lab.build(DLBUILD_REMOTE_CACHE=lab.url("cache"), DLBUILD_REMOTE_UPLOAD="always")
    ran, _ = lab.build(DLBUILD_REMOTE_CACHE=lab.url("cache"))
    assert ran == [], ran


def read_only(lab: Lab) -> None:
    """A mirror refuses to be written, is read all the same, and says so once."""
    lab.fill()
    ran, said = lab.build(
        "--remote-cache", lab.url("mirror"), "--remote-upload=always", "-D", "hook=false"
    )
    assert ran == [], ran
    shutil.rmtree(lab.files)
    ran, said = lab.build("--remote-cache", lab.url("mirror"), "--remote-upload=always")
    assert ran
    assert said.count("it answers 403") == 1, said


def tampered(lab: Lab) -> None:
    """Contents with a flipped bit, and cut ones, are made again."""
    lab.fill()
    for number, path in enumerate(sorted(lab.files.glob("cas/*"))):
        content = bytearray(path.read_bytes())
        if number % 2 and content:
            content[len(content) // 2] ^= 1
        path.write_bytes(content if number % 2 else content[: len(content) // 2])
    ran, said = lab.build("--remote-cache", lab.url("cache"))
    assert ran
    assert "it sends something else than was asked for" in said, said


def poisoned(lab: Lab) -> None:
    """Entries of other keys, and entries that are none, are made again."""
    lab.fill()
    paths = sorted(lab.files.glob("ac/*"))
    contents = [path.read_bytes() for path in paths]
    for path, content in zip(paths, contents[1:] + contents[:1], strict=True):
        path.write_bytes(content[:-1])
    ran, _ = lab.build("--remote-cache", lab.url("cache"))
    assert ran


def password(lab: Lab) -> None:
    """Basic authorisation: with the password it is read, without it is left alone."""
    lab.fill()
    ran, _ = lab.build("--remote-cache", lab.url("private").replace("//", "//me:secret@"))
    assert ran == [], ran
    ran, said = lab.build("--remote-cache", lab.url("private"))
    assert ran
    assert said.count("it answers 401") == 1, said


def tls(lab: Lab) -> None:
    """TLS with a certificate that is trusted, and with one that is not."""
    lab.fill()
    url = f"https://localhost:{lab.tls_port}/cache"
    ran, said = lab.build("--remote-cache", url, DLBUILD_REMOTE_CA=str(lab.work / "cert.pem"))
    assert ran == [], ran or said
    ran, said = lab.build("--remote-cache", url)
    assert ran
    assert "certificate verify failed" in said, said


def dead(lab: Lab) -> None:
    """Nobody listens: a warning, and a build."""
    ran, said = lab.build("--remote-cache", f"http://127.0.0.1:{free_port()}/cache")
    assert ran
    assert "Connection refused" in said, said


def bazel(lab: Lab) -> None:
    """Bazel's results lie beside those of dlbuild, and both find their own."""
    lab.fill()
    with tempfile.TemporaryDirectory(prefix="dlbuild-bazel-") as work:
        hits = embedding_bazel.remote_hits(Path(work), lab.url("cache"))
    assert hits, "Bazel found nothing of its own"
    ran, said = lab.build("--remote-cache", lab.url("cache"))
    assert (ran, said) == ([], ""), ran or said


CASES: Mapping[str, Callable[[Lab], None]] = {
    "a second user builds nothing": second_user,
    "named by the environment": environment,
    "a mirror that is read-only": read_only,
    "contents tampered with and cut": tampered,
    "entries poisoned": poisoned,
    "a password": password,
    "TLS": tls,
    "a dead server": dead,
    "Bazel on the same server": bazel,
}


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def start(work: Path) -> tuple[Lab, subprocess.Popen[bytes]]:
    """Start nginx and wait until it answers."""
    lab = Lab(work, free_port(), free_port())
    crypted = subprocess.run(
        ["openssl", "passwd", "-apr1", "secret"], capture_output=True, text=True, check=True
    )
    (work / "users").write_text(f"me:{crypted.stdout}")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"),
            *("-keyout", work / "key.pem", "-out", work / "cert.pem"),
        ],
        capture_output=True,
        check=True,
    )
    lab.files.mkdir()
    for path in (work, lab.files):
        path.chmod(0o777)  # nginx leaves root's rights behind
    (work / "nginx.conf").write_text(
        NGINX.format(work=work, port=lab.port, tls_port=lab.tls_port)
        if os.getuid()
        else "user root;\n" + NGINX.format(work=work, port=lab.port, tls_port=lab.tls_port)
    )
    server = subprocess.Popen(
        ["nginx", "-c", work / "nginx.conf", "-p", work, "-e", work / "error.log"]
    )
    for _ in range(100):
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", lab.port)) == 0:
                return lab, server
        time.sleep(0.05)
    server.terminate()
    raise AssertionError((work / "error.log").read_text())


def main() -> int:
    """Play every case and print a line for each."""
    if shutil.which("nginx") is None or shutil.which("openssl") is None:
        print("skipped: there is no nginx, or no openssl")
        return 0
    n_passed = n_failed = 0
    with tempfile.TemporaryDirectory(prefix="dlbuild-remote-") as folder:
        lab, server = start(Path(folder))
        try:
            for name, case in CASES.items():
                if case is bazel and shutil.which("bazel") is None:
                    print(f"{name}: skipped: there is no bazel")
                    continue
                fault = ""
                try:
                    case(lab)
                except AssertionError as error:
                    fault = str(error) or traceback.format_exc(limit=-1)
                n_passed, n_failed = n_passed + (not fault), n_failed + bool(fault)
                print(f"{name}: {f'FAILED: {fault}' if fault else 'ok'}", flush=True)
        finally:
            server.terminate()
            server.wait()
    print(f"{n_passed} passed, {n_failed} failed")
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
