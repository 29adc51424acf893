"""The command `dlbuild`. Answers a build with nothing to do before anything heavy is imported."""

import gc
import os
import sys
import time

from dlbuild.build.fastpath import is_untouched
from dlbuild.build.request import request_of, value_of, without_option

_COLLECT_AFTER = 250_000
"""Objects made between two searches for cycles; most that a command makes live as long as it.

For the same reason `gc.freeze` at the end spares the searches of an interpreter that ends.
"""

_NOTHING_JSON = '{"event": "end", "is_ok": true, "run": 0, "found": 0}'


def main() -> int:
    """Run the command line and return its exit code (ARCHITECTURE, section 9)."""
    started_ns = time.time_ns()
    arguments, folder = without_option(sys.argv[1:], "-C")
    if folder:
        try:
            os.chdir(folder)
        except OSError as error:
            print(f"{folder}: error: cannot go there: {error.strerror}", file=sys.stderr)  # noqa: T201 - the command line's own output
            return 2
    request, out = request_of(arguments)
    is_idle = "build" in request and (is_untouched(out, request) or _is_touched_alone(out, request))
    if is_idle and _renew_marks(arguments, request, out, started_ns):
        print(_NOTHING_JSON if "--json" in request else "nothing to do", flush=True)  # noqa: T201 - as above
        # Nothing is open. To tear the interpreter down takes half as long as all of this.
        os._exit(0)
    gc.set_threshold(_COLLECT_AFTER)
    try:
        if "build" in request:
            from dlbuild.build.remembered import changed_models  # noqa: PLC0415 - only if something changed

            changed = changed_models(out, request)
            if changed and not os.environ.get("DLBUILD_REMOTE_CACHE"):
                from dlbuild.cli.retrain import retrained  # noqa: PLC0415 - as above

                if retrained(arguments, request, out, started_ns, changed):
                    return 0
            from dlbuild.cli.replay import replayed  # noqa: PLC0415 - as above

            if replayed(arguments, request, out, started_ns):
                return 0
        from dlbuild.cli.main import run  # noqa: PLC0415 - imports what a build needs

        status = run(arguments, started_ns)
    except KeyboardInterrupt:  # during the imports
        print("interrupted", file=sys.stderr)  # noqa: T201 - as above
        return 130
    gc.freeze()  # the interpreter looks for cycles several times as it ends
    return status


def _is_touched_alone(out: str, request: list[str]) -> bool:
    from dlbuild.build.remembered import touched_alone  # noqa: PLC0415 - only if something changed

    return touched_alone(out, request)


def _renew_marks(arguments: list[str], request: list[str], out: str, started_ns: int) -> bool:
    """Write stamp and depfile again, if they are asked for; say whether that was possible."""
    stamp, depfile = value_of(arguments, "--stamp"), value_of(arguments, "--depfile")
    if not (stamp or depfile):
        return True
    from dlbuild.build.marks import Marks  # noqa: PLC0415 - for builds around ours alone

    return Marks(stamp, depfile).renew(out, request, started_ns)


if __name__ == "__main__":
    sys.exit(main())
