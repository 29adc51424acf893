"""What the documents say is so: commands, files, messages and the C that a reader would copy."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Needs

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
DOCUMENTS = sorted(
    path
    for pattern in ("*.md", "docs/*.md", "examples/*/*.md", "rules/*.md")
    for path in ROOT.glob(pattern)
)
EXAMPLES = ROOT / "examples"


def dlbuild(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dlbuild", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def copied(example: str, folder: Path) -> Path:
    """Copy all examples, since one may use the files of another; return where this one is."""
    ignored = shutil.ignore_patterns("build", "__pycache__")
    return shutil.copytree(EXAMPLES, folder / "examples", ignore=ignored) / example


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", path.read_text())
    missing = [t for t in targets if "://" not in t and not (path.parent / t).exists()]
    assert not missing


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_the_tests_that_a_document_names_exist(path: Path) -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", path.read_text())
    texts = {file: (ROOT / file).read_text() for file, _ in named if (ROOT / file).exists()}
    missing = [f"{f}::{t}" for f, t in named if f"\ndef {t}(" not in texts.get(f, "")]
    assert not missing


def test_no_line_of_c_is_longer_than_100_columns() -> None:
    folders = ("boards", "examples", "templates")
    files = [f for folder in folders for f in ROOT.joinpath(folder).rglob("*.[chS]")]
    texts = {file: file.read_text() for file in files if "build" not in file.parts}
    assert not [file for file, text in texts.items() if max(map(len, text.splitlines())) > 100]


def test_the_recipe_of_the_readme_is_that_of_the_example() -> None:
    text = (EXAMPLES / "digits" / "dlbuild.yaml").read_text()
    assert blocks("yaml")[0] == text.partition("\n")[2]


def test_the_readme_names_verbs_that_exist(tmp_path: Path) -> None:
    known = dlbuild("--help", folder=tmp_path).stdout
    for verb in set(re.findall(r"`dlbuild ([a-z]+)", README)):
        assert re.search(rf"^  {verb} ", known, re.MULTILINE), verb


def test_the_mistake_of_the_readme_is_answered_as_it_says(tmp_path: Path) -> None:
    recipe = (
        "version: 1\nmodels: {m: {source: m.onnx}}\ntargets:\n  board:\n"
        "    extends: cortex-m4f\n    memorys: {sram: 48 KiB}\n"
    )
    (tmp_path / "dlbuild.yaml").write_text(recipe)
    shutil.copy(EXAMPLES / "digits" / "digits.onnx", tmp_path / "m.onnx")
    answer = dlbuild("check", folder=tmp_path)
    shown = re.search(r"(    dlbuild\.yaml:.*?)\n\n", README, re.DOTALL)
    assert shown is not None
    assert answer.stderr.rstrip() == re.sub("^    ", "", shown.group(1), flags=re.MULTILINE)
    assert answer.returncode == 2


def test_the_example_writes_the_files_of_the_readme_and_its_c_compiles(tmp_path: Path) -> None:
    folder = copied("digits", tmp_path)
    done = dlbuild("build", "pc", folder=folder)
    assert done.returncode == 0, done.stderr
    made = folder / "build" / "dlbuild" / "pc" / "digits"
    table = README.partition("## What it writes")[2].partition("## In a firmware")[0]
    named = re.findall(r"`([a-z_.]+\.(?:h|c|o|a|mk|cmake|onnx))`", table)
    assert len(named) == 10
    assert [name for name in named if not (made / name).is_file()] == []
    (folder / "user.c").write_text(
        blocks("c")[0].replace("classify(void)", "classify(void);\nint classify(void)")
    )
    compiled = subprocess.run(
        ["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-c", "user.c", f"-I{made}_int8"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert compiled.returncode == 0, compiled.stderr


def test_make_builds_a_firmware_as_the_readme_says(tmp_path: Path, needs: Needs) -> None:
    needs("make")
    folder = copied("digits", tmp_path)
    (folder / "main.c").write_text(blocks("c")[0] + "int main(void) { return classify() < 0; }\n")
    rule = "firmware: main.c $(SOURCES)\n\t$(CC) $(CPPFLAGS) -o $@ $^ $(LDLIBS)\n"
    (folder / "Makefile").write_text(blocks("make")[0].replace(",board,", ",pc,") + rule)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["make", "-s", "firmware"],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert subprocess.run([folder / "firmware"], check=False).returncode == 0


@pytest.mark.parametrize("example", sorted(path.name for path in EXAMPLES.iterdir()))
def test_each_example_passes_verify(example: str, tmp_path: Path) -> None:
    done = dlbuild("verify", "pc", "--layers", folder=copied(example, tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_dependency_has_its_reason() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    section = project.partition("dependencies = [")[2].partition("[project.scripts]")[0]
    names = set(re.findall(r'"([A-Za-z0-9_-]+)(?:[>=<][^"]*)?",?\n', section))
    assert {"numpy", "doit", "pytest"} <= names
    reasons = (ROOT / "docs" / "dependencies.md").read_text().lower()
    assert [name for name in sorted(names) if name.lower() not in reasons] == []
