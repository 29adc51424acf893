"""Value expressions as C."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from dlbuild.emit.ctypes import COMPUTE, LIMITS, STORAGE, is_encoded, is_packed, number
from dlbuild.emit.itext import IndexText, Place
from dlbuild.emit.ranges import Ranges, is_within
from dlbuild.rulebook.index import Index
from dlbuild.rulebook.value import (
    Binary,
    Call,
    Cast,
    Choose,
    Compare,
    Expr,
    Local,
    Logic,
    Lookup,
    Number,
    Offset,
    Position,
    Read,
    Type,
    Unary,
)

PRIMARY, UNARY, PRODUCT, SUM, LOWER = 5, 4, 3, 2, 1
"""How tightly a text binds; what binds less than it must is put in parentheses."""

WRAPPING: Final = {"+": "wrap_add", "-": "wrap_sub", "*": "wrap_mul"}
ROUNDING: Final = {"round": "rint", "floor": "floor", "ceil": "ceil", "trunc": "trunc"}
TYPED: Final = ("min", "max", "saturate", "divide_round")
PLAIN: Final = ("scale_fixed", "shift_round", "isnan", "isinf")


@dataclass(frozen=True, slots=True)
class Text:
    """C of an expression and how tightly it binds."""

    code: str
    binds: int = PRIMARY
    operator: str = ""

    def within(self, least: int) -> str:
        """Return the code as an operand of something that binds so tightly."""
        return self.code if self.binds >= least else f"({self.code})"


@dataclass(frozen=True)
class ValueText:
    """A printer of values.

    operand, place: what each access reads and where; model_place: the same in the model's order.
    names: how variables are written.
    starts, values: accesses of whose address a part, or whose value, already has a name in the C.
    shift: how much further than `place` an access addresses now.
    """

    index: IndexText
    ranges: Ranges
    operand: Mapping[str, str]
    dtype: Mapping[str, str]
    place: Callable[[str], Place]
    model_place: Callable[[str], Index]
    by_value: frozenset[str]
    names: dict[str, str] = field(default_factory=dict)
    starts: dict[str, tuple[str, Place]] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    shift: dict[str, Index] = field(default_factory=dict)

    def code(self, expr: Expr) -> str:
        """Return an expression as C that stands alone."""
        return self.text(expr).code

    def element(self, access: str) -> str:
        """Return the element that an access addresses, as C."""
        operand = self.operand[access]
        if operand in self.by_value:
            return operand
        return f"{operand}[{self.address(access)}]"

    def loaded(self, access: str) -> str:
        """Return the value of the element that an access addresses, as C."""
        dtype, operand = self.dtype[access], self.operand[access]
        if is_packed(dtype):
            if operand in self.by_value:
                return f"{dtype}_value({operand})"
            return f"load_{dtype}({operand}, {self.address(access)})"
        element = self.element(access)
        return f"{dtype}_to_f32({element})" if is_encoded(dtype) else element

    def storing(self, access: str) -> tuple[str, str]:
        """Return what stands before and after the value in a statement that stores an element."""
        dtype = self.dtype[access]
        if is_packed(dtype):
            return f"store_{dtype}({self.operand[access]}, {self.address(access)}, ", ");"
        if is_encoded(dtype):
            return f"{self.element(access)} = f32_to_{dtype}(", ");"
        return f"{self.element(access)} = ", ";"

    def is_addressed(self, access: str) -> bool:
        """Tell whether an element is written with its whole address where it is used."""
        is_named = access in self.values or access in self.starts
        return not is_named and self.operand[access] not in self.by_value

    def address(self, access: str) -> str:
        """Return the address of an access as C."""
        start, place = self.starts.get(access) or ("", self.place(access))
        if access in self.shift:
            place = Place((*place.parts, (self.shift[access], 1)))
        return self.index.address(place, start)

    def text(self, expr: Expr) -> Text:
        """Return an expression as C."""
        match expr:
            case Number(value, kind):
                code = number(value, kind)
                return Text(code, UNARY if code.startswith(("-", "(")) else PRIMARY)
            case Read(access, _):
                return Text(self.values.get(access) or self.loaded(access))
            case Local(name, _):
                return Text(self.names.get(name, name))
            case Position(index, kind):
                return self._converted(self._index(index), "i32", kind)
            case Offset(access, kind):
                return self._converted(self._index(self.model_place(access)), "i32", kind)
            case Lookup(access, at, _):
                return Text(f"{self.operand.get(access, access)}[{self.code(at)}]")
            case Cast(value, kind):
                return self._cast(value, kind)
            case Choose(test, then, other, _):
                test_text = self.text(test).within(UNARY)
                branches = f"{self.text(then).within(SUM)} : {self.text(other).within(SUM)}"
                return Text(f"{test_text} ? {branches}", LOWER)
            case _:
                return self._operation(expr)

    def _operation(self, expr: Unary | Binary | Compare | Logic | Call) -> Text:
        match expr:
            case Unary("not", value, _):
                return Text(f"!{self.text(value).within(UNARY)}", UNARY)
            case Unary("-", value, kind):
                return self._negated(value, kind, expr)
            case Unary(operator, value, _):
                return Text(f"{operator}{self.text(value).within(PRIMARY)}", UNARY)
            case Binary(
                "+", Call("scale_fixed" | "shift_round" as function, arguments, _), Read(zero, _), _
            ) if self.dtype.get(zero) in ("int8", "uint8"):
                # The offset goes into the rounding.
                parts = [self.code(part) for part in (Read(zero, "i32"), *arguments)]
                return Text(f"{function}_onto({', '.join(parts)})")
            case Binary():
                return self._binary(expr)
            case Compare(operator, left, right, _):
                sides = self.text(left).within(SUM), self.text(right).within(SUM)
                return Text(f"{sides[0]} {operator} {sides[1]}", LOWER)
            case Logic(operator, parts, _):
                joint = " && " if operator == "and" else " || "
                return Text(joint.join(self.text(p).within(UNARY) for p in parts), LOWER)
            case Call(function, arguments, _):
                return self._call(function, arguments)

    def _index(self, index: Index) -> Text:
        addends = self.index.addends(index)
        code = self.index.index(index)
        if len(addends) > 1:
            return Text(code, SUM)
        return Text(code, PRODUCT if " * " in code else UNARY if code[0] == "-" else PRIMARY)

    def _negated(self, value: Expr, kind: Type, expr: Unary) -> Text:
        if kind in ("i32", "i64") and not self.ranges.is_exact(expr):
            return Text(f"wrap_sub_{kind}(0, {self.code(value)})")
        if kind in ("u32", "u64"):
            return Text(f"{number(0, kind)} - {self.text(value).within(PRODUCT)}", SUM)
        return Text(f"-{self.text(value).within(PRIMARY)}", UNARY)

    def _binary(self, expr: Binary) -> Text:
        left, right, kind = self.text(expr.left), self.text(expr.right), expr.type
        match expr.operator:
            case "+" | "-" | "*" as operator:
                if kind in ("i32", "i64") and not self.ranges.is_exact(expr):
                    return Text(f"{WRAPPING[operator]}_{kind}({left.code}, {right.code})")
                return _infix(left, operator, right)
            case "/" | "//" | "%":
                return self._quotient(expr, left, right)
            case "<<" | ">>":
                return self._shift(expr, left, right)
            case operator:
                return Text(f"{left.within(UNARY)} {operator} {right.within(UNARY)}", LOWER)

    def _quotient(self, expr: Binary, left: Text, right: Text) -> Text:
        kind, operator = expr.type, expr.operator
        if kind in ("f32", "f64"):
            suffix = "f" if kind == "f32" else ""
            match operator:
                case "/":
                    return _infix(left, "/", right)
                case "//":
                    return Text(f"floor{suffix}({_infix(left, '/', right).code})")
                case _:
                    return Text(f"floor_mod_{kind}({left.code}, {right.code})")
        numerator, denominator = self.ranges.of(expr.left), self.ranges.of(expr.right)
        is_safe = denominator[0] > 0 and (operator == "/" or numerator[0] >= 0)
        if is_safe:
            return _infix(left, "%" if operator == "%" else "/", right)
        is_signed = kind in ("i32", "i64")
        name = {"/": "divide", "//": "floor_div" if is_signed else "divide", "%": "floor_mod"}
        return Text(f"{name[operator]}_{kind}({left.code}, {right.code})")

    def _shift(self, expr: Binary, left: Text, right: Text) -> Text:
        low, high = self.ranges.of(expr.right)
        is_small = low >= 0 and high < int(expr.type[1:])
        if is_small and (expr.operator == ">>" or expr.type in ("u32", "u64")):
            return Text(f"{left.within(UNARY)} {expr.operator} {right.within(UNARY)}", LOWER)
        name = "shift_left" if expr.operator == "<<" else "shift_right"
        return Text(f"{name}_{expr.type}({left.code}, {right.code})")

    def _cast(self, value: Expr, kind: Type) -> Text:
        if value.type in ("f32", "f64") and kind in ("i32", "u32", "i64", "u64"):
            if is_within(self.ranges.of(value), LIMITS[kind]):
                return Text(f"({COMPUTE[kind]}){self.text(value).within(UNARY)}", UNARY)
            return Text(f"{value.type}_to_{kind}({self.code(value)})")
        return self._converted(self.text(value), value.type, kind)

    def _converted(self, text: Text, source: Type, kind: Type) -> Text:
        if source == kind:
            return text
        if kind == "bool":
            zero = number(0, source)
            return Text(f"{text.within(SUM)} != {zero}", LOWER)
        return Text(f"({COMPUTE[kind]}){text.within(UNARY)}", UNARY)

    def _call(self, function: str, arguments: tuple[Expr, ...]) -> Text:
        kind = arguments[0].type
        code = ", ".join(self.code(a) for a in arguments)
        is_real = kind in ("f32", "f64")
        suffix = "f" if kind == "f32" else ""
        if kind == "bool" and function in ("min", "max"):
            joint = " && " if function == "min" else " || "
            return Text(joint.join(self.text(a).within(UNARY) for a in arguments), LOWER)
        if function in TYPED:
            return Text(f"{function}_{kind}({code})")
        if function in PLAIN:
            return Text(f"{function}({code})")
        if function == "abs":
            return self._magnitude(arguments[0], kind)
        if function == "fmod" and not is_real:
            # Without a sign all remainders are the same.
            return Text(f"{'floor_mod' if kind in ('u32', 'u64') else 'fmod'}_{kind}({code})")
        if function in ROUNDING:
            return (
                Text(f"{ROUNDING[function]}{suffix}({code})")
                if is_real
                else self.text(arguments[0])
            )
        return Text(f"{function}{suffix}({code})")

    def _magnitude(self, value: Expr, kind: Type) -> Text:
        match kind:
            case "f32":
                return Text(f"fabsf({self.code(value)})")
            case "f64":
                return Text(f"fabs({self.code(value)})")
            case "i32" | "i64":
                return Text(f"abs_{kind}({self.code(value)})")
            case _:
                return self.text(value)

    def _rounded(self, real: Expr) -> str:
        """Return the call for a rounded number plus an offset, limited, if `real` is one."""
        match real:
            case Call(
                "saturate",
                (
                    Binary("+", Call("round", (value,), "f32"), Cast(Read(zero, _), _), _),
                    Number(low, _),
                    Number(high, _),
                ),
                "f32",
            ) if self.dtype.get(zero) in ("int8", "uint8"):
                limits = f"{number(low, 'i32')}, {number(high, 'i32')}"
                return f"round_onto({self.code(Read(zero, 'i32'))}, {self.code(value)}, {limits})"
            case _:
                return ""

    def stored(self, value: Expr, dtype: str, kind: Type) -> str:
        """Return a value as C of the type in which `dtype` is stored.

        kind: the compute type of `dtype`; a narrower store keeps the low bits.
        """
        target = COMPUTE[kind] if is_packed(dtype) or is_encoded(dtype) else STORAGE[dtype]
        real = value.value if isinstance(value, Cast) and value.type == kind == "i32" else value
        is_real = real.type in ("f32", "f64") and kind == "i32"
        if is_real and (call := self._rounded(real)):
            return f"({target}){call}"
        if is_real and is_within(self.ranges.of(real), LIMITS["i32"]):
            return f"({target}){self.text(real).within(UNARY)}"
        text = self.text(value) if value.type == kind else self._cast(value, kind)
        if target == COMPUTE[kind]:
            return text.code
        return f"({target}){text.within(UNARY)}"


def _infix(left: Text, operator: str, right: Text) -> Text:
    """Return a sum or product; in a sum, products stand in parentheses."""
    binds = SUM if operator in "+-" else PRODUCT
    is_chain = left.binds == binds and (binds == SUM or left.operator == operator == "*")
    first = left.code if is_chain else left.within(UNARY)
    second = f"({right.code})" if right.code.startswith("-") else right.within(UNARY)
    return Text(f"{first} {operator} {second}", binds, operator)
