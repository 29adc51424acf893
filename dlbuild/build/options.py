"""Options of one build: from the nodes of dlbuild.yaml and from `-D key=value`."""

from dataclasses import replace
from typing import Literal, cast

from dlbuild.base.spelling import suggestion
from dlbuild.base.yamlsrc import Node, Scalar, Source, Table, flag, table, word
from dlbuild.build.schema import BUILD, OPTION_KEYS
from dlbuild.ir.target import Options, Rounding


def read_override(text: str) -> tuple[str, Node]:
    """Read `key=value` of the command line.

    Raises:
        UserError: no value, an unknown option, or a value it cannot have.
    """
    name, equals, value = text.partition("=")
    source = Source("-D", (text,))
    key = Scalar(source, 1, 1, name)
    if not equals:
        raise key.error(f"'{text}' gives no value", fix=f"write -D {name}=VALUE")
    if name not in OPTION_KEYS:
        raise key.error(f"a build has no option '{name}'", fix=suggestion(name, OPTION_KEYS))
    node = Scalar(source, 1, len(name) + 2, value)
    BUILD.check(
        Table(source, 1, 1, {"model": Scalar(source, 1, 1, "m"), name: node}, {name: key}), "-D"
    )
    return name, node


def options_with(options: Options, key: str, node: Node) -> Options:
    """Return `options` with one of them set; the key tables have checked the node.

    Each cast below repeats what they checked.
    """
    said = f"'{key}'"
    match key:
        case "optimize":
            aim = cast("Literal['speed', 'ram', 'size']", word(node, said))
            return replace(options, optimize=aim)
        case "requantize":
            return replace(options, requantize=cast("Rounding", word(node, said)))
        case "layout":
            orders = table(node, said)
            pairs = ((tensor, word(orders[tensor], tensor)) for tensor in orders)
            return replace(options, layout=tuple(sorted(pairs)))
        case "input":
            owner = cast("Literal['caller', 'arena', 'streamed']", word(node, said))
            return replace(options, input=owner)
        case "output":
            return replace(options, output=cast("Literal['caller', 'arena']", word(node, said)))
        case "arena":
            return replace(options, arena=cast("Literal['static', 'caller']", word(node, said)))
        case "share":
            return replace(options, share=word(node, said))
        case "weights":
            form = cast("Literal['auto', 'braces', 'string', 'incbin']", word(node, said))
            return replace(options, weights=form)
        case "hook":
            return replace(options, hook=flag(node, said))
        case _:
            return options  # only the default passes the key tables
