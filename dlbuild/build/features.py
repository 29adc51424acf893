"""Features of targets: words by which variants and hand-written kernels of rules are chosen."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from dlbuild.base.spelling import suggestion
from dlbuild.base.yamlsrc import Items, file_text, word
from dlbuild.build.targets import TargetTable

FEATURES = frozenset(("dsp", "fpu", "mve", "x86"))
"""What built-in rules ask for, and `fpu`, with which requantisation is exact by default."""


def check_features(targets: Iterable[TargetTable], packs: Sequence[Path]) -> None:
    """Refuse a feature that no rule asks for, since a misspelt one would only be slow.

    Raises:
        UserError: where it stands, and which one it may be.
    """
    for target in targets:
        named = target.entries.get("features")
        for node in named.items if isinstance(named, Items) else ():
            feature = word(node, "a feature")
            if feature not in FEATURES and not any(_names(pack, feature) for pack in packs):
                raise node.error(
                    f"no rule asks for the feature '{feature}'", fix=suggestion(feature, FEATURES)
                )


def _names(pack: Path, feature: str) -> bool:
    """Say whether a rule of a pack has the word."""
    whole = re.compile(rf"(?<![\w-]){re.escape(feature)}(?![\w-])")
    files = sorted((pack / "rules" / "ops").glob("*.yaml"))
    return any(whole.search(file_text(path, path.as_posix())) for path in files)
