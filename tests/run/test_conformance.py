"""onnx's node tests that pass stay so: a fixed sample here, all of the list by `--names`."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PASSING = ROOT / "tests" / "conformance_passing.txt"
SAMPLE = ROOT / "tests" / "conformance_sample.txt"
SIZE = 300


def test_a_sample_of_the_node_tests_that_pass_still_does() -> None:
    command = [sys.executable, "bench/conformance.py", "--names", str(SAMPLE), "--list-refused"]
    done = subprocess.run(
        [*command, "--list-wrong", "--jobs", "2"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout
    last = done.stdout.splitlines()[-1]
    assert last == f"{SIZE} passed, 0 refused, 0 wrong, 0 crashed"


def test_the_lists_are_sorted_and_have_each_name_once() -> None:
    for path in (PASSING, SAMPLE):
        names = path.read_text().split()
        assert names == sorted(set(names))


def test_the_sample_is_of_the_list() -> None:
    sample = set(SAMPLE.read_text().split())

    assert len(sample) == SIZE
    assert sample <= set(PASSING.read_text().split())
