from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from dlbuild.ir.graph import Fact, Graph, Op, Tensor, Value
from dlbuild.rulebook.load import RuleBook, load_rules

Loader = Callable[..., RuleBook]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Loader:
    """Load rule texts: the built-in one, then one for each pack. Errors cite relative paths."""
    monkeypatch.chdir(tmp_path)

    def loaded(*texts: str) -> RuleBook:
        folders = []
        for number, text in enumerate(texts):
            folder = Path("pack" + str(number) if number else "base")
            (folder / "rules" / "ops").mkdir(parents=True, exist_ok=True)
            (folder / "rules" / "ops" / "ops.yaml").write_text(text)
            folders.append(folder)
        return load_rules(folders)

    return loaded


@pytest.fixture
def graph() -> Callable[..., Graph]:
    """Make a graph of one operator from `name="dtype 2x3"` for each of its tensors."""

    def made(
        op: Op,
        tensors: Mapping[str, str],
        *,
        constants: tuple[str, ...] = (),
        values: Mapping[str, tuple[int, ...]] | None = None,
        facts: tuple[Fact, ...] = (),
    ) -> Graph:
        known = values or {}
        return Graph(
            name="model",
            inputs=tuple(n for n in op.inputs if n and n not in constants and n not in known),
            outputs=tuple(n for n in op.outputs if n),
            tensors=tuple(_tensor(name, text) for name, text in tensors.items()),
            ops=(op,),
            constants=(*constants, *known),
            values=tuple(Value(name, (len(v),), v) for name, v in known.items()),
            facts=facts,
        )

    return made


def _tensor(name: str, text: str) -> Tensor:
    dtype, _, shape = text.partition(" ")
    return Tensor(name, dtype, tuple(int(d) for d in shape.split("x") if d))
