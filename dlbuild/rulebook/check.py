"""What a rule must fulfil before it meets an operator: names that are known and do not clash."""

from __future__ import annotations

from dlbuild.rulebook.rule import OpRule


def check_rule(rule: OpRule) -> None:
    """Refuse a rule that cites an unknown name or gives one name two meanings.

    Raises:
        UserError: at the place in the file.
    """
    assert rule.kind
