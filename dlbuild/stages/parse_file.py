"""The model's bytes: the ONNX file and the external data files it names."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError, Message
from onnx import numpy_helper

from dlbuild.base.errors import UserError
from dlbuild.ir.dtype import DTYPES
from dlbuild.ir.weights import Array, dtype_name

# Field numbers of onnx.ModelProto and the wire type of each (onnx.proto).
MODEL_FIELDS = {1: 0, 2: 2, 3: 2, 4: 2, 5: 0, 6: 2, 7: 2, 8: 2, 14: 2, 20: 2, 25: 2, 26: 2}
WIRE_VARINT, WIRE_64, WIRE_BYTES, WIRE_32 = 0, 1, 2, 5


def read_model(source: Path) -> onnx.ModelProto:
    """Read the model, without its external data.

    Raises:
        UserError: no such file, not an ONNX file, or a truncated one.
    """
    try:
        content = source.read_bytes()
    except FileNotFoundError:
        raise UserError(
            "there is no such model file",
            where=str(source),
            fix="correct the path in `source:`; it is relative to the file that names it",
        ) from None
    except IsADirectoryError:
        raise UserError(
            "the model is a folder, not a file",
            where=str(source),
            fix="name the .onnx file; a SavedModel has to be converted:"
            " python -m tf2onnx.convert --saved-model FOLDER --output model.onnx",
        ) from None
    except OSError as error:
        raise UserError(
            f"the model file cannot be read: {error.strerror}", where=str(source)
        ) from None
    fault = framing_fault(content)
    if fault:
        raise broken(source, fault, content)
    model = onnx.ModelProto()
    try:
        model.ParseFromString(content)
    except DecodeError:
        raise broken(source, "damaged", content) from None
    if not model.HasField("graph"):
        raise broken(source, "truncated", content)
    if not is_text(model):
        raise UserError(
            "a name in the model is not UTF-8 text",
            where=str(source),
            why="the file is damaged, or its writer used another encoding",
            fix="export the model again",
        )
    return model


def is_text(message: Message) -> bool:
    """Say whether every text field is UTF-8, in a message and those inside it."""
    for field, value in message.ListFields():
        values = [value] if isinstance(value, str | bytes | Message) else value
        if field.type == field.TYPE_STRING:
            # protobuf hands out text that it cannot decode as bytes.
            if any(isinstance(item, bytes) for item in values):
                return False
        elif field.type == field.TYPE_MESSAGE and not all(map(is_text, values)):
            return False
    return True


@dataclass(frozen=True, slots=True)
class Foreign:
    """A kind of file that is taken for a model: the bytes that show it, and at which place."""

    signature: bytes
    at: int
    why: str
    fix: str


EXPORT = "export the model to ONNX again, with the exporter of its framework"
FOREIGN = (
    Foreign(
        b"version https://git-lfs",
        0,
        "it is a Git LFS pointer: the model itself was not fetched",
        "run `git lfs pull` in the model's repository",
    ),
    Foreign(
        b"TFL3",
        4,
        "it is a TensorFlow Lite model",
        "convert it: python -m tf2onnx.convert --tflite model.tflite --output model.onnx",
    ),
    Foreign(b"\x89HDF", 0, "it is an HDF5 file, as Keras writes it", EXPORT),
    Foreign(b"PK\x03\x04", 0, "it is a zip archive, as PyTorch and Keras write it", EXPORT),
    Foreign(
        b"<",
        0,
        "it is a web page or XML, perhaps the page about the model",
        "download the file itself (GitHub: 'Download raw file')",
    ),
)
UNKNOWN = Foreign(
    b"",
    0,
    "its bytes are not a serialised onnx.ModelProto",
    "export the model to ONNX (a .tflite, .pt or .h5 file has to be converted first)",
)


def broken(source: Path, fault: str, content: bytes) -> UserError:
    """Return the error for bytes that are no complete model."""
    if fault == "foreign":
        kinds = (k for k in FOREIGN if content[k.at :].lstrip().startswith(k.signature))
        kind = next(kinds, UNKNOWN)
        return UserError("this is not an ONNX file", where=str(source), why=kind.why, fix=kind.fix)
    return UserError(
        f"the ONNX file is {fault}",
        where=str(source),
        why=f"after {len(content):,} bytes the model is not complete"
        if fault == "truncated"
        else "it begins like an ONNX model but cannot be decoded",
        fix="copy or export it again (with Git LFS: run `git lfs pull`)",
    )


def framing_fault(content: bytes) -> str:
    """Walk over the outermost fields: `foreign`, `truncated`, or empty if they fill the file."""
    if not content:
        return "truncated"
    position, seen = 0, 0
    while position < len(content):
        tag, after = varint(content, position)
        if after < 0:
            return "truncated" if seen else "foreign"
        number, wire = tag >> 3, tag & 7
        if MODEL_FIELDS.get(number, wire if seen else -1) != wire or number == 0:
            return "damaged" if seen > 1 else "foreign"
        position = field_end(content, after, wire)
        if position < 0 or position > len(content):
            # A foreign file seldom begins with a field that is longer than it and still a model's.
            return "truncated" if seen or number in {1, 7} else "foreign"
        seen += 1
    return ""


def varint(content: bytes, position: int) -> tuple[int, int]:
    """Decode a varint; return it and the place after it, -1 if the bytes end before."""
    value, shift = 0, 0
    while position < len(content) and shift < 70:  # noqa: PLR2004 - ten groups of seven bits
        byte = content[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:  # noqa: PLR2004 - the last byte has no continuation bit
            return value, position
    return 0, -1


def field_end(content: bytes, position: int, wire: int) -> int:
    """Return the place after a field's value, -1 if it cannot be told."""
    if wire == WIRE_VARINT:
        return varint(content, position)[1]
    if wire == WIRE_BYTES:
        length, after = varint(content, position)
        return after + length if after >= 0 else -1
    if wire in {WIRE_32, WIRE_64}:
        return position + (4 if wire == WIRE_32 else 8)
    return -1


def inputs_of(source: Path) -> tuple[Path, ...]:
    """Return the files that the model consists of: the ONNX file, then its external data.

    Raises:
        UserError: as `read_model`, and for external data that is refused or missing.
    """
    model = read_model(source)
    found: dict[Path, None] = {source: None}
    for tensor in tensors_of(model):
        if is_external(tensor):
            found[external_file(tensor, source)] = None
    return tuple(found)


def tensors_of(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yield every tensor with content in the model, those in subgraphs and functions too."""
    yield from graph_tensors(model.graph)
    for function in model.functions:
        for node in function.node:
            yield from node_tensors(node)


def graph_tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """Yield the tensors of one graph."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield sparse.values
        yield sparse.indices
    for node in graph.node:
        yield from node_tensors(node)


def node_tensors(node: onnx.NodeProto) -> Iterator[onnx.TensorProto]:
    """Yield the tensors in a node's attributes."""
    for attribute in node.attribute:
        if attribute.HasField("t"):
            yield attribute.t
        yield from attribute.tensors
        if attribute.HasField("g"):
            yield from graph_tensors(attribute.g)
        for graph in attribute.graphs:
            yield from graph_tensors(graph)


def is_external(tensor: onnx.TensorProto) -> bool:
    """Say whether a tensor's numbers are in another file."""
    return bool(tensor.data_location == onnx.TensorProto.EXTERNAL)


def external_file(tensor: onnx.TensorProto, source: Path) -> Path:
    """Return the file with a tensor's numbers.

    Raises:
        UserError: it lies outside the model's folder, or does not exist.
    """
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = str(entries.get("location", ""))
    where = f"{source}: tensor '{tensor.name}'"
    folder = source.parent
    if "\0" in location:
        raise UserError("the name of its external data file holds a zero byte", where=where)
    path = folder / location
    is_inside = path.resolve().is_relative_to(folder.resolve())
    if not location or Path(location).is_absolute() or "\\" in location or not is_inside:
        raise UserError(
            f"external data '{location}' is outside the model's folder",
            where=where,
            why="a model may name files in its own folder only, so that a build reads nothing else",
            fix="put the data file beside the model and export with a relative location",
        )
    if not path.is_file():
        raise UserError(
            f"the external data file '{location}' does not exist",
            where=where,
            fix=f"put '{location}' beside '{source.name}'",
        )
    return path


def load_external(model: onnx.ModelProto, source: Path) -> None:
    """Fill in the numbers that are in external files.

    Raises:
        UserError: as `external_file`, or the file is too short.
    """
    opened: dict[Path, bytes] = {}
    for tensor in tensors_of(model):
        if not is_external(tensor):
            continue
        path = external_file(tensor, source)
        if path not in opened:
            opened[path] = path.read_bytes()
        content = opened[path]
        entries = {entry.key: entry.value for entry in tensor.external_data}
        where = f"{source}: tensor '{tensor.name}'"
        offset = _place(entries, "offset", where)
        length = _place(entries, "length", where) or max(len(content) - offset, 0)
        if offset + length > len(content):
            raise UserError(
                f"the external data file '{entries['location']}' is too short",
                where=where,
                why=f"bytes {offset:,} to {offset + length:,} are needed, "
                f"the file has {len(content):,}",
                fix="copy or export the file again",
            )
        tensor.raw_data = content[offset : offset + length]
        tensor.data_location = onnx.TensorProto.DEFAULT
        del tensor.external_data[:]


def _place(entries: Mapping[str, str], key: str, where: str) -> int:
    """Return a number of bytes that an entry of external data says; 0 if it says none."""
    text = entries.get(key) or "0"
    if not re.fullmatch("[0-9]{1,30}", text):
        raise UserError(
            f"the {key} of its external data is '{text}'",
            where=where,
            why="it is to be a number of bytes",
            fix="export the model again",
        )
    return int(text)


def array_of(tensor: onnx.TensorProto, where: str) -> Array:
    """Return a tensor's numbers.

    Raises:
        UserError: it holds text, or its bytes do not fill its shape.
    """
    if tensor.data_type == onnx.TensorProto.STRING:
        raise UserError(
            f"the constant '{tensor.name}' holds text",
            where=where,
            why="firmware kernels compute on numbers",
            fix="remove the text operators from the model before the export",
        )
    try:
        array = numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError) as error:
        raise UserError(
            f"the constant '{tensor.name}' cannot be decoded",
            where=where,
            why=str(error).splitlines()[0] if str(error) else "its bytes do not fill its shape",
            fix="export the model again",
        ) from None
    if dtype_name(array) not in DTYPES:
        raise UserError(
            f"the constant '{tensor.name}' has the element type {array.dtype.name}",
            where=where,
            why="no kernel computes with it",
            fix="export the model with another element type",
        )
    return array
