"""The weights of a model whose file has other numbers, by what parse did to those before."""

from collections.abc import Mapping

from dlbuild.ir import derivation, weights
from dlbuild.ir.derivation import Derivation, Ref
from dlbuild.ir.weights import Array
from dlbuild.stages.initializers import Initializer, Unreadable, sketch_of
from dlbuild.stages.number_functions import FUNCTIONS, QUESTIONS


def rederived(file: bytes, model: bytes, before: bytes) -> bytes | None:
    """Return the file of the weights, byte for byte as parse would make it.

    Args:
        file: a derivation.
        model: the ONNX file.
        before: the file of the weights that the derivation was made with.

    Returns:
        None if the model's structure differs from that of the derivation, or may do so.
    """
    made, fixed = derivation.decode(file)
    try:
        sketch = sketch_of(model)
    except Unreadable:
        return None
    given = sketch.initializers
    if sketch.structure != made.structure:
        return None
    if any(given[name].digest != digest for name, digest in made.read.items()):
        return None
    found = _Arrays(given, fixed, weights.decode(before))
    for number, step in enumerate(made.steps):
        arrays = [found.get(ref) for ref in step.arrays]
        found.made[str(number)] = FUNCTIONS[step.function](*arrays, **step.settings)
    if not _same_answers(made, found):
        return None
    return weights.encode({name: found.get(ref) for name, ref in made.results.items()})


def _same_answers(made: Derivation, found: "_Arrays") -> bool:
    return all(
        bool(QUESTIONS[asked.function](*map(found.get, asked.arrays), **asked.settings))
        == asked.answer
        for asked in made.questions
    )


class _Arrays:
    """Arrays by what a derivation calls them."""

    def __init__(
        self,
        given: Mapping[str, Initializer],
        fixed: Mapping[str, Array],
        kept: Mapping[str, Array],
    ) -> None:
        self._given = given
        self._fixed = fixed
        self._kept = kept
        self.made: dict[str, Array] = {}

    def get(self, ref: Ref) -> Array:
        match ref.kind:
            case "source":
                return self._given[ref.name].array
            case "step":
                return self.made[ref.name]
            case "fixed":
                return self._fixed[ref.name]
            case _:
                return self._kept[ref.name]
