"""Bazel builds its example in its sandbox, without a network.

Bazel 4 fetches three sets of rules even for a shell script. Debian has those for Java and protocol
buffers as packages (bazel-rules-java, bazel-rules-proto); its rules for C are of a later Bazel, so
that native rules take their place here.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NEEDS = ("bazel",)
_DEBIAN = Path("/usr/share/bazel/rules")
_CC_RULES = """\
cc_binary = native.cc_binary
cc_import = native.cc_import
cc_library = native.cc_library
cc_proto_library = native.cc_proto_library
cc_test = native.cc_test
cc_toolchain = native.cc_toolchain
cc_toolchain_suite = native.cc_toolchain_suite
objc_import = native.objc_import
objc_library = native.objc_library
"""
_FLASHED = """\
load("@rules_dlbuild//dlbuild:defs.bzl", "dlbuild_models")
dlbuild_models(
    name = "networks",
    srcs = ["digits_int8.onnx"],
    images = ["digits_int8_image.bin"],
    models = ["digits_int8"],
    recipe = "dlbuild.yaml",
    target = "pc",
)
"""
_FLASHED_RECIPE = """\
version: 1
models: {digits_int8: {source: digits_int8.onnx}}
targets: {pc: {extends: host}}
builds: [{model: digits_int8, target: pc, weights: image}]
"""


def faults(work: Path) -> list[str]:
    """Build twice, with a touched model, with a remark, and an image of weights.

    Returns:
        What was not as it should be.
    """
    folder = work / "project"
    shutil.copytree(ROOT / "examples" / "embed" / "bazel", folder)
    workspace = folder / "WORKSPACE"
    workspace.write_text(workspace.read_text().replace("../../../", f"{ROOT}/"))
    start = ("bazel", f"--output_user_root={work / 'root'}")
    build = (*start, "build", *_options(work), ":firmware")
    try:
        said = [_run(build, folder)]
        said.append(_run(build, folder))
        os.utime(folder / "digits_int8.onnx")
        said.append(_run(build, folder))
        recipe = folder / "dlbuild.yaml"
        recipe.write_text("# a remark\n" + recipe.read_text())
        said.append(_run(build, folder))
        found = [_counts(text) for text in said]
        program = _run((str(folder / "bazel-bin" / "firmware"),), folder)
        made = folder / "bazel-bin" / "networks" / "digits_int8.c"
        clean = work / "clean"
        here = (sys.executable, "-m", "dlbuild", "build", "--sources", "-B", str(clean))
        _run(here, folder)
        is_same = made.read_bytes() == (clean / "pc/digits_int8/digits_int8.c").read_bytes()
        has_image = _has_image(folder, (*build[:-1], "//flashed:networks_images"))
    finally:
        _run((*start, "shutdown"), folder)
        subprocess.run(
            ("chmod", "-R", "u+w", str(work)), check=False
        )  # Bazel's files are read-only
    # dlbuild, three C files, a library and a program; a remark is another recipe, but the same C.
    wrong = [] if found == ["5", "0", "0", "1"] else [f"actions run: {found}"]
    wrong += [] if program == "int8   : 8\n" else [f"the program says {program!r}"]
    wrong += [] if has_image else ["the image of weights is not that of a build here"]
    return wrong + ([] if is_same else ["digits_int8.c is not that of a clean build"])


def _has_image(folder: Path, build: tuple[str, ...]) -> bool:
    """Say whether Bazel hands on the image of weights that dlbuild makes."""
    inner = folder / "flashed"
    inner.mkdir()
    shutil.copy(folder / "digits_int8.onnx", inner)
    (inner / "BUILD.bazel").write_text(_FLASHED)
    (inner / "dlbuild.yaml").write_text(_FLASHED_RECIPE)
    _run(build, folder)
    _run((sys.executable, "-m", "dlbuild", "build", "--sources", "--flat", "flat"), inner)
    image = Path("digits_int8_image.bin")
    made = folder / "bazel-bin" / "flashed" / "networks" / image
    return made.read_bytes() == (inner / "flat" / image).read_bytes()


def remote_hits(work: Path, url: str) -> int:
    """Build twice over a remote cache, all else removed between; return what came from there."""
    folder = work / "project"
    shutil.copytree(ROOT / "examples" / "embed" / "bazel", folder)
    workspace = folder / "WORKSPACE"
    workspace.write_text(workspace.read_text().replace("../../../", f"{ROOT}/"))
    start = ("bazel", f"--output_user_root={work / 'root'}")
    build = (*start, "build", *_options(work), f"--remote_cache={url}", ":firmware")
    try:
        _run(build, folder)
        _run((*start, "clean"), folder)
        said = _run(build, folder)
    finally:
        _run((*start, "shutdown"), folder)
        subprocess.run(("chmod", "-R", "u+w", str(work)), check=False)
    line = next(line for line in said.splitlines() if "process" in line and "INFO" in line)
    words = line.replace(",", "").split()
    return int(words[words.index("remote") - 1]) if "remote" in words else 0


def _options(work: Path) -> list[str]:
    rules = work / "rules_cc"
    (rules / "cc").mkdir(parents=True)
    for name, text in {
        "WORKSPACE": 'workspace(name = "rules_cc")\n',
        "BUILD": "",
        "cc/BUILD": "",
        "cc/defs.bzl": _CC_RULES,
    }.items():
        (rules / name).write_text(text)
    return [
        f"--action_env=DLBUILD_PYTHON={sys.executable}",
        f"--action_env=PYTHONPATH={ROOT}",
        f"--override_repository=rules_cc={rules}",
        f"--override_repository=rules_java={_DEBIAN / 'java'}",
        f"--override_repository=rules_proto={_DEBIAN / 'proto'}",
    ]


def _counts(said: str) -> str:
    """Return how many actions ran in the sandbox, as Bazel says."""
    line = next(line for line in said.splitlines() if "process" in line and "INFO" in line)
    words = line.replace(",", "").replace(".", "").split()
    return words[words.index("linux-sandbox") - 1] if "linux-sandbox" in words else "0"


def _run(command: tuple[str, ...], folder: Path) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout}"
    return done.stdout
