"""Weights that are flashed apart, on emulated cores: what is wrong with an image is said, and no
wrong one is computed with; a right one gives the outputs of its model.
"""

import shutil
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import yaml
from onnx import numpy_helper

from dlbuild.build.engine import path_of
from dlbuild.ir.image import HEAD
from dlbuild.ir.target import Options
from dlbuild.ir.weights import Array
from dlbuild.run.board import BoardMaker
from tests.target.conftest import DIGITS, ROOT, Made, make

OK, NO_IMAGE, MISALIGNED, TRUNCATED, FOREIGN, DAMAGED, STALE = 0, 3, 4, 5, 6, 7, 8
UNTOUCHED = bytes([0x5A] * 10)
IMAGE_LEN = 64
CORES = ("cortex-m4f", "rv32imc")
N_PAYLOAD_BITS = 300


@dataclass(frozen=True)
class Spoiled:
    """A case: where the image begins, the size that is said, bits flipped in up to four bytes."""

    size_bytes: int
    first: int = 0
    flips: tuple[tuple[int, int], ...] = ()

    def encoded(self) -> bytes:
        flips = [*self.flips, *[(0, 0)] * (4 - len(self.flips))]
        at, bits = zip(*flips, strict=True)
        return b"C\0\0\0" + struct.pack("<2I4I4I", self.first, self.size_bytes, *at, *bits)


@dataclass(frozen=True)
class Answer:
    """What `check`, `use` and `run` returned, and the outputs."""

    check: int
    use: int
    run: int
    outputs: bytes


def retrained(seed: int, path: Path, least: int | None = None) -> Path:
    """Write the int8 network of the digits with its weights in another order.

    least: what the first weight of each layer is set to. Kernels may rely on none being -128.
    """
    rng = np.random.default_rng(seed)
    model = onnx.load(DIGITS / "digits_int8.onnx")
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype == np.int8 and array.ndim > 1:
            shuffled = rng.permutation(array.reshape(-1)).reshape(array.shape)
            if least is not None:
                shuffled.flat[0] = least
            tensor.CopyFrom(numpy_helper.from_array(shuffled, tensor.name))
    onnx.save(model, path)
    return path


def write_recipe(sources: Mapping[str, Path], core: str, **options: object) -> None:
    models = {
        name: {"source": str(source), "weights": "image", **options}
        for name, source in sources.items()
    }
    targets = {"board": {"extends": core}}
    text = yaml.safe_dump({"version": 1, "models": models, "targets": targets})
    Path("dlbuild.yaml").write_text(text)


def expected(model: Path) -> Array:
    """Return what ONNX Runtime gives for the input of image_faults.c."""
    pixels = (np.arange(IMAGE_LEN) * 37 % 256).astype(np.uint8).view(np.int8)
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    (port,) = session.get_inputs()
    (found,) = session.run(None, {port.name: pixels.reshape(1, 1, 8, 8)})
    return np.asarray(found).reshape(-1)


@dataclass(frozen=True)
class Firmware:
    """A program that is linked once. images: by the name of what they are of."""

    maker: BoardMaker
    archive: Path
    images: Mapping[str, bytes]
    work: Path

    def attempts(self, tried: Sequence[tuple[bytes, Sequence[Spoiled]]]) -> Iterator[Answer]:
        """Boot it, load images, and try each case of each; the first answer is before any."""
        text = (Path(__file__).parent / "image_faults.c").read_text()
        program = self.maker.program(text, "faults", [self.archive], self.work)
        sent = []
        for content, cases in tried:
            sent.append(b"L\0\0\0" + len(content).to_bytes(4, "little") + content)
            sent += [case.encoded() for case in cases]
        found = program.run(b"".join([*sent, b"E\0\0\0"]))
        status, outputs = int.from_bytes(found[:4], "little"), found[4:14]
        yield Answer(NO_IMAGE, NO_IMAGE, status, outputs)
        for at in range(14, len(found), 22):
            check, use, run = struct.unpack_from("<3i", found, at)
            yield Answer(check, use, run, found[at + 12 : at + 22])


@pytest.fixture
def firmware(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: Made
) -> Firmware:
    """Build a firmware, then images of weights that it was not built with."""
    core: str = request.param
    monkeypatch.chdir(tmp_path)
    old, new = DIGITS / "digits_int8.onnx", retrained(1, tmp_path / "new.onnx")
    write_recipe({"digits_int8": old, "other": old}, core)
    engine, builds = made()
    first = builds["digits_int8@board"]
    archive = path_of(engine.out, first, "archive")
    files = {name: path.read_bytes() for name, path in unchanging(engine.out, first.model).items()}
    images = {
        "old": engine.content(first, "image"),
        "exchanged": engine.content(builds["other@board"], "image"),
    }
    write_recipe({"digits_int8": new}, core, image_version=2)
    engine, builds = made()
    images["new"] = engine.content(builds["digits_int8@board"], "image")
    assert files == {
        name: path.read_bytes() for name, path in unchanging(engine.out, first.model).items()
    }
    write_recipe({"digits_int8": retrained(1, tmp_path / "wide.onnx", least=-128)}, core)
    engine, builds = made()
    images["stale"] = engine.content(builds["digits_int8@board"], "image")
    kept = tmp_path / "firmware"
    kept.mkdir()
    for name, content in files.items():
        (kept / name).write_bytes(content)
    target = engine.keys.recipe.targets["board"]
    return Firmware(BoardMaker(target, Options()), kept / archive.name, images, tmp_path)


def unchanging(out: Path, model: str) -> dict[str, Path]:
    """Return all that is compiled and linked."""
    folder = out / "board" / model
    return {
        path.name: path
        for path in sorted(folder.iterdir())
        if path.suffix in {".c", ".h", ".o", ".a"}
    }


def faults(image: bytes) -> dict[Spoiled, int]:
    """Return ways to spoil an image, and what the firmware is to say of each."""
    size = len(image)
    found = {}
    for at in range(HEAD.size):
        for bit in range(8):
            word = at // 4
            due = FOREIGN if word < 2 else DAMAGED
            is_longer = word == 2 and not image[at] >> bit & 1
            found[Spoiled(size, flips=((at, 1 << bit),))] = TRUNCATED if is_longer else due
    rng = np.random.default_rng(7)
    for bit in rng.choice(np.arange(HEAD.size * 8, size * 8), N_PAYLOAD_BITS, replace=False):
        found[Spoiled(size, flips=((int(bit) // 8, 1 << int(bit) % 8),))] = DAMAGED
    # Bursts of up to 32 bits, which the CRC finds for certain, and four bytes anywhere.
    for at in rng.integers(12, size - 4, 50):
        burst = tuple((int(at) + n, int(rng.integers(1, 256))) for n in range(4))
        found[Spoiled(size, flips=burst)] = DAMAGED
    for _ in range(50):
        places = rng.choice(np.arange(12, size), 4, replace=False)
        flips = tuple((int(at), int(rng.integers(1, 256))) for at in places)
        found[Spoiled(size, flips=flips)] = DAMAGED
    for short in (0, 1, 15, 83, 84, size // 2, size - 1):
        found[Spoiled(short)] = TRUNCATED
    for first in (1, 2, 4, 8, 15, 17, 40):
        found[Spoiled(size, first)] = MISALIGNED
    return found


@pytest.mark.parametrize("firmware", CORES, indirect=True)
def test_only_a_right_image_is_computed_with(firmware: Firmware) -> None:
    new, old = firmware.images["new"], firmware.images["old"]
    spoiled = faults(new)
    whole = Spoiled(len(new))
    erased = b"\xff" * len(new)
    answers = firmware.attempts(
        [
            (old, [whole]),
            (new, [whole, Spoiled(65536 - 64), Spoiled(len(new), 64), *spoiled, whole]),
            (firmware.images["stale"], [Spoiled(len(firmware.images["stale"]))]),
            (firmware.images["exchanged"], [whole]),
            (erased, [whole]),
            (old, [whole]),
        ]
    )

    assert next(answers) == Answer(NO_IMAGE, NO_IMAGE, NO_IMAGE, UNTOUCHED)
    of_old = next(answers)
    of_new = [next(answers) for _ in range(3)]
    for case, due in spoiled.items():
        assert next(answers) == Answer(due, due, NO_IMAGE, UNTOUCHED), case
    of_new.append(next(answers))
    for due in (STALE, STALE, FOREIGN):
        assert next(answers) == Answer(due, due, NO_IMAGE, UNTOUCHED)
    assert next(answers) == of_old
    assert not list(answers)

    assert len(spoiled) > 1000
    assert (of_old.check, of_old.use, of_old.run) == (OK, OK, OK)
    assert len(set(of_new)) == 1
    assert (of_new[0].use, of_new[0].run) == (OK, OK)
    assert near(of_old, DIGITS / "digits_int8.onnx")
    assert near(of_new[0], firmware.work / "new.onnx")
    assert of_old.outputs != of_new[0].outputs


def near(answer: Answer, model: Path) -> bool:
    """Say whether outputs are those of a model, but for the roundings of its layers."""
    ours = np.frombuffer(answer.outputs, np.int8).astype(int)
    return bool(np.abs(ours - expected(model)).max() <= 3)


def test_the_example_flashes_new_weights_beside_the_same_firmware(tmp_path: Path) -> None:
    ignored = shutil.ignore_patterns("build")
    shutil.copytree(ROOT / "examples" / "digits", tmp_path / "digits", ignore=ignored)
    folder = tmp_path / "weight_image"
    shutil.copytree(ROOT / "examples" / "weight_image", folder, ignore=ignored)
    made = folder / "build/dlbuild"
    assert make(folder, "run").endswith("weights of version 1\ndigit 2\n")
    linked_at = (made / "firmware.elf").stat().st_mtime_ns
    first = (made / "board/digits_int8/digits_int8_image.bin").read_bytes()

    retrained(2, tmp_path / "digits/digits_int8.onnx")
    recipe = (folder / "dlbuild.yaml").read_text()
    (folder / "dlbuild.yaml").write_text(recipe.replace("image_version: 1", "image_version: 2"))
    assert "weights of version 2\n" in make(folder, "run")
    assert (made / "firmware.elf").stat().st_mtime_ns == linked_at
    assert (made / "board/digits_int8/digits_int8_image.bin").read_bytes() != first
    assert "fits digits_int8@board" in make(folder, "check")

    (tmp_path / "spoiled.bin").write_bytes(first[:-1] + b"\1")
    said = make(folder, "check", f"NEW={tmp_path / 'spoiled.bin'}", fails=True)
    assert "spoiled.bin: damaged: its CRC is not that of its bytes" in said
