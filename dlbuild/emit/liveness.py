"""Which variables of a nest its results need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dlbuild.rulebook.instance import Loop
from dlbuild.rulebook.value import Expr, Local, walk


def live_steps(steps: Sequence[Loop]) -> tuple[Loop, ...]:
    """Return the steps without the variables that no store depends on."""
    needed = {n for step in steps for store in step.stores for n in _locals(store.value)}
    size = -1
    while size != len(needed):
        size = len(needed)
        for step in steps:
            for let in step.lets:
                if let.name in needed:
                    needed |= _locals(let.value)
            for fold in step.folds:
                if fold.name in needed:
                    needed |= _locals(fold.start) | _locals(fold.each)
    kept = (
        replace(
            step,
            lets=tuple(let for let in step.lets if let.name in needed),
            folds=tuple(fold for fold in step.folds if fold.name in needed),
        )
        for step in steps
    )
    return tuple(step for step in kept if step.lets or step.folds or step.stores)


def _locals(expr: Expr) -> set[str]:
    return {part.name for part in walk(expr) if isinstance(part, Local)}


def variables_of(steps: Sequence[Loop]) -> list[str]:
    """Return the names of the variables that steps declare, in order."""
    found: list[str] = []
    for step in steps:
        found += [let.name for let in step.lets]
        found += [fold.name for fold in step.folds]
    return found
