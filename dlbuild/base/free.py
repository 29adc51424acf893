"""Names that nothing has yet."""

from collections.abc import Container


def free_name(wanted: str, taken: Container[str], joint: str = "") -> str:
    """Return `wanted`, with the least number from 2 on behind it if it is taken.

    joint: what stands between the two.
    """
    name, number = wanted, 2
    while name in taken:
        name, number = f"{wanted}{joint}{number}", number + 1
    return name
