"""How the numbers of a model's constants follow from its file, so that other numbers do as well.

What parse did to the numbers is kept as steps, and what it asked about them with the answer it got.
A file of the same structure whose numbers give the same answers has constants of the same graph,
made by the same steps.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from dlbuild.ir import weights
from dlbuild.ir.compact import pack, unpack
from dlbuild.ir.weights import Array

Setting = bool | int | float | str | None | tuple["Setting", ...]


@dataclass(frozen=True, slots=True)
class Ref:
    """An array: an initializer of the file (`source`), the result of a step, a constant that
    depends on no number which may change (`fixed`), or such a one in the weights as they were
    (`kept`). name: of the initializer or the weight, or a number in digits.
    """

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Step:
    """A function of `stages.number_functions`, and what it was called with."""

    function: str
    arrays: tuple[Ref, ...]
    settings: Mapping[str, Setting]


@dataclass(frozen=True, slots=True)
class Question:
    """A question of `stages.number_functions`, what it was asked about, and its answer."""

    function: str
    arrays: tuple[Ref, ...]
    settings: Mapping[str, Setting]
    answer: bool


@dataclass(frozen=True)
class Derivation:
    """All that parse did with numbers.

    structure: the digest of the file without the numbers of its initializers.
    read: initializers that structure depends on, with the digests of their bytes.
    steps, questions: in the order of parse. results: each constant of the graph.
    """

    structure: str
    read: Mapping[str, str]
    steps: tuple[Step, ...]
    questions: tuple[Question, ...]
    results: Mapping[str, Ref]


def encode(derivation: Derivation, fixed: Mapping[str, Array]) -> bytes:
    """Return a derivation and its fixed arrays as a file."""
    return pack(derivation) + b"\n" + weights.encode(fixed)


def decode(content: bytes) -> tuple[Derivation, dict[str, Array]]:
    """Return what `encode` wrote.

    Raises:
        UserError: it is no such file.
    """
    text, _, fixed = content.partition(b"\n")
    return unpack(text, Derivation, (Step, Question, Ref)), weights.decode(fixed)
