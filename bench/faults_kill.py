"""A build that is killed at a random moment, and the build after it."""

import os
import random
import signal
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module

from faults_project import Lab, Project

from dlbuild.build.pipeline import PIPELINE

Case = Callable[[Lab], str | None]


def cases(count: int, seed: int) -> Mapping[str, Case]:
    """Return the cases; `count` is that of the SIGKILLs."""
    few = max(count // 20, 3)
    return {
        f"SIGKILL at {count} random moments": partial(killed, signal.SIGKILL, count, seed),
        f"SIGTERM at {few} random moments": partial(killed, signal.SIGTERM, few, seed),
        f"SIGINT at {few} random moments": partial(killed, signal.SIGINT, few, seed),
    }


def killed(number: int, count: int, seed: int, lab: Lab) -> None:
    """Kill builds, of a new folder and of one with older outputs, and build again each time."""
    _load()
    rng = random.Random(seed)  # noqa: S311 - moments, not secrets
    project = lab.project()
    began = time.monotonic()
    assert os.waitstatus_to_exitcode(os.waitpid(_forked(project), 0)[1]) == 0
    whole_s = time.monotonic() - began
    lab.check(project)
    times_s = {"new": whole_s, "old": whole_s / 2}
    for turn in range(count):
        how = "new" if turn % 2 == 0 else "old"
        project = lab.project() if how == "new" else project
        project.model.write_bytes(lab.models["BAC"[turn % 3]])
        pid = _forked(project)
        moment_s = rng.uniform(0, times_s[how])
        time.sleep(moment_s)
        os.kill(pid, number)
        os.waitpid(pid, 0)
        pid = _forked(project)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert status == 0, f"after {moment_s:.3f} s of {how}: status {status}"
        try:
            lab.check(project)
        except AssertionError as error:
            raise AssertionError(f"after {moment_s:.3f} s of {how}: {error}") from None


def _load() -> None:
    """Import what a build needs, so that moments fall on its work and not on imports."""
    for stage in PIPELINE.stages:
        import_module(stage.module)
    for module in ("dlbuild.__main__", "dlbuild.cli.main", "dlbuild.cli.build"):
        import_module(module)


def _forked(project: Project) -> int:
    """Start a build in a copy of this process and return its number."""
    pid = os.fork()
    if pid:
        return pid
    status = 3
    try:
        os.chdir(project.folder)
        os.environ.update(project.environment)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.argv = ["dlbuild", "build", "-j2"]
        status = import_module("dlbuild.__main__").main()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 3
    finally:
        os._exit(status)
