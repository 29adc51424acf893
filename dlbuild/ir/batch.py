"""Into how many parts a batch is divided, and which inputs hold it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Batch:
    """The inputs whose first axis counts samples, and how many equal parts are made of them."""

    inputs: tuple[str, ...]
    parts: int
