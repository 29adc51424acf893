"""Faults of tools, clock and environment: another compiler, another day, another country."""

import shutil
from collections.abc import Callable, Mapping
from functools import partial
from itertools import product
from pathlib import Path

from faults_project import RECIPE, Lab, Project

Case = Callable[[Lab], str | None]
FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")


def with_compiler(project: Project, text: str) -> Path:
    """Let the project use a compiler that is a script of its own."""
    path = project.folder / "cc.sh"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    recipe = RECIPE.replace("{extends: host}", f"{{extends: host, toolchain: {{cc: {path}}}}}")
    (project.folder / "dlbuild.yaml").write_text(recipe)
    return path


def compiler_changed(lab: Lab, *, version: bool) -> None:
    """Change what the compiler does: with its version, or under the same one."""
    project = lab.project()
    path = with_compiler(project, 'exec gcc "$@"')
    project.build()
    before = project.outputs()["pc/net/net.o"]
    said = 'case "$*" in --version) echo 2; exit;; esac\n' if version else ""
    path.write_text(f'#!/bin/sh\n{said}exec gcc "$@" -O0\n')
    assert {"compile", "compile tables"} <= set(project.build().ran)
    assert project.outputs()["pc/net/net.o"] != before
    copy = lab.project()
    shutil.copy(project.folder / "dlbuild.yaml", copy.folder)
    copy.build()
    assert copy.outputs() == project.outputs()


def compiler_first(lab: Lab) -> None:
    """Put another gcc before the old one in PATH."""
    project = lab.project()
    (project.folder / "dlbuild.yaml").write_text(RECIPE)
    project.build()
    first = project.folder.with_name(f"{project.folder.name} bin")
    first.mkdir()
    for name in ("cc", "gcc"):
        (first / name).write_text('#!/bin/sh\nexec /usr/bin/gcc "$@" -O0\n')
        (first / name).chmod(0o755)
    other = project.with_environment(PATH=f"{first}:/usr/bin:/bin")
    assert {"compile", "compile tables"} <= set(other.build().ran)
    assert project.build().ran == []
    lab.check(project)


def compiler_fails(lab: Lab, *, text: str) -> None:
    """Let the compiler fail once: the failure must not be remembered."""
    project = lab.project()
    flag = project.folder / "fail"
    with_compiler(
        project,
        f'case "$*" in *-c*net.c*) [ -f "{flag}" ] && {{ {text}; }};; esac\nexec gcc "$@"',
    )
    flag.write_text("")
    built = project.run("build")
    assert built.status == 1, built.text
    assert "net.o" not in {Path(name).name for name in project.outputs()}
    flag.unlink()
    assert "compile" in project.build().ran
    plain = lab.project()
    plain.build()
    assert project.outputs()["pc/net/net.o"] == plain.outputs()["pc/net/net.o"]


def pack_changed(lab: Lab, *, name: str, old: str, new: str, stage: str) -> None:
    """Change a template or a rule of a pack."""
    project = lab.project()
    root = Path(__file__).resolve().parent.parent
    path = project.folder / "pack" / name
    path.parent.mkdir(parents=True)
    (project.folder / "pack" / "rules").mkdir(exist_ok=True)
    (project.folder / "pack" / "rules" / "README").write_text("")
    shutil.copy(root / name, path)
    (project.folder / "dlbuild.yaml").write_text(RECIPE + "packs: [pack]\n")
    project.build()
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    assert stage in project.build().ran
    lab.check(project)


def library_changed(lab: Lab) -> None:
    """Install another version of a library."""
    project = lab.built()
    site = project.folder.with_name(f"{project.folder.name} site")
    (site / "numpy-99.0.dist-info").mkdir(parents=True)
    (site / "numpy-99.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: numpy\nVersion: 99.0\n"
    )
    root = Path(__file__).resolve().parent.parent
    other = project.with_environment(PYTHONPATH=f"{site}:{root}")
    assert {"parse", "profile", "tables"} <= set(other.build().ran)
    lab.check(other)
    assert project.build().ran == []


def clock(lab: Lab, *, shift: str, stat: str) -> str | None:
    """Build with a wrong clock, edit, and build with the right one, and the other way round."""
    if not FAKETIME.is_file():
        return "faketime is not installed"
    wrong = {"LD_PRELOAD": str(FAKETIME), "FAKETIME": shift, "NO_FAKE_STAT": stat}
    right = lab.built()
    shifted = right.with_environment(**wrong)
    for project, name in (
        (shifted, "A"),
        (shifted, "B"),
        (right, "A"),
        (right, "C"),
        (shifted, "A"),
    ):
        project.model.write_bytes(lab.models[name])
        project.build()
        lab.check(project)
        assert project.build().ran == []
    return None


def environment(lab: Lab) -> None:
    """Set every variable that has ever changed what a compiler or Python makes."""
    project = lab.built()
    other = project.with_environment(**_VARIABLES)
    assert other.build().text == "nothing to do\n"
    anew = lab.project()
    anew.with_environment(**_VARIABLES).build()
    lab.check(anew)


def same_bytes(lab: Lab) -> None:
    """Build under other hash seeds, locales, time zones, umasks, folders and numbers of jobs."""
    choices = product(("0", "1", "77"), ("C", "tr_TR.UTF-8", "de_DE.UTF-8"), ("UTC", "Asia/Tokyo"))
    for number, (seed, locale, zone) in enumerate(list(choices)[::3]):
        project = lab.project()
        other = project.with_environment(PYTHONHASHSEED=seed, LC_ALL=locale, LANG=locale, TZ=zone)
        umask = f"import os; os.umask({(0o22, 0o77, 0o0)[number % 3]})"
        jobs = f"-j{1 + number % 3}"
        if number % 2:
            elsewhere = Project(lab.folder, other.environment)
            elsewhere.build(jobs, "-C", str(project.folder), driver=umask)
        else:
            other.build(jobs, driver=umask)
        lab.check(project)


_VARIABLES = {
    "CFLAGS": "-O0",
    "CC": "false",
    "CPATH": "/nonexistent",
    "C_INCLUDE_PATH": "/nonexistent",
    "SOURCE_DATE_EPOCH": "1",
    "GCC_COLORS": "error=01;31",
    "TERM": "xterm-256color",
    "CLICOLOR_FORCE": "1",
    "COLUMNS": "20",
    "USER": "somebody",
    "PYTHONUTF8": "1",
    "PYTHONOPTIMIZE": "1",
    "MAKEFLAGS": "-j9",
}

CASES: Mapping[str, Case] = {
    "compiler of another version": partial(compiler_changed, version=True),
    "compiler changed under its version": partial(compiler_changed, version=False),
    "compiler put first in PATH": compiler_first,
    "compiler that fails once": partial(compiler_fails, text="echo no; exit 1"),
    "compiler that makes nothing and says nothing": partial(compiler_fails, text="exit 0"),
    "compiler that is killed": partial(compiler_fails, text="kill -9 $$"),
    "template changed": partial(
        pack_changed,
        name="templates/banner.j2",
        old="Generated by",
        new="Made by",
        stage="render",
    ),
    "library of another version": library_changed,
    "clock a day late": partial(clock, shift="-1d", stat="1"),
    "clock a day early": partial(clock, shift="+1d", stat="1"),
    "clock and file times a day late": partial(clock, shift="-1d", stat="0"),
    "clock and file times a day early": partial(clock, shift="+1d", stat="0"),
    "variables of the environment": environment,
    "seed, locale, zone, umask, folder, jobs": same_bytes,
}
