"""The expressions of rules: a whitelisted subset of Python, evaluated at build time."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache

from dlbuild.rulebook.index import Index
from dlbuild.rulebook.instance import Condition
from dlbuild.rulebook.pack import (
    FUNCTIONS,
    ExpressionError,
    TensorName,
    Term,
    describe,
    flat,
    index,
    integer,
    load,
    spread,
    truth,
)
from dlbuild.rulebook.value import FUNCTIONS as VALUE_FUNCTIONS
from dlbuild.rulebook.value import RANK

Scope = Mapping[str, Term]

VALUE_WORDS = frozenset(
    (*VALUE_FUNCTIONS, *RANK, "index", "offset", "lowest", "highest", "saturate")
)
"""The functions of value expressions."""

_ARITHMETIC: dict[type[ast.operator], Callable[[Term, Term], Term]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
COMPARISONS: dict[type[ast.cmpop], tuple[str, Callable[..., bool]]] = {
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
}
_ALLOWED = (
    *(ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Call, ast.Subscript),
    *(ast.Slice, ast.Name, ast.Constant, ast.Tuple, ast.List, ast.Load, ast.boolop),
    *(ast.USub, ast.Not, ast.Invert, ast.In, ast.NotIn),
    *_ARITHMETIC,
    *COMPARISONS,
)
_LARGEST_POWER = 64


@lru_cache(maxsize=4096)
def parse(text: str) -> ast.expr:
    """Return the syntax tree of one expression, or say where it is wrong."""
    return _checked(text, "")


@lru_cache(maxsize=4096)
def parse_map(text: str) -> ast.expr:
    """Return the syntax tree of a comma-separated list, which may be empty; always a tuple."""
    return _checked(f"({text.strip()},)" if text.strip() else "()", text)


def _checked(text: str, listed: str) -> ast.expr:
    shift = 1 if listed else 0
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise ExpressionError(
            f"this is not an expression: {error.msg}", max(0, (error.offset or 1) - 1 - shift)
        ) from None
    for node in ast.walk(tree):
        if not isinstance(node, _ALLOWED) or not _is_plain(node):
            offset = max(0, getattr(node, "col_offset", shift) - shift)
            raise ExpressionError(f"{_label(node)} is not part of the rule language", offset)
    return tree


def _is_plain(node: ast.AST) -> bool:
    match node:
        case ast.Constant():
            return isinstance(node.value, int | float | str)
        case ast.Compare():
            return len(node.ops) == 1
        case ast.Call():
            return isinstance(node.func, ast.Name) and not node.keywords
        case _:
            return True


def _label(node: ast.AST) -> str:
    match node:
        case ast.Compare():
            return "a chain of comparisons"
        case ast.Constant():
            return f"the constant {node.value!r}"
        case ast.Call():
            return "a call of this form"
        case _:
            return f"'{type(node).__name__}'"


@lru_cache(maxsize=8192)
def names_in(tree: ast.expr) -> tuple[ast.Name, ...]:
    """Return the names that a tree reads, functions left out."""
    functions = {id(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}
    return tuple(n for n in ast.walk(tree) if isinstance(n, ast.Name) and id(n) not in functions)


@lru_cache(maxsize=8192)
def calls_in(tree: ast.expr) -> tuple[ast.Name, ...]:
    """Return the functions that a tree calls."""
    return tuple(
        n.func for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
    )


def evaluate(tree: ast.expr, scope: Scope) -> Term:
    """Return the value of an expression, its names taken from `scope`.

    Raises:
        ExpressionError: an unknown name, packs of unequal length, or a wrong kind of value.
    """
    try:
        return _EVALUATE[type(tree)](tree, scope)
    except (ArithmeticError, TypeError, ValueError, IndexError) as error:
        raise ExpressionError(_plain(error), getattr(tree, "col_offset", 0)) from None


def _plain(error: Exception) -> str:
    match error:
        case ZeroDivisionError():
            return "a division by zero"
        case IndexError():
            return "there is no such axis"
        case TypeError():
            return "these values do not go together"
        case _:
            return str(error)


def _name(tree: ast.expr, scope: Scope) -> Term:
    assert isinstance(tree, ast.Name)
    try:
        return scope[tree.id]
    except KeyError:
        raise ExpressionError(f"'{tree.id}' is not known here", tree.col_offset) from None


def _constant(tree: ast.expr, _: Scope) -> Term:
    assert isinstance(tree, ast.Constant)
    assert isinstance(tree.value, int | float | str)
    return tree.value


def _unary(tree: ast.expr, scope: Scope) -> Term:
    assert isinstance(tree, ast.UnaryOp)
    value = evaluate(tree.operand, scope)
    match tree.op:
        case ast.USub():
            return spread(operator.neg, value)
        case ast.Invert():
            return spread(operator.invert, value)
        case _:
            return not truth(value)


def _binary(tree: ast.expr, scope: Scope) -> Term:
    assert isinstance(tree, ast.BinOp)
    left, right = evaluate(tree.left, scope), evaluate(tree.right, scope)
    if isinstance(tree.op, ast.Pow | ast.LShift) and any(
        isinstance(part, int) and part > _LARGEST_POWER for part in flat(right)
    ):
        raise ExpressionError(f"an exponent above {_LARGEST_POWER}", tree.right.col_offset)
    return spread(_ARITHMETIC[type(tree.op)], left, right)


def _compare(tree: ast.expr, scope: Scope) -> Term:
    assert isinstance(tree, ast.Compare)
    left, right = evaluate(tree.left, scope), evaluate(tree.comparators[0], scope)
    match tree.ops[0]:
        case ast.In():
            return _contains(right, left)
        case ast.NotIn():
            return not _contains(right, left)
        case comparison:
            sign, function = COMPARISONS[type(comparison)]
    return spread(lambda a, b: _compared(sign, function, a, b), left, right)


def _compared(sign: str, function: Callable[..., bool], left: Term, right: Term) -> Term:
    if isinstance(left, Index) or isinstance(right, Index):
        a, b = index(left), index(right)
        if a.terms or b.terms:
            return Condition(sign, a, b)  # type: ignore[arg-type] # the six signs of COMPARISONS
        return function(a.constant, b.constant)
    return function(left, right)


def _contains(whole: Term, part: Term) -> bool:
    if isinstance(whole, str) and isinstance(part, str):
        return part in whole
    if isinstance(whole, tuple):
        return part in whole
    raise ExpressionError(f"'in' needs a text or a pack, not {describe(whole)}")


def _bool(tree: ast.expr, scope: Scope) -> Term:
    assert isinstance(tree, ast.BoolOp)
    is_and = isinstance(tree.op, ast.And)
    conditions: list[Term] = []
    value: Term = is_and
    for part in tree.values:
        value = evaluate(part, scope)
        if is_and and any(isinstance(c, Condition) for c in flat(value)):
            conditions.extend(flat(value))
        elif truth(value) != is_and:
            return value
    return tuple(conditions) if conditions else value


def _if(tree: ast.expr, scope: Scope) -> Term:
    assert isinstance(tree, ast.IfExp)
    return evaluate(tree.body if truth(evaluate(tree.test, scope)) else tree.orelse, scope)


def _call(tree: ast.expr, scope: Scope) -> Term:
    assert isinstance(tree, ast.Call)
    assert isinstance(tree.func, ast.Name)
    name = tree.func.id
    function = FUNCTIONS.get(name)
    if function is None:
        raise ExpressionError(f"there is no function '{name}'", tree.col_offset)
    arguments = [evaluate(argument, scope) for argument in tree.args]
    try:
        return function(*arguments)
    except TypeError:
        raise ExpressionError(f"{name}() does not take these values", tree.col_offset) from None
    except ExpressionError as error:
        raise ExpressionError(error.what, error.offset or tree.col_offset) from None


def _subscript(tree: ast.expr, scope: Scope) -> Term:
    assert isinstance(tree, ast.Subscript)
    value = evaluate(tree.value, scope)
    if isinstance(tree.slice, ast.Slice):
        if not isinstance(value, tuple | str):
            raise ExpressionError(f"a part of {describe(value)}", tree.col_offset)
        bounds = (tree.slice.lower, tree.slice.upper, tree.slice.step)
        first, last, step = (
            None if bound is None else integer(evaluate(bound, scope)) for bound in bounds
        )
        return value[first:last:step]
    place = evaluate(tree.slice, scope)
    if isinstance(value, TensorName):
        return load(value, place)
    if isinstance(value, str):
        return value[integer(place)]
    if not isinstance(value, tuple):
        raise ExpressionError(f"a part of {describe(value)}", tree.col_offset)
    members = value
    return spread(lambda j: members[integer(j)], place)


def _tuple(tree: ast.expr, scope: Scope) -> Term:
    assert isinstance(tree, ast.Tuple | ast.List)
    return tuple(flat(tuple(evaluate(part, scope) for part in tree.elts)))


_EVALUATE: dict[type[ast.expr], Callable[[ast.expr, Scope], Term]] = {
    ast.BinOp: _binary,
    ast.BoolOp: _bool,
    ast.Call: _call,
    ast.Compare: _compare,
    ast.Constant: _constant,
    ast.IfExp: _if,
    ast.List: _tuple,
    ast.Name: _name,
    ast.Subscript: _subscript,
    ast.Tuple: _tuple,
    ast.UnaryOp: _unary,
}
