"""What a build says while it runs: lines, one line that is written over, or JSON for programs."""

import json
import os
import sys
from collections.abc import Iterable
from typing import Literal

from dlbuild.build.engine import Finished
from dlbuild.report.text import status_line

Form = Literal["lines", "terminal", "json"]


def form_of(*, is_json: bool) -> Form:
    """Return JSON if it was asked for, the line that is written over on a terminal, else lines."""
    if is_json:
        return "json"
    is_terminal = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    return "terminal" if is_terminal else "lines"


class Events:
    """Tells of one build. quiet: lines go to stderr, since stdout is for a report."""

    def __init__(self, form: Form, *, quiet: bool = False) -> None:
        self._form: Form = "lines" if quiet else form
        self._file = sys.stderr if quiet else sys.stdout
        self._quiet = quiet
        self.n_run = 0
        self.n_found = 0

    def finished(self, stage: Finished) -> None:
        """Tell of a stage that needed work."""
        self.n_run += stage.was_run
        self.n_found += not stage.was_run
        if self._form == "json":
            _say(
                event="stage",
                build=stage.label,
                stage=stage.stage,
                seconds=round(stage.seconds, 3),
                was_run=stage.was_run,
            )
        elif self._form == "terminal":
            line = f"[{self.n_run + self.n_found}] {status_line(stage)}"
            print(f"\r\x1b[K{line}", end="", file=self._file, flush=True)
        else:
            print(status_line(stage), file=self._file, flush=True)

    def failed(self, messages: Iterable[str]) -> None:
        """Tell programs of errors; people read them on stderr."""
        self._end_line()
        if self._form == "json":
            for message in messages:
                _say(event="error", message=message)
            _say(event="end", is_ok=False, run=self.n_run, found=self.n_found)

    def ended(self, restored: Iterable[str]) -> None:
        """Tell of the end of a build that succeeded. restored: files that were not as they were."""
        self._end_line()
        n_done = self.n_run + self.n_found
        if self._form == "json":
            for path in restored if not n_done else ():
                _say(event="restored", path=path)
            _say(event="end", is_ok=True, run=self.n_run, found=self.n_found)
        elif self._form == "terminal" and n_done:
            print(f"{self.n_run} stages run, {self.n_found} from the store", file=self._file)
        elif not n_done and not self._quiet:
            lines = [f"{path}: restored" for path in restored]
            print("\n".join(lines) or "nothing to do", file=self._file)

    def _end_line(self) -> None:
        if self._form == "terminal" and self.n_run + self.n_found:
            print(file=self._file, flush=True)


def _say(**fields: object) -> None:
    print(json.dumps(fields), flush=True)
