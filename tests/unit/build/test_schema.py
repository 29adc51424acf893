"""The schema that editors use says what the reader says."""

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from dlbuild.base.errors import UserError
from dlbuild.base.yamlsrc import read_documents
from dlbuild.build.schema import PROJECT, json_schema

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted(ROOT.glob("examples/*/dlbuild.yaml"))
GOOD = "version: 1\nmodels: {kws: {source: kws.onnx}}\n"


def is_valid(text: str) -> bool:
    schema = jsonschema.Draft7Validator(json.loads(json.dumps(json_schema())))
    return bool(schema.is_valid(yaml.safe_load(text)))


def is_read(text: str) -> bool:
    (node,) = read_documents(text, "f.yaml")
    try:
        PROJECT.check(node, "f.yaml")
    except UserError as error:
        return "not yet supported" in str(error)
    return True


def test_the_schema_is_draft_7() -> None:
    jsonschema.Draft7Validator.check_schema(json_schema())


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_examples_are_valid(path: Path) -> None:
    assert is_valid(path.read_text())


def test_every_key_says_what_it_is_for() -> None:
    def described(schema: object) -> bool:
        if isinstance(schema, list):
            return all(map(described, schema))
        if not isinstance(schema, dict):
            return True
        properties = schema.get("properties", {})
        return all(
            isinstance(value, dict) and str(value["description"]).strip()
            for value in properties.values()
        ) and all(map(described, schema.values()))

    assert described(json_schema())


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        GOOD + "targets: {b: {extends: host, memories: {sram: 48 KiB, flash: {size: 1 MiB}}}}",
        GOOD + "targets: {b: {memories: {sram: 48}}}",
        GOOD + "targets: {b: {memorys: {sram: 48 KiB}}}",
        GOOD + "targets: {b: {memories: {sram: 48 KB}}}",
        GOOD + "targets: {b: {cycles: {int8: 1.3 /MAC}}}",
        GOOD + "targets: {b: {cycles: {int7: 1.3 /MAC}}}",
        GOOD + "targets: {b: {dma: {channels: 2}}}",
        GOOD + "builds: [{model: kws, target: [a, b], input: streamed}]",
        GOOD + "builds: [{model: kws, target: a, hook: true}]",
        GOOD + "builds: [{model: kws, hook: 1}]",
        GOOD + "builds: [{target: a}]",
        GOOD + "builds: {model: kws}",
        "models: {kws: {source: kws.onnx}}",
        "version: 1\nmodels: {Kws: {source: kws.onnx}}",
        "version: 1\nmodels: {kws: {}}",
        "version: 1\nmodels: {kws: {source: a, shapes: {x: [1, -2]}}}",
    ],
)
def test_the_schema_and_the_reader_agree(text: str) -> None:
    assert is_valid(text) == is_read(text)
