"""Weights that are flashed apart, on this machine: what C says of images, and what builds make."""

import ctypes
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import yaml
from onnx import TensorProto, helper, numpy_helper

from dlbuild.ir.image import fault_of, layout_of
from dlbuild.ir.target import Memory, Options
from dlbuild.ir.weights import Array
from dlbuild.stages.image_layout import image_layout
from dlbuild.stages.schedule import schedule
from dlbuild.stages.sources import Sources, sources
from dlbuild.stages.tile import tile
from tests.conftest import Needs
from tests.run.test_render import (
    BOARD,
    Plan,
    book,
    compiles,
    float_model,
    int8_model,
    library,
    network,
    plan,
    run,
    weight,
    written,
)

IMAGE = Options(weights="image")
CODES = {None: 0, "truncated": 5, "foreign": 6, "damaged": 7, "stale": 8}
NO_IMAGE, MISALIGNED = 3, 4
SLOT_BYTES = 1 << 18


@dataclass
class Firmware:
    """C that was compiled once, and a slot for images."""

    net: ctypes.CDLL

    def __post_init__(self) -> None:
        self.room = ctypes.create_string_buffer(SLOT_BYTES + 64)
        self.first = -ctypes.addressof(self.room) % 64
        for function in ("net_check", "net_use"):
            getattr(self.net, function).argtypes = [ctypes.c_void_p, ctypes.c_uint32]

    def load(self, content: bytes, shift: int = 0) -> int:
        """Write an image into the slot and return its address."""
        address = ctypes.addressof(self.room) + self.first + shift
        ctypes.memmove(address, content, len(content))
        return address

    def use(self, content: bytes, size_bytes: int | None = None, shift: int = 0) -> int:
        address = self.load(content, shift)
        size_bytes = len(content) if size_bytes is None else size_bytes
        said: int = self.net.net_check(address, size_bytes)
        assert self.net.net_use(address, size_bytes) == said
        return said


def firmware(folder: Path, made: Plan) -> Firmware:
    return Firmware(library(written(folder, made.files())))


def image_of(made: Plan) -> bytes:
    return made.files()["net_image.bin"]


def outputs(net: ctypes.CDLL) -> tuple[int, list[int]]:
    """Run the int8 model of test_render."""
    x = (ctypes.c_int8 * 64)(*range(64))
    y = (ctypes.c_int8 * 4)(*[85] * 4)
    status: int = net.net_run(x, y)
    return status, list(y)


def flipped(content: bytes, bit: int) -> bytes:
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_an_image_gives_the_outputs_of_linked_weights(tmp_path: Path) -> None:
    """The second model has other scales and zero points as well."""
    device = firmware(tmp_path / "device", plan(int8_model(1), IMAGE))
    for seed in (1, 2):
        linked = library(written(tmp_path / f"linked{seed}", plan(int8_model(seed)).files()))

        assert device.use(image_of(plan(int8_model(seed), IMAGE))) == 0
        assert outputs(device.net) == outputs(linked)
        for name in ("x", "scores"):
            for what, ctype in (("scale", ctypes.c_float), ("zero_point", ctypes.c_int32)):
                said = getattr(device.net, f"net_{name}_{what}")
                said.restype = ctype
                assert said() == ctype.in_dll(linked, f"net_{name}_{what}").value


def test_every_flipped_bit_is_refused_as_the_tools_of_the_host_say(tmp_path: Path) -> None:
    made = plan(int8_model(1), IMAGE)
    device = firmware(tmp_path / "c", made)
    content, layout = image_of(made), image_layout(sources_of(made))
    assert len(content) == 192
    for bit in range(len(content) * 8):
        wrong = flipped(content, bit)
        fault = fault_of(wrong, layout)

        assert fault is not None
        assert device.use(wrong) == CODES[fault]
        assert outputs(device.net) == (NO_IMAGE, [85] * 4)
    assert device.use(content) == 0


def sources_of(made: Plan) -> Sources:
    return sources(made.graph, made.profile, book(), made.target, made.options, "net", made.tiles)


def test_what_is_too_short_lies_wrongly_or_is_not_there_is_refused(tmp_path: Path) -> None:
    made = plan(int8_model(1), IMAGE)
    device, content = firmware(tmp_path / "c", made), image_of(made)

    assert outputs(device.net) == (NO_IMAGE, [85] * 4)
    assert [device.use(content, size) for size in (0, 83, 84, 191)] == [CODES["truncated"]] * 4
    assert [device.use(content, None, shift) for shift in range(1, 16)] == [MISALIGNED] * 15
    assert device.use(content, 2**32 - 1) == 0
    assert device.net.net_use(None, 192) == NO_IMAGE
    assert outputs(device.net) == (NO_IMAGE, [85] * 4)


def test_a_check_changes_nothing(tmp_path: Path) -> None:
    made = plan(int8_model(1), IMAGE)
    device, content = firmware(tmp_path / "c", made), image_of(made)
    assert device.use(content) == 0
    before = outputs(device.net)

    second = device.load(flipped(content, 1000), 1024)

    assert device.net.net_check(second, len(content)) == CODES["damaged"]
    assert outputs(device.net) == before
    assert device.net.net_use(second, len(content)) == CODES["damaged"]
    assert outputs(device.net) == (NO_IMAGE, [85] * 4)


def test_an_image_of_another_model_of_the_same_structure_is_stale(tmp_path: Path) -> None:
    made = plan(int8_model(1), IMAGE)
    device = firmware(tmp_path / "c", made)

    assert device.use(made.files("other")["other_image.bin"]) == CODES["stale"]


@pytest.mark.parametrize("fact", ["narrow", "all_zero"])
def test_a_lost_truth_about_weights_makes_an_image_stale(fact: str, tmp_path: Path) -> None:
    """Kernels may rely on it, and the tables are of the same sizes."""
    device = firmware(tmp_path / "c", plan(int8_model(1), IMAGE))
    model = onnx.load_from_string(int8_model(1))
    name, value = ("w", -128) if fact == "narrow" else ("w_zero", 1)
    for tensor in model.graph.initializer:
        if tensor.name == name:
            array = numpy_helper.to_array(tensor).copy()
            array.flat[0] = value
            tensor.CopyFrom(numpy_helper.from_array(array, name))

    assert device.use(image_of(plan(model.SerializeToString(), IMAGE))) == CODES["stale"]


def test_a_run_ends_with_the_image_that_it_began_with(tmp_path: Path) -> None:
    """The hook switches between the steps of a run."""
    options = Options(weights="image", hook=True)
    made = plan(int8_model(1), options)
    folder = written(tmp_path / "c", made.files())
    hook = (
        '#include "net.h"\n#include <stddef.h>\n'
        "int net_hook(uint32_t step, void *user)\n"
        "{\n    (void)step;\n    (void)user;\n    (void)net_use(NULL, 0);\n    return 0;\n}\n"
    )
    device = Firmware(library(folder, hook))
    linked = library(written(tmp_path / "linked", plan(int8_model(1)).files()))
    assert device.use(image_of(made)) == 0

    assert outputs(device.net) == outputs(linked)
    assert outputs(device.net) == (NO_IMAGE, [85] * 4)


def in_rows(made: Plan) -> Plan:
    """Return the plan of a model whose input comes in rows."""
    tiles = tile(made.graph, made.profile, made.target, made.options, book())
    steps = schedule(made.graph, made.profile, tiles, made.target, made.options)
    return replace(made, tiles=tiles, schedule=steps)


def test_a_streamed_inference_ends_with_the_image_that_it_began_with(tmp_path: Path) -> None:
    """A new image is taken into use between the rows of one."""
    options = Options(
        weights="image", input="streamed", output="arena", layout=(("x", "nhwc"),), optimize="ram"
    )
    made = [in_rows(plan(int8_model(seed), options)) for seed in (1, 2)]
    device = firmware(tmp_path / "c", made[0])
    device.net.net_scores.restype = ctypes.POINTER(ctypes.c_int8)
    rows = (ctypes.c_int8 * 64)(*range(64))

    def inference(behind: int) -> tuple[int, list[int]]:
        """Push half of the rows, switch to another image, push the others."""
        device.net.net_begin()
        first = device.net.net_push(rows, 4)
        assert device.net.net_use(addresses[behind], 1024) == 0
        later = (ctypes.c_int8 * 32)(*range(32, 64))
        return first | device.net.net_push(later, 4), device.net.net_scores()[:4]

    addresses = [device.load(image_of(one), 4096 * n) for n, one in enumerate(made)]
    device.net.net_begin()
    assert device.net.net_push(rows, 8) == NO_IMAGE
    assert device.net.net_use(addresses[0], 1024) == 0
    found = [inference(1), inference(0), inference(0)]

    due = []
    for seed in (1, 2):
        linked = library(written(tmp_path / f"linked{seed}", plan(int8_model(seed)).files()))
        due.append(outputs(linked))
    assert found == [due[0], due[1], due[0]]


def large_model(seed: int) -> bytes:
    """Return 160 KiB of weights of three element types."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], "dense"),
        helper.make_node("Cast", ["v"], ["wide"], "cast", to=TensorProto.FLOAT),
        helper.make_node("Add", ["h", "wide"], ["s"], "sum"),
        helper.make_node("Mul", ["s", "g"], ["y"], "scale"),
    ]
    constants: dict[str, Array] = {
        "w": weight([160, 256], seed),
        "v": np.random.default_rng(seed).normal(0, 1, (1, 256)).astype(np.float16),
        "g": np.array(0.5, np.float32),
    }
    return network(nodes, {"x": [1, 160]}, {"y": [1, 256]}, constants)


def test_an_image_beyond_64_kib_is_used_in_place(tmp_path: Path) -> None:
    made = plan(large_model(1), IMAGE)
    device = firmware(tmp_path / "c", made)
    newer = plan(large_model(2), IMAGE)
    linked = library(written(tmp_path / "linked", plan(large_model(2)).files()))
    assert len(image_of(newer)) > 160 * 1024
    assert device.use(image_of(newer)) == 0
    assert device.use(flipped(image_of(newer), 1_000_000)) == CODES["damaged"]
    assert device.use(image_of(newer)) == 0
    x = (ctypes.c_float * 160)(*np.linspace(-1, 1, 160))

    found = []
    for net in (device.net, linked):
        y = (ctypes.c_float * 256)()
        assert net.net_run(x, y) == 0
        found.append(list(y))

    assert found[0] == found[1]


def test_a_model_without_weights_has_an_image_that_is_its_head_alone(tmp_path: Path) -> None:
    model = network([helper.make_node("Relu", ["x"], ["y"])], {"x": [4]}, {"y": [4]}, {})
    made = plan(model, IMAGE)
    device = firmware(tmp_path / "c", made)
    x, y = (ctypes.c_float * 4)(-1, 1, -2, 2), (ctypes.c_float * 4)()

    assert device.net.net_run(x, y) == NO_IMAGE
    assert device.use(image_of(made)) == 0
    assert device.net.net_run(x, y) == 0
    assert list(y) == [0, 1, 0, 2]


def test_tables_lie_as_their_memory_wants_it(tmp_path: Path) -> None:
    made = plan(int8_model(1), IMAGE)
    flash = Memory("flash", align_bytes=64, holds=("weights",))
    target = replace(BOARD, memories=(*BOARD.memories[:1], flash))
    apart = replace(made, target=target)
    layout = image_layout(sources_of(apart))

    assert layout.align_bytes == 64
    assert all(table.offset_bytes % 64 == 0 for table in layout.tables if table.length)
    assert compiles(written(tmp_path / "c", apart.files()), "net.c", "net_weights.c") == ""


def test_a_retrained_model_changes_its_image_alone() -> None:
    for model in (float_model, int8_model):
        first, second = (plan(model(seed), IMAGE).files() for seed in (1, 2))

        assert [name for name in first if first[name] != second[name]] == ["net_image.bin"]


def test_a_big_endian_core_is_refused_by_its_compiler(tmp_path: Path, needs: Needs) -> None:
    needs("arm-none-eabi-gcc")
    folder = written(tmp_path / "c", plan(int8_model(1), IMAGE).files())

    said = run("arm-none-eabi-gcc", "-mbig-endian", "-c", "net_weights.c", folder=folder).stderr

    assert "images are little-endian: build with 'weights: braces'" in said


class Project:
    """A recipe in a folder, and dlbuild run there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.built = folder / "build/dlbuild/pc/net"

    def write(self, seed: int, **options: object) -> None:
        (self.folder / "net.onnx").write_bytes(int8_model(seed))
        model = {"source": "net.onnx", "weights": "image", **options}
        memories = {"sram": "64 KiB", "flash": "64 KiB"}
        targets = {"pc": {"extends": "host", "features": ["fpu"], "memories": memories}}
        recipe = {"version": 1, "models": {"net": model}, "targets": targets}
        (self.folder / "dlbuild.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False))

    def dlbuild(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "dlbuild", *words]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)

    def files(self) -> dict[str, tuple[int, bytes]]:
        paths = (path for path in self.built.rglob("*") if path.is_file())
        return {p.name: (p.stat().st_mtime_ns, p.read_bytes()) for p in paths}


@pytest.fixture
def project(tmp_path: Path, cache: Path) -> Project:  # noqa: ARG001 - its own
    return Project(tmp_path)


def test_an_update_compiles_nothing_and_explain_says_so(project: Project) -> None:
    project.write(1)
    assert project.dlbuild("build").returncode == 0
    before = project.files()
    old = project.folder / "old.bin"
    old.write_bytes(before["net_image.bin"][1])

    project.write(2, image_version=7)
    done = project.dlbuild("build")
    assert done.returncode == 0, done.stderr
    after = project.files()

    assert {name for name in after if before[name] != after[name]} == {"net_image.bin"}
    assert "compile" not in done.stdout
    said = project.dlbuild("explain").stdout
    assert "the weights changed" in said
    assert "-> weight image changed, weight tables did not" in said
    assert project.dlbuild("build", "--check").returncode == 0
    assert project.files() == after
    # The old image fits the firmware as well as the new one.
    checked = project.dlbuild("image", "check", str(old), str(project.built / "net_image.bin"))
    assert checked.returncode == 0, checked.stdout
    assert checked.stdout.count("fits net@pc") == 2
    assert "version    7" in checked.stdout


def test_sizes_count_the_slot_and_refuse_what_does_not_fit(project: Project) -> None:
    project.write(1, image_slot="1 KiB")
    row = yaml.safe_load(project.dlbuild("size", "--json").stdout)[0]
    assert row["image_bytes"] == 1024

    project.write(1, image_slot="128 B")
    said = project.dlbuild("build").stderr
    assert "net@pc: error: the weight image has 192 B, its slot 128 B\n" in said
    assert "fix: set image_slot: 192 B" in said

    project.write(1, image_slot="64 KiB")
    said = project.dlbuild("build").stderr
    assert "weight image 65,536 B" in said


def test_addresses_are_checked(project: Project) -> None:
    project.write(1, image_address=0x1008)
    said = project.dlbuild("build").stderr
    assert "error: image_address: 0x00001008 is no multiple of 16" in said

    project.write(1, image_address=0xFFFFFFF0)
    said = project.dlbuild("build").stderr
    assert "error: image_address: 0xfffffff0 has no room for 192 B behind it" in said

    project.write(1, image_address=0x1000)
    recipe = yaml.safe_load((project.folder / "dlbuild.yaml").read_text())
    recipe["models"]["more"] = {**recipe["models"]["net"], "image_address": 0x1080}
    (project.folder / "dlbuild.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False))
    said = project.dlbuild("build").stderr
    assert "more@pc: error: its weight image would lie on that of net" in said
    assert "fix: set image_address: 0x000010c0 or higher" in said

    recipe["models"]["more"]["image_address"] = 0x10C0
    (project.folder / "dlbuild.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False))
    assert project.dlbuild("build").returncode == 0
    assert (project.built / "net_image.hex").read_text().startswith(":0200000400")


def test_image_says_what_is_wrong_with_files(project: Project) -> None:
    project.write(1, image_version=3)
    shown = project.dlbuild("image", "show", "nothing.bin")
    assert shown.returncode == 2
    assert "nothing.bin: error: there is no such file" in shown.stderr
    shown = project.dlbuild("image", "show")
    assert shown.stdout.startswith("build/dlbuild/pc/net/net_image.bin: whole\n  version    3\n")

    content = (project.built / "net_image.bin").read_bytes()
    for name, wrong in {
        "damaged": flipped(content, 1200),
        "truncated": content[:150],
        "foreign": b"MZ" + content,
    }.items():
        (project.folder / name).write_bytes(wrong)
        done = project.dlbuild("image", "check", name)
        assert done.returncode == 1
        assert done.stdout.startswith(f"{name}: {name}: ")

    (project.folder / "stale").write_bytes(plan(int8_model(1), IMAGE).files("kws")["kws_image.bin"])
    done = project.dlbuild("image", "check", "stale")
    assert (done.returncode, done.stdout.partition("\n")[0]) == (
        1,
        "stale: stale: it is of another model or structure",
    )

    project.write(1, weights="auto")
    said = project.dlbuild("image", "check", "stale").stderr
    assert "error: no build has a weight image" in said


def test_the_layout_is_a_file_of_the_plan(project: Project) -> None:
    project.write(1)
    assert project.dlbuild("build").returncode == 0
    layout = layout_of((project.built / "plan/6-image.json").read_bytes())
    assert layout is not None
    assert not fault_of((project.built / "net_image.bin").read_bytes(), layout)
    # Of the linked form nothing of it is left.
    project.write(1, weights="auto")
    assert project.dlbuild("build").returncode == 0
    assert not {name for name in project.files() if "image" in name}
