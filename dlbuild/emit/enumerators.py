"""Sizes that functions of templates name as enumeration constants: those that they use."""

import re

_ENUM = re.compile(r"^ +enum \{ (?P<items>\w+ = .*) \};\n(?P<blank>\n?)", re.MULTILINE)
_END_OF_FUNCTION = "\n}"


def with_used_enumerators(text: str) -> str:
    """Return a text of C without the enumeration constants that their functions do not name.

    Of declarations on one line inside a function; one that nothing is left of goes.
    """
    kept: list[str] = []
    at = 0
    for found in _ENUM.finditer(text):
        rest = text[found.end() : text.find(_END_OF_FUNCTION, found.end())]
        items = _used(found["items"].split(", "), rest)
        declared = found[0].replace(found["items"], ", ".join(items)) if items else ""
        kept += [text[at : found.start()], declared]
        at = found.end()
    return "".join((*kept, text[at:]))


def _used(items: list[str], rest: str) -> list[str]:
    """Return the items whose names the rest, or an item behind it, mentions."""
    words, used = set(re.findall(r"\w+", rest)), []
    for item in reversed(items):
        name, _, value = item.partition(" = ")
        if name in words:
            used.append(item)
            words.update(re.findall(r"\w+", value))
    return used[::-1]
