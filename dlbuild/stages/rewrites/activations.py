"""The activations of recurrent networks, spelled as the specification does, with all parameters."""

from dlbuild.base.errors import UserError
from dlbuild.stages.rewrites.draft import Draft, Node

ALPHAS = {
    "Affine": 1.0,
    "Elu": 1.0,
    "HardSigmoid": 0.2,
    "LeakyRelu": 0.01,
    "ScaledTanh": 1.0,
    "ThresholdedRelu": 1.0,
}
"""The activations that have an alpha, and its default."""
BETAS = {"Affine": 0.0, "HardSigmoid": 0.5, "ScaledTanh": 1.0}
NAMES = frozenset({*ALPHAS, "Relu", "Sigmoid", "Softplus", "Softsign", "Tanh"})
COUNTS = {"RNN": 1, "GRU": 2, "LSTM": 3}
"""How many activations one direction has."""


def spell_activations(draft: Draft, node: Node) -> None:
    """Give the names their usual letters, and `activation_alpha` and `_beta` all their numbers.

    Each number is taken by the next activation that has such a parameter; those that no number is
    left for have their default.

    Raises:
        UserError: a name is unknown, or there are too few or too many names or numbers.
    """
    where = f"{draft.where}: node '{node.label}' ({node.kind})"
    given = node.attributes.get("activations")
    if not isinstance(given, tuple) or not given:
        for key in ("activations", "activation_alpha", "activation_beta"):
            node.attributes.pop(key, None)
        return
    usual = {name.lower(): name for name in NAMES}
    for name in given:
        if str(name).lower() not in usual:
            known = ", ".join(sorted(NAMES))
            raise UserError(f"there is no activation '{name}'", where=where, fix=f"use {known}")
    names = tuple(usual[str(name).lower()] for name in given)
    directions = 2 if node.text("direction", "forward") == "bidirectional" else 1
    if len(names) != directions * COUNTS[node.kind]:
        raise UserError(
            f"there are {len(names)} activations, not {directions * COUNTS[node.kind]}",
            where=where,
            fix="name those of each direction, or none",
        )
    node.attributes["activations"] = names
    for key, defaults in (("activation_alpha", ALPHAS), ("activation_beta", BETAS)):
        users = [name for name in names if name in defaults]
        said = node.attributes.pop(key, ())
        numbers = [float(n) for n in said if isinstance(n, int | float)]  # type: ignore[union-attr]
        if len(numbers) > len(names):
            raise UserError(
                f"'{key}' has {len(numbers)} numbers for {len(names)} activations", where=where
            )
        rest = [defaults[name] for name in users[len(numbers) :]]
        if users:
            node.attributes[key] = tuple((numbers + rest)[: len(users)])
