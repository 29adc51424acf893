"""The nearest known word to one that is not known: 'did you mean'."""

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the known word most like `word`, or the empty string if none is near."""
    found = get_close_matches(word, sorted(known), n=1, cutoff=0.6)
    return found[0] if found else ""


def suggestion(word: str, known: Iterable[str]) -> str:
    """Say what was probably meant, else what there is; made to stand behind `fix:`."""
    choices = sorted(known)
    if near := nearest(word, choices):
        return f"did you mean '{near}'?"
    return f"use one of: {', '.join(choices)}" if choices else ""
