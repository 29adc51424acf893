"""Value expressions of rules, from text to typed trees.

A name known at build time folds away. A literal has no type of its own: it takes its partner's.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import isinf

from dlbuild.base.yamlsrc import Scalar
from dlbuild.rulebook import expr as text_expr
from dlbuild.rulebook.calls import call
from dlbuild.rulebook.index import Index
from dlbuild.rulebook.known import (
    FLOATS,
    Known,
    Typed,
    finish,
    known_number,
    pair,
    to_type,
    truth_of,
)
from dlbuild.rulebook.limits import limits
from dlbuild.rulebook.pack import FUNCTIONS, ExpressionError, Term, index
from dlbuild.rulebook.value import (
    COMPUTE_TYPE,
    Binary,
    Call,
    Choose,
    Compare,
    Expr,
    Logic,
    Lookup,
    Number,
    Offset,
    Position,
    Read,
    Type,
    Unary,
)

_BINARY: Mapping[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
}


@dataclass(frozen=True)
class Scope:
    """What the names of a value expression mean.

    sizes: names known at build time. axes: these, loop axes and packs of them, for `index(e)`.
    reads: the element type of each access. absent: values of inputs that are not there.
    locals: `let`, fold variables, `l`, `r` and `CHAIN`. lookups: tables of the build, their type.
    output: the element type of the output that is written.
    """

    sizes: Mapping[str, Term]
    axes: Mapping[str, Term]
    reads: Mapping[str, str]
    absent: Mapping[str, Term]
    locals: Mapping[str, Typed]
    lookups: Mapping[str, Type]
    output: str = ""

    def with_locals(self, more: Mapping[str, Typed]) -> Scope:
        """Return the scope with further local names."""
        return replace(self, locals={**self.locals, **more})


def typed_value(text: Scalar, scope: Scope, want: Type | None = None) -> Expr:
    """Return the typed tree of a value expression.

    Args:
        text: the expression.
        scope: what its names mean.
        want: the type of the result; without it, the one that its parts give.

    Raises:
        ExpressionError: an unknown name or function, or values that do not go together.
    """
    return finish(typed(text_expr.parse(text.text), scope, want), want)


def typed(tree: ast.expr, scope: Scope, want: Type | None = None) -> Typed:
    """Return a tree's typed form; `want` is only a hint for literals."""
    handler = _HANDLERS.get(type(tree))
    if handler is None:
        return _folded(tree, scope)
    try:
        return handler(tree, scope, want)
    except ExpressionError as error:
        raise ExpressionError(error.what, error.offset or tree.col_offset) from None


def _folded(tree: ast.expr, scope: Scope) -> Known:
    return Known(text_expr.evaluate(tree, scope.sizes))


def _constant(tree: ast.expr, _: Scope, __: Type | None) -> Typed:
    assert isinstance(tree, ast.Constant)
    assert isinstance(tree.value, int | float | str)
    return Known(tree.value)


def _name(tree: ast.expr, scope: Scope, _: Type | None) -> Typed:
    assert isinstance(tree, ast.Name)
    name = tree.id
    if name in scope.locals:
        return scope.locals[name]
    if name in scope.reads:
        return Read(name, COMPUTE_TYPE[scope.reads[name]])
    if name in scope.absent:
        return Known(scope.absent[name], is_default=True)
    if name in scope.sizes:
        return Known(scope.sizes[name])
    if name in scope.axes:
        return _position(index(scope.axes[name]))
    raise ExpressionError(f"'{name}' is not known here")


def _position(place: Index) -> Typed:
    return Position(place) if place.terms else Known(place.constant)


def _unary(tree: ast.expr, scope: Scope, want: Type | None) -> Typed:
    assert isinstance(tree, ast.UnaryOp)
    if isinstance(tree.op, ast.Not):
        test = truth_of(typed(tree.operand, scope))
        return Known(not test) if isinstance(test, bool) else Unary("not", test, "bool")
    value = typed(tree.operand, scope, want)
    if isinstance(value, Known):
        number = known_number(value)
        return replace(value, term=-number if isinstance(tree.op, ast.USub) else ~int(number))
    if value.type == "bool":
        value = to_type(value, "i32")
    return Unary("-" if isinstance(tree.op, ast.USub) else "~", value, value.type)


def _binary(tree: ast.expr, scope: Scope, want: Type | None) -> Typed:
    assert isinstance(tree, ast.BinOp)
    left, right = typed(tree.left, scope, want), typed(tree.right, scope, want)
    if isinstance(left, Known) and isinstance(right, Known):
        known = ast.BinOp(ast.Name("LEFT"), tree.op, ast.Name("RIGHT"), col_offset=tree.col_offset)
        result = text_expr.evaluate(_named(known), {"LEFT": left.term, "RIGHT": right.term})
        return Known(result, left.is_default or right.is_default)
    if isinstance(tree.op, ast.Pow):
        return call("pow", (left, right))
    operator = _BINARY[type(tree.op)]
    return _simplified(operator, left, right) or _computed(operator, left, right)


def _named(tree: ast.BinOp) -> ast.BinOp:
    for part in (tree.left, tree.right):
        part.col_offset = tree.col_offset
    return tree


def _simplified(operator: str, left: Typed, right: Typed) -> Typed | None:
    """Return the operand that an operation leaves exactly as it is, None if it changes it.

    x + 0 is +0 for x = -0, so for floats it goes away only where the 0 stands for an input that
    is not there.
    """
    match operator, left, right:
        case ("*", Known(1), other) | ("*", other, Known(1)) if not isinstance(other, Known):
            return _arithmetic(other)
        case ("/", other, Known(1 as one)) if not isinstance(other, Known):
            is_exact = isinstance(one, int) or other.type in FLOATS
            return _arithmetic(other) if is_exact else None
        case ("-", other, Known(0 as zero)) if not isinstance(other, Known):
            return None if str(zero) == "-0.0" else _arithmetic(other)
        case ("+", Known(0, is_default), other) | ("+", other, Known(0, is_default)):
            if not isinstance(other, Known) and (is_default or other.type not in FLOATS):
                return _arithmetic(other)
    return None


def _arithmetic(value: Expr) -> Expr:
    return to_type(value, "i32") if value.type == "bool" else value


def _computed(operator: str, left: Typed, right: Typed) -> Expr:
    if operator in {"<<", ">>"}:
        a = finish(left)
        return _binary_of(operator, a, to_type(right, a.type))
    a, b = pair(left, right)
    if a.type == "bool" and operator not in {"&", "|", "^"}:
        a, b = to_type(a, "i32"), to_type(b, "i32")
    if operator in {"&", "|", "^"} and a.type in FLOATS:
        raise ExpressionError(f"'{operator}' needs integers or truths")
    return _binary_of(operator, a, b)


def _binary_of(operator: str, left: Expr, right: Expr) -> Expr:
    return Binary(operator, left, right, left.type)  # type: ignore[arg-type] # from _BINARY


def _compare(tree: ast.expr, scope: Scope, _: Type | None) -> Typed:
    assert isinstance(tree, ast.Compare)
    left, right = typed(tree.left, scope), typed(tree.comparators[0], scope)
    if isinstance(left, Known) and isinstance(right, Known):
        known = ast.Compare(
            ast.Name("LEFT", col_offset=tree.col_offset),
            tree.ops,
            [ast.Name("RIGHT", col_offset=tree.col_offset)],
            col_offset=tree.col_offset,
        )
        return Known(text_expr.evaluate(known, {"LEFT": left.term, "RIGHT": right.term}))
    if type(tree.ops[0]) not in text_expr.COMPARISONS:
        raise ExpressionError("'in' is for texts and packs known at build time")
    sign, _function = text_expr.COMPARISONS[type(tree.ops[0])]
    a, b = pair(left, right)
    if {_type_of(left), _type_of(right)} == {"i32", "u32"}:  # neither holds the other's numbers
        a, b = to_type(left, "i64"), to_type(right, "i64")
    return Compare(sign, a, b)  # type: ignore[arg-type] # the six signs of COMPARISONS


def _type_of(value: Typed) -> Type | None:
    return None if isinstance(value, Known) else value.type


def _logic(tree: ast.expr, scope: Scope, _: Type | None) -> Typed:
    assert isinstance(tree, ast.BoolOp)
    is_and = isinstance(tree.op, ast.And)
    parts: list[Expr] = []
    for part in tree.values:
        test = truth_of(typed(part, scope))
        if isinstance(test, bool):
            if test != is_and:
                return Known(test)
        else:
            parts.append(test)
    if not parts:
        return Known(is_and)
    return parts[0] if len(parts) == 1 else Logic("and" if is_and else "or", tuple(parts))


def _choose(tree: ast.expr, scope: Scope, want: Type | None) -> Typed:
    assert isinstance(tree, ast.IfExp)
    test = truth_of(typed(tree.test, scope))
    if isinstance(test, bool):
        return typed(tree.body if test else tree.orelse, scope, want)
    then, other = typed(tree.body, scope, want), typed(tree.orelse, scope, want)
    if isinstance(then, Known) and isinstance(other, Known) and want is not None:
        return Choose(test, finish(then, want), finish(other, want), want)
    a, b = pair(then, other)
    return Choose(test, a, b, a.type)


def _subscript(tree: ast.expr, scope: Scope, _: Type | None) -> Typed:
    assert isinstance(tree, ast.Subscript)
    name = tree.value.id if isinstance(tree.value, ast.Name) else ""
    if name not in scope.lookups:
        return _folded(tree, scope)
    place = to_type(typed(tree.slice, scope, "i32"), "i32")
    return Lookup(name, place, scope.lookups[name])


def _called(tree: ast.expr, scope: Scope, want: Type | None) -> Typed:
    assert isinstance(tree, ast.Call)
    assert isinstance(tree.func, ast.Name)
    name, arguments = tree.func.id, tree.args
    match name:
        case "index" if len(arguments) == 1:
            return _position(index(text_expr.evaluate(arguments[0], scope.axes)))
        case "offset" if len(arguments) == 1:
            return Offset(_access(arguments[0], scope))
        case "lowest" | "highest" if len(arguments) == 1:
            dtype = scope.reads[_access(arguments[0], scope)]
            return Number(limits(dtype)[name == "highest"], COMPUTE_TYPE[dtype])
        case "saturate" if len(arguments) == 1:
            return _saturated(typed(arguments[0], scope, want), scope.output)
    if name not in text_expr.VALUE_WORDS or _is_size(tree, scope):
        return _folded(tree, scope)
    return call(name, tuple(typed(argument, scope, want) for argument in arguments))


def _is_size(tree: ast.Call, scope: Scope) -> bool:
    """Return whether a size expression says the same at build time."""
    from_sizes = all(name.id in scope.sizes for name in text_expr.names_in(tree))
    return from_sizes and all(name.id in FUNCTIONS for name in text_expr.calls_in(tree))


def _access(tree: ast.expr, scope: Scope) -> str:
    if isinstance(tree, ast.Name) and tree.id in scope.reads:
        return tree.id
    raise ExpressionError("an operand that is there is needed here")


def _saturated(value: Typed, dtype: str) -> Typed:
    if not dtype:
        raise ExpressionError("saturate() is for the value of an output")
    type_ = COMPUTE_TYPE[dtype]
    bounds = limits(dtype)
    if type_ in FLOATS and isinf(bounds[1]):
        return value
    expr = finish(value)
    low, high = (to_type(Known(bound), expr.type) for bound in bounds)
    return Call("saturate", (expr, low, high), expr.type)


_Handler = Callable[[ast.expr, Scope, Type | None], Typed]
_HANDLERS: Mapping[type[ast.expr], _Handler] = {
    ast.BinOp: _binary,
    ast.BoolOp: _logic,
    ast.Call: _called,
    ast.Compare: _compare,
    ast.Constant: _constant,
    ast.IfExp: _choose,
    ast.Name: _name,
    ast.Subscript: _subscript,
    ast.UnaryOp: _unary,
}
