"""Sequences and optionals of a model: whole for the oracles, tensor by tensor for dlbuild."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from dlbuild.ir.graph import Group
from dlbuild.ir.weights import Array
from dlbuild.run.reference_oracles import Fed, Given

Values = Mapping[str, Array]


def interface_values(groups: Sequence[Group], inputs: Values) -> Fed:
    """Return the values under the names of the model's file: a sequence is a list of its members.

    An absent optional has no value.
    """
    fed: dict[str, Given] = dict(inputs)
    for group in groups:
        if group.kind == "sequence" and all(name in inputs for name in group.members):
            fed[group.name] = [inputs[name] for name in group.members]
    return fed


def whole_names(groups: Sequence[Group], names: Sequence[str]) -> list[str]:
    """Return the names under which the model's file has these tensors."""
    whole = {name: group.name for group in groups for name in group.members}
    return list(dict.fromkeys(whole.get(name, name) for name in names))


def member_values(groups: Sequence[Group], runs: Sequence[Fed]) -> tuple[Values, ...]:
    """Return each run's tensors, the members of sequences under their own names."""
    members = {group.name: group.members for group in groups if group.kind == "sequence"}
    return tuple(dict(_opened(members, run)) for run in runs)


def _opened(members: Mapping[str, tuple[str, ...]], run: Fed) -> Iterator[tuple[str, Array]]:
    for name, value in run.items():
        if isinstance(value, list):
            for member, array in zip(members.get(name, ()), value, strict=False):
                yield member, np.asarray(array)
        else:
            yield name, value
