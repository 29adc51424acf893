"""How programs for a board are linked."""

from pathlib import Path

from dlbuild.ir.target import Board


def link_flags(board: Board) -> list[str]:
    """Return how a program is linked: the board's script, no start-up but its own, and libgcc."""
    script = [f"-T{Path(board.script).resolve()}"] if board.script else []
    bare = ["-nostdlib"] if board.script else []
    folders = dict.fromkeys(Path(path).resolve().parent for path in (board.script,) if path)
    return [
        *bare,
        *script,
        *(f"-L{folder}" for folder in folders),
        "-Wl,--gc-sections",
        # Variables and code of a program that runs from the start lie where the script says.
        *(["-Wl,--no-warn-rwx-segments"] if board.script else []),
        *("-Wl,--start-group", *board.ldflags, *(["-lgcc"] if bare else []), "-Wl,--end-group"),
    ]
