"""The scripts for shells, read by those that are here."""

import subprocess

import pytest

from dlbuild.cli import main
from dlbuild.cli.verbs import VERBS
from tests.conftest import Needs


def script(capsys: pytest.CaptureFixture[str], shell: str) -> str:
    assert main.run(["completion", shell]) == 0
    return capsys.readouterr().out


def completed(text: str, *words: str) -> list[str]:
    """Return what bash offers for the last of the words."""
    line = " ".join(f"'{word}'" for word in words)
    ask = f"COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _dlbuild; echo ${{COMPREPLY[@]}}"
    done = subprocess.run(
        ["bash", "-c", f"{text}\n{ask}"], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_bash_completes_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    text = script(capsys, "bash")
    assert completed(text, "dlbuild", "") == list(VERBS)
    assert completed(text, "dlbuild", "-C", "x", "ver") == ["verify", "version"]
    assert completed(text, "dlbuild", "--target", "x", "ver") == ["verify", "version"]


def test_bash_completes_the_options_of_the_verb(capsys: pytest.CaptureFixture[str]) -> None:
    text = script(capsys, "bash")
    assert completed(text, "dlbuild", "build", "--sou") == ["--sources"]
    assert completed(text, "dlbuild", "sweep", "--ov") == ["--over"]
    assert "--limit" not in completed(text, "dlbuild", "build", "--")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_reads_its_script(
    shell: str, capsys: pytest.CaptureFixture[str], needs: Needs
) -> None:
    text = script(capsys, shell)
    assert all(verb in text for verb in VERBS)
    needs(shell)
    subprocess.run([shell, "-n"], input=text, text=True, check=True)
