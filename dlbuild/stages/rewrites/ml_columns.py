"""Operators of ai.onnx.ml that prepare the columns of a table."""

from __future__ import annotations

import numpy as np

from dlbuild.ir.weights import Array, numpy_dtype
from dlbuild.stages.rewrites.draft import Node, check_known
from dlbuild.stages.rewrites.ml_writer import Writer

MOST_KEYS = 256
AXES_AS_INPUT = 18
NUMBERLESS_OPSET = 4
"""The version of ai.onnx.ml from which on a key that is no number is found."""


def zip_map(writer: Writer) -> None:
    """A map from names to numbers is the numbers, in the order of the names."""
    writer.add("Identity", [writer.node.inputs[0]], writer.node.outputs[0])


def normalizer(writer: Writer) -> None:
    """Divide each row by its norm."""
    source, result = writer.real(writer.node.inputs[0]), writer.node.outputs[0]
    norm = writer.node.text("norm", "MAX")
    check_known(writer.draft, writer.node, "norm", [norm], ("MAX", "L1", "L2"))
    if norm != "MAX":
        order = 1 if norm == "L1" else 2
        writer.add("LpNormalization", [source], result, axis=-1, p=order)
        return
    axes = writer.constant("axes", np.array([-1], np.int64))
    greatest = writer.draft.fresh(f"{writer.node.label}/greatest")
    newest = Node("ReduceMax", [source, axes], [greatest], {"keepdims": 1}, opset=AXES_AS_INPUT)
    writer.made.append(newest)
    # Nothing is divided where the greatest number is 0.
    zero, one = (writer.constant(w, np.array(v, np.float32)) for w, v in (("no", 0), ("one", 1)))
    is_zero = writer.add("Equal", [greatest, zero])
    divisor = writer.add("Where", [is_zero, one, greatest])
    writer.add("Div", [source, divisor], result)


def scaler(writer: Writer) -> None:
    """Subtract an offset and multiply by a scale, one for each column."""
    source = writer.real(writer.node.inputs[0])
    offset = writer.constant("offset", writer.floats("offset"))
    scale = writer.constant("scale", writer.floats("scale"))
    moved = writer.add("Sub", [source, offset])
    writer.add("Mul", [moved, scale], writer.node.outputs[0])


def feature_extractor(writer: Writer) -> None:
    """Pick columns."""
    source, places = writer.node.inputs
    shape = writer.draft.shape(source)
    if len(shape) == 1:
        rows = writer.draft.integers(f"{writer.node.label}/rows", [1, *shape])
        source = writer.add("Reshape", [source, rows])
    count = int(np.prod(writer.draft.shape(places), dtype=np.int64))
    flat = writer.draft.integers(f"{writer.node.label}/flat", [count])
    picked = writer.add("Reshape", [places, flat])
    writer.add("Gather", [source, picked], writer.node.outputs[0], axis=-1)


def label_encoder(writer: Writer) -> None:
    """Look each number up in a list; one comparison for each entry."""
    source, result = writer.node.inputs[0], writer.node.outputs[0]
    keys, values = listed(writer, "keys"), listed(writer, "values")
    if keys is None or values is None or len(keys) > MOST_KEYS:
        raise writer.refuse(
            "this list of labels is not supported",
            f"only numbers are looked up, and among {MOST_KEYS} at most",
        )
    default = writer.tensor("default_tensor")
    if default is None:
        name, usual = (
            ("default_float", -0.0) if values.dtype == np.float32 else ("default_int64", -1)
        )
        default = np.array(writer.node.attributes.get(name, usual))
    shape = writer.draft.integers(f"{writer.node.label}/shape", writer.draft.shape(source))
    start = writer.constant("default", default.reshape(()).astype(values.dtype))
    found = writer.add("Expand", [start, shape])
    for number, (key, value) in enumerate(zip(keys, values, strict=True)):
        if key != key:  # noqa: PLR0124 - a key that is not a number
            if writer.node.opset < NUMBERLESS_OPSET:
                continue
            test = writer.add("IsNaN", [source])
        else:
            test = writer.add("Equal", [source, writer.constant(f"key_{number}", key)])
        found = writer.add("Where", [test, writer.constant(f"value_{number}", value), found])
    writer.add("Identity", [found], result)


def listed(writer: Writer, name: str) -> Array | None:
    """Return a list of numbers among the attributes, whichever type it has."""
    for suffix, dtype in (("int64s", np.int64), ("floats", np.float32)):
        value = writer.node.attributes.get(f"{name}_{suffix}")
        if isinstance(value, tuple):
            return np.array(value, dtype)
    found = writer.tensor(f"{name}_tensor")
    return None if found is None else found.reshape(-1)


def imputer(writer: Writer) -> None:
    """Put a number, one for all columns or one for each, where one is missing."""
    source, result = writer.node.inputs[0], writer.node.outputs[0]
    is_real = writer.draft.dtype(source).startswith("float")
    kind, name = (np.float32, "floats") if is_real else (np.int64, "int64s")
    missing = writer.node.number(f"replaced_value_{name[:-1]}", 0)
    given = writer.node.attributes.get(f"imputed_value_{name}", ())
    if missing != missing:  # noqa: PLR0124 - what is not a number is missing
        test = writer.add("IsNaN", [source])
    else:
        dtype = numpy_dtype(writer.draft.dtype(source))
        test = writer.add("Equal", [source, writer.constant("missing", np.array(missing, dtype))])
    values = np.array(given, kind).astype(numpy_dtype(writer.draft.dtype(source)))
    if not values.size:
        raise writer.refuse(
            "it does not say what to put in for missing numbers",
            f"the attribute imputed_value_{name} is empty for an input of this type",
        )
    writer.add("Where", [test, writer.constant("imputed", values), source], result)


def one_hot_encoder(writer: Writer) -> None:
    """Say of each number which of the categories it is."""
    source, result = writer.node.inputs[0], writer.node.outputs[0]
    categories = writer.node.integers("cats_int64s")
    if not categories:
        raise writer.refuse("its categories are text", "firmware kernels compute on numbers")
    if not writer.node.integer("zeros", 1):
        writer.draft.notes.append(
            f"node '{writer.node.label}' gives zeros for an unknown category,"
            " where a runtime would stop with an error"
        )
    whole = writer.add("Cast", [source], to=7)
    last = writer.draft.integers(f"{writer.node.label}/last", [-1])
    column = writer.add("Unsqueeze", [whole, last])
    known = writer.constant("categories", np.array(categories, np.int64))
    writer.add("Cast", [writer.add("Equal", [column, known])], result, to=1)


def feature_vectorizer(writer: Writer) -> None:
    """Put the columns of all inputs side by side."""
    dimensions = writer.node.integers("inputdimensions")
    rows = []
    for number, name in enumerate(writer.node.inputs):
        shape = writer.draft.shape(name)
        count = int(np.prod(shape[1:] if len(shape) > 1 else shape, dtype=np.int64))
        if number >= len(dimensions) or dimensions[number] != count:
            raise writer.refuse(
                f"input '{name}' has {count} columns, inputdimensions says {list(dimensions)}",
                "columns that are cut off or filled up are not supported",
            )
        flat = writer.draft.integers(f"{writer.node.label}/flat", [-1, count])
        rows.append(writer.add("Reshape", [writer.real(name), flat]))
    writer.add("Concat", rows, writer.node.outputs[0], axis=1)
