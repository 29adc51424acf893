"""Models written as text, read by parse, computed by the rules' steps and by ONNX Runtime."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

from dlbuild.base.paths import builtin_folder
from dlbuild.ir.graph import Op
from dlbuild.ir.weights import Array
from dlbuild.rulebook.interpret import interpret
from dlbuild.rulebook.load import RuleBook, load_rules
from dlbuild.rulebook.match import match
from dlbuild.stages.parse import Parsed, parse

Constants = Mapping[str, Array]


@dataclass(frozen=True)
class Reader:
    """Writes models into a folder and reads them."""

    folder: Path
    book: RuleBook

    def save(self, text: str, constants: Constants | None = None, name: str = "m.onnx") -> Path:
        """Write a model given in ONNX's text form, with further constants."""
        model = onnx.parser.parse_model(text)
        for key, array in (constants or {}).items():
            model.graph.initializer.append(numpy_helper.from_array(array, key))
        path = self.folder / name
        path.write_bytes(model.SerializeToString())
        return path

    def parse(self, path: Path, shapes: Mapping[str, tuple[int, ...]] | None = None) -> Parsed:
        return parse(path, shapes or {}, self.book, "m")

    def read(self, text: str, constants: Constants | None = None) -> Parsed:
        return self.parse(self.save(text, constants))

    def compute(self, parsed: Parsed, feeds: Constants) -> list[Array]:
        """Run the graph by the rules' steps."""
        graph = parsed.graph
        held = {**feeds, **parsed.weights}
        for op in graph.ops:
            instance = match(op, graph, self.book)
            operands = instance.operands
            found = interpret(
                instance, {o.name: held[o.tensor] for o in operands if o.role == "input"}
            )
            held |= {o.tensor: found[o.name] for o in operands if o.role == "output"}
        return [held[name] for name in graph.outputs]

    def require_equal(
        self, text: str, constants: Constants | None, feeds: Constants, *, within: float = 0.0
    ) -> Parsed:
        """Read a model; its graph must compute what ONNX Runtime computes from the file."""
        path = self.save(text, constants)
        parsed = self.parse(path)
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(
            path.read_bytes(), options, providers=["CPUExecutionProvider"]
        )
        for ours, theirs in zip(
            self.compute(parsed, feeds), session.run(None, dict(feeds)), strict=True
        ):
            assert ours.dtype == theirs.dtype
            assert ours.shape == theirs.shape
            relative = 0.0 if "int" in ours.dtype.name else within
            np.testing.assert_allclose(
                ours.astype(np.float64), theirs.astype(np.float64), rtol=relative, atol=within
            )
        return parsed


def kinds(parsed: Parsed) -> list[str]:
    """Return the operators in order."""
    return [op.kind for op in parsed.graph.ops]


def only(parsed: Parsed, kind: str) -> Op:
    """Return the one operator of a kind."""
    (found,) = [op for op in parsed.graph.ops if op.kind == kind]
    return found


@pytest.fixture(scope="session")
def book() -> RuleBook:
    return load_rules([builtin_folder()])


@pytest.fixture
def reader(tmp_path: Path, book: RuleBook) -> Reader:
    return Reader(tmp_path, book)


@pytest.fixture
def ops() -> Callable[[Parsed], list[str]]:
    return kinds


@pytest.fixture
def one() -> Callable[[Parsed, str], Op]:
    return only
