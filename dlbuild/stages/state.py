"""The functions of a model's state: `<m>_reset`, and `<m>_params_load` and `<m>_params_save`."""

from collections.abc import Sequence

from dlbuild.emit.comments import block, filled
from dlbuild.ir.graph import State
from dlbuild.stages.arena import Places
from dlbuild.stages.declaration import taken_image
from dlbuild.stages.functions import table_pointer
from dlbuild.stages.sources import Context, Sources

MARGIN = "    "


def state_includes(model: Sources) -> frozenset[str]:
    """Return the headers that the functions need."""
    return frozenset({"string.h"} if model.graph.states else ())


def params_bytes(model: Sources) -> int:
    """Return the bytes of the parameters, 0 if there are none."""
    return sum(_size(model, state) for state in _params(model))


def state_functions(model: Sources, places: Places) -> list[Context]:
    """Return the functions in the order of the header; none for a model without state."""
    if not model.graph.states:
        return []
    params = _params(model)
    lines = [_reset(model, places, state) for state in model.graph.states]
    found = [{**_function(model, "reset", (), lines, _taken(model)), "about": _about(model)}]
    if params:
        load = [_load(model, places, state) for state in params]
        save = [[f"memcpy(next, {places.pointer(s.input)}, {_size(model, s)});"] for s in params]
        found += [
            _function(
                model,
                "params_load",
                ("const void *from",),
                ["const unsigned char *next = from;", "", *_walk(model, params, load)],
            ),
            _function(
                model,
                "params_save",
                ("void *to",),
                ["unsigned char *next = to;", "", *_walk(model, params, save)],
            ),
        ]
    return found


def _about(model: Sources) -> str:
    """Return the comment of `<m>_reset`."""
    if not _params(model):
        return block("Clears the state. To be called before the first run.", opener="/**")
    load = f"{model.face.prefix}_params_load"
    what = "Gives the parameters what the model has at first, and clears all other state."
    status = ""
    if _taken(model):
        macro = model.face.macro
        status = f" Returns {macro}_OK, or {macro}_NO_IMAGE if no image of weights is in use."
    return block(f"{what} To be called before the first run, or {load}.{status}", opener="/**")


def _params(model: Sources) -> list[State]:
    """Return the states that the model gives a value to begin with: its parameters."""
    return [s for s in model.graph.states if s.initial and not s.replica_of]


def _size(model: Sources, state: State) -> int:
    return model.graph.tensor[state.input].size_bytes


def _load(model: Sources, places: Places, state: State) -> list[str]:
    """Return the copies of a parameter into all the places that it has."""
    size = _size(model, state)
    states = [s for s in model.graph.states if state.input in (s.input, s.replica_of)]
    return [f"memcpy({places.pointer(s.input)}, next, {size});" for s in states]


def _walk(model: Sources, params: Sequence[State], copies: Sequence[Sequence[str]]) -> list[str]:
    """Return the copies, with a step to the next parameter behind each but the last."""
    lines: list[str] = []
    for state, of_state in zip(params, copies, strict=True):
        lines += [*of_state, f"next += {_size(model, state)};"]
    return lines[:-1]


def _reset(model: Sources, places: Places, state: State) -> str:
    place, size = places.pointer(state.input), _size(model, state)
    if not state.initial:
        return f"memset({place}, 0, {size});"
    table = model.tables.of["", state.initial]
    return f"memcpy({place}, {table_pointer(model, table)}, {size});"


def _taken(model: Sources) -> list[str]:
    """Return the lines that a reset begins with if it needs an image of weights."""
    return taken_image(model) if _params(model) else []


def _function(
    model: Sources,
    name: str,
    own: Sequence[str],
    lines: Sequence[str],
    first: Sequence[str] = (),
) -> Context:
    """Return a function. first: lines that may end it with a status, which it returns then."""
    is_callers = model.options.arena == "caller"
    given = [f"{model.face.prefix}_arena_t *arena"] if is_callers else []
    start = f"{'int' if first else 'void'} {model.face.prefix}_{name}("
    last = [f"{MARGIN}return {model.face.macro}_OK;"] if first else []
    return {
        "name": name,
        "declaration": filled(start, [*given, *own] or ["void"], ")"),
        "lines": [*first, *(f"{MARGIN}{line}" if line else "" for line in lines), *last],
    }
