"""Values of tensors whose size only the run knows."""

from pathlib import Path

import numpy as np
import pytest

from dlbuild.base.errors import UserError
from dlbuild.ir.graph import Count, Graph, Tensor
from dlbuild.run.counted import counted, filled, with_rest_of
from dlbuild.run.samples import read_samples

TENSORS = (Tensor("y", "int64", (2, 4)), Tensor("n", "int32", ()))
GRAPH = Graph("g", (), ("y", "n"), TENSORS, (), (), counts=(Count("y", 1, "n"),))
Y = np.arange(8).reshape(2, 4)


def test_a_value_is_cut_to_its_count() -> None:
    found = counted(GRAPH, {"y": Y, "n": np.array(3, np.int32)})
    assert found["y"].tolist() == [[0, 1, 2], [4, 5, 6]]


def test_another_programs_value_is_filled_up_and_counted() -> None:
    found = filled(GRAPH, {"y": Y[:, :1]})
    assert found["y"].tolist() == [[0, 0, 0, 0], [4, 0, 0, 0]]
    assert (int(found["n"]), str(found["n"].dtype)) == (1, "int32")


def test_what_lies_behind_the_last_slice_is_not_compared() -> None:
    due = filled(GRAPH, {"y": Y[:, :2]})
    assert with_rest_of(GRAPH, "y", Y, due["y"], due).tolist() == [[0, 1, 0, 0], [4, 5, 0, 0]]


def test_samples_may_expect_fewer_slices_but_no_other_extents(tmp_path: Path) -> None:
    np.savez(tmp_path / "s.npz", y=Y[:, :2])
    (sample,) = read_samples(tmp_path / "s.npz", GRAPH)
    assert int(sample.expected["n"]) == 2
    np.savez(tmp_path / "s.npz", y=Y[:1])
    with pytest.raises(UserError, match="has the shape"):
        read_samples(tmp_path / "s.npz", GRAPH)
