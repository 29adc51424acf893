"""The int8 networks of MLPerf Tiny: where they lie in a folder of models, and what recipes say."""

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path

import yaml

MODELS = {
    "ad": "mlperf_ad_toycar_int8",
    "ic": "mlperf_ic_resnet8_int8",
    "kws": "mlperf_kws_dscnn_int8",
    "vww": "mlperf_vww_mobilenetv1_int8",
    "sww": "mlperf_sww_int8",
}


def folders(parent: Path, pattern: str) -> dict[str, Path]:
    """Return the folder of each network whose name the pattern matches."""
    return {n: parent.resolve() / file for n, file in MODELS.items() if fnmatch(n, pattern)}


def entry(folder: Path) -> dict[str, object]:
    """Return what a recipe says of the model in a folder: its file, and the extents it is run with.

    meta.json has both the extents that the model declares and those of its samples.
    """
    meta = json.loads((folder / "meta.json").read_text())
    shapes = {i["name"]: i["shape"] for i in meta["inputs"] if i["shape"] != i["declared"]}
    return {"source": str(folder / "model.onnx"), "shapes": shapes}


@contextmanager
def project(recipe: Mapping[str, object]) -> Iterator[None]:
    """Work in a folder with a recipe, which is gone afterwards. recipe: all but its version."""
    with tempfile.TemporaryDirectory(prefix="dlbuild-bench-") as work:
        os.chdir(work)
        text = yaml.safe_dump({"version": 1, **recipe}, sort_keys=False)
        Path("dlbuild.yaml").write_text(text, encoding="utf-8")
        try:
            yield
        finally:
            os.chdir("/")
