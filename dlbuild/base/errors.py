"""The one error that a user sees: what, where, why, and how to fix it."""

from collections.abc import Sequence


class UserError(Exception):
    """A fault in what the user gave, with all that is needed to repair it.

    Args:
        what: one sentence, no full stop.
        where: `file:line:column`, `model.onnx: node 'x'` or `model@target`.
        excerpt: the source line and its caret, already numbered.
        details: further lines, printed as they are, indented.
        why: the reason, if `what` does not say it.
        fix: what to do.
        exit_code: 1 for build, budget and verify failures, 2 for usage and configuration.
    """

    def __init__(  # noqa: PLR0913 - each argument is one line of the message
        self,
        what: str,
        *,
        where: str = "",
        excerpt: Sequence[str] = (),
        details: Sequence[str] = (),
        why: str = "",
        fix: str = "",
        exit_code: int = 1,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.excerpt = tuple(excerpt)
        self.details = tuple(details)
        self.why = why
        self.fix = fix
        self.exit_code = exit_code

    def __str__(self) -> str:
        lines = [f"{self.where}: error: {self.what}" if self.where else f"error: {self.what}"]
        lines += [f"  {line}" for line in (*self.excerpt, *self.details)]
        if self.why:
            lines.append(f"  why: {self.why}")
        if self.fix:
            lines.append(f"  fix: {self.fix}")
        return "\n".join(lines)
