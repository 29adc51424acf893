"""Words of targets that rules have: features that they ask for, hand-written kernels."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from dlbuild.base.spelling import suggestion
from dlbuild.base.yamlsrc import Items, Table, file_text, word
from dlbuild.build.targets import TargetTable

FEATURES = frozenset(("dsp", "fpu", "mve", "x86"))
"""What built-in rules ask for, and `fpu`, with which requantisation is exact by default."""

KERNELS = frozenset(
    (
        *("conv_dsp", "conv_mve", "conv_pairs", "dense_dsp", "dense_mve"),
        *("depthwise_dsp", "depthwise_mve", "depthwise_pairs"),
    )
)
"""Hand-written kernels of built-in rules."""


def check_features(targets: Iterable[TargetTable], packs: Sequence[Path]) -> None:
    """Refuse a feature that no rule asks for, since a misspelt one would only be slow.

    And what is said of a kernel that no rule has.

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
        rates = target.entries.get("kernels")
        for name, node in rates.keys.items() if isinstance(rates, Table) else ():
            if name not in KERNELS and not any(_names(pack, name) for pack in packs):
                raise node.error(
                    f"no rule has a hand-written kernel '{name}'", fix=suggestion(name, KERNELS)
                )


def _names(pack: Path, feature: str) -> bool:
    """Say whether a rule of a pack has the word."""
    whole = re.compile(rf"(?<![\w-]){re.escape(feature)}(?![\w-])")
    files = sorted((pack / "rules" / "ops").glob("*.yaml"))
    return any(whole.search(file_text(path, path.as_posix())) for path in files)
