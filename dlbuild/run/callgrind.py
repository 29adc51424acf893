"""Instructions that a program executes on this machine, counted by valgrind."""

import re
import shutil
from pathlib import Path

from dlbuild.run.lines import Count, Said
from dlbuild.run.runner_program import Program

_TOTAL = re.compile(r"^(?:totals|summary): ([0-9]+)", re.MULTILINE)


def instructions(program: Program, name: str, sent: bytes, work: Path) -> Said | None:
    """Run a program and count between its marks; None without valgrind.

    Args:
        program: of `model_program`.
        name: of the model.
        sent: what it reads.
        work: an existing folder.
    """
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        return None
    pattern = work / f"{program.file.name}.callgrind"
    # A hook's own instructions do not count, since it switches counting off as a run switches it
    # on. Functions of libraries are bound at the start, not during the first run.
    under = [
        *("env", "LD_BIND_NOW=1", valgrind, "--tool=callgrind", "-q"),
        f"--callgrind-out-file={pattern}",
        f"--dump-before={name}_hook*",  # valgrind 3.19 forgets it behind a toggle
        f"--toggle-collect={name}_hook*",
        f"--toggle-collect={name}_run*",
        f"--toggle-collect={name}_push*",
    ]
    said = program.listen(sent, under)
    said.unit = "instructions"
    # One numbered file for each step, and what came behind the last in the file itself.
    numbered = {int(path.suffix[1:]): path for path in work.glob(f"{pattern.name}.*")}
    files = [*(numbered[number] for number in sorted(numbered)), pattern]
    totals = [_TOTAL.search(path.read_text()) for path in files]
    said.counts = [Count(1, int(found[1])) for found in totals if found]
    for path in files:
        path.unlink()
    return said
