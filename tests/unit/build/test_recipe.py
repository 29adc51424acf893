"""dlbuild.yaml as read, and each of its errors in full."""

import re
import textwrap
from pathlib import Path

import pytest

from dlbuild.base.errors import UserError
from dlbuild.base.paths import builtin_folder
from dlbuild.build.features import FEATURES, KERNELS
from dlbuild.build.project import Recipe
from dlbuild.build.recipe import read_recipe
from dlbuild.ir.target import Options, Rate, Target
from dlbuild.rulebook.load import load_rules

MODELS = "version: 1\nmodels: {kws: {source: kws.onnx}}\n"


def read(text: str, *overrides: str) -> Recipe:
    Path("dlbuild.yaml").write_text(textwrap.dedent(text))
    return read_recipe(overrides=overrides)


def options(text: str, *overrides: str) -> Options:
    return read(text, *overrides).builds[0].options


def target(text: str, name: str = "board") -> Target:
    return read(f"{MODELS}targets: {text}\n").targets[name]


def error_of(text: str, *overrides: str) -> str:
    with pytest.raises(UserError) as caught:
        read(text, *overrides)
    assert caught.value.exit_code == 2
    return str(caught.value)


pytestmark = pytest.mark.usefixtures("folder")


def test_a_model_has_its_files_and_shapes() -> None:
    Path("s.npz").write_bytes(b"")
    model = read(
        """\
        version: 1
        models:
          kws:
            source: kws.onnx
            shapes: {input_1: [1, 49, 10, 1]}
            samples: s.npz
            tolerance: {rtol: 1e-3, lsb: 2}
        """
    ).models["kws"]
    assert model.source == Path("kws.onnx")
    assert model.shapes == {"input_1": (1, 49, 10, 1)}
    assert model.samples == Path("s.npz")
    assert (model.tolerance.rtol, model.tolerance.atol, model.tolerance.lsb) == (0.001, None, 2)


def test_without_targets_the_host_is_built_for() -> None:
    assert [build.label for build in read(MODELS).builds] == ["kws@host"]


def test_without_builds_every_model_is_built_for_every_target() -> None:
    recipe = read(
        """\
        version: 1
        models: {b: {source: kws.onnx}, a: {source: kws.onnx}}
        targets: {pc: {extends: host}, board: {extends: cortex-m3}}
        """
    )
    assert [build.label for build in recipe.builds] == ["b@pc", "b@board", "a@pc", "a@board"]


def test_a_build_may_name_a_built_in_target() -> None:
    recipe = read(f"{MODELS}builds: [{{model: kws, target: [host, rv32imc]}}]\n")
    assert [build.label for build in recipe.builds] == ["kws@host", "kws@rv32imc"]
    assert recipe.targets["rv32imc"].toolchain.cflags[:2] == ("-march=rv32imc", "-mabi=ilp32")


def test_a_target_keeps_what_it_does_not_override() -> None:
    board = target(
        "{board: {extends: cortex-m4f,"
        " memories: {flash: 256 KiB, ccm: {size: 16 KiB, holds: [tiles]}},"
        " cycles: {int8: 2 /MAC}, toolchain: {cflags: [-g]}, stack: 2 KiB}}"
    )
    assert [(m.name, m.size_bytes, m.holds) for m in board.memories] == [
        ("sram", None, ("arena",)),
        ("flash", 262144, ("weights",)),
        ("ccm", 16384, ("tiles",)),
    ]
    assert (board.cycles["int8"], board.cycles["float32"]) == (2.0, 3.1)
    assert board.toolchain.cc == "arm-none-eabi-gcc"
    assert board.toolchain.cflags[-2:] == ("-mfpu=fpv4-sp-d16", "-g")
    assert board.stack_bytes == 2048


def test_each_key_of_a_board_replaces_that_of_the_base() -> None:
    Path("own.ld").write_text("")
    ours = target("{board: {extends: cortex-m3, board: {script: own.ld}, runner: 'flash {elf}'}}")
    assert ours.board is not None
    assert ours.board.script == "own.ld"
    assert [Path(path).name for path in ours.board.sources] == [
        *("cortex_m.c", "semihosting.c", "lines.c", "mark.c")
    ]
    assert ours.runner == "flash {elf}"


def test_a_target_may_extend_another_and_the_built_in_one_of_its_name() -> None:
    text = "{host: {extends: host, memories: {sram: 1 KiB}}, board: {extends: host}}"
    assert target(text).memories[0].size_bytes == 1024
    assert target(text).name == "board"


def test_a_new_memory_is_as_near_as_it_is_written() -> None:
    far = "{size: 1 MiB, holds: [arena]}"
    near = "{size: 4 KiB, holds: [tiles]}"
    text = f"{{board: {{extends: host, memories: {{tcm: {near}, sram: 8 KiB, psram: {far}}}}}}}"
    assert [memory.name for memory in target(text).memories] == ["tcm", "sram", "flash", "psram"]


def test_a_file_of_almost_that_name_is_suggested() -> None:
    Path("digits.onnx").write_text("")
    text = "version: 1\nmodels: {kws: {source: digit.onnx}}\n"
    assert error_of(text).endswith("\n  fix: did you mean 'digits.onnx'?")


def test_a_further_memory_says_what_it_holds() -> None:
    text = f"{MODELS}targets: {{b: {{extends: cortex-m4f, memories: {{ram: 48 KiB}}}}}}\n"
    assert error_of(text) == (
        "dlbuild.yaml:3:52: error: memory 'ram' does not say what it holds\n"
        "  3 | targets: {b: {extends: cortex-m4f, memories: {ram: 48 KiB}}}\n"
        "    |                                                    ^\n"
        "  why: the target that this one extends has sram and flash\n"
        "  fix: write sram if it is that; else write ram: {size: ..., holds: [arena]},"
        " or [weights] or [tiles]"
    )


def test_requantize_follows_the_fpu() -> None:
    assert options(f"{MODELS}builds: [{{model: kws, target: cortex-m4f}}]").requantize == "exact"
    assert options(f"{MODELS}builds: [{{model: kws, target: cortex-m3}}]").requantize == "fixed"


def test_a_build_wins_over_its_model_and_that_over_the_target() -> None:
    levels = """\
        version: 1
        models: {{kws: {{source: kws.onnx{model}}}}}
        targets: {{pc: {{extends: host, optimize: ram}}}}
        builds: [{{model: kws, target: pc{build}}}]
        """
    assert options(levels.format(model="", build="")).optimize == "ram"
    assert options(levels.format(model=", optimize: size", build="")).optimize == "size"
    both = levels.format(model=", optimize: size", build=", optimize: speed")
    assert options(both).optimize == "speed"
    assert options(both, "optimize=ram").optimize == "ram"


def test_every_option_is_read() -> None:
    found = options(
        MODELS + "builds: [{model: kws, target: host, optimize: size, requantize: fixed,"
        " layout: {x: nhwc, a: onnx}, input: arena, output: arena, max_recompute: 1.0,"
        " arena: caller, share: voice, schedule: auto, weights: braces,"
        " fold_constant_channels: true, hook: true}]"
    )
    assert found == Options(
        optimize="size",
        requantize="fixed",
        layout=(("a", "onnx"), ("x", "nhwc")),
        input="arena",
        output="arena",
        arena="caller",
        share="voice",
        weights="braces",
        fold_constant_channels=True,
        hook=True,
    )


def test_paths_are_relative_to_the_file_that_names_them() -> None:
    Path("more").mkdir()
    Path("more/other.onnx").write_bytes(b"")
    Path("more/more.yaml").write_text("models: {other: {source: other.onnx}}\n")
    recipe = read(f"include: [more/more.yaml]\n{MODELS}")
    assert recipe.models["other"].source == Path("more/other.onnx")
    assert list(recipe.models) == ["other", "kws"]
    assert Path("more/more.yaml") in recipe.files


def test_a_pack_brings_targets() -> None:
    Path("pack/rules/targets").mkdir(parents=True)
    Path("pack/rules/targets/mine.yaml").write_text("extends: cortex-m7\nfeatures: [fpu, x86]\n")
    recipe = read(f"packs: [pack]\n{MODELS}builds: [{{model: kws, target: mine}}]\n")
    assert recipe.targets["mine"].features == ("fpu", "x86")
    assert recipe.folders[0] == Path("pack")


def test_a_feature_that_no_rule_asks_for_is_refused() -> None:
    assert error_of(
        MODELS + "targets:\n  board: {extends: cortex-m4f, features: [fpu, dps]}\n"
    ) == (
        "dlbuild.yaml:4:48: error: no rule asks for the feature 'dps'\n"
        "  4 |   board: {extends: cortex-m4f, features: [fpu, dps]}\n"
        "    |                                                ^\n"
        "  fix: did you mean 'dsp'?"
    )


def test_a_pack_may_ask_for_a_feature_of_its_own() -> None:
    Path("pack/rules/ops").mkdir(parents=True)
    Path("pack/rules/ops/mine.yaml").write_text("Mine: {kernels: [{target: [hifi4]}]}\n")
    recipe = f"packs: [pack]\n{MODELS}targets: {{chip: {{extends: host, features: [%s]}}}}\n"
    assert read(recipe % "hifi4").targets["chip"].features == ("hifi4",)
    assert "no rule asks for the feature 'hifi'" in error_of(recipe % "hifi")


def test_a_rate_of_a_kernel_replaces_that_of_the_base() -> None:
    rates = "{conv_dsp: {mac: 2, output: 9.5, window: 3}, conv_pairs: {mac: 1, output: 2}}"
    found = target(f"{{board: {{extends: cortex-m4f, kernels: {rates}}}}}")
    assert found.kernels["conv_dsp"] == Rate(2.0, 9.5, 3.0)
    assert found.kernels["conv_pairs"] == Rate(1.0, 2.0)
    kept = target("{board: {extends: cortex-m4f}}").kernels
    assert found.kernels["dense_dsp"] == kept["dense_dsp"] != Rate()


def test_what_plans_of_tiles_make_least_may_be_said() -> None:
    memories = "{near: {size: 4 KiB, holds: [tiles], copy: {%s}}, far: {holds: [arena]}}"
    said = "{board: {memories: " + memories + "}}"
    found = target(said % "setup: 40 cycles, rate: 4 B/cycle, objective: traffic").memories[0]
    assert (found.copy_objective, found.copy_bytes_per_cycle) == ("traffic", 4.0)
    assert error_of(f"{MODELS}targets: {said % 'objective: time'}\n").startswith(
        "dlbuild.yaml:3:84: error: nobody knows how long a copy into 'near' takes\n"
    )


def test_a_kernel_that_no_rule_has_is_refused() -> None:
    said = "targets: {board: {kernels: {conv_dps: {mac: 1, output: 1}}}}\n"
    assert error_of(MODELS + said) == (
        "dlbuild.yaml:3:29: error: no rule has a hand-written kernel 'conv_dps'\n"
        "  3 | targets: {board: {kernels: {conv_dps: {mac: 1, output: 1}}}}\n"
        "    |                             ^\n"
        "  fix: did you mean 'conv_dsp'?"
    )


def test_built_in_rules_have_the_known_kernels() -> None:
    rules = load_rules([builtin_folder()]).rules.values()
    assert {k.name for of_kind in rules for rule in of_kind for k in rule.kernels} == KERNELS


def test_built_in_rules_ask_for_the_known_features() -> None:
    files = (builtin_folder() / "rules" / "ops").glob("*.yaml")
    asked = {
        word
        for file in files
        for words in re.findall(r"^\s+target: \[(.*)\]", file.read_text(), re.MULTILINE)
        for word in words.split(", ")
    }
    assert asked | {"fpu"} == FEATURES  # whose rounding is `exact` by default


def test_an_unknown_key_is_refused() -> None:
    assert error_of(
        """\
        version: 1
        models: {kws: {source: kws.onnx}}
        targets:
          board:
            memorys: {sram: 48 KiB}
        """
    ) == (
        "dlbuild.yaml:5:5: error: target 'board' has no key 'memorys'\n"
        "  5 |     memorys: {sram: 48 KiB}\n"
        "    |     ^\n"
        "  fix: did you mean 'memories'?"
    )


def test_a_duplicate_key_is_refused() -> None:
    assert error_of("version: 1\nmodels:\n  kws: {source: a}\n  kws: {source: b}\n") == (
        "dlbuild.yaml:4:3: error: the key 'kws' is given twice\n"
        "  4 |   kws: {source: b}\n"
        "    |   ^\n"
        "  why: first at dlbuild.yaml:3:3"
    )


def test_a_model_in_two_files_is_refused() -> None:
    Path("more.yaml").write_text("models: {kws: {source: kws.onnx}}\n")
    assert error_of(f"include: [more.yaml]\n{MODELS}") == (
        "dlbuild.yaml:3:10: error: the model 'kws' is given twice\n"
        "  3 | models: {kws: {source: kws.onnx}}\n"
        "    |          ^\n"
        "  why: first at more.yaml:1:10"
    )


def test_a_missing_model_file_is_refused() -> None:
    assert error_of("version: 1\nmodels: {kws: {source: models/none.onnx}}\n") == (
        "dlbuild.yaml:2:24: error: there is no file 'models/none.onnx'\n"
        "  2 | models: {kws: {source: models/none.onnx}}\n"
        "    |                        ^"
    )


def test_an_alignment_that_no_object_has_is_refused() -> None:
    said = error_of(f"{MODELS}targets: {{board: {{memories: {{sram: {{align: 4 GiB}}}}}}}}\n")
    assert "'align' is more than objects can ask for" in said
    assert "fix: write 256 MiB or less" in said


@pytest.mark.parametrize("size", ["0 B", "3 B", "48 B"])
def test_an_alignment_that_is_no_power_of_two_is_refused(size: str) -> None:
    memory = f"{{sram: {{align: {size}}}}}"
    assert error_of(f"{MODELS}targets: {{board: {{memories: {memory}}}}}\n") == (
        f"dlbuild.yaml:3:44: error: 'align' must be a power of two, this is {size}\n"
        f"  3 | targets: {{board: {{memories: {memory}}}}}\n"
        "    |                                            ^\n"
        "  fix: write 4 B"
    )


def test_a_size_without_a_unit_is_refused() -> None:
    assert error_of(f"{MODELS}targets: {{board: {{memories: {{sram: 48}}}}}}\n") == (
        "dlbuild.yaml:3:36: error: memory 'sram': the size '48' has no unit\n"
        "  3 | targets: {board: {memories: {sram: 48}}}\n"
        "    |                                    ^\n"
        "  fix: write 48 KiB"
    )


@pytest.mark.parametrize(
    ("text", "first", "fix"),
    [
        (
            "version: 2\nmodels: {}",
            "dlbuild.yaml:1:10: error: 'version': 2 is not yet supported",
            "use 1",
        ),
        (
            "models: {kws: {source: kws.onnx}}",
            "dlbuild.yaml:1:1: error: dlbuild.yaml needs the key 'version'",
            "add version: 1",
        ),
        ("version: 1", "dlbuild.yaml: error: no model is given", "add models:"),
        ("", "dlbuild.yaml: error: the file is empty", "begin with version: 1"),
        (
            "version: 1\nmodels: {KWS: {source: kws.onnx}}",
            "dlbuild.yaml:2:10: error: model cannot be named 'KWS'",
            "use small letters, digits and _, a letter first; dlb is the port's",
        ),
        (
            "version: 1\nmodels: {dlb_x: {source: kws.onnx}}",
            "dlbuild.yaml:2:10: error: model cannot be named 'dlb_x'",
            "use small letters, digits and _, a letter first; dlb is the port's",
        ),
        (
            f"{MODELS}targets: {{b: {{memories: {{s ram: 8 KiB}}}}}}",
            "dlbuild.yaml:3:26: error: memory cannot be named 's ram'",
            "use letters, digits and _",
        ),
        (
            f"{MODELS}targets: {{b: {{memories: {{s: {{section: 'a b'}}}}}}}}",
            "dlbuild.yaml:3:39: error: 'section' cannot be 'a b'",
            "use letters, digits, '.', '_' and '$'",
        ),
        (
            f"{MODELS}builds: [{{model: kwt}}]",
            "dlbuild.yaml:3:18: error: there is no model 'kwt'",
            "did you mean 'kws'?",
        ),
        (
            f"{MODELS}builds: [{{model: kws, target: hots}}]",
            "dlbuild.yaml:3:31: error: there is no target 'hots'",
            "did you mean 'host'?",
        ),
        (
            f"{MODELS}builds: [{{model: kws, target: [host, host]}}]",
            "dlbuild.yaml:3:38: error: kws@host is built twice",
            "",
        ),
        (
            f"{MODELS}builds: [{{model: kws, optimize: fast}}]",
            "dlbuild.yaml:3:33: error: 'optimize' cannot be 'fast'",
            "use one of: ram, size, speed",
        ),
        (
            f"{MODELS}builds: [{{model: kws, hook: yes}}]",
            "dlbuild.yaml:3:29: error: 'hook' must be true or false, this is 'yes'",
            "write true",
        ),
        (
            f"{MODELS}targets: {{b: {{extends: cortex-m4}}}}",
            "dlbuild.yaml:3:24: error: there is no target 'cortex-m4'",
            "did you mean 'cortex-m4f'?",
        ),
        (
            f"{MODELS}targets: {{b: {{extends: c}}, c: {{extends: b}}}}",
            "dlbuild.yaml:3:41: error: 'extends' leads back: b -> c -> b",
            "",
        ),
        (
            f"{MODELS}targets: {{b: {{cycles: {{int7: 1 /MAC}}}}}}",
            "dlbuild.yaml:3:24: error: dtype cannot be named 'int7'",
            "use a dtype such as int8",
        ),
        (
            f"{MODELS}targets: {{b: {{runner: qemu}}}}",
            "dlbuild.yaml:3:23: error: 'runner' cannot be 'qemu'",
            "use a command with {elf} in it",
        ),
        (
            f"{MODELS}targets: {{b: {{board: {{script: b.ld}}}}}}",
            "dlbuild.yaml:3:31: error: there is no file 'b.ld'",
            "",
        ),
        (
            f"{MODELS}builds: [{{model: kws, max_recompute: 0.5}}]",
            "dlbuild.yaml:3:38: error: 'max_recompute' cannot be 0.5",
            "give 1 or more",
        ),
        (
            f"{MODELS}builds: [{{model: kws, max_recompute: 1e30}}]",
            "dlbuild.yaml:3:38: error: 'max_recompute' cannot be 1e+30",
            "give 1000 or less",
        ),
        (
            f"{MODELS}include: [none.yaml]",
            "dlbuild.yaml:3:11: error: there is no file 'none.yaml'",
            "",
        ),
        (
            f"{MODELS}include: [dlbuild.yaml]",
            "dlbuild.yaml:3:11: error: this file includes itself",
            "",
        ),
        (f"{MODELS}packs: [none]", "dlbuild.yaml:3:9: error: the pack 'none' does not exist", ""),
        (
            "version: 1\nmodels: {kws: {source: kws.onnx, samples: s.npz}}",
            "dlbuild.yaml:2:43: error: there is no file 's.npz'",
            "",
        ),
        (
            "version: 1\nmodels: {kws: {source: kws.onnx, shapes: {x: [-1]}}}",
            "dlbuild.yaml:2:47: error: tensor 'x' must be at least 0, this is -1",
            "",
        ),
    ],
)
def test_a_fault_is_named_with_its_place(text: str, first: str, fix: str) -> None:
    with pytest.raises(UserError) as caught:
        read(text)
    assert str(caught.value).splitlines()[0] == first
    assert caught.value.fix == fix


LATER = {
    "targets: {b: {clock: 64 MHz}}": "'clock'",
    "targets: {b: {dma: {channels: 2}}}": "'channels'",
    "targets: {b: {dma: {two_dimensional: false}}}": "'two_dimensional'",
    "targets: {b: {memories: {a: {executes: true}}}}": "'executes': true",
}


@pytest.mark.parametrize("text", LATER)
def test_what_comes_later_says_so_with_its_line(text: str) -> None:
    with pytest.raises(UserError) as caught:
        read(f"{MODELS}{text}\n")
    assert caught.value.where.startswith("dlbuild.yaml:3:")
    assert caught.value.what == f"{LATER[text]} is not yet supported"


def test_state_says_which_input_an_output_is_carried_to() -> None:
    recipe = read("version: 1\nmodels: {kws: {source: kws.onnx, state: {a: b, c: d}}}\n")
    assert recipe.models["kws"].state == (("a", "b"), ("c", "d"))


def test_an_input_is_the_state_of_one_output() -> None:
    text = "version: 1\nmodels: {kws: {source: kws.onnx, state: {a: b, c: b}}}\n"
    with pytest.raises(UserError, match="two outputs are carried to the input 'b'") as caught:
        read(text)
    assert caught.value.where == "dlbuild.yaml:2:48"


def test_an_override_of_an_unknown_option_is_refused() -> None:
    assert error_of(MODELS, "optimise=ram") == (
        "-D:1:1: error: a build has no option 'optimise'\n"
        "  1 | optimise=ram\n"
        "    | ^\n"
        "  fix: did you mean 'optimize'?"
    )


def test_an_override_needs_a_value_that_the_option_can_have() -> None:
    assert error_of(MODELS, "optimize").splitlines()[0] == (
        "-D:1:1: error: 'optimize' gives no value"
    )
    assert error_of(MODELS, "optimize=fast") == (
        "-D:1:10: error: 'optimize' cannot be 'fast'\n"
        "  1 | optimize=fast\n"
        "    |          ^\n"
        "  fix: use one of: ram, size, speed"
    )


def test_a_missing_recipe_says_where_to_run() -> None:
    with pytest.raises(UserError) as caught:
        read_recipe()
    assert str(caught.value) == (
        "dlbuild.yaml: error: there is no such file\n"
        "  fix: run dlbuild where it is, or name the folder with -C DIR"
    )


@pytest.mark.parametrize(
    "name",
    [
        "host",
        "cortex-m0plus",
        "cortex-m3",
        "cortex-m4f",
        "cortex-m7",
        "cortex-m33",
        "cortex-m55",
        "rv32imc",
        "rv32imafc",
    ],
)
def test_a_built_in_target_is_complete(name: str) -> None:
    found = target(f"{{board: {{extends: {name}}}}}")
    assert [memory.name for memory in found.memories] == ["sram", "flash"]
    assert {"int8", "float32"} <= set(found.cycles)
    assert found.toolchain.cc.endswith(("gcc", "cc"))


def test_the_size_of_a_memory_is_overridden_in_each_target_that_has_it() -> None:
    Path("dlbuild.yaml").write_text(
        f"{MODELS}targets:\n"
        "  a: {extends: cortex-m4f, memories: {sram: 8 KiB}}\n"
        "  b: {extends: cortex-m4f, memories: {sram: 8 KiB, tcm: {size: 1 KiB, holds: [tiles]}}}\n"
    )
    found = read_recipe(Path("dlbuild.yaml"), ["memory.tcm=2 KiB", "memory.sram=6 KiB"]).targets
    sizes = {
        name: {memory.name: memory.size_bytes for memory in target.memories}
        for name, target in found.items()
    }
    assert sizes["a"] == {"sram": 6144, "flash": None}
    assert sizes["b"] == {"sram": 6144, "tcm": 2048, "flash": None}


def test_the_size_of_a_memory_is_overridden_in_all_clusters_or_in_one() -> None:
    Path("dlbuild.yaml").write_text(
        f"{MODELS}targets:\n"
        "  soc:\n"
        "    extends: host\n"
        "    clusters:\n"
        "      - {name: a, memories: {tcdm: {size: 8 KiB, holds: [arena]}}}\n"
        "      - {name: b, memories: {tcdm: {size: 8 KiB, holds: [arena]}}}\n"
    )
    overrides = ["memory.tcdm=4 KiB", "memory.b.tcdm=2 KiB"]
    found = read_recipe(Path("dlbuild.yaml"), overrides).targets["soc"].clusters
    sizes = {cluster.name: [m.size_bytes for m in cluster.memories] for cluster in found}
    assert sizes == {"a": [4096], "b": [2048]}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("memory.srm=6 KiB", "-D:1:8: error: no target has a memory 'srm'"),
        ("memory.sram=6", "'memory.sram': the size '6' has no unit"),
    ],
)
def test_a_wrong_size_of_a_memory_is_refused(override: str, message: str) -> None:
    Path("dlbuild.yaml").write_text(f"{MODELS}targets: {{a: {{extends: host}}}}\n")
    with pytest.raises(UserError) as caught:
        read_recipe(Path("dlbuild.yaml"), [override])
    assert message in str(caught.value)


def test_a_build_may_name_several_models() -> None:
    found = read(
        "version: 1\nmodels: {kws: {source: kws.onnx}, vad: {source: kws.onnx}}\n"
        "builds: [{model: [kws, vad], target: [host, cortex-m3], optimize: ram}]\n"
    )
    labels = [build.label for build in found.builds]
    assert labels == ["kws@host", "kws@cortex-m3", "vad@host", "vad@cortex-m3"]
    assert {build.options.optimize for build in found.builds} == {"ram"}
