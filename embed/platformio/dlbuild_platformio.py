"""Models of a dlbuild.yaml in a PlatformIO project.

    [env:board]
    extra_scripts = pre:path/that/dlbuild/embed/platformio/prints
    custom_dlbuild_target = board
    custom_dlbuild_models = kws vww
    custom_dlbuild_recipe = dlbuild.yaml    ; default
    custom_dlbuild_python = python3         ; the Python that has dlbuild; default: $DLBUILD_PYTHON

PlatformIO runs this at each start, before it looks for what to compile, and dlbuild then sees by
`stat` alone that there is nothing to do. Nothing is installed or fetched.
"""

import os
import subprocess
import sys
from pathlib import Path

Import("env")  # type: ignore[name-defined] # noqa: F821 - SCons runs this file


def option(name: str, default: str = "") -> str:
    """Return a key of platformio.ini, with its variables filled in."""
    return env.subst(env.GetProjectOption(f"custom_dlbuild_{name}", default))  # type: ignore[name-defined] # noqa: F821 - as above


recipe = Path(env.subst("$PROJECT_DIR"), option("recipe", "dlbuild.yaml"))  # type: ignore[name-defined] # noqa: F821 - as above
target, models = option("target"), option("models").split()
if recipe.name != "dlbuild.yaml" or not recipe.is_file():
    sys.exit(f"custom_dlbuild_recipe: {recipe} is not there")
if not target or not models:
    sys.exit("platformio.ini: name custom_dlbuild_target and custom_dlbuild_models")
python = option("python") or os.environ.get("DLBUILD_PYTHON") or sys.executable
out = Path(env.subst("$BUILD_DIR"), "dlbuild").absolute()  # type: ignore[name-defined] # noqa: F821 - as above
done = subprocess.run(
    [
        *(python, "-P", "-m", "dlbuild", "build", "--sources", "--target", target),
        *("-C", str(recipe.parent.absolute()), "-B", str(out)),
    ],
    check=False,
)
if done.returncode != 0:
    sys.exit(done.returncode)
for model in models:
    folder = out / target / model
    if not (folder / f"{model}.c").is_file():
        sys.exit(f"custom_dlbuild_models: {recipe} builds no '{model}' for '{target}'")
    env.Append(CPPPATH=[str(folder)])  # type: ignore[name-defined] # noqa: F821 - as above
    objects = str(Path("$BUILD_DIR", "dlbuild-objects", model))
    env.BuildSources(objects, str(folder), "+<*.c>")  # type: ignore[name-defined] # noqa: F821 - as above
