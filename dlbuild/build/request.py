"""What a command line asks for, without an argument parser: read before anything is imported."""

DEFAULT_OUT = "build/dlbuild"


def request_of(arguments: list[str]) -> tuple[list[str], str]:
    """Return a command without what does not matter to its result, and its build folder."""
    request, _ = without_option(arguments, "-j")
    rest, out = without_option(request, "-B")
    return [*rest, f"-B{out}"] if out else rest, out or DEFAULT_OUT


def value_of(arguments: list[str], option: str) -> str:
    """Return the value of `--option VALUE` or `--option=VALUE`; the empty text if it is absent."""
    return without_option(arguments, option)[1].removeprefix("=")


def without_option(arguments: list[str], option: str) -> tuple[list[str], str]:
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
