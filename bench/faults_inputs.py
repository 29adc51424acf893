"""Faults of inputs and outputs: replaced, edited, moved, renamed, dated wrongly."""

import os
import shutil
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import onnx
from faults_project import MADE, RECIPE, Lab, Project

Case = Callable[[Lab], str | None]
"""Plays a fault; raises AssertionError, or returns why it cannot be played here."""

WEIGHTS_STAGES = {"parse", "tables", "compile tables", "size", "archive"}


def replaced(lab: Lab, *, variant: str, in_place: bool) -> None:
    """Give the input another content under its old times."""
    project = lab.built()
    status = project.model.stat()
    path = project.model if in_place else project.folder / "new"
    path.write_bytes(lab.models[variant])
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    path.replace(project.model)
    assert {"parse"} <= set(project.build().ran) <= WEIGHTS_STAGES
    lab.check(project)


def dated(lab: Lab, *, time_s: int) -> None:
    """Give the input a strange time: first alone, then with another content."""
    project = lab.built()
    os.utime(project.model, (time_s, time_s))
    before = project.times()
    assert project.build().ran == []
    assert project.times() == before, "an output was written again"
    project.model.write_bytes(lab.models["B"])
    os.utime(project.model, (time_s, time_s))
    project.build()
    lab.check(project)
    assert project.build().text == "nothing to do\n"


def output_changed(lab: Lab, *, name: str, change: Callable[[Path], object]) -> None:
    """Edit, cut or delete an output."""
    project = lab.built()
    path = project.folder / MADE / name
    change(path)
    built = project.build()
    assert built.ran == [], built.text
    lab.check(project)
    assert path.stat().st_nlink == 1, "an output shares its content with the store"
    assert project.build().text == "nothing to do\n"


def appended(path: Path) -> None:
    """Edit a file as a user would."""
    path.write_bytes(path.read_bytes() + b"/* mine */\n")


def cut(path: Path) -> None:
    """Cut a file in the middle."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def same_size(path: Path) -> None:
    """Change one byte under the old times."""
    status, content = path.stat(), path.read_bytes()
    path.write_bytes(content[:-2] + b" " + content[-1:])
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def became_folder(path: Path) -> None:
    """Put a folder where a file was."""
    path.unlink()
    path.mkdir()


EDIT = """
import pathlib, dlbuild.build.steps.parse as step
once = [pathlib.Path({other!r}).read_bytes()]
true = step.{function}
def late(*given):
    made = true(*given)
    if once:
        pathlib.Path("net.onnx").write_bytes(once.pop())
    return made
step.{function} = late
"""


def edited_while_parsed(lab: Lab) -> None:
    """Edit the model after parse has read it and before it returns."""
    project = lab.project()
    other = lab.folder / "other.onnx"
    other.write_bytes(lab.models["B"])
    project.build(driver=EDIT.format(other=str(other), function="parse"))
    lab.check(project)
    project.build()
    lab.check(project)


def edited_while_compiled(lab: Lab) -> None:
    """Edit the model while the compiler runs, long after parse."""
    project = lab.project()
    cc = project.folder / "cc.sh"
    cc.write_text('#!/bin/sh\n[ -f edit ] && mv edit "$HERE/net.onnx"\nexec gcc "$@"\n')
    cc.chmod(0o755)
    (project.folder / "dlbuild.yaml").write_text(
        RECIPE.replace("{extends: host}", f"{{extends: host, toolchain: {{cc: {cc}}}}}")
    )
    (project.folder / "edit").write_bytes(lab.models["B"])
    cc.write_text(cc.read_text().replace("edit", str(project.folder / "edit")))
    project = project.with_environment(HERE=str(project.folder))
    project.build("-j1")
    assert not (project.folder / "edit").exists()
    project.build()
    lab.check(project)


def moved(lab: Lab) -> None:
    """Move the whole project to another folder with its build folder."""
    project = lab.built()
    before = project.outputs()
    folder = project.folder.with_name("moved to here")
    project.folder.rename(folder)
    other = Project(folder, project.environment)
    assert other.build().ran == []
    assert other.outputs() == before
    for path in folder.rglob("*"):
        content = path.read_bytes() if path.is_file() and "done" not in path.parts else b""
        assert str(project.folder).encode() not in content, f"{path} names a folder"


def sources_moved(lab: Lab) -> None:
    """Move the sources alone and build into the old folder."""
    project = lab.built()
    old = project.folder / "build"
    folder = project.folder.with_name("sources")
    folder.mkdir()
    for name in ("net.onnx", "dlbuild.yaml"):
        (project.folder / name).rename(folder / name)
    built = Project(folder, project.environment).build("-B", str(old / "dlbuild"))
    assert built.ran == [], built.text
    shutil.copy(folder / "net.onnx", project.model)
    shutil.copy(folder / "dlbuild.yaml", project.folder)
    written = project.outputs()
    expected = lab.clean(project)
    assert {n: written[n] for n in written if not n.endswith(".d")} == {
        n: expected[n] for n in expected if not n.endswith(".d")
    }


def link_retargeted(lab: Lab) -> None:
    """Point the model's link at another file of equal time and size."""
    project = lab.project()
    for name in "AB":
        path = project.folder / f"{name}.onnx"
        path.write_bytes(lab.models[name])
        os.utime(path, (10**9, 10**9))
    project.model.unlink()
    project.model.symlink_to("A.onnx")
    project.build()
    time.sleep(0.05)
    project.build()
    project.model.unlink()
    project.model.symlink_to("B.onnx")
    assert "parse" in project.build().ran
    lab.check(project)


def folder_link_retargeted(lab: Lab) -> None:
    """Point a link among the model's folders elsewhere."""
    project = lab.project()
    for name in "AB":
        (project.folder / name).mkdir()
        path = project.folder / name / "net.onnx"
        path.write_bytes(lab.models[name])
        os.utime(path, (10**9, 10**9))
    link = project.folder / "current"
    link.symlink_to("A")
    recipe = RECIPE.replace("net.onnx", "current/net.onnx")
    (project.folder / "dlbuild.yaml").write_text(recipe)
    project.build()
    time.sleep(0.05)
    project.build()
    link.unlink()
    link.symlink_to("B")
    assert "parse" in project.build().ran
    plain = lab.project()
    (plain.folder / "current").mkdir()
    (plain.folder / "current" / "net.onnx").write_bytes(lab.models["B"])
    (plain.folder / "dlbuild.yaml").write_text(recipe)
    plain.build()
    assert project.outputs() == plain.outputs()


def case_of_a_name(lab: Lab) -> None:
    """Use two models whose file names differ in case alone."""
    project = lab.built()
    (project.folder / "Net.onnx").write_bytes(lab.models["B"])
    (project.folder / "dlbuild.yaml").write_text(RECIPE.replace("net.onnx", "Net.onnx"))
    assert "parse" in project.build().ran
    lab.check(project)


def back_and_forth(lab: Lab) -> None:
    """Check out another commit and come back: nothing may be compiled."""
    project = lab.built()
    project.model.write_bytes(lab.models["B"])
    project.build()
    for name in "ABA":
        project.model.write_bytes(lab.models[name])
        assert project.build().ran == []
        lab.check(project)


def external_data(lab: Lab, *, change: str) -> None:
    """Change the file beside the model in which its weights lie."""
    project = lab.project()
    model = onnx.load_from_string(lab.models["A"])
    data = project.folder / "weights.bin"
    onnx.save(
        model,
        str(project.model),
        save_as_external_data=True,
        location=data.name,
        size_threshold=0,
    )
    project.build()
    time.sleep(0.05)
    assert project.build().text == "nothing to do\n"
    content, status = data.read_bytes(), data.stat()
    if change == "absent":
        data.unlink()
        built = project.run("build")
        assert built.status == 1, built.text
        assert "weights.bin" in built.text, built.text
        data.write_bytes(content)
        assert project.build().ran == []
    else:
        data.write_bytes(content[4:] + content[:4])
        os.utime(data, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert "parse" in project.build().ran
    lab.check(project)


def model_removed(lab: Lab) -> None:
    """Take a model out of the recipe: its files go."""
    project = lab.built()
    (project.folder / "more.onnx").write_bytes(lab.models["B"])
    more = RECIPE.replace("targets:", "  more: {source: more.onnx}\ntargets:")
    (project.folder / "dlbuild.yaml").write_text(more)
    project.build()
    assert any("more" in name for name in project.outputs())
    (project.folder / "dlbuild.yaml").write_text(RECIPE)
    assert project.build().ran == []
    lab.check(project)


def recipe_rewritten(lab: Lab, *, text: str) -> None:
    """Write the recipe differently; it says the same."""
    project = lab.built()
    before, times = project.outputs(), project.times()
    (project.folder / "dlbuild.yaml").write_bytes(text.encode())
    assert project.build().text == "nothing to do\n"
    assert (project.outputs(), project.times()) == (before, times)


def cleaned(lab: Lab) -> None:
    """Clean: nothing stays."""
    project = lab.built()
    assert project.run("clean").status == 0
    assert not (project.folder / "build" / "dlbuild").exists()
    project.build()
    lab.check(project)


_CHANGES: Mapping[str, Callable[[Path], object]] = {
    "edited": appended,
    "cut": cut,
    "deleted": Path.unlink,
    "edited under its old time and size": same_size,
}
_TIMES = {
    "0": 0,
    "1": 1,
    "of 1980": 315532800,
    "of tomorrow": int(time.time()) + 86400,
    "of 2100": 4102444800,
}
_TARGETS = "targets:\n  pc: {extends: host}\n"
_RECIPES = {
    "a remark": "# mine\n" + RECIPE,
    "its keys in another order": "".join(
        reversed(RECIPE.partition("targets:\n  pc: {extends: host}\n"))
    ),
    "white space": RECIPE.replace(": {", ":   {").replace("models:", "\n\nmodels:"),
    "line ends of Windows": RECIPE.replace("\n", "\r\n"),
}

CASES: Mapping[str, Case] = {
    "input replaced under its old time": partial(replaced, variant="longer", in_place=False),
    "input replaced under its old time and size": partial(replaced, variant="B", in_place=False),
    "input overwritten under its old time": partial(replaced, variant="longer", in_place=True),
    "input overwritten under its old time and size": partial(replaced, variant="B", in_place=True),
    **{f"input with time {n}": partial(dated, time_s=t) for n, t in _TIMES.items()},
    **{
        f"output {name} {how}": partial(output_changed, name=name, change=change)
        for name in ("net.c", "net_weights.h", "libnet.a")
        for how, change in _CHANGES.items()
    },
    "input edited while it is parsed": edited_while_parsed,
    "input edited while the compiler runs": edited_while_compiled,
    "project moved with its build folder": moved,
    "sources moved away from their build folder": sources_moved,
    "link to the input retargeted": link_retargeted,
    "link to the input's folder retargeted": folder_link_retargeted,
    "inputs whose names differ in case": case_of_a_name,
    "check-out of A, B, A": back_and_forth,
    "external data changed under its old time and size": partial(external_data, change="other"),
    "external data absent and back": partial(external_data, change="absent"),
    "model taken out of the recipe": model_removed,
    **{f"recipe with {name}": partial(recipe_rewritten, text=t) for name, t in _RECIPES.items()},
    "clean and build again": cleaned,
}
