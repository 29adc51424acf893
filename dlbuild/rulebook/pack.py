"""Packs, a value for each axis of a tensor, and the functions of sizes and index maps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import ceil, floor
from typing import TypeAlias

from dlbuild.rulebook.index import Folded, Index, Loaded
from dlbuild.rulebook.instance import Condition, Size


@dataclass(frozen=True, slots=True)
class TensorName:
    """A tensor inside an index map: its elements are indices known at run time only."""

    name: str


Term: TypeAlias = int | float | bool | str | Index | Condition | TensorName | tuple["Term", ...]
"""What an expression gives at build time. A tuple is a pack."""


class ExpressionError(Exception):
    """A fault in an expression. `offset`: where it stands in the text, from zero."""

    def __init__(self, what: str, offset: int = 0) -> None:
        super().__init__(what)
        self.what = what
        self.offset = offset


def spread(function: Callable[..., Term], *terms: Term) -> Term:
    """Apply `function` axis by axis; what is not a pack is repeated."""
    lengths = {len(term) for term in terms if isinstance(term, tuple)}
    if not lengths:
        return function(*terms)
    if len(lengths) > 1:
        first, second = sorted(lengths)[:2]
        raise ExpressionError(f"packs of {first} and {second} axes do not fit together")
    (length,) = lengths
    columns = [term if isinstance(term, tuple) else (term,) * length for term in terms]
    return tuple(spread(function, *row) for row in zip(*columns, strict=True))


def flat(term: Term) -> Iterator[Term]:
    """Yield the members of packs inside packs, in order."""
    if isinstance(term, tuple):
        for part in term:
            yield from flat(part)
    else:
        yield term


def truth(term: Term) -> bool:
    """Return whether a condition holds; a pack of truths holds if each does."""
    if isinstance(term, tuple):
        if all(isinstance(part, bool) for part in flat(term)):
            return all(flat(term))
        raise ExpressionError("a pack is not a truth: compare it, or take its rank()")
    if isinstance(term, Index | Condition | TensorName):
        raise ExpressionError("this depends on a loop axis, but must be known at build time")
    return bool(term)


def integer(term: Term) -> int:
    """Return a whole number, or say that it is none."""
    if isinstance(term, float) and term.is_integer():
        return int(term)
    if not isinstance(term, int):
        raise ExpressionError(f"a whole number is needed here, not {describe(term)}")
    return int(term)


def sizes_of(names: Mapping[str, Term]) -> Mapping[str, Size]:
    """Return names that are all bound to numbers, texts and packs of them."""
    return {name: _size(term) for name, term in names.items()}


def _size(term: Term) -> Size:
    if isinstance(term, tuple):
        return tuple(_size(part) for part in term)
    assert isinstance(term, int | float | str)
    return term


def index(term: Term) -> Index:
    """Return an index map, or say that it is none."""
    if isinstance(term, Index):
        return term
    return Index.of(integer(term))


def describe(term: Term) -> str:
    """Name a term in a message."""
    match term:
        case tuple():
            return f"a pack of {len(term)}"
        case str():
            return f"the text '{term}'"
        case Index():
            return "an index map"
        case Condition():
            return "a condition on loop axes"
        case TensorName(name):
            return f"the tensor '{name}'"
        case _:
            return f"{term}"


def _pack_of(term: Term, function: str) -> tuple[Term, ...]:
    if not isinstance(term, tuple):
        raise ExpressionError(f"{function}() needs a pack, not {describe(term)}")
    return term


def _integers(term: Term, function: str) -> tuple[int, ...]:
    return tuple(integer(part) for part in _pack_of(term, function))


def _number(term: Term) -> int | float:
    if isinstance(term, int | float):
        return term
    raise ExpressionError(f"a number is needed here, not {describe(term)}")


def _rank(of: Term) -> Term:
    return len(_pack_of(of, "rank"))


def _prod(of: Term) -> Term:
    total: int | float = 1
    for part in flat(of):
        total *= _number(part)
    return total


def _sum(of: Term) -> Term:
    return sum(_number(part) for part in flat(of))


def _extreme(
    choose: Callable[[Iterable[int | float]], int | float], name: str
) -> Callable[..., Term]:
    def chosen(*terms: Term) -> Term:
        if len(terms) == 1:
            members = [_number(part) for part in _pack_of(terms[0], name)]
            if not members:
                raise ExpressionError(f"{name}() of an empty pack")
            return choose(members)
        return spread(lambda *row: choose([_number(part) for part in row]), *terms)

    return chosen


def _sort(of: Term) -> Term:
    return tuple(sorted(_integers(of, "sort")))


def _order(of: Term) -> Term:
    numbers = _integers(of, "order")
    return tuple(sorted(range(len(numbers)), key=numbers.__getitem__))


def _norm(axes: Term, rank: Term) -> Term:
    count = integer(rank)
    found = tuple(integer(part) for part in flat(axes))
    for axis in found:
        if not -count <= axis < count:
            raise ExpressionError(f"axis {axis} is not an axis of a tensor of rank {count}")
    return tuple(axis % count for axis in found)


def _without(of: Term, axes: Term) -> Term:
    dropped = frozenset(_integers(axes, "without"))
    return tuple(v for j, v in enumerate(_pack_of(of, "without")) if j not in dropped)


def _weave(others: Term, chosen: Term, axes: Term) -> Term:
    """Return the pack whose members at `axes` are `chosen` and whose others are `others`."""
    rest, picked = list(_pack_of(others, "weave")), _pack_of(chosen, "weave")
    places = {axis: j for j, axis in enumerate(_integers(axes, "weave"))}
    count = len(rest) + len(picked)
    if len(places) != len(picked) or any(not 0 <= axis < count for axis in places):
        raise ExpressionError(f"weave() puts {len(picked)} values at {len(places)} axes of {count}")
    return tuple(picked[places[j]] if j in places else rest.pop(0) for j in range(count))


def _inverse(of: Term) -> Term:
    order = _integers(of, "inverse")
    if sorted(order) != list(range(len(order))):
        raise ExpressionError("inverse() needs a permutation")
    return tuple(order.index(j) for j in range(len(order)))


def _broadcast(*shapes: Term) -> Term:
    packs = [_integers(shape, "broadcast") for shape in shapes]
    rank = max(map(len, packs), default=0)
    padded = [(1,) * (rank - len(pack)) + pack for pack in packs]
    result = []
    for column in zip(*padded, strict=True):
        sizes = dict.fromkeys(size for size in column if size != 1)
        if len(sizes) > 1:
            raise ExpressionError(f"extents {' and '.join(map(str, sizes))} do not broadcast")
        result.append(next(iter(sizes), 1))
    return tuple(result)


def _fit(axes: Term, shape: Term) -> Term:
    """Return the last axes, as many as `shape` has; 0 where its extent is 1."""
    loops, extents = _pack_of(axes, "fit"), _integers(shape, "fit")
    if len(extents) > len(loops):
        raise ExpressionError(f"fit() needs {len(extents)} axes, but there are {len(loops)}")
    last = loops[len(loops) - len(extents) :]
    return tuple(0 if extent == 1 else axis for axis, extent in zip(last, extents, strict=True))


def _pack(*parts: Term) -> Term:
    return tuple(flat(parts))


def _repeat(value: Term, count: Term) -> Term:
    return (value,) * integer(count)


def _range(*bounds: Term) -> Term:
    return tuple(range(*map(integer, bounds)))


def _ceil_div(total: Term, part: Term) -> Term:
    return spread(lambda a, b: -(-integer(a) // integer(b)), total, part)


def _rounded(how: Callable[[float], int]) -> Callable[[Term], Term]:
    return lambda of: spread(lambda v: how(_number(v)), of)


def _all(of: Term) -> Term:
    return all(truth(part) for part in flat(of))


def _any(of: Term) -> Term:
    return any(truth(part) for part in flat(of))


def _abs(of: Term) -> Term:
    return spread(lambda v: abs(_number(v)), of)


def _clip(value: Term, low: Term, high: Term) -> Term:
    return spread(lambda v, a, b: max(_number(a), min(_number(b), _number(v))), value, low, high)


def _along(shapes: Term, axis: Term, count: Term) -> Term:
    """Return the sum of the extents on `axis` of the first `count` shapes."""
    packs = _pack_of(shapes, "along")[: integer(count)]
    return sum(_integers(pack, "along")[integer(axis)] for pack in packs)


def _put(of: Term, place: Term, value: Term) -> Term:
    at = integer(place)
    return tuple(value if j == at else part for j, part in enumerate(_pack_of(of, "put")))


def _each(tensor: Term, at: Term, count: Term) -> Term:
    """Return the `count` indices that lie in the last axis of `tensor`, at `at`."""
    return tuple(load(tensor, (at, j)) for j in range(integer(count)))


def load(tensor: Term, at: Term) -> Index:
    """Return the element of an integer tensor as an index."""
    if not isinstance(tensor, TensorName):
        raise ExpressionError(f"a tensor is needed here, not {describe(tensor)}")
    return Index.atom(Loaded(tensor.name, tuple(index(part) for part in flat(at))))


def _wrap(of: Term, extent: Term) -> Term:
    return spread(lambda i, n: Index.atom(Folded("wrap", index(i), integer(n))), of, extent)


def _clamp(of: Term, extent: Term) -> Term:
    return spread(lambda i, n: Index.atom(Folded("clamp", index(i), integer(n))), of, extent)


def _reflect(of: Term, extent: Term) -> Term:
    return spread(lambda i, n: Index.atom(Folded("reflect", index(i), integer(n))), of, extent)


FUNCTIONS: Mapping[str, Callable[..., Term]] = {
    "abs": _abs,
    "all": _all,
    "along": _along,
    "any": _any,
    "broadcast": _broadcast,
    "ceil": _rounded(ceil),
    "ceil_div": _ceil_div,
    "clamp": _clamp,
    "clip": _clip,
    "each": _each,
    "fit": _fit,
    "floor": _rounded(floor),
    "inverse": _inverse,
    "max": _extreme(max, "max"),
    "min": _extreme(min, "min"),
    "norm": _norm,
    "order": _order,
    "pack": _pack,
    "prod": _prod,
    "put": _put,
    "range": _range,
    "rank": _rank,
    "reflect": _reflect,
    "repeat": _repeat,
    "sort": _sort,
    "sum": _sum,
    "weave": _weave,
    "without": _without,
    "wrap": _wrap,
}
