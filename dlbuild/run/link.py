"""How programs for a board are linked."""

from pathlib import Path

from dlbuild.ir.target import Board


def link_flags(board: Board) -> list[str]:
    """Return the linker's flags.

    With a script, nothing is linked but what the board names and libgcc; without one, what the
    compiler links by itself is.
    """
    unused = "-Wl,--gc-sections"
    if not board.script:
        return [unused, *board.ldflags]
    script = Path(board.script).resolve()
    place = ["-nostdlib", f"-T{script}", f"-L{script.parent}", unused]
    return [*place, "-Wl,--start-group", *board.ldflags, "-lgcc", "-Wl,--end-group"]
