"""The command `dlbuild`. Answers a build with nothing to do before anything heavy is imported."""

import os
import sys
import time

from dlbuild.build.fastpath import nothing_to_do

DEFAULT_OUT = "build/dlbuild"


def main() -> int:
    """Run the command line and return its exit code (ARCHITECTURE, section 9)."""
    started_ns = time.time_ns()
    arguments, folder = _without_option(sys.argv[1:], "-C")
    if folder:
        try:
            os.chdir(folder)
        except OSError as error:
            print(f"{folder}: error: cannot go there: {error.strerror}", file=sys.stderr)  # noqa: T201 - the command line's own output
            return 2
    request, out = request_of(arguments)
    if "build" in request and nothing_to_do(out, request):
        print("nothing to do")  # noqa: T201 - as above
        return 0
    from dlbuild.cli.main import run  # noqa: PLC0415 - imports what a build needs

    return run(arguments, started_ns)


def request_of(arguments: list[str]) -> tuple[list[str], str]:
    """Return a command without what does not matter to its result, and its build folder."""
    request, _ = _without_option(arguments, "-j")
    rest, out = _without_option(request, "-B")
    return [*rest, f"-B{out}"] if out else rest, out or DEFAULT_OUT


def _without_option(arguments: list[str], option: str) -> tuple[list[str], str]:
    """Return arguments without `-C DIR` or `-CDIR`, and DIR; the last one counts."""
    rest: list[str] = []
    value = ""
    waiting = iter(arguments)
    for argument in waiting:
        if argument == option:
            value = next(waiting, "")
            if not value:
                rest.append(argument)  # the parser says what is missing
        elif argument.startswith(option):
            value = argument[len(option) :]
        else:
            rest.append(argument)
    return rest, value


if __name__ == "__main__":
    sys.exit(main())
