"""What a compiled model takes: the content of `plan/5-size.json`."""

import json
from dataclasses import asdict, dataclass

FORMAT = 3


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of both objects. flash_bytes: code, constants and start values together.

    stack_bytes: deepest run, None if nobody can tell. stack_without: functions of libraries that
    it calls and whose stack is not in it. image_bytes: of an image of weights, 0 if it has none.
    """

    text_bytes: int
    rodata_bytes: int
    data_bytes: int
    bss_bytes: int
    flash_bytes: int
    stack_bytes: int | None
    stack_without: tuple[str, ...] = ()
    image_bytes: int = 0


def encode_sizes(sizes: Sizes) -> bytes:
    """Return the JSON of sizes."""
    content = {"kind": "sizes", "format": FORMAT, **asdict(sizes)}
    return (json.dumps(content, indent=2) + "\n").encode()


def decode_sizes(content: bytes) -> Sizes:
    """Return what `encode_sizes` was given; the file is ours, made in this build."""
    fields = json.loads(content)
    # Taken out first: under `python -O` no assertion runs.
    said = fields.pop("kind"), fields.pop("format")
    assert said == ("sizes", FORMAT)
    fields["stack_without"] = tuple(fields["stack_without"])
    return Sizes(**fields)
