"""The functions of a model whose input comes in rows: `<m>_begin` and `<m>_push`."""

from collections.abc import Sequence
from dataclasses import dataclass

from dlbuild.emit.comments import filled
from dlbuild.emit.ctypes import storage
from dlbuild.ir.tile_plan import Strip
from dlbuild.rulebook.rows import Pointer
from dlbuild.stages.arena import Places
from dlbuild.stages.conditions import condition
from dlbuild.stages.declaration import TABLES, taken_image
from dlbuild.stages.row_calls import row_text
from dlbuild.stages.sources import Context, Sources
from dlbuild.stages.strip_code import Pumped, counters_of

MARGIN = "    "

BEGUN = "begun"
"""The variable that holds the image of weights with which an inference began."""


@dataclass(frozen=True, slots=True)
class Streaming:
    """How the rows of an input come in. elements: of one row; rows: of the whole input."""

    ctype: str
    input: str
    rows: int
    elements: int


def streaming(model: Sources, strips: Sequence[Strip]) -> Streaming | None:
    """Return how the rows come in, None if the input does not come in rows."""
    for strip in strips:
        for ring in strip.rings:
            if ring.tensor == strip.streamed:
                tensor = model.graph.tensor[ring.tensor]
                ctype = storage(tensor.dtype)
                name = model.face.port(ring.tensor).name
                return Streaming(ctype, name, ring.extent, tensor.count // ring.extent)
    return None


def push_declaration(model: Sources, found: Streaming) -> str:
    """Return the prototype of `<m>_push`, without a semicolon."""
    own = [f"const {found.ctype} rows[]", "int32_t n_rows"]
    return filled(f"int {model.face.prefix}_push(", [*_arena(model), *own, *_user(model)], ")")


def begin_declaration(model: Sources) -> str:
    """Return the prototype of `<m>_begin`, without a semicolon."""
    return f"void {model.face.prefix}_begin({', '.join(_arena(model) or ['void'])})"


def _arena(model: Sources) -> list[str]:
    """Return the parameter of an arena that is the caller's."""
    is_callers = model.options.arena == "caller"
    return [f"{model.face.prefix}_arena_t *arena"] if is_callers else []


def _user(model: Sources) -> list[str]:
    """Return the parameter that the hook is handed."""
    return ["void *user"] if model.options.hook else []


def _tables(model: Sources, rest: Sequence[str]) -> list[str]:
    """Return the parameter of an image of weights, if the steps behind the strip read it."""
    is_read = any(f"{TABLES}->" in line for line in rest)
    return [f"const {model.face.prefix}_image_t *{TABLES}"] if is_read else []


def _begun(model: Sources) -> list[str]:
    """Return the line that keeps the image which an inference begins with."""
    is_image = model.options.weights == "image"
    return [f"{MARGIN}{BEGUN} = {model.face.prefix}_tables;"] if is_image else []


def entries(  # noqa: PLR0913, PLR0917 - all that the functions are made of
    model: Sources,
    strip: Strip,
    pumped: Pumped,
    places: Places,
    rest: Sequence[str],
    number: int,
) -> list[Context]:
    """Return the two functions.

    Args:
        model: the model.
        strip: the one that reads the input.
        pumped: its C.
        places: where its tensors lie.
        rest: the lines of the steps behind the strip.
        number: of the strip's last step, for the hook.
    """
    found = streaming(model, (strip,))
    assert found is not None, "the strip reads the streamed input"
    (ring,) = (ring for ring in strip.rings if ring.tensor == strip.streamed)
    struct = counters_of(model, strip)
    counter = f"{struct}.{found.input}"
    place = places.row(
        strip.streamed, row_text(Pointer(found.input, 1, 0), counter, ring), found.elements
    )
    lines = [
        *taken_image(model, BEGUN),
        f"{MARGIN}for (int32_t row = 0; row < n_rows; ++row) {{",
        f"{MARGIN * 2}if ({counter} == {found.rows}) {{",
        f"{MARGIN * 3}return {model.face.macro}_OVERFLOW;",
        f"{MARGIN * 2}}}",
        f"{MARGIN * 2}if ({_finished(model, strip, struct)}) {{",
        f"{MARGIN * 3}/* The outputs are there: no row is needed any more. */",
        f"{MARGIN * 3}++{counter};",
        f"{MARGIN * 3}continue;",
        f"{MARGIN * 2}}}",
        *_kept_row(found, place),
        f"{MARGIN * 2}++{counter};",
        *_run(model, pumped, rest, number),
        f"{MARGIN}}}",
        f"{MARGIN}return {model.face.macro}_OK;",
    ]
    return [
        *_rest(model, rest),
        {"declaration": begin_declaration(model), "lines": [*_begun(model), *pumped.begin]},
        {"declaration": push_declaration(model, found), "lines": lines},
    ]


def _kept_row(found: Streaming, place: str) -> list[str]:
    """Return the lines that copy a row to its place."""
    return [
        f"{MARGIN * 2}{found.ctype} *place = {place};",
        f"{MARGIN * 2}for (int32_t i = 0; i < {found.elements}; ++i) {{",
        f"{MARGIN * 3}place[i] = rows[(row * {found.elements}) + i];",
        f"{MARGIN * 2}}}",
    ]


def _finished(model: Sources, strip: Strip, struct: str) -> str:
    """Return the condition that the strip's last layer has computed all of its rows."""
    whole = {r.tensor for r in strip.rings}
    (last, *_) = [layer for layer in strip.layers if layer.writes not in whole][-1:]
    return f"{struct}.{model.face.kernels[last.kernel]} == {last.rows}"


def _run(model: Sources, pumped: Pumped, rest: Sequence[str], number: int) -> list[str]:
    """Return the lines that go on as far as the rows allow, and behind the last to the end."""
    call = f"{pumped.name}({', '.join(pumped.arguments)})"
    parts = [*_arena(model), *_tables(model, rest), *_user(model)]
    given = ", ".join(part.rpartition(" ")[2].lstrip("*") for part in parts)
    follow = f"{model.face.prefix}_rest({given})"
    aborted = f"return {model.face.macro}_ABORTED;"
    if not model.options.hook:
        if not rest:
            return [f"{MARGIN * 2}(void){call};"]
        inside = [f"{MARGIN * 3}{follow};"]
    else:
        hook = f"{model.face.prefix}_hook({number}U, user) != 0"
        tests = [hook, f"{follow} != {model.face.macro}_OK"] if rest else [hook]
        inside = [
            condition(f"{MARGIN * 3}if (", tests, " || "),
            f"{MARGIN * 4}{aborted}",
            f"{MARGIN * 3}}}",
        ]
    return [f"{MARGIN * 2}if ({call} != 0) {{", *inside, f"{MARGIN * 2}}}"]


def _rest(model: Sources, rest: Sequence[str]) -> list[Context]:
    """Return the function of the steps behind the strip, if there are any."""
    if not rest:
        return []
    kind = "int" if model.options.hook else "void"
    given = ", ".join([*_arena(model), *_tables(model, rest), *_user(model)] or ["void"])
    unused = model.options.hook and not any("user" in line for line in rest)
    head = [f"{MARGIN}(void)user;"] if unused else []
    end = [f"{MARGIN}return {model.face.macro}_OK;"] if model.options.hook else []
    declared = f"static {kind} {model.face.prefix}_rest({given})"
    return [{"declaration": declared, "lines": [*head, *rest, *end]}]
