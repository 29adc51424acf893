from pathlib import Path

import numpy as np
import pytest

from dlbuild.base.errors import UserError
from dlbuild.ir.dtype import DTYPES
from dlbuild.ir.graph import Graph, Tensor
from dlbuild.ir.weights import Array, numpy_dtype
from dlbuild.run.samples import read_samples, samples_of, seeded_samples

GRAPH = Graph(
    name="m",
    inputs=("x", "side"),
    outputs=("y",),
    tensors=(
        Tensor("x", "float32", (2, 3)),
        Tensor("side", "int8", (4,)),
        Tensor("y", "int8", (1, 2)),
    ),
    ops=(),
    constants=(),
)
X = np.arange(6, dtype=np.float32).reshape(2, 3)
SIDE = np.arange(4, dtype=np.int8)


def saved(folder: Path, **arrays: Array) -> Path:
    path = folder / "s.npz"
    np.savez(path, **arrays)  # type: ignore[arg-type] # the stub takes keywords for allow_pickle
    return path


def test_arrays_of_the_tensors_shape_are_one_sample(tmp_path: Path) -> None:
    samples = read_samples(saved(tmp_path, x=X, in1=SIDE), GRAPH)
    assert len(samples) == 1
    assert np.array_equal(samples[0].inputs["x"], X)
    assert np.array_equal(samples[0].inputs["side"], SIDE)
    assert not samples[0].expected


def test_one_more_leading_axis_counts_the_samples(tmp_path: Path) -> None:
    y = np.array([[[1, 2]], [[3, 4]]], np.int8)
    path = saved(tmp_path, in0=np.stack([X, X + 1]), side=np.stack([SIDE, SIDE]), out0=y)
    samples = read_samples(path, GRAPH)
    assert [int(s.inputs["x"][0, 0]) for s in samples] == [0, 1]
    assert [s.expected["y"].tolist() for s in samples] == [[[1, 2]], [[3, 4]]]


def test_narrow_types_come_back_from_raw_bytes(tmp_path: Path) -> None:
    graph = Graph("m", ("x",), (), (Tensor("x", "bfloat16", (2,)),), (), ())
    array = np.array([1.5, -2.0], numpy_dtype("bfloat16"))
    samples = read_samples(saved(tmp_path, x=array), graph)
    assert samples[0].inputs["x"].astype(np.float32).tolist() == [1.5, -2.0]


def test_without_a_file_samples_are_seeded_and_equal_each_time() -> None:
    first, second = samples_of(None, GRAPH), samples_of(None, GRAPH)
    assert len(first) == 3
    for a, b in zip(first, second, strict=True):
        assert all(np.array_equal(a.inputs[name], b.inputs[name]) for name in GRAPH.inputs)
    assert not np.array_equal(first[0].inputs["x"], first[1].inputs["x"])


@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_each_type_has_seeded_values(dtype: str) -> None:
    graph = Graph("m", ("x",), (), (Tensor("x", dtype, (64,)),), (), ())
    value = seeded_samples(graph, 1)[0].inputs["x"]
    assert value.dtype == numpy_dtype(dtype)
    assert value.shape == (64,)


def refusal(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        read_samples(path, GRAPH)
    return str(caught.value).replace(str(path), "s.npz")


def test_an_unknown_key_names_what_the_model_has(tmp_path: Path) -> None:
    assert refusal(saved(tmp_path, x=X, side=SIDE, z=X)) == (
        "s.npz: error: the model has no input or output 'z'\n"
        "  fix: its inputs and outputs are 'x', 'side', 'y'"
    )


def test_a_missing_input_is_named(tmp_path: Path) -> None:
    assert refusal(saved(tmp_path, x=X)) == (
        "s.npz: error: no samples for input 'side'\n  fix: add an array named 'side' or 'in1'"
    )


def test_a_wrong_shape_says_which_is_due(tmp_path: Path) -> None:
    assert refusal(saved(tmp_path, x=X.T, side=SIDE)) == (
        "s.npz: error: 'x' has the shape [3, 2], the model's 'x' has [2, 3]\n"
        "  fix: give that shape, or one more leading axis that counts the samples"
    )


def test_a_wrong_element_type_is_not_converted(tmp_path: Path) -> None:
    assert refusal(saved(tmp_path, x=X.astype(np.float64), side=SIDE)) == (
        "s.npz: error: 'x' is float64, the model's 'x' is float32"
    )


def test_numbers_of_samples_must_agree(tmp_path: Path) -> None:
    assert refusal(saved(tmp_path, x=np.stack([X, X]), side=SIDE)) == (
        "s.npz: error: 'side' has 1 samples, 'x' has 2"
    )


def test_an_array_alone_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "x.npy").rename(tmp_path / "s.npz")
    assert refusal(tmp_path / "s.npz") == (
        "s.npz: error: not an .npz file of numpy\n  fix: write it with numpy.savez"
    )


def test_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.npz"
    path.write_text("no archive")
    assert refusal(path) == (
        "s.npz: error: not an .npz file of numpy\n  fix: write it with numpy.savez"
    )


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert refusal(tmp_path / "s.npz") == "s.npz: error: no such samples file"
