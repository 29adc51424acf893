"""A model as it was built, from the results of its stages."""

from collections.abc import Callable
from pathlib import Path

from dlbuild.build.job import Settings
from dlbuild.build.steps.book import book_of
from dlbuild.ir import codec
from dlbuild.ir.graph import Graph
from dlbuild.ir.merged import merged_from
from dlbuild.ir.profile import Profile
from dlbuild.ir.schedule import Schedule
from dlbuild.ir.tile_plan import TilePlan
from dlbuild.run.runner import Built


def built_from(settings: Settings, content: Callable[[str], bytes], folder: Path) -> Built:
    """Return a model as it was built.

    Args:
        settings: its model, target, options and folders of rules.
        content: returns the content of a file that a stage made, by the file's name.
        folder: where its C files are.
    """
    return Built(
        settings.model,
        codec.decode(content("graph"), Graph),
        codec.decode(content("profile"), Profile),
        codec.decode(content("schedule"), Schedule),
        book_of(settings.folders),
        settings.target,
        settings.options,
        folder,
        codec.decode(content("tiles"), TilePlan),
        merged_from(content("merged")),
    )
