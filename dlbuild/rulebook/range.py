"""The range that a value expression provably stays in."""

from collections.abc import Mapping

from dlbuild.ir.dtype import DTYPES
from dlbuild.rulebook.instance import Fold, Instance, Loop, Nest
from dlbuild.rulebook.value import Binary, Call, Cast, Choose, Expr, Local, Number, Read, Type

Range = tuple[float, float]
"""Inclusive bounds; NaN is outside every range."""


_INTEGER: Mapping[Type, str] = {"i32": "int32", "u32": "uint32", "i64": "int64", "u64": "uint64"}


def range_of_dtype(dtype: str) -> Range | None:
    """Return what an integer element type holds; None for the others."""
    kind, bits = DTYPES[dtype].kind, DTYPES[dtype].bits
    match kind:
        case "int":
            return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        case "uint":
            return 0, 2**bits - 1
        case "bool":
            return 0, 1
        case "float":
            return None


def range_of(expr: Expr, instance: Instance, nest: Nest) -> Range | None:
    """Return bounds of an expression of a nest's steps, None if none are known."""
    return _Ranges(instance, nest).of(expr)


class _Ranges:
    def __init__(self, instance: Instance, nest: Nest) -> None:
        self._reads = {
            name: range_of_dtype(instance.operand(access.operand).dtype)
            for name, access in nest.access.items()
        }
        self._locals: dict[str, Range | None] = {}
        for step in nest.steps:
            self._enter(step)

    def _enter(self, step: Loop) -> None:
        # In this order: a let may use the folds of earlier steps only.
        for let in step.lets:
            self._locals[let.name] = self.of(let.value)
        for fold in step.folds:
            self._locals[fold.name] = self._fold(fold)

    def _fold(self, fold: Fold) -> Range | None:
        """Bounds that the start lies in and that one more turn of the loop does not leave."""
        start = self.of(fold.start)
        self._locals[fold.name] = start
        grown = _hull(start, self.of(fold.each))
        self._locals[fold.name] = grown
        again = self.of(fold.each)
        return grown if _hull(grown, again) == grown else None

    def of(self, expr: Expr) -> Range | None:
        match expr:
            case Number(number, _):
                return float(number), float(number)
            case Read(access, _):
                return self._reads.get(access)
            case Local(name, _):
                return self._locals.get(name)
            case Choose(_, then, other, _):
                return _hull(self.of(then), self.of(other))
            case Cast(value, type_):
                return _held(self.of(value), type_)
            case Call(function, arguments, _):
                return self._call(function, arguments)
            case Binary("+" | "-" as operator, left, right, type_):
                return _held(_sum(self.of(left), self.of(right), operator), type_)
            case _:
                return None

    def _call(self, function: str, arguments: tuple[Expr, ...]) -> Range | None:
        ranges = [self.of(a) for a in arguments]
        match function:
            case "saturate":
                low, high = ranges[1], ranges[2]
                return (low[0], high[1]) if low and high else None
            case "min" | "max":
                first, second = ranges
                if first and second:
                    pick = min if function == "min" else max
                    return pick(first[0], second[0]), pick(first[1], second[1])
                return None
            case "round" | "floor" | "ceil" | "trunc":
                inner = ranges[0]
                whole = inner is not None and inner[0].is_integer() and inner[1].is_integer()
                return inner if whole else None
            case _:
                return None


def _hull(first: Range | None, second: Range | None) -> Range | None:
    if first is None or second is None:
        return None
    return min(first[0], second[0]), max(first[1], second[1])


def _held(bounds: Range | None, type_: Type) -> Range | None:
    """Return the bounds if the compute type holds them; beyond it, values wrap."""
    if type_ in ("f32", "f64"):
        return bounds
    held = range_of_dtype(_INTEGER[type_]) if type_ in _INTEGER else None
    return bounds if held is not None and _hull(held, bounds) == held else None


def _sum(left: Range | None, right: Range | None, operator: str) -> Range | None:
    if left is None or right is None:
        return None
    if operator == "+":
        return left[0] + right[0], left[1] + right[1]
    return left[0] - right[1], left[1] - right[0]


def fits(expr: Expr, dtype: str, instance: Instance, nest: Nest) -> bool:
    """Tell whether storing the value as `dtype` provably loses nothing but what a cast does."""
    allowed, bounds = range_of_dtype(dtype), range_of(expr, instance, nest)
    return allowed is not None and bounds is not None and _hull(allowed, bounds) == allowed
