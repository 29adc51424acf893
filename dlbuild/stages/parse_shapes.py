"""Shapes of the model's inputs: what the file says, with the recipe's `shapes:` bound in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import onnx

from dlbuild.base.errors import UserError
from dlbuild.ir.graph import Tensor

DTYPE_OF: dict[int, str] = {
    onnx.TensorProto.FLOAT: "float32",
    onnx.TensorProto.DOUBLE: "float64",
    onnx.TensorProto.FLOAT16: "float16",
    onnx.TensorProto.BFLOAT16: "bfloat16",
    onnx.TensorProto.FLOAT8E4M3FN: "float8e4m3fn",
    onnx.TensorProto.FLOAT8E4M3FNUZ: "float8e4m3fnuz",
    onnx.TensorProto.FLOAT8E5M2: "float8e5m2",
    onnx.TensorProto.FLOAT8E5M2FNUZ: "float8e5m2fnuz",
    onnx.TensorProto.FLOAT4E2M1: "float4e2m1",
    onnx.TensorProto.INT4: "int4",
    onnx.TensorProto.INT8: "int8",
    onnx.TensorProto.INT16: "int16",
    onnx.TensorProto.INT32: "int32",
    onnx.TensorProto.INT64: "int64",
    onnx.TensorProto.UINT4: "uint4",
    onnx.TensorProto.UINT8: "uint8",
    onnx.TensorProto.UINT16: "uint16",
    onnx.TensorProto.UINT32: "uint32",
    onnx.TensorProto.UINT64: "uint64",
    onnx.TensorProto.BOOL: "bool",
}
# Types that came to ONNX later: float8e8m0 1.19, int2 and uint2 1.20.
LATER = {"FLOAT8E8M0": "float8e8m0", "INT2": "int2", "UINT2": "uint2"}
DTYPE_OF |= {
    getattr(onnx.TensorProto, theirs): ours
    for theirs, ours in LATER.items()
    if hasattr(onnx.TensorProto, theirs)
}
# Some exporters give every open dimension one of these as its name.
NAMELESS = frozenset({"?", "-1", "None"})
ONNX_OF: dict[str, int] = {name: number for number, name in DTYPE_OF.items()}


@dataclass(frozen=True, slots=True)
class Bound:
    """The inputs with every extent known, and what was assumed."""

    tensors: tuple[Tensor, ...]
    notes: tuple[str, ...]


def bind(
    inputs: Sequence[onnx.ValueInfoProto], shapes: Mapping[str, tuple[int, ...]], where: str
) -> Bound:
    """Give each input its extents.

    Args:
        inputs: the graph's inputs that are not constants.
        shapes: the recipe's `shapes:`.
        where: the model file, for messages.

    Raises:
        UserError: a name that is no input, a rank or a fixed extent contradicted, a dimension
            other than the batch left open.
    """
    names = [value.name for value in inputs]
    for name in shapes:
        if name not in names:
            raise unknown_input(name, names, where)
    symbols: dict[str, int] = {}
    for value in inputs:
        if value.name in shapes:
            symbols |= check(value, shapes[value.name], symbols, where)
    tensors: list[Tensor] = []
    notes: list[str] = []
    for value in inputs:
        tensor, note = close(value, shapes.get(value.name), symbols, where)
        tensors.append(tensor)
        notes += note
    return Bound(tuple(tensors), tuple(notes))


def unknown_input(name: str, names: Sequence[str], where: str) -> UserError:
    """Return the error for a shape of something that is no input."""
    close_names = get_close_matches(name, names, 1)
    listed = ", ".join(f"'{n}'" for n in names)
    return UserError(
        f"`shapes:` names '{name}', which is not an input of the model",
        where=where,
        fix=f"did you mean '{close_names[0]}'?" if close_names else f"the inputs are {listed}",
    )


def declared_dims(value: onnx.ValueInfoProto) -> list[int | str] | None:
    """Return each declared extent: a number, a symbol, empty text if open; None without shape."""
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    return [
        # Old exporters write 0 or -1 for a batch that is not known.
        d.dim_value
        if d.HasField("dim_value") and d.dim_value > 0
        else ""
        if d.dim_param in NAMELESS
        else d.dim_param
        for d in tensor.shape.dim
    ]


def check(
    value: onnx.ValueInfoProto, shape: tuple[int, ...], known: Mapping[str, int], where: str
) -> dict[str, int]:
    """Return the symbols that a shape of the recipe binds.

    Raises:
        UserError: it contradicts the model.
    """
    dims = declared_dims(value)
    given = list(shape)
    if any(extent < 0 for extent in shape):
        raise UserError(
            f"the shape {given} of input '{value.name}' has an extent below 0", where=where
        )
    if dims is None:
        return {}
    stated = "[" + ", ".join(str(d) if d else "?" for d in dims) + "]"
    if len(dims) != len(shape):
        raise UserError(
            f"the shape {given} of input '{value.name}' has {len(shape)} dimensions, "
            f"the model's has {len(dims)}",
            where=where,
            why=f"the model declares '{value.name}' as {stated}",
            fix=f"give {len(dims)} extents",
        )
    found: dict[str, int] = {}
    for axis, (declared, extent) in enumerate(zip(dims, shape, strict=True)):
        wanted = known.get(declared, found.get(declared)) if isinstance(declared, str) else declared
        if wanted is not None and wanted != extent:
            raise UserError(
                f"the shape {given} of input '{value.name}' contradicts the model: "
                f"dimension {axis} is {wanted}, not {extent}",
                where=where,
                why=f"the model declares '{value.name}' as {stated}",
                fix=f"give {wanted}, or export the model with this dimension open",
            )
        if isinstance(declared, str) and declared:
            found[declared] = extent
    return found


def close(
    value: onnx.ValueInfoProto,
    shape: tuple[int, ...] | None,
    symbols: dict[str, int],
    where: str,
) -> tuple[Tensor, list[str]]:
    """Return an input as a tensor, and a note if its batch was assumed.

    Raises:
        UserError: it is no tensor of numbers, or a dimension is open.
    """
    dtype = DTYPE_OF.get(value.type.tensor_type.elem_type, "")
    if not value.type.HasField("tensor_type") or not dtype:
        raise UserError(
            f"input '{value.name}' is not a tensor of numbers",
            where=where,
            why="maps and text have no fixed place in memory",
            fix="export the model with tensors of numbers as inputs",
        )
    if shape is not None:
        return Tensor(value.name, dtype, shape), []
    dims = declared_dims(value)
    if dims is None:
        raise UserError(
            f"input '{value.name}' has no shape",
            where=where,
            fix=f"state it in the recipe: shapes: {{{value.name}: [...]}}",
        )
    notes: list[str] = []
    extents: list[int] = []
    for axis, declared in enumerate(dims):
        if isinstance(declared, int):
            extents.append(declared)
        elif declared in symbols and declared:
            extents.append(symbols[declared])
        elif axis == 0:
            notes.append(f"the batch of input '{value.name}' is open in the model: 1 is assumed")
            extents.append(1)
            if declared:
                symbols[declared] = 1
        else:
            extents.append(0)
    if 0 in extents:
        raise open_dimensions(value.name, dims, extents, where)
    return Tensor(value.name, dtype, tuple(extents)), notes


def open_dimensions(
    name: str, dims: Sequence[int | str], extents: Sequence[int], where: str
) -> UserError:
    """Return the error for an input with open dimensions."""
    missing = [
        f"{axis} ('{dims[axis]}')" if dims[axis] else str(axis)
        for axis, extent in enumerate(extents)
        if extent == 0
    ]
    example = ", ".join(str(e) if e else "..." for e in extents)
    kind = "dimension" if len(missing) == 1 else "dimensions"
    return UserError(
        f"input '{name}' has open {kind}: {', '.join(missing)}",
        where=where,
        why="firmware has fixed buffers, so every extent must be known; only a batch is assumed 1",
        fix=f"bind them in the recipe: shapes: {{{name}: [{example}]}}",
    )
