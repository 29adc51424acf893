"""A program whose arena lies between pages that nobody may touch: a byte too many stops it."""

from dlbuild.base.paths import builtin_folder
from dlbuild.run.runner import Built, model_program


def guarded_program(built: Built, *, is_behind: bool, missing_bytes: int = 0) -> str:
    """Return the text of the program that runs the whole model in a guarded arena.

    Args:
        built: a model with `arena: caller`.
        is_behind: the page follows the arena; else it precedes it.
        missing_bytes: the arena is so much smaller than the plan says.

    Raises:
        ValueError: the model's arena is its own.
    """
    text = model_program(built)
    own = f"{built.name}_arena_t *const arena = &dlb_arena;"
    if text.count(own) != 1:
        raise ValueError("only an arena that the caller gives can be guarded")
    size = f"sizeof({built.name}_arena_t) - {missing_bytes}U"
    guard = (builtin_folder() / "templates" / "runner" / "guard.h").read_text(encoding="ascii")
    head = f"#define _GNU_SOURCE\n#define GUARD_BEHIND {int(is_behind)}\n{guard}\n"
    return head + text.replace(own, f"{built.name}_arena_t *const arena = guard_arena({size});")
