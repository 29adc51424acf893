"""A model built and verified for this machine beside the project, to see what it costs."""

import json
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dlbuild.build.builder import How, build
from dlbuild.build.pipeline import with_verify
from dlbuild.build.recipe import PROJECT_FILE, read_recipe
from dlbuild.build.sizes import decode_sizes
from dlbuild.ir import codec
from dlbuild.ir.schedule import Schedule
from dlbuild.run.samples import Sample
from dlbuild.run.toolchain import identify
from dlbuild.run.verify import Verdict

NO_LIMIT = 1e30
"""How far an output may be off here is for the user to judge."""


@dataclass(frozen=True)
class Trial:
    """What one model takes, and how far its outputs are from those that are due."""

    verdict: Verdict
    arena_bytes: int
    flash_bytes: int


def trials(
    models: Mapping[str, Path], shapes: Mapping[str, tuple[int, ...]], samples: Sequence[Sample]
) -> dict[str, Trial]:
    """Build models of the same inputs and outputs and compare each with the expected outputs.

    Args:
        models: the file of each by its name in C.
        shapes: extents of inputs that the files leave open.
        samples: inputs, and what is due.
    """
    with tempfile.TemporaryDirectory(prefix="dlbuild-trial-") as work:
        folder = Path(work)
        _save(folder / "samples.npz", samples)
        (folder / PROJECT_FILE).write_text(_recipe(models, shapes), encoding="utf-8")
        recipe = read_recipe(folder / PROJECT_FILE)
        pipeline = with_verify(layers=False)
        engine = build(recipe, pipeline, How(folder / "out", 1), identify, lambda _: None)
        found = {}
        for one in recipe.builds:
            plan = codec.decode(engine.content(one, "schedule"), Schedule)
            found[one.model] = Trial(
                codec.decode(engine.content(one, "verdict"), Verdict),
                sum(use.height_bytes for use in plan.memories),
                decode_sizes(engine.content(one, "size")).flash_bytes,
            )
    return found


def _save(file: Path, samples: Sequence[Sample]) -> None:
    """Write samples by position: names of tensors may be any text."""
    first = samples[0]
    stacks = {f"in{n}": [s.inputs[key] for s in samples] for n, key in enumerate(first.inputs)}
    for number, key in enumerate(first.expected):
        stacks[f"out{number}"] = [s.expected[key] for s in samples]
    with zipfile.ZipFile(file, "w") as archive:
        for key, arrays in stacks.items():
            with archive.open(f"{key}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.stack(arrays))


def _recipe(models: Mapping[str, Path], shapes: Mapping[str, tuple[int, ...]]) -> str:
    """Return a recipe; JSON is YAML, and knows how to quote any path."""
    limit = {"rtol": NO_LIMIT, "atol": NO_LIMIT}
    entries = {
        name: {
            "source": str(path.resolve()),
            "samples": "samples.npz",
            "tolerance": limit,
            **({"shapes": {n: list(shape) for n, shape in shapes.items()}} if shapes else {}),
        }
        for name, path in models.items()
    }
    content = {
        "version": 1,
        "models": entries,
        # What a core without kernels of its own would take, not a PC.
        "targets": {"pc": {"extends": "host", "features": ["fpu"]}},
        "builds": [{"model": name, "target": "pc"} for name in models],
    }
    return json.dumps(content)
