"""The built-in cores: what a board says, and that a run stays within what was planned."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from dlbuild.base.errors import UserError
from dlbuild.build.engine import Engine
from dlbuild.build.pipeline import with_verify
from dlbuild.build.project import Build
from dlbuild.build.recipe import read_recipe
from dlbuild.cli.bench import figures_of
from dlbuild.cli.main import run
from dlbuild.ir import codec
from dlbuild.run.compile import archive, compile_file
from dlbuild.run.verify import Verdict

ROOT = Path(__file__).parents[2]
CORES = {
    "m0plus": "cortex-m0plus",
    "m3": "cortex-m3",
    "m4f": "cortex-m4f",
    "m7": "cortex-m7",
    "m33": "cortex-m33",
    "m55": "cortex-m55",
    "rv32imc": "rv32imc",
    "rv32imafc": "rv32imafc",
}
Project = Callable[..., None]
Made = Callable[..., tuple[Engine, dict[str, Build]]]


def test_every_core_computes_what_the_model_does(project: Project, made: Made) -> None:
    project({name: {"extends": base} for name, base in CORES.items()})
    engine, builds = made(with_verify(layers=True))
    assert len(builds) == 2 * len(CORES)
    for one in builds.values():
        verdict = codec.decode(engine.content(one, "verdict"), Verdict)
        assert verdict.passed, one.label
        assert verdict.notes == (), one.label


def test_integers_are_equal_to_those_of_the_host(project: Project, made: Made) -> None:
    base = {"requantize": "fixed"}
    targets = {name: {"extends": core, **base} for name, core in CORES.items()}
    project({**targets, "pc": {"extends": "host", **base}}, ("digits_int8",))
    engine, builds = made()
    here = figures_of(engine, builds["digits_int8@pc"], steps=False, count=False)
    for name in CORES:
        there = figures_of(engine, builds[f"digits_int8@{name}"], steps=False)
        assert there.content == here.content, name


def test_fixed_integers_need_no_c_library(project: Project, made: Made) -> None:
    text = (ROOT / "docs" / "runner.md").read_text()
    recipe = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)[1])
    project(recipe["targets"], ("digits_int8",))
    engine, builds = made()
    found = figures_of(engine, builds["digits_int8@bare"], steps=False)
    assert found.faults == ()
    assert len(found.content) == 10


def test_a_run_stays_within_what_size_says(project: Project, made: Made) -> None:
    project({name: {"extends": base} for name, base in CORES.items()})
    engine, builds = made()
    for one in builds.values():
        found = figures_of(engine, one, steps=False)
        assert found.faults == (), one.label
        assert found.unit == "instructions"
        assert found.is_repeatable
        assert found.stack_bytes is not None
        assert found.stack_limit is not None
        assert 0 < found.stack_bytes <= found.stack_limit
        assert found.written is not None
        assert 0 < found.written.arena <= found.arena_bytes
        assert found.written.outputs > 0


def test_steps_add_up_to_about_the_run(project: Project, made: Made) -> None:
    project({"board": {"extends": "cortex-m4f"}}, ("digits_int8",))
    engine, builds = made()
    found = figures_of(engine, builds["digits_int8@board"])
    again = figures_of(engine, builds["digits_int8@board"])
    assert found == again
    total = sum(step.cost for step in found.steps)
    assert len(found.steps) > 2
    assert 0.98 * found.cost < total < 1.02 * found.cost


def test_what_comes_behind_a_strip_has_its_own_cost(project: Project, made: Made) -> None:
    core = {"extends": "cortex-m4f"}
    project({"plain": core, "strips": {**core, "optimize": "ram"}}, ("digits_int8",))
    engine, builds = made()
    plain, strips = (
        figures_of(engine, builds[f"digits_int8@{name}"]) for name in ("plain", "strips")
    )
    assert strips.steps[0].kernel == "conv1 to maxpool3"
    assert strips.steps[0].macs == sum(step.macs for step in plain.steps[:3])
    assert strips.steps[-1].kernel == plain.steps[-1].kernel == "softmax7"
    assert abs(strips.steps[-1].cost - plain.steps[-1].cost) < plain.steps[-1].cost // 10


def test_steps_through_a_near_memory_are_measured(project: Project, made: Made) -> None:
    memories = {
        "tcm": {"size": "1 KiB", "holds": ["tiles"]},
        "sram": {"size": "8 KiB", "holds": ["arena"]},
        "flash": {"size": "64 KiB", "holds": ["weights"]},
    }
    project({"board": {"extends": "cortex-m4f", "memories": memories}}, ("digits_int8",))
    engine, builds = made()
    found = figures_of(engine, builds["digits_int8@board"])
    total = sum(step.cost for step in found.steps)
    assert 0.98 * found.cost < total < 1.02 * found.cost


def test_measured_kernels_add_up_to_the_run(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project({"board": {"extends": "cortex-m4f", "profile": "times.json"}}, ("digits_int8",))
    assert run(("profile", "--run")) == 0
    found = re.search(r"their sum is .*\(([+-][0-9.]+) %\)", capsys.readouterr().out)
    assert found is not None
    assert abs(float(found[1])) < 2
    first = Path("times.json").read_bytes()
    Path("times.json").unlink()
    assert run(("profile", "--run")) == 0
    assert Path("times.json").read_bytes() == first


@pytest.mark.parametrize(
    ("overrun", "message"),
    [
        ("beyond[0] = 1;", r"a run wrote 1 B outside arena, outputs and stack: in beyond"),
        (
            "volatile uint8_t *volatile at = (volatile uint8_t *)&arena; at[sizeof arena] = 1;",
            r"a run wrote 1 B outside arena, outputs and stack: (in|0 B behind) \w+",
        ),
    ],
)
def test_a_byte_outside_the_arena_is_found(
    project: Project, made: Made, overrun: str, message: str
) -> None:
    project({"board": {"extends": "cortex-m4f"}}, ("digits_int8",))
    engine, builds = made()
    one = builds["digits_int8@board"]
    _patch(one.model, "static volatile uint8_t beyond[4];\n", overrun)
    found = figures_of(engine, one, steps=False)
    assert any(re.fullmatch(message, fault) for fault in found.faults), found.faults


def test_a_stack_deeper_than_size_says_is_found(project: Project, made: Made) -> None:
    project({"board": {"extends": "cortex-m4f"}}, ("digits_int8",))
    engine, builds = made()
    one = builds["digits_int8@board"]
    _patch(
        one.model,
        "",
        "volatile uint8_t deep[512]; deep[0] = 1; deep[511] = deep[0];",
    )
    found = figures_of(engine, one, steps=False)
    assert found.stack_limit is not None
    assert re.fullmatch(
        rf"a run used [0-9,]+ B of stack, 'dlbuild size' says {found.stack_limit:,} B",
        found.faults[0],
    )


def _patch(model: str, before: str, statement: str) -> None:
    """Put a statement before the end of a run, and build the archive anew."""
    folder = Path("build/dlbuild/board") / model
    recipe = read_recipe()
    target = recipe.targets["board"]
    options = recipe.builds[0].options
    source = folder / f"{model}.c"
    text = source.read_text()
    end = f"    return {model.upper()}_OK;"
    assert end in text
    text = text.replace(end, f"    {statement}\n{end}")
    at = text.index(f"{model.upper()}_CODE_SECTION\n", text.index("arena;"))
    source.write_text(text[:at] + before + text[at:])
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    names = (f"{model}.c", f"{model}_weights.c")
    objects = {
        f"{Path(name).stem}.o": compile_file(name, files, target, options).content for name in names
    }
    (folder / f"lib{model}.a").write_bytes(archive(f"lib{model}.a", objects, target))


def test_a_fault_of_the_core_is_told(project: Project, made: Made) -> None:
    project({"board": {"extends": "cortex-m4f"}}, ("digits_int8",))
    engine, builds = made()
    one = builds["digits_int8@board"]
    _patch(one.model, "", "*(volatile uint32_t *)0xF0000000U = 1;")
    with pytest.raises(UserError) as caught:
        figures_of(engine, one, steps=False)
    assert caught.value.where == "run.elf"
    assert caught.value.why.startswith("fault: ICSR ")


def test_verify_and_bench_take_a_target_by_name(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    targets = {"pc": {"extends": "host"}, "board": {"extends": "cortex-m3"}}
    project(targets, ("digits_int8",))
    assert run(["verify", "--target", "board", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["target"] for row in rows] == ["board"]
    assert run(["bench", "--target", "board", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["unit"] for row in rows] == ["instructions"]
    assert all(row["faults"] == [] for row in rows)


def test_a_missing_emulator_is_named_with_its_package(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    board = {"extends": "cortex-m3", "runner": "qemu-system-none -kernel {elf}"}
    project({"board": board}, ("digits_int8",))
    assert run(["verify", "-k"]) == 1
    assert (
        "there is no program 'qemu-system-none'\n"
        "  why: the target's runner names it\n"
        "  fix: install it (Debian: apt-get install qemu-system-none),"
        " or name another in 'runner'\n"
    ) in capsys.readouterr().err
