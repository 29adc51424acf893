"""Programs for a target: linked with the start-up of its board, and run by its runner."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dlbuild.base.errors import UserError
from dlbuild.base.paths import builtin_folder
from dlbuild.ir.target import Board, Options, Target
from dlbuild.run.compile import code_flags
from dlbuild.run.cores import core_flags
from dlbuild.run.lines import Said, converse
from dlbuild.run.link import link_flags
from dlbuild.run.toolchain import resolve, run

_LINKER_LINES = 30


def boards_folder() -> Path:
    """Return where the start-up files of the built-in targets are."""
    return builtin_folder() / "boards"


@dataclass(frozen=True, slots=True)
class BoardProgram:
    """An executable for a target. runner: the target's command, with its placeholders."""

    file: Path
    runner: str

    def run(self, sent: bytes) -> bytes:
        """Run it on `sent` and return what it wrote."""
        return bytes(self.converse(sent).content)

    def converse(self, sent: bytes, count: Sequence[str] = ()) -> Said:
        """Run it on `sent`.

        Args:
            sent: what it reads.
            count: the runner's arguments for counting, which stand where it says {count}.

        Raises:
            UserError: see `lines.converse`.
        """
        folder = self.file.parent
        command = (
            self.runner.replace("{elf}", shlex.quote(str(self.file)))
            .replace("{work}", shlex.quote(str(folder)))
            .replace("{count}", shlex.join(count))
        )
        return converse(command, folder, sent, self.file.name)


@dataclass(frozen=True, slots=True)
class BoardMaker:
    """Makes programs for a target that has a runner."""

    target: Target
    options: Options
    note: str = ""

    def program(self, text: str, name: str, sources: Sequence[Path], work: Path) -> BoardProgram:
        """See `runner_program.Maker`."""
        target, board = self.target, self.target.board or Board()
        work = work.resolve()
        main, made = work / f"{name}.c", work / f"{name}.elf"
        main.write_text(text, encoding="ascii")
        files = [str(path.resolve()) for path in (main, *sources, *map(Path, board.sources))]
        folders = [sources[0].parent, boards_folder()]
        command = [
            *resolve(target.toolchain.cc),
            *code_flags(target, self.options),
            *core_flags(target),
            *(f"-I{folder.resolve()}" for folder in folders),
            *files,
            *link_flags(board),
            *("-o", str(made)),
        ]
        done = run(command, work)
        if done.status != 0 or not made.is_file():
            raise _refusal(target, done.text)
        return BoardProgram(made, target.runner.replace("{cores}", str(target.resources[1])))


def _refusal(target: Target, text: str) -> UserError:
    return UserError(
        f"{target.toolchain.cc} cannot link the program that runs the model",
        where=target.name,
        details=[line for line in text.splitlines() if line][:_LINKER_LINES],
        fix="check 'board' and 'toolchain' of the target; docs/runner.md says what a board has",
    )
