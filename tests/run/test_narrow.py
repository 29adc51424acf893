"""The helpers for element types that C does not have, against ml_dtypes and numpy."""

import subprocess
from pathlib import Path

import numpy as np
import pytest

from dlbuild.base.paths import builtin_folder
from dlbuild.emit.ctypes import is_packed, storage
from dlbuild.emit.environment import environment
from dlbuild.emit.helpers import helper_text, helpers_of
from dlbuild.ir.dtype import DTYPES
from dlbuild.ir.weights import Array, loaded, numpy_dtype, stored
from dlbuild.run.compile import WARNINGS

PROGRAM = """#include <math.h>
#include <stdint.h>
#include <stdio.h>

{helpers}
int main(void)
{{
    static float wide[{count}];
    static {ctype} narrow[{count}];
    if (fread(wide, sizeof wide[0], {count}, stdin) != {count}) {{
        return 1;
    }}
    for (int32_t i = 0; i < {count}; ++i) {{
        {store}
    }}
    fwrite(narrow, sizeof narrow[0], {units}, stdout);
    for (int32_t i = 0; i < {count}; ++i) {{
        wide[i] = (float){load};
    }}
    return (fwrite(wide, sizeof wide[0], {count}, stdout) == {count}) ? 0 : 1;
}}
"""
FLOATS = (
    *("float16", "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz"),
    *("float8e8m0", "float4e2m1"),
)


def there_and_back(dtype: str, values: Array, folder: Path) -> tuple[bytes, Array]:
    """Return what C stores for the values, and what it loads of that."""
    if is_packed(dtype):
        number = "(float)" if "float" in dtype else "(int32_t)"
        store, load = f"store_{dtype}(narrow, i, {number}wide[i]);", f"load_{dtype}(narrow, i)"
    else:
        store, load = f"narrow[i] = f32_to_{dtype}(wide[i]);", f"{dtype}_to_f32(narrow[i])"
    jinja = environment([builtin_folder() / "templates"])
    helpers = helpers_of(jinja, [store, load])
    size_bytes = DTYPES[dtype].size_bytes(len(values))
    ctype = storage(dtype)
    n_units = size_bytes // (2 if ctype == "uint16_t" else 1)
    source = PROGRAM.format(
        helpers="\n".join(helper_text(jinja, name) for name in helpers),
        count=len(values),
        ctype=ctype,
        units=n_units,
        store=store,
        load=load,
    )
    (folder / "narrow.c").write_text(source)
    flags = ["-std=c99", "-O1", *WARNINGS, "-Werror"]
    subprocess.run(["gcc", *flags, "narrow.c", "-o", "narrow", "-lm"], cwd=folder, check=True)
    done = subprocess.run(
        ["./narrow"], cwd=folder, input=values.tobytes(), capture_output=True, check=True
    )
    return done.stdout[:size_bytes], np.frombuffer(done.stdout[size_bytes:], np.float32)


def floats() -> Array:
    """Return floats of every exponent, ties between narrow ones, and what is no number."""
    random = np.random.default_rng(4).integers(0, 1 << 32, 50_000, dtype=np.uint64)
    ties = np.arange(0, 1 << 32, 1 << 17, dtype=np.uint64)
    bits = np.concatenate([random, ties]).astype(np.uint32)
    special = np.array([0.0, -0.0, np.inf, -np.inf, 464.0, 465.0, 65519.0, 65520.0], np.float32)
    return np.concatenate([bits.view(np.float32), special])


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_narrow_float_is_stored_and_loaded_as_numpy_does(dtype: str, tmp_path: Path) -> None:
    values = floats()
    if dtype == "float4e2m1":  # what it gives for NaN is nobody's standard
        values = values[~np.isnan(values)]
    with np.errstate(all="ignore"):
        due = values.astype(numpy_dtype(dtype))

    content, found = there_and_back(dtype, values, tmp_path)

    ours = loaded(content, dtype, len(values)).astype(np.float32)
    np.testing.assert_array_equal(ours, due.astype(np.float32))
    np.testing.assert_array_equal(found, due.astype(np.float32))


@pytest.mark.parametrize("dtype", ["int2", "int4", "uint2", "uint4"])
def test_packed_integers_lie_the_first_in_the_low_bits(dtype: str, tmp_path: Path) -> None:
    low, high = (0, 1 << int(dtype[-1])) if dtype[0] == "u" else (-2, 2)
    values = np.resize(np.arange(low, high, dtype=np.float32), 15)
    due = values.astype(np.int8).astype(numpy_dtype(dtype))

    content, found = there_and_back(dtype, values, tmp_path)

    assert content == stored(due, dtype).tobytes()
    np.testing.assert_array_equal(loaded(content, dtype, 15).astype(np.float32), values)
    np.testing.assert_array_equal(found, values)
