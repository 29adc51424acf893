"""Models of a dlbuild.yaml as cc_library targets.

    load("@rules_dlbuild//dlbuild:defs.bzl", "dlbuild_models")

    dlbuild_models(
        name = "networks",
        recipe = "dlbuild.yaml",
        srcs = ["kws.onnx"],
        models = ["kws"],
        target = "board",
    )

    cc_binary(name = "firmware", srcs = ["main.c"], deps = [":kws"])
"""

_SUFFIXES = [".h", ".c", "_weights.h", "_weights.c"]

def _dlbuild_sources_impl(ctx):
    # dlbuild works in the folder of the recipe; every other path is relative to where Bazel is.
    folder = ctx.file.recipe.dirname
    back = "/".join([".." for part in folder.split("/") if part not in ("", ".")]) or "."
    out = ctx.outputs.outs[0].dirname
    arguments = ctx.actions.args()
    arguments.add("build")
    arguments.add("--sources")
    arguments.add("-C", folder or ".")
    arguments.add("-B", back + "/" + out + ".dlbuild")
    arguments.add("--flat", back + "/" + out)
    arguments.add("--target", ctx.attr.target)
    for option in ctx.attr.options:
        arguments.add("-D", option)
    ctx.actions.run(
        executable = ctx.executable.tool,
        arguments = [arguments],
        inputs = ctx.files.srcs + [ctx.file.recipe],
        outputs = ctx.outputs.outs,
        mnemonic = "Dlbuild",
        progress_message = "Making the C of the models of " + ctx.attr.target,
        use_default_shell_env = True,
    )
    return [DefaultInfo(files = depset(ctx.outputs.outs))]

dlbuild_sources = rule(
    implementation = _dlbuild_sources_impl,
    doc = "One run of dlbuild: the C of all models of a target.",
    attrs = {
        "recipe": attr.label(allow_single_file = [".yaml"], mandatory = True),
        "srcs": attr.label_list(allow_files = True, doc = "All that the recipe names: models, packs."),
        "target": attr.string(mandatory = True),
        "options": attr.string_list(doc = "key=value, for every build of the recipe."),
        "outs": attr.output_list(mandatory = True),
        "tool": attr.label(executable = True, cfg = "exec", mandatory = True),
    },
)

def dlbuild_models(
        name,
        recipe,
        srcs,
        models,
        target,
        options = [],
        ports = [],
        images = [],
        tool = Label("//:dlbuild"),
        **kwargs):
    """Declares a cc_library for each model, which Bazel's C toolchain compiles.

    Args:
      name: of the target that makes the C; also the folder that it lies in.
      recipe: the dlbuild.yaml.
      srcs: all files that it names.
      models: names of models; each is the name of a library.
      target: the target of the recipe that they are for.
      options: key=value, for every build of the recipe.
      ports: the files of a port, if the target has several cores or a memory that holds tiles:
        dlb_port.h, dlb_port_memcpy.c, dlb_port_cores.c; `dlbuild outputs` names them.
      images: with `weights: image`, the files to be flashed apart: kws_image.bin, and kws_image.hex
        if there is an image_address. The filegroup `<name>_images` has them.
      tool: the dlbuild to run.
      **kwargs: of the libraries, such as visibility.
    """
    port = [name + "/" + file for file in ports]
    flashed = [name + "/" + file for file in images]
    files = {model: [name + "/" + model + suffix for suffix in _SUFFIXES] for model in models}
    dlbuild_sources(
        name = name,
        recipe = recipe,
        srcs = srcs,
        target = target,
        options = options,
        outs = [file for model in models for file in files[model]] + port + flashed,
        tool = tool,
    )
    native.filegroup(name = name + "_images", srcs = flashed)
    for model in models:
        native.cc_library(
            name = model,
            srcs = [file for file in files[model] + port if file.endswith(".c")],
            hdrs = [file for file in files[model] + port if file.endswith(".h")],
            includes = [name],
            linkopts = ["-lm"],
            **kwargs
        )
