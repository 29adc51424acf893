"""Says in words why a stage had to be made anew: which of the things in its key changed."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping

from dlbuild.base.digest import Json, sha256
from dlbuild.build.ledger import Record

Content = Callable[[str], bytes | None]
"""From a digest to a content of the store, if it is still there."""

_INPUTS = {
    "graph": "the structure of the model",
    "weights": "the weights",
    "derivation": "how weights follow from the model",
    "profile": "the profile",
    "tiles": "the tile plan",
    "schedule": "the schedule",
    "header": "the header",
    "source": "the C source",
    "weights_header": "the header of the weight tables",
    "port_header": "the header of the port",
    "port_source": "the port",
    "cores_source": "the port of the cores",
    "clustered": "the graph of the clusters",
    "table_plan": "the plan of the weight tables",
    "weights_source": "the weight tables",
    "object": "the object of the C source",
    "weights_object": "the object of the weight tables",
    "archive": "the archive",
    "size": "the sizes",
    "weights_binary": "the embedded weights",
    "merged": "the merged functions",
    "image_layout": "the layout of the weight image",
    "image": "the weight image",
    "image_hex": "the weight image as Intel HEX",
    "call_graph": "the call graph",
    "annotated": "the annotated model",
    "verdict": "the verdict",
    "make": "the fragment for make",
    "cmake": "the fragment for CMake",
}


_INNER = frozenset({"derivation", "model_derivation", "table_plan"})
"""What a stage leaves to others beside what it is known for: not told of it."""
_NOTHING = sha256(b"")
_OWN_CODE = "dlbuild's own code changed"


def reasons(before: Record | None, parts: Mapping[str, str], content: Content) -> tuple[str, ...]:
    """Return why a key differs from that of a record, one sentence for each cause."""
    if before is None:
        return ("it was not made before",)
    then = before.parts
    found = [
        sentence
        for name in sorted({*then, *parts})
        if then.get(name) != parts.get(name)
        for sentence in _sentences(name, then.get(name), parts.get(name), content)
    ]
    return tuple(_grouped(found)) or ("its result was no longer in the store",)


def outcome(record: Record) -> str:
    """Return what came of it: which files changed, or that none did."""
    # A stage leaves nothing under the names of what this build has not, such as a port.
    there = {name for name, digest in record.outputs.items() if digest != _NOTHING}
    names = _told(name for name in record.changed if name in there)
    kept = _told(name for name in record.outputs if name in there - {*record.changed})
    if not names:
        return "same result as before, so nothing after it had to run for it"
    changed = f"{_listed(names)} changed"
    return f"{changed}, {_listed(kept)} did not" if kept else changed


def _told(files: Iterable[str]) -> list[str]:
    return [_INPUTS.get(name, name).removeprefix("the ") for name in files if name not in _INNER]


def _sentences(name: str, then: str | None, now: str | None, content: Content) -> Iterator[str]:
    kind, _, what = name.partition(" ")
    match kind:
        case "input":
            yield f"{_INPUTS.get(what, what)} changed"
            if what == "graph" and then and now:
                yield from fact_changes(content(then), content(now))
        case "source":
            yield f"{what} {_change(then, now)}"
        case "file":
            noun = "template" if what.startswith("templates/") else "rule"
            yield f"{noun} {what.partition('/')[2]} {_change(then, now)}"
        case "code":
            yield f"{_OWN_CODE} ({what.removeprefix('dlbuild.')})"
        case "library":
            yield f"{what} changed from {then} to {now}"
        case "program":
            yield f"the program {what} {_change(then, now)}"
        case "option" | "setting" | "target":
            yield from _setting_changes(f"{kind} {what}", _value(then), _value(now))
        case "python":
            yield f"Python changed from {then} to {now}"
        case _:
            yield f"the {name} changed"


def _value(text: str | None) -> Json:
    return None if text is None else json.loads(text)


def _setting_changes(name: str, then: Json, now: Json) -> Iterator[str]:
    """Say which part of a setting changed: the entry of a list by its name, the key of a table."""
    old, new = _entries(then), _entries(now)
    if old is None or new is None:
        if then != now:
            yield f"{name} changed from {json.dumps(then)} to {json.dumps(now)}"
        return
    for key in dict.fromkeys((*old, *new)):
        yield from _setting_changes(f"{name} {key}", old.get(key), new.get(key))
    if list(old) != list(new) and set(old) == set(new):
        yield f"{name} changed their order"


def _entries(value: Json) -> Mapping[str, Json] | None:
    """Return a table, or a list of named tables, by key; None of anything else."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, list) and value and all(isinstance(v, Mapping) for v in value):
        named = [(v.get("name"), v) for v in value if isinstance(v, Mapping)]
        return {str(name): v for name, v in named}
    return None


def _change(then: str | None, now: str | None) -> str:
    if then is None:
        return "is new"
    return "is gone" if now is None else "changed"


def _grouped(sentences: list[str]) -> Iterator[str]:
    """Say a thing once, in the order found; of many modules of ours, say how many."""
    ours = [sentence for sentence in sentences if sentence.startswith(_OWN_CODE)]
    others = [sentence for sentence in sentences if not sentence.startswith(_OWN_CODE)]
    yield from dict.fromkeys(others)
    if len(ours) > 1:
        yield f"{_OWN_CODE} ({len(ours)} modules)"
    else:
        yield from ours


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def fact_changes(then: bytes | None, now: bytes | None) -> Iterator[str]:
    """Name the structural facts that came or went between two graphs."""
    if then is None or now is None:
        return
    old, new = (_facts(graph) for graph in (then, now))
    yield from (f"no longer a fact: {fact}" for fact in old if fact not in new)
    yield from (f"new fact: {fact}" for fact in new if fact not in old)


def _facts(graph: bytes) -> list[str]:
    try:
        facts = json.loads(graph).get("facts", [])
        return [f"{fact['kind']}({', '.join(fact['tensors'])})" for fact in facts]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []
