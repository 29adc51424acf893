"""The functions that users call: `<m>_run` and the accessors of interface tensors in the arena."""

from collections.abc import Sequence
from dataclasses import dataclass

from dlbuild.emit.comments import block, filled, wrapped
from dlbuild.emit.ctypes import storage
from dlbuild.emit.literals import COLUMNS
from dlbuild.ir.schedule import Schedule
from dlbuild.ir.tile_plan import Strip
from dlbuild.stages.arena import CALLER, Places
from dlbuild.stages.interface import Port
from dlbuild.stages.lives import names_of_fetched
from dlbuild.stages.sources import Sources, axes_note, element_type


@dataclass(frozen=True, slots=True)
class Accessor:
    """A function that returns where an interface tensor in the arena lies.

    about: its comment. value: the pointer that it returns.
    """

    about: str
    declaration: str
    value: str


@dataclass(frozen=True, slots=True)
class Argument:
    """One parameter of `<m>_run`: its C declaration, name, direction and meaning."""

    text: str
    name: str
    direction: str
    about: str


TABLES = "tables"
"""The name under which functions know the image of weights that a run uses."""


def handed(model: Sources, schedule: Schedule) -> tuple[Argument, ...]:
    """Return what a run may hand to its inner functions: its parameters, its image of weights."""
    own = parameters(model, schedule)
    if model.options.weights != "image":
        return own
    text = f"const {model.face.prefix}_image_t *{TABLES}"
    return (*own, Argument(text, TABLES, "[in]", "weights of this run"))


def taken_image(model: Sources, source: str = "") -> list[str]:
    """Return the lines that begin a run with the image in use, or end it if there is none.

    source: where it is known; absent = what `<m>_use` was given last.
    """
    if model.options.weights != "image":
        return []
    prefix = model.face.prefix
    return [
        f"    const {prefix}_image_t *const {TABLES} = {source or f'{prefix}_tables'};",
        "",
        f"    if ({TABLES} == NULL) {{",
        f"        return {model.face.macro}_NO_IMAGE;",
        "    }",
    ]


def parameters(model: Sources, schedule: Schedule) -> tuple[Argument, ...]:
    """Return the parameters of `<m>_run`: the arena, inputs, outputs, the hook's pointer."""
    face, options = model.face, model.options
    found = []
    if options.arena == "caller":
        text = f"{face.prefix}_arena_t *arena"
        found.append(Argument(text, "arena", "[in,out]", "working memory of this instance"))
    is_fetched = options.input == "external"
    users = [f"{face.prefix}_hook"] if options.hook else []
    if is_fetched:
        (port,) = (port for port in face.ports if port.is_input)
        found.append(
            Argument(f"{face.prefix}_fetch_t fetch", "fetch", "[in]", f"brings rows of {port.name}")
        )
        users.insert(0, "fetch")
    user = Argument("void *user", "user", "[in]", f"handed to {' and '.join(users)}")
    found += [user] if is_fetched else []
    found += [
        _port_argument(model, port)
        for port in face.ports
        if schedule.buffer[port.tensor.name].memory == CALLER and not (port.is_input and is_fetched)
    ]
    found += [user] if options.hook and not is_fetched else []
    return tuple(found)


def declaration(model: Sources, schedule: Schedule) -> str:
    """Return the prototype of `<m>_run`, without a semicolon.

    An array whose length has too long a name for a line is declared as a pointer.
    """
    start = f"int {model.face.prefix}_run("
    found = parameters(model, schedule)
    texts = [a.text for a in found] or ["void"]
    if len(start) + max(map(len, texts)) >= COLUMNS:
        texts = [_as_pointer(a) for a in found]
    return filled(start, texts, ")")


def _as_pointer(argument: Argument) -> str:
    """Return a parameter, an array without its length."""
    head, is_array, _ = argument.text.partition("[")
    return head.replace(f" {argument.name}", f" *{argument.name}") if is_array else head


def assertion(name: str, condition: str) -> str:
    """Return a declaration that does not compile unless the condition holds, in C99."""
    bound = f"[({condition}) ? 1 : -1];"
    line = f"typedef char {name}{bound}"
    if len(line) <= COLUMNS:
        return line
    rest = f"    {name}{bound}"
    fits = len(rest) <= COLUMNS
    return f"typedef char\n{rest}" if fits else f"typedef char {name}\n    {bound}"


def parameter_docs(model: Sources, schedule: Schedule) -> list[str]:
    """Return the doxygen lines of the parameters, in columns."""
    found = parameters(model, schedule)
    width = max((len(a.direction) for a in found), default=0)
    name_width = max((len(a.name) for a in found), default=0)
    lines: list[str] = []
    for a in found:
        head = f"@param{a.direction.ljust(width)} {a.name.ljust(name_width)}  "
        first, *rest = wrapped(a.about, COLUMNS - len(" * ") - len(head))
        lines += [f"{head}{first}", *(" " * len(head) + line for line in rest)]
    return lines


def accessors(model: Sources, schedule: Schedule) -> list[Accessor]:
    """Return the functions for interface tensors that lie in the arena."""
    places = Places(model.graph, schedule, model.face, model.options)
    return [
        _accessor(model, port, places)
        for port in model.face.ports
        if schedule.buffer[port.tensor.name].memory != CALLER
        and port.tensor.name not in model.graph.carried
        and not (port.is_input and model.options.input == "streamed")
    ]


@dataclass(frozen=True, slots=True)
class Fetching:
    """How rows of an input are brought. rows: of it; elements: of one row; most: at a time."""

    ctype: str
    input: str
    rows: int
    elements: int
    most: int


def fetching(model: Sources, strips: Sequence[Strip]) -> Fetching | None:
    """Return how rows of the input are brought, None if it lies in memory."""
    if model.options.input != "external":
        return None
    names = fetched_names(model)
    reads = [
        (r, layer) for s in strips for layer in s.layers for r in layer.reads if r.tensor in names
    ]
    (name,) = model.graph.inputs
    tensor = model.graph.tensor[name]
    rows = reads[0][0].extent if reads else 1
    most = max(
        (r.end(row) - r.first(row) for r, layer in reads for row in range(layer.rows)), default=1
    )
    port = model.face.port(name)
    return Fetching(storage(tensor.dtype), port.name, rows, tensor.count // rows, most)


def fetched_names(model: Sources) -> frozenset[str]:
    """Return the input whose rows are brought when they are needed, under all its names."""
    return names_of_fetched(model.graph, model.profile, model.options)


def _port_argument(model: Sources, port: Port) -> Argument:
    ctype = storage(port.tensor.dtype)
    length = f"{model.face.macro}_{port.name.upper()}_LEN"
    shown = element_type(port.tensor.dtype, port.memory_shape)
    shown += axes_note(port.order)
    if port.is_input:
        text = f"const {ctype} {port.name}[{length}]"
        return Argument(text, port.name, "[in]", f"{shown}, not modified")
    shown += _count_note(model, port)
    return Argument(f"{ctype} {port.name}[{length}]", port.name, "[out]", shown)


def _count_note(model: Sources, port: Port) -> str:
    """Say which slices of an output are there, if only the run knows it; or of what it is that."""
    names = {p.tensor.name: p.name for p in model.face.ports if not p.is_input}
    known = model.graph.count.get(port.tensor.name)
    if known is not None:
        return f"; {names[known.count]} says how many there are on axis {known.axis}"
    counted = [
        names[c.tensor]
        for c in model.graph.counts
        if c.count == port.tensor.name and c.tensor in names
    ]
    return f"; how many there are of {', '.join(counted)}" if counted else ""


def _accessor(model: Sources, port: Port, places: Places) -> Accessor:
    prefix = model.face.prefix
    ctype = storage(port.tensor.dtype)
    shown = element_type(port.tensor.dtype, port.memory_shape)
    shown += axes_note(port.order)
    parameter = f"{prefix}_arena_t *arena" if model.options.arena == "caller" else "void"
    if port.is_input:
        about = f"Where to write {port.name}, {shown}, before each run, which destroys it."
        text = f"{ctype} *{prefix}_{port.name}({parameter})"
    else:
        shown += _count_note(model, port)
        about = f"Where {port.name} is, {shown}, valid until the next run."
        text = f"const {ctype} *{prefix}_{port.name}({parameter})"
    return Accessor(block(about, opener="/**"), text, places.pointer(port.tensor.name))
