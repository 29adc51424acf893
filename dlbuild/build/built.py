"""A model as an engine built it, for what runs it."""

from dlbuild.build.engine import Engine, path_of
from dlbuild.build.job import Settings
from dlbuild.build.project import Build
from dlbuild.build.steps.built import built_from
from dlbuild.run.runner import Built


def built_of(engine: Engine, one: Build) -> Built:
    """Return one build of an engine; its C files are where they were written."""
    recipe = engine.keys.recipe
    settings = Settings(
        one.model,
        target=recipe.targets[one.target],
        options=one.options,
        folders=recipe.folders,
    )
    folder = path_of(engine.out, one, "header").parent
    return built_from(settings, lambda name: engine.content(one, name), folder)
