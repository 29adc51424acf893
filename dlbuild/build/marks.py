"""What a build around ours is told after a success: a stamp, and a depfile that it may delete.

Ninja reads a depfile and deletes it, so it is written each time, also when there was nothing to do.
Only light modules of the standard library may be imported here, as in `fastpath`.
"""

import os

from dlbuild.build.fastpath import snapshot_path, write_whole


class Marks:
    """stamp: a file whose time says when the last build that succeeded began. depfile: see above.

    Empty texts: not asked for. No dataclass, whose import takes as long as all else.
    """

    def __init__(self, stamp: str, depfile: str) -> None:
        self.stamp = stamp
        self.depfile = depfile

    def leave(self, build_folder: str, request: list[str], rule: str, started_ns: int) -> None:
        """Write what was asked for, and keep the rule for `renew`.

        Raises:
            OSError: a folder does not allow it.
        """
        if self.depfile:
            write_whole(kept_rule(build_folder, request), rule)
        self._write(rule, started_ns)

    def renew(self, build_folder: str, request: list[str], started_ns: int) -> bool:
        """Write the same again; say whether that was possible."""
        try:
            rule = ""
            if self.depfile:
                with open(kept_rule(build_folder, request), encoding="utf-8") as file:  # noqa: PTH123 - pathlib costs 5 ms
                    rule = file.read()
            self._write(rule, started_ns)
        except (OSError, ValueError):
            return False
        return True

    def _write(self, rule: str, started_ns: int) -> None:
        if self.depfile:
            with open(self.depfile, "w", encoding="utf-8") as file:  # noqa: PTH123 - as above
                file.write(rule)
        if self.stamp:
            with open(self.stamp, "ab"):  # noqa: PTH123 - as above
                pass
            # When it began: an input that was edited meanwhile is newer and starts another build.
            os.utime(self.stamp, ns=(started_ns, started_ns))


def kept_rule(build_folder: str, request: list[str]) -> str:
    """Return where the rule of the depfile is kept."""
    return f"{snapshot_path(build_folder, request)}.d"
