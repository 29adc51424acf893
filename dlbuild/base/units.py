"""Quantities with units: `48 KiB`, `4 B/cycle`, `64 MHz`, `1.3 /MAC`, `40 cycles`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite


class QuantityError(ValueError):
    """A text that is no quantity of the unit asked for. `fix` shows how it would be right."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what)
        self.fix = fix


@dataclass(frozen=True, slots=True)
class Unit:
    """What is measured, the spellings of its units and their factors.

    example: a right spelling, for the error. whole: the result must be a whole number.
    """

    quantity: str
    factor: Mapping[str, int]
    example: str
    whole: bool = True


SIZE = Unit("size", {"B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}, "48 KiB")
CLOCK = Unit("clock", {"Hz": 1, "kHz": 10**3, "MHz": 10**6, "GHz": 10**9}, "64 MHz")
TIME = Unit("time", {"cycles": 1, "cycle": 1}, "40 cycles")
RATE = Unit("rate", {"B/cycle": 1}, "4 B/cycle", whole=False)
COST = Unit("cost", {"/MAC": 1}, "1.3 /MAC", whole=False)

_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z/]*)")


def read_quantity(text: str, unit: Unit) -> float:
    """Return the number of base units (bytes, hertz, cycles) that `text` says.

    Raises:
        QuantityError: no number, no unit, an unknown unit, a fraction of a byte, or too great.
    """
    found = _QUANTITY.fullmatch(text.strip())
    if not found:
        raise QuantityError(f"'{text}' is not a {unit.quantity}", f"write it like {unit.example}")
    number, name = found.groups()
    if not name:
        raise QuantityError(
            f"the {unit.quantity} '{number}' has no unit", f"write {number} {_likely(number, unit)}"
        )
    if name not in unit.factor:
        spelling = {known.lower(): known for known in unit.factor}.get(name.lower())
        meant = [spelling] if spelling else list(unit.factor)
        raise QuantityError(
            f"'{name}' is not a unit of {unit.quantity}",
            f"write {number} {meant[0]}" if spelling else f"use one of: {', '.join(meant)}",
        )
    value = float(number) * unit.factor[name]
    if not isfinite(value):
        raise QuantityError(f"the {unit.quantity} '{text}' is too great", "write fewer digits")
    if unit.whole and value != int(value):
        raise QuantityError(
            f"'{text}' is not a whole number of {next(iter(unit.factor))}", "round it"
        )
    return value


def whole(text: str, unit: Unit) -> int:
    """Return `read_quantity` of a unit that has only whole values, as an integer."""
    return int(read_quantity(text, unit))


def _likely(number: str, unit: Unit) -> str:
    """Guess the unit left out: bytes for a size from 1,024, else the unit of the example."""
    if unit is SIZE and float(number) >= SIZE.factor["KiB"]:
        return "B"
    return unit.example.split(" ")[1]


def bytes_text(count: int) -> str:
    """Return bytes as reports print them: `22,016 B`."""
    return f"{count:,} B"
