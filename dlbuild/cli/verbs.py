"""The verbs of the command line: which module does each, and what it is for."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Verb:
    """One verb. Its module has `arguments(parser)` and `run(given) -> exit code`."""

    name: str
    module: str
    summary: str


VERBS = {
    verb.name: verb
    for verb in (
        Verb("build", "dlbuild.cli.build", "Make the C, the archives and the plans."),
        Verb("verify", "dlbuild.cli.verify", "Run the C and compare it with the model."),
        Verb("bench", "dlbuild.cli.bench", "Measure a run: instructions, stack, RAM written."),
        Verb(
            "profile", "dlbuild.cli.profile", "Say what each kernel costs; measure it with --run."
        ),
        Verb("quantize", "dlbuild.cli.quantize", "Make an int8 model, and say what it costs."),
        Verb("check", "dlbuild.cli.check", "Check the recipe, the rules and the targets."),
        Verb("config", "dlbuild.cli.config", "Print the recipe with everything filled in."),
        Verb("explain", "dlbuild.cli.explain", "Say why each stage ran, or would run."),
        Verb("outputs", "dlbuild.cli.outputs", "List the files that a build writes."),
        Verb("embed", "dlbuild.cli.embed", "Say where the files for CMake, Make and others are."),
        Verb("image", "dlbuild.cli.image", "Print weight images, or check them for a firmware."),
        Verb("size", "dlbuild.cli.size", "Print RAM and flash of each model."),
        Verb("sweep", "dlbuild.cli.sweep", "Build many variants and say which are best."),
        Verb("doctor", "dlbuild.cli.doctor", "Say which programs are missing, and who has them."),
        Verb("cache", "dlbuild.cli.cache", "Look after the results that projects share."),
        Verb("clean", "dlbuild.cli.clean", "Remove what builds wrote."),
        Verb("rules", "dlbuild.cli.rules", "List the operators that rules describe."),
        Verb("schema", "dlbuild.cli.schema", "Print the JSON Schema of dlbuild.yaml."),
        Verb("completion", "dlbuild.cli.completion", "Print a script that completes in a shell."),
        Verb("version", "dlbuild.cli.version", "Print the version."),
    )
}

VALUE_OPTIONS = (
    "-C",
    "-B",
    "-D",
    "-j",
    "--limit",
    "--target",
    "--stamp",
    "--depfile",
    "--goal",
    "--flat",
    "--samples",
    "--output",
    "--shape",
    "--over",
    "--scheduler",
    "--trace",
    "--remote-cache",
    "--remote-upload",
)
"""Options that may stand before the verb and take a value, which is not the verb."""


def usage() -> str:
    """Return the text of `dlbuild --help`."""
    width = max(map(len, VERBS))
    lines = [f"  {verb.name:<{width}}  {verb.summary}" for verb in VERBS.values()]
    return "\n".join(
        [
            "usage: dlbuild VERB [-C DIR] [-B DIR] [-D KEY=VALUE] ...",
            "",
            "Turn the models of dlbuild.yaml into C that fits.",
            "",
            *lines,
            "",
            "dlbuild VERB --help says more.",
        ]
    )
