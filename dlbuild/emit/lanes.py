"""What follows a hand-written fold for four neighbouring points at once, as C.

It calls helpers named after their vector type, `add_i32x4` and the like: with MVE each is an
instruction or a few, elsewhere a loop, so that the same C is tested on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dlbuild.base.free import free_name
from dlbuild.emit.comments import filled
from dlbuild.emit.ctext import ValueText
from dlbuild.emit.ctypes import number
from dlbuild.emit.lower import Lowered
from dlbuild.emit.ranges import is_within
from dlbuild.rulebook.instance import Operand, Store
from dlbuild.rulebook.range import range_of_dtype
from dlbuild.rulebook.value import Binary, Call, Cast, Expr, Local, Number, Read, Type

VECTOR: Mapping[Type, str] = {"i32": "i32x4", "f32": "f32x4"}
LOADED = {"int8": "i8x4", "uint8": "u8x4", "int32": "i32x4", "float32": "f32x4"}
STORED = {"int8": "i8x4", "uint8": "u8x4"}
OPERATORS = {"+": ("add", "sum"), "-": ("sub", "difference"), "*": ("mul", "product")}
FUNCTIONS = {"min": ("min", "least"), "max": ("max", "greatest")}
WIDE = 1 << 27
"""Limits within which `scale_fixed_i32x4` is what `scale_fixed` is."""


class NoLanes(Exception):  # noqa: N818 - not an error: it is computed point by point
    """There is no vector form of a value."""


def lane_lines(nest: Lowered, operands: Mapping[str, Operand], values: ValueText, axis: str) -> str:
    """Return the body of the function that finishes four neighbours along an axis.

    Args:
        nest: what follows the fold; its first variable holds the fold's results.
        operands: by name.
        values: prints elements of the point that is the first of the four.
        axis: the axis along which they are neighbours.

    Raises:
        NoLanes: something in it has no vector form.
    """
    printer = _Lanes(nest, operands, values, axis)
    for step in nest.steps:
        if step.over or step.when or step.folds:
            raise NoLanes
        for let in step.lets:
            printer.named[let.name] = printer.code(let.value)
        for store in step.stores:
            printer.store(store)
    return "\n".join(printer.lines)


@dataclass
class _Lanes:
    nest: Lowered
    operands: Mapping[str, Operand]
    values: ValueText
    axis: str
    lines: list[str] = field(default_factory=list)
    named: dict[str, str] = field(default_factory=dict)
    known: dict[Expr, str] = field(default_factory=dict)
    limited: set[Expr] = field(default_factory=set)

    def store(self, store: Store) -> None:
        """Add the statement that writes four elements."""
        access = self.nest.access[store.access]
        dtype = self.operands[access.operand].dtype
        if dtype not in STORED or not self._is_along(store.access) or access.guards:
            raise NoLanes
        value, limits = store.value, limits_of(store.value)
        if limits is None or not is_within(limits, full(dtype)):
            raise NoLanes  # it keeps the low bits of what does not fit
        if limits == full(dtype) and isinstance(value, Call) and value.type == "i32":
            value = value.arguments[0]  # the store limits it
            self._allow(value)
        to = f"&{self.values.element(store.access)}"
        text = filled(f"    store_{STORED[dtype]}(", [to, self.code(value)], ");")
        self.lines.append(text)

    def code(self, value: Expr) -> str:
        """Return the name of four values, or C that is no longer than one."""
        if value not in self.known:
            self.known[value] = self._code(value)
        return self.known[value]

    def _code(self, value: Expr) -> str:
        match value:
            case Local(name, _):
                return self.named.get(name) or self.values.names.get(name, name)
            case Number(content, "i32" | "f32" as kind):
                return f"repeat_{VECTOR[kind]}({number(content, kind)})"
            case Read(access, kind):
                return self._read(access, kind)
            case Cast(Read(access, "i32"), "f32") if self._is_one(access):
                return f"repeat_f32x4((float){self.values.loaded(access)})"
            case Cast(inner, "f32") if inner.type == "i32":
                return self._call("real", "i32x4", "real", inner)
            case Cast(Call("saturate", _, "f32") as inner, "i32"):
                return self._call("whole", "f32x4", "whole", inner)
            case Binary("+" | "-" | "*" as operator, left, right, "i32" | "f32" as kind):
                function, name = OPERATORS[operator]
                return self._call(function, VECTOR[kind], name, left, right)
            case Call():
                return self._function(value)
            case _:
                raise NoLanes

    def _function(self, value: Call) -> str:
        match value:
            case Call("min" | "max" as word, (left, right), "i32"):
                function, name = FUNCTIONS[word]
                return self._call(function, "i32x4", name, left, right)
            case Call("scale_fixed", parts, _) if value in self.limited:
                return self._call("scale_fixed", "i32x4", "scaled", *parts)
            case Call("shift_round", parts, _):
                return self._call("shift_round", "i32x4", "shifted", *parts)
            case Call("round", (inner,), "f32"):
                return self._call("round", "f32x4", "rounded", inner)
            case Call("saturate", (inner, Number(low, kind), Number(high, _)), "i32" | "f32"):
                if is_within((low, high), (-WIDE, WIDE)):
                    self._allow(inner)
                limits = [number(low, kind), number(high, kind)]
                return self._line("saturate", VECTOR[kind], "limited", self.code(inner), *limits)
            case _:
                raise NoLanes

    def _allow(self, limited: Expr) -> None:
        """Let what is limited, but for an offset, be scaled: what it was beyond does not show."""
        match limited:
            case Binary("+", Call("scale_fixed", _, _) as scaled, Read(offset, _), _) if (
                self.values.dtype.get(offset) in STORED
            ):
                self.limited.add(scaled)
            case Call("scale_fixed", _, _):
                self.limited.add(limited)
            case _:
                pass

    def _read(self, access: str, kind: Type) -> str:
        dtype = self.operands[self.nest.access[access].operand].dtype
        if dtype not in LOADED or self.nest.access[access].guards or kind not in VECTOR:
            raise NoLanes
        if self._is_one(access):
            return f"repeat_{VECTOR[kind]}({self.values.loaded(access)})"
        if not self._is_along(access):
            raise NoLanes
        return f"load_{LOADED[dtype]}(&{self.values.element(access)})"

    def _call(self, function: str, vector: str, name: str, *arguments: Expr) -> str:
        return self._line(function, vector, name, *(self.code(a) for a in arguments))

    def _line(self, function: str, vector: str, name: str, *arguments: str) -> str:
        """Add a statement that names the result of a helper, and return the name."""
        made = "f32x4" if function == "real" else "i32x4" if function == "whole" else vector
        taken = {line.split(" = ")[0].split()[-1] for line in self.lines if " = " in line}
        taken |= {o.name for o in self.operands.values()} | set(self.nest.extent)
        chosen = free_name(name, taken)
        head = f"    const {made} {chosen} = {function}_{vector}("
        self.lines.append(filled(head, arguments, ");"))
        return chosen

    def _is_one(self, access: str) -> bool:
        """Tell whether an access is of one element for all four."""
        if self.values.operand[access] in self.values.by_value:
            return True
        return self.axis not in self.nest.place[access].flat.axes()

    def _is_along(self, access: str) -> bool:
        """Tell whether an access is of four neighbours."""
        flat = self.nest.place[access].flat
        return self.axis not in set(flat.entangled_axes()) and flat.coefficient(self.axis) == 1


def limits_of(value: Expr) -> tuple[float, float] | None:
    """Return what a value is limited to, None if it is not."""
    match value:
        case Cast(inner, _):
            return limits_of(inner)
        case Call("saturate", (_, Number(low, _), Number(high, _)), _):
            return low, high
        case _:
            return None


def full(dtype: str) -> tuple[float, float]:
    """Return what an element type of integers holds."""
    found = range_of_dtype(dtype)
    assert found is not None
    return found
