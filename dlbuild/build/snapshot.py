"""What a build depended on, for the no-op check of the next one."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from dlbuild.base.installed import installed, metadata_file, record_file
from dlbuild.base.paths import package_folder
from dlbuild.build.engine import Engine
from dlbuild.build.keys import files_under, measurements_of
from dlbuild.build.project import Recipe
from dlbuild.build.remembered import remember
from dlbuild.build.stage import Pipeline
from dlbuild.run.fragments import depfile as depfile_text


def inputs_of(engine: Engine, pipeline: Pipeline) -> list[Path]:
    """Return every file that a build read: the user's, and our rules, templates and code."""
    recipe = engine.keys.recipe
    inputs = [path for folder in _folders(recipe) for path in files_under(folder)]
    return [*inputs, *recipe.files, *_model_files(engine, pipeline)]


def depfile_of(engine: Engine, pipeline: Pipeline, goal: str) -> str:
    """Return a Make rule that `goal` depends on all that a build read.

    Names are absolute, since the build around ours starts elsewhere. Each input has an empty rule
    of its own, so that one that is gone starts a build instead of ending it. Libraries are there by
    what names their version, and so is an installed dlbuild by the list of its files and digests,
    as some 700 files take the build around ours as long to look at as all else.

    Raises:
        UserError: a file name that Make and Ninja would read differently.
    """
    libraries = sorted({name for stage in pipeline.stages for name in stage.libraries})
    described = [Path(metadata_file(name)) for name in libraries if metadata_file(name)]
    own = package_folder()
    record = record_file("dlbuild", own.parent.as_posix())
    inputs = [p for p in inputs_of(engine, pipeline) if not (record and p.is_relative_to(own))]
    paths = [*inputs, *described, *([Path(record)] if record else [])]
    # Not resolved: a link that is set to another file is a change too.
    names = sorted({path.absolute().as_posix() for path in paths if path.is_file()})
    return depfile_text([goal], names, phony=True)


def leave_snapshot(
    engine: Engine,
    pipeline: Pipeline,
    request: list[str],
    began_ns: tuple[int, int],
    copies: Mapping[str, str],
) -> bool:
    """Let the next build with the same request see by `stat` alone that it has nothing to do.

    began_ns: when the program was started, and when it began to read what is the user's. copies:
    digests of files that were written outside of the build folder.

    Returns:
        Whether it was left: not if an input changed meanwhile.
    """
    recipe, out = engine.keys.recipe, engine.out
    written = {
        (out / name).as_posix(): digest
        for one in recipe.builds
        for name, digest in engine.ledger.written.get(one.label, {}).items()
    }
    return remember(
        out.as_posix(),
        request,
        inputs=[path.as_posix() for path in inputs_of(engine, pipeline)],
        models=[recipe.models[one.model].source.as_posix() for one in recipe.builds],
        outputs={**written, **copies},
        folders=[
            *(path.as_posix() for folder in _folders(recipe) for path in _with_inner(folder)),
            *dict.fromkeys(_libraries(pipeline)),
        ],
        programs=list(dict.fromkeys(_programs(recipe, pipeline))),
        started_ns=began_ns[0],
        reading_ns=began_ns[1],
    )


def _folders(recipe: Recipe) -> list[Path]:
    found = [folder / kind for folder in recipe.folders for kind in ("rules", "templates")]
    return [package_folder(), *found]


def _model_files(engine: Engine, pipeline: Pipeline) -> Iterator[Path]:
    recipe = engine.keys.recipe
    for one in recipe.builds:
        for stage in pipeline.on(recipe.targets[one.target]).stages:
            yield from engine.source_files(stage, one).values()
        # Without the file there is no snapshot, so that it is seen when it appears.
        if (measured := measurements_of(one)) is not None:
            yield measured


def _libraries(pipeline: Pipeline) -> Iterator[str]:
    """Yield the folders of libraries: another version is another name in it."""
    for name in sorted({library for stage in pipeline.stages for library in stage.libraries}):
        _, folder = installed(name)
        if folder:
            yield folder


def _programs(recipe: Recipe, pipeline: Pipeline) -> Iterator[str]:
    for name in sorted({one.target for one in recipe.builds}):
        for stage in pipeline.stages:
            for program in stage.programs:
                command: str = getattr(recipe.targets[name].toolchain, program)
                yield command


def _with_inner(folder: Path) -> Iterator[Path]:
    """Yield a folder and those inside it; one that is absent too, as it may appear."""
    yield folder
    for path in sorted(folder.rglob("*")):
        if path.is_dir() and not path.name.startswith((".", "__pycache__")):
            yield path
