"""Copies of a state: what they are given, and what counts as equal."""

from pathlib import Path

import numpy as np

from dlbuild.ir.graph import Graph, State, Tensor
from dlbuild.run.samples import samples_of
from dlbuild.run.verify_replicas import replica_comparison

NAMES = ("w", "w.c1", "w_next", "w_next.c1")
GRAPH = Graph(
    "g",
    ("w", "w.c1"),
    ("w_next", "w_next.c1"),
    tuple(Tensor(name, "float32", (3,)) for name in NAMES),
    (),
    (),
    states=(State("w", "w_next"), State("w.c1", "w_next.c1", replica_of="w")),
)


def test_a_copy_begins_with_what_the_first_one_has(tmp_path: Path) -> None:
    for sample in samples_of(None, GRAPH):
        np.testing.assert_array_equal(sample.inputs["w.c1"], sample.inputs["w"])
    file = tmp_path / "samples.npz"
    np.savez(file, in0=np.ones((2, 3), np.float32), w_next=np.zeros((2, 3), np.float32))
    for sample in samples_of(file, GRAPH):
        np.testing.assert_array_equal(sample.inputs["w.c1"], np.ones(3))
        assert sample.expected.keys() == {"w_next"}


def test_copies_of_other_bits_are_not_equal_though_their_numbers_are() -> None:
    first = np.array([0, 1, np.nan], np.float32)
    second = np.array([-0.0, 1, np.nan], np.float32)
    found = [
        replica_comparison(GRAPH, "w_next.c1", [{"w_next": first, "w_next.c1": copy}])
        for copy in (first.copy(), second)
    ]
    assert [one.n_outside for one in found] == [0, 1]
    assert [one.n_elements for one in found] == [3, 3]
    assert found[0].passed
    assert not found[1].passed
