"""`dlbuild config`: the recipe with includes, extends, defaults and overrides filled in."""

import argparse
import json
from dataclasses import asdict

import yaml

from dlbuild.build.project import Model, Recipe
from dlbuild.cli.arguments import Parser
from dlbuild.cli.project import whole_recipe
from dlbuild.ir.batch import Batch
from dlbuild.ir.target import Board, Cluster, Dma, Memory, Options, Target

Plain = None | bool | int | float | str | list["Plain"] | dict[str, "Plain"]


def arguments(parser: Parser) -> None:
    """Add its options."""
    parser.add_argument(
        "--resolved", action="store_true", help="everything filled in; the only form there is"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, sizes in bytes")


def run(given: argparse.Namespace) -> int:
    """Print it as YAML that dlbuild can read, or as JSON."""
    recipe = whole_recipe(given)
    if given.json:
        content = {
            "models": {
                name: {
                    **asdict(model),
                    "source": model.source.as_posix(),
                    "state": dict(model.state),
                    "batch": _batch(model.batch),
                    "samples": model.samples.as_posix() if model.samples else None,
                }
                for name, model in recipe.models.items()
            },
            "targets": {name: asdict(target) for name, target in recipe.targets.items()},
            "builds": [asdict(build) for build in recipe.builds],
            "packs": [pack.as_posix() for pack in recipe.packs],
        }
        print(json.dumps(content, indent=2))
    else:
        print(yaml.safe_dump(resolved(recipe), sort_keys=False, default_flow_style=None), end="")
    return 0


def resolved(recipe: Recipe) -> Plain:
    """Return the recipe as plain values: the same builds, nothing left to look up."""
    packs: dict[str, Plain] = {"packs": [pack.as_posix() for pack in recipe.packs]}
    return {
        "version": 1,
        **(packs if recipe.packs else {}),
        "models": {name: _model(model) for name, model in recipe.models.items()},
        "targets": {name: _target(target) for name, target in recipe.targets.items()},
        "builds": [
            {"model": build.model, "target": build.target, **_options(build.options)}
            for build in recipe.builds
        ],
    }


def _model(model: Model) -> Plain:
    tolerance = {k: v for k, v in asdict(model.tolerance).items() if v is not None}
    content: dict[str, Plain] = {
        "source": model.source.as_posix(),
        "shapes": {tensor: list(sizes) for tensor, sizes in model.shapes.items()},
        "samples": model.samples.as_posix() if model.samples else None,
        "tolerance": tolerance,
        "state": dict(model.state),
        "batch": _batch(model.batch),
    }
    return {key: value for key, value in content.items() if value}


def _batch(batch: Batch | None) -> Plain:
    return None if batch is None else {"inputs": list(batch.inputs), "parts": batch.parts}


def _target(target: Target) -> Plain:
    content: dict[str, Plain] = {
        "memories": {memory.name: _memory(memory) for memory in target.memories},
        "stack": _size(target.stack_bytes),
        "features": list(target.features),
        "cycles": {dtype: f"{cost:g} /MAC" for dtype, cost in target.cycles.items()},
        "kernels": {name: asdict(rate) for name, rate in target.kernels.items()},
        "resources": {} if target.clusters else dict([target.resources]),
        "clusters": [_cluster(cluster, target.resources[0]) for cluster in target.clusters],
        "parameters": target.parameters if target.clusters else None,
        "registers": asdict(target.registers),
        "toolchain": {
            "cc": target.toolchain.cc,
            "ar": target.toolchain.ar,
            "size": target.toolchain.size,
            "cflags": list(target.toolchain.cflags),
        },
        "board": _board(target.board),
        "dma": _dma(target.dma),
        "runner": target.runner,
    }
    return {key: value for key, value in content.items() if value}


def _cluster(cluster: Cluster, kind: str) -> Plain:
    memories: dict[str, Plain] = {memory.name: _memory(memory) for memory in cluster.memories}
    return {
        "name": cluster.name,
        "resources": {kind: cluster.count},
        **({"memories": memories} if memories else {}),
    }


def _board(board: Board | None) -> Plain:
    if board is None:
        return None
    content: dict[str, Plain] = {
        "script": board.script,
        "sources": list(board.sources),
        "ldflags": list(board.ldflags),
    }
    return {key: value for key, value in content.items() if value}


def _memory(memory: Memory) -> Plain:
    content: dict[str, Plain] = {
        "size": _size(memory.size_bytes),
        "align": _size(memory.align_bytes),
        "section": memory.section,
        "holds": list(memory.holds),
        "copy": _copy(memory),
    }
    return {key: value for key, value in content.items() if value}


def _copy(memory: Memory) -> Plain:
    content: dict[str, Plain] = {}
    if memory.copy_setup_cycles:
        content["setup"] = f"{memory.copy_setup_cycles} cycles"
    if memory.copy_bytes_per_cycle:
        content["rate"] = f"{memory.copy_bytes_per_cycle:g} B/cycle"
    return content


def _dma(dma: Dma | None) -> Plain:
    if dma is None:
        return None
    return {"align": _size(dma.align_bytes)}


def _options(options: Options) -> dict[str, Plain]:
    apart = {"layout", "share", "image_version", "image_slot_bytes"}
    content: dict[str, Plain] = {
        key: value for key, value in asdict(options).items() if key not in apart
    }
    content["layout"] = dict(options.layout)
    content["share"] = options.share
    content["image_version"] = options.image_version or None
    content["image_slot"] = _size(options.image_slot_bytes)
    return {key: value for key, value in content.items() if value not in ({}, "", None)}


def _size(count: int | None) -> str | None:
    return None if count is None else f"{count} B"
