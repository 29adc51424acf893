"""The constants of a draft, and a log of what became of their numbers."""

from collections.abc import Collection, Iterator, Mapping, MutableMapping
from typing import cast

from dlbuild.ir.derivation import Derivation, Question, Ref, Setting, Step
from dlbuild.ir.weights import Array
from dlbuild.stages.number_functions import FUNCTIONS, QUESTIONS


class Numbers(MutableMapping[str, Array]):
    """Arrays by name. Whoever reads one may let the structure depend on it, so that is noted.

    What only computes with numbers says so by `derive`, and who wants a yes or no by `ask`: then
    other numbers can go the same way. Names and `tensors` of the draft tell nothing of numbers.
    """

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}
        self._origin: dict[str, Ref] = {}
        self._sources: dict[str, Array] = {}
        self._fixed: list[Array] = []
        self._steps: list[Step] = []
        self._questions: dict[str, Question] = {}
        self._read: dict[Ref, None] = {}

    def __getitem__(self, name: str) -> Array:
        array = self._arrays[name]
        self._read[self._origin[name]] = None
        return array

    def __setitem__(self, name: str, array: Array) -> None:
        self._arrays[name] = array
        # Whatever it was made of was read, or is no number of the file.
        self._origin[name] = Ref("fixed", str(len(self._fixed)))
        self._fixed.append(array)

    def __delitem__(self, name: str) -> None:
        del self._arrays[name], self._origin[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __contains__(self, name: object) -> bool:
        return name in self._arrays

    def load(self, name: str, array: Array) -> None:
        """Keep an initializer of the file."""
        self._arrays[name] = array
        self._origin[name] = Ref("source", name)
        self._sources[name] = array

    def rename(self, old: str, new: str) -> None:
        """Give an array another name."""
        self._arrays[new] = self._arrays.pop(old)
        self._origin[new] = self._origin.pop(old)

    def keep_only(self, names: Collection[str]) -> None:
        """Forget all others."""
        for name in [name for name in self._arrays if name not in names]:
            del self[name]

    def derive(
        self, name: str, function: str, arrays: tuple[str, ...], **settings: Setting
    ) -> Array:
        """Keep what a function of `number_functions` makes of arrays, and return it."""
        given = [self._arrays[one] for one in arrays]
        made = cast("Array", FUNCTIONS[function](*given, **settings))
        step = Step(function, tuple(self._origin[one] for one in arrays), settings)
        self._arrays[name] = made
        self._origin[name] = Ref("step", str(len(self._steps)))
        self._steps.append(step)
        return made

    def ask(self, question: str, *arrays: str, **settings: Setting) -> bool:
        """Return the answer to a question of `number_functions`."""
        answer = bool(QUESTIONS[question](*(self._arrays[one] for one in arrays), **settings))
        asked = Question(question, tuple(self._origin[one] for one in arrays), settings, answer)
        self._questions[repr(asked)] = asked
        return answer

    def without_note(self) -> Mapping[str, Array]:
        """Return all arrays, for who lets nothing but numbers depend on them."""
        return self._arrays

    def derivation(
        self, structure: str, digests: Mapping[str, str]
    ) -> tuple[Derivation, dict[str, Array]]:
        """Return how the arrays that are left follow from the file, and what is fixed.

        Args:
            structure: the digest of the file's structure.
            digests: of the bytes of each initializer whose numbers are not part of it.
        """
        fixed: dict[str, Array] = {}

        def is_free(ref: Ref) -> bool:
            return ref.kind == "step" or (ref.kind == "source" and ref.name in digests)

        def settled(ref: Ref) -> Ref:
            """Return what stands for an array when it is used again."""
            if is_free(ref):
                return ref
            key = f"{ref.kind} {ref.name}"
            is_source = ref.kind == "source"
            fixed[key] = self._sources[ref.name] if is_source else self._fixed[int(ref.name)]
            return Ref("fixed", key)

        steps = tuple(
            Step(one.function, tuple(map(settled, one.arrays)), one.settings) for one in self._steps
        )
        questions = tuple(
            Question(one.function, tuple(map(settled, one.arrays)), one.settings, one.answer)
            for one in self._questions.values()
        )
        results = {
            name: ref if is_free(ref) else Ref("kept", name)
            for name, ref in sorted(self._origin.items())
        }
        read = {name: digests[name] for name in sorted(self._read_sources()) if name in digests}
        return Derivation(structure, read, steps, questions, results), fixed

    def _read_sources(self) -> set[str]:
        """Return the initializers that were read, themselves or in what was made of them."""
        found: set[str] = set()
        waiting = list(self._read)
        seen: set[Ref] = set()
        while waiting:
            ref = waiting.pop()
            if ref in seen:
                continue
            seen.add(ref)
            if ref.kind == "source":
                found.add(ref.name)
            elif ref.kind == "step":
                waiting += self._steps[int(ref.name)].arrays
        return found
