"""One C function for a matched operator."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import jinja2

from dlbuild.emit.about import kernel_comment
from dlbuild.emit.blocked import LANE, blocked_lines, from_starts
from dlbuild.emit.comments import filled
from dlbuild.emit.ctext import ValueText
from dlbuild.emit.ctypes import COMPUTE, number, storage
from dlbuild.emit.environment import rendered
from dlbuild.emit.fit import Fitter, Line
from dlbuild.emit.helpers import helper_text, helpers_of, includes_of
from dlbuild.emit.itext import IndexText, Place
from dlbuild.emit.literals import COLUMNS
from dlbuild.emit.liveness import variables_of
from dlbuild.emit.lower import Lowered, lower
from dlbuild.emit.nest import Printer
from dlbuild.emit.opaque import Elements
from dlbuild.emit.parameter import Parameter
from dlbuild.emit.ranges import Ranges
from dlbuild.emit.regions import regions
from dlbuild.emit.rings import Rows, rows_of
from dlbuild.emit.wrap import wrapped
from dlbuild.ir.target import Registers
from dlbuild.rulebook.address import strides
from dlbuild.rulebook.derive import Orders, step_values
from dlbuild.rulebook.index import Folded, Index, Loaded, Quotient, Remainder, Tabled
from dlbuild.rulebook.instance import Instance, Operand
from dlbuild.rulebook.value import Lookup, Position, walk

DEFAULT_TEMPLATE = "kernels/nest.c.j2"

__all__ = ["KernelText", "Parameter", "kernel_comment", "render_kernel"]

KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        "auto break case char const continue default do double else enum extern float for goto if "
        "inline int long register restrict return short signed sizeof static struct switch typedef "
        "union unsigned void volatile while bool true false exp log sqrt sin cos tan floor ceil "
        "trunc erf pow fmod rint",
    )
)
"""Names of rules that C needs for itself; printed with an underscore behind."""


@dataclass(frozen=True, slots=True)
class KernelText:
    """A kernel as C. `text` depends on sizes, types and layouts alone, `comment` on names too.

    helpers: in the order in which they must stand before it. includes: standard headers.
    given: the numbers that follow the parameters, int32_t each. sizes: what it declares before
    all of that, for calls that differ in numbers.
    """

    text: str
    comment: str
    parameters: tuple[Parameter, ...]
    helpers: tuple[str, ...]
    includes: tuple[str, ...]
    given: tuple[str, ...] = ()
    sizes: str = ""


def render_kernel(  # noqa: PLR0913 - keywords; each is a decision of another stage
    instance: Instance,
    name: str,
    orders: Orders,
    *,
    restrict: frozenset[str],
    constants: frozenset[str],
    environment: jinja2.Environment,
    registers: Registers | None = None,
) -> KernelText:
    """Print the function that computes an instance.

    Args:
        instance: a rule bound to an operator.
        name: the C name of the function.
        orders: axis order in memory of each operand (by its name) not in the model's own.
        restrict: operands that provably overlap with no other.
        constants: operands in the weight table; of one number they are passed by value.
        environment: where templates are.
        registers: what blocks of outputs may use; None = no blocks, the least code.
    """
    operands = {o.name: o for o in instance.operands}
    in_table = constants | {o.name for o in instance.operands if o.role == "constant"}
    by_value = frozenset(n for n in in_table if _is_number(instance, operands[n]))
    nests = _regions(_nests(instance, operands, orders, in_table), by_value, registers)
    names = c_names(operands, nests)
    bodies = [_body(n, operands, orders, by_value, names, len(nests)) for n in nests]
    words = set(re.findall(r"\w+", "\n".join(line.text for b in bodies for line in b)))
    is_used = {o: names[o] in words or not instance.nests for o in operands}
    parameters = _parameters(instance, nests, by_value, is_used)
    given = tuple(g for g in dict.fromkeys(g for n in nests for g in n.given) if g in words)
    context = {
        "signature": signature_of(name, parameters, given, names, restrict),
        "nests": [[str(line) for line in body] for body in bodies],
        "sizes": instance.sizes,
        "of": Elements(operands, names, by_value),
        "shape": {o.name: o.shape for o in instance.operands},
        "pitch": {o.name: strides(o.shape, orders.get(o.name, ())) for o in instance.operands},
    }
    text = rendered(environment, instance.template or DEFAULT_TEMPLATE, context)
    text = wrapped(text)
    helpers = helpers_of(environment, [text])
    return KernelText(
        text=text,
        comment=kernel_comment(instance, orders, parameters, instance.ops),
        parameters=parameters,
        helpers=helpers,
        includes=includes_of([text, *(helper_text(environment, h) for h in helpers)]),
        given=given,
    )


def _is_number(instance: Instance, operand: Operand) -> bool:
    """Say whether an operand in the weight table is one number.

    A template of its own computes addresses in whatever has axes, of one element too.
    """
    return prod(operand.shape) == 1 if instance.nests else not operand.shape


def _parameters(
    instance: Instance,
    nests: Sequence[Lowered],
    by_value: Collection[str],
    is_used: Mapping[str, bool],
) -> tuple[Parameter, ...]:
    """Return the parameters of the operands that the code mentions."""
    written = _written(instance, nests)
    return tuple(
        Parameter(o.name, storage(o.dtype), o.name in by_value, o.name not in written)
        for o in instance.operands
        if is_used[o.name]
    )


def _nests(
    instance: Instance, operands: Mapping[str, Operand], orders: Orders, in_table: frozenset[str]
) -> list[Lowered]:
    """Return the nests that do something, lowered."""
    nests = [lower(nest, operands, orders, in_table) for nest in instance.nests]
    return [n for n in nests if n.steps and all(n.extent[a] for a in n.domain)]


def _regions(
    nests: Sequence[Lowered], by_value: Collection[str], registers: Registers | None
) -> list[Lowered]:
    """Return the nests in blocks, if registers for these are given."""
    if registers is None:
        return list(nests)
    found: list[Lowered] = []
    for nest in nests:
        held = frozenset(name for name, a in nest.access.items() if a.operand in by_value)
        found += regions(nest, held, registers)
    return found


def _written(instance: Instance, nests: Sequence[Lowered]) -> frozenset[str]:
    stored = {n.access[s.access].operand for n in nests for step in n.steps for s in step.stores}
    return frozenset(stored | {o.name for o in instance.operands if o.role == "output"})


def c_names(operands: Iterable[str], nests: Sequence[Lowered]) -> dict[str, str]:
    """Return the C names of operands: no keyword, no axis, no given number."""
    taken = {name for nest in nests for name in (*nest.extent, *nest.given)}
    return {name: f"{name}_" if name in taken else _c_name(name) for name in operands}


def _c_name(name: str) -> str:
    return f"{name}_" if name in KEYWORDS else name


def _indices(nest: Lowered) -> list[Index]:
    found = [index for place in nest.place.values() for index, _ in place.parts]
    for access in nest.access.values():
        found += [guard.index for guard in access.guards]
    for step in nest.steps:
        for condition in step.when:
            found += [condition.left, condition.right]
        for value in step_values(step):
            found += [p.index for p in walk(value) if isinstance(p, Position)]
    return found


def _atoms(nest: Lowered) -> list[Quotient | Remainder | Folded | Tabled | Loaded]:
    """Return every non-affine atom of a nest, inner ones too."""
    found: list[Quotient | Remainder | Folded | Tabled | Loaded] = []
    open_ = _indices(nest)
    while open_:
        for atom, _ in open_.pop().terms:
            if isinstance(atom, Loaded):
                open_ += atom.at
            elif not isinstance(atom, str):
                open_.append(atom.of)
            if not isinstance(atom, str):
                found.append(atom)
    return found


def _body(  # noqa: PLR0913, PLR0917 - what a nest is printed with
    nest: Lowered,
    operands: Mapping[str, Operand],
    orders: Orders,
    by_value: frozenset[str],
    names: Mapping[str, str],
    count: int,
) -> list[Line]:
    """Return the lines of one nest, in a block of its own if there are several."""
    depth = 1 if count == 1 else 2
    nest, rows = rows_of(nest)
    printer = printer_of(nest, operands, orders, by_value, names, rows)
    heads = [line for found in rows for line in found.lines(printer.indices, depth)]
    if nest.blocks:
        folding = printer_of(from_starts(nest), operands, orders, by_value, names, rows)
        ending = replace(printer, fitter=folding.fitter.beside(printer.values))
        loops = [*heads, *blocked_lines(folding, ending, depth)]
    else:
        loops = [*heads, *printer.lines(depth)]
    lines = [*_sizes(nest, loops, depth), *tables_of(nest, {found.name for found in rows}, depth)]
    if lines:
        lines.append(Line(0, ""))
    lines += loops
    return lines if count == 1 else [Line(1, "{"), *lines, Line(1, "}")]


def printer_of(  # noqa: PLR0913, PLR0917 - what a nest is printed with
    nest: Lowered,
    operands: Mapping[str, Operand],
    orders: Orders,
    by_value: frozenset[str],
    names: Mapping[str, str],
    rows: Sequence[Rows],
) -> Printer:
    """Return what prints a nest."""
    access_dtype = {n: operands[a.operand].dtype for n, a in nest.access.items()}
    ranges = Ranges(nest.extent, access_dtype, nest.given, nest.span)

    def loaded_place(atom: Loaded) -> Place:
        pitch = strides(operands[atom.operand].shape, orders.get(atom.operand, ()))
        return Place(tuple(zip(atom.at, pitch, strict=True)))

    indices = IndexText(
        ranges=ranges,
        dtype={n: o.dtype for n, o in operands.items()},
        place=loaded_place,
        names=names,
        by_value=frozenset(names[n] for n in by_value),
    )
    locals_ = variables_of(nest.steps)
    values = ValueText(
        index=indices,
        ranges=ranges,
        operand={n: names[a.operand] for n, a in nest.access.items()}
        | {n: c for n, c in names.items() if n not in nest.access},
        dtype=access_dtype,
        place=nest.place.__getitem__,
        model_place=nest.model_place.__getitem__,
        by_value=frozenset(names[n] for n in by_value),
        names={name: _c_name(name) for name in locals_},
    )
    taken = [
        *names.values(),
        *nest.extent,
        LANE,
        *(block.axis for block in nest.blocks),
        *nest.given,
        *map(_c_name, locals_),
        *nest.tables,
    ]
    taken += [found.name for found in rows]
    fitter = Fitter(values, taken)
    return Printer(nest, operands, ranges, indices, values, fitter)


def _sizes(nest: Lowered, loops: Sequence[Line], depth: int) -> list[Line]:
    """Return the loop extents that the code names, as enumeration constants."""
    text = "\n".join(line.text for line in loops)
    axes = [*nest.domain, *dict.fromkeys(a for step in nest.steps for a in step.over)]
    words = set(re.findall(r"\w+", text))
    items = [f"{a.upper()} = {nest.extent[a]}" for a in axes if a.upper() in words]
    lines: list[Line] = []
    while items:
        taken = 1
        while taken < len(items) and len(str(_enum(items[: taken + 1], depth))) <= COLUMNS:
            taken += 1
        lines.append(_enum(items[:taken], depth))
        items = items[taken:]
    return lines


def _enum(items: Sequence[str], depth: int) -> Line:
    return Line(depth, f"enum {{ {', '.join(items)} }};")


def tables_of(nest: Lowered, computed: Collection[str], depth: int) -> list[Line]:
    """Return the tables of numbers that indices and values look up, but not those `computed`."""
    lines: list[Line] = []
    atoms = [a for a in _atoms(nest) if isinstance(a, Tabled)]
    tabled = {a.table: a.numbers for a in atoms if a.table not in computed}
    for name, numbers in tabled.items():
        words = [number(n, "i32") for n in numbers]
        lines += _table(f"static const int32_t {name}[{len(words)}]", words, depth)
    looked_up = {
        part.access: part.type
        for step in nest.steps
        for value in step_values(step)
        for part in walk(value)
        if isinstance(part, Lookup) and part.access in nest.tables
    }
    for name, kind in looked_up.items():
        words = [number(n, kind) for n in nest.tables[name]]
        lines += _table(f"static const {COMPUTE[kind]} {name}[{len(words)}]", words, depth)
    return lines


def _table(head: str, words: Sequence[str], depth: int) -> list[Line]:
    line = Line(depth, f"{head} = {{{', '.join(words)}}};")
    if len(str(line)) <= COLUMNS:
        return [line]
    # clang-format would set such a list in columns of its own choice.
    rows: list[Line] = []
    row = ""
    for word in words:
        if row and len(str(Line(depth + 1, f"{row} {word},"))) > COLUMNS:
            rows.append(Line(depth + 1, row))
            row = ""
        row = f"{row} {word}," if row else f"{word},"
    return [
        Line(depth, "/* clang-format off */"),
        Line(depth, f"{head} = {{"),
        *rows,
        Line(depth + 1, row),
        Line(depth, "};"),
        Line(depth, "/* clang-format on */"),
    ]


def signature_of(
    name: str,
    parameters: Sequence[Parameter],
    given: Sequence[str],
    names: Mapping[str, str],
    restrict: frozenset[str],
) -> str:
    """Return the head of the function, broken as clang-format breaks it."""
    return filled(f"static void {name}(", declarations(parameters, given, names, restrict), ")")


def declarations(
    parameters: Sequence[Parameter],
    given: Sequence[str],
    names: Mapping[str, str],
    restrict: frozenset[str],
) -> list[str]:
    """Return the declarations of what a function is given."""
    items = [declared(p, names[p.operand], p.operand in restrict) for p in parameters]
    return [*items, *(f"int32_t {name}" for name in given)] or ["void"]


def declared(parameter: Parameter, name: str, is_restrict: bool) -> str:  # noqa: FBT001 - reads well
    """Return the declaration of a parameter."""
    if parameter.by_value:
        return f"{parameter.ctype} {name}"
    const = "const " if parameter.is_const else ""
    return f"{const}{parameter.ctype} *{'restrict ' if is_restrict else ''}{name}"
