"""The functions of a model whose input comes in rows: `<m>_begin` and `<m>_push`."""

from collections.abc import Sequence
from dataclasses import dataclass

from dlbuild.emit.ctypes import storage
from dlbuild.ir.plans import Strip
from dlbuild.rulebook.rows import Pointer
from dlbuild.stages.arena import Places
from dlbuild.stages.sources import Context, Sources
from dlbuild.stages.strip_code import Pumped, counters_of, row_text

MARGIN = "    "


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
    return f"int {model.face.prefix}_push(const {found.ctype} rows[], int32_t n_rows)"


def entries(
    model: Sources, strip: Strip, pumped: Pumped, places: Places, rest: Sequence[str]
) -> list[Context]:
    """Return the two functions.

    Args:
        model: the model.
        strip: the one that reads the input.
        pumped: its C.
        places: where its tensors lie.
        rest: the lines of the steps behind the strip.
    """
    found = streaming(model, (strip,))
    assert found is not None, "the strip reads the streamed input"
    (ring,) = (ring for ring in strip.rings if ring.tensor == strip.streamed)
    counter = f"{counters_of(strip)}.{found.input}"
    place = places.row(
        strip.streamed, row_text(Pointer(found.input, 1, 0), counter, ring), found.elements
    )
    whole = {r.tensor for r in strip.rings}
    (last, *_) = [layer for layer in strip.layers if layer.writes not in whole][-1:]
    finished = f"{counters_of(strip)}.{model.face.kernels[last.kernel]} == {last.rows}"
    macro = model.face.macro
    lines = [
        f"{MARGIN}for (int32_t row = 0; row < n_rows; ++row) {{",
        f"{MARGIN * 2}if ({counter} == {found.rows}) {{",
        f"{MARGIN * 3}return {macro}_OVERFLOW;",
        f"{MARGIN * 2}}}",
        f"{MARGIN * 2}if ({finished}) {{",
        f"{MARGIN * 3}/* The outputs are there: no row is needed any more. */",
        f"{MARGIN * 3}++{counter};",
        f"{MARGIN * 3}continue;",
        f"{MARGIN * 2}}}",
        f"{MARGIN * 2}{found.ctype} *place = {place};",
        f"{MARGIN * 2}for (int32_t i = 0; i < {found.elements}; ++i) {{",
        f"{MARGIN * 3}place[i] = rows[(row * {found.elements}) + i];",
        f"{MARGIN * 2}}}",
        f"{MARGIN * 2}++{counter};",
        f"{MARGIN * 2}if ({pumped.name}() != 0) {{",
        f"{MARGIN * 3}{model.face.prefix}_rest();",
        f"{MARGIN * 2}}}",
        f"{MARGIN}}}",
        f"{MARGIN}return {macro}_OK;",
    ]
    return [
        {"declaration": f"static void {model.face.prefix}_rest(void)", "lines": list(rest)},
        {"declaration": f"void {model.face.prefix}_begin(void)", "lines": list(pumped.begin)},
        {"declaration": push_declaration(model, found), "lines": lines},
    ]
