"""onnx's node tests that pass stay so: a few of the list here, all of it by `--names`."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PASSING = ROOT / "tests" / "conformance_passing.txt"
EVERY = 24


def test_a_sample_of_the_node_tests_that_pass_still_does() -> None:
    command = [sys.executable, "bench/conformance.py", "--names", str(PASSING), "--list-refused"]
    done = subprocess.run(
        [*command, "--every", str(EVERY), "--list-wrong", "--jobs", "2"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout
    last = done.stdout.splitlines()[-1]
    assert last.endswith(" passed, 0 refused, 0 wrong, 0 crashed")
    assert not last.startswith("0 ")


def test_the_list_is_sorted_and_has_each_name_once() -> None:
    names = PASSING.read_text().split()

    assert names == sorted(set(names))
