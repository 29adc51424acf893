"""What SIGTERM does."""

from typing import NoReturn


def terminate(number: int, _frame: object) -> NoReturn:
    """End in order, so that what was finished is remembered."""
    raise SystemExit(128 + number)
