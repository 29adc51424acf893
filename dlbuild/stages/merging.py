"""Functions that differ in numbers alone, made one where that takes less flash."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from dlbuild.emit.environment import Environment
from dlbuild.emit.helpers import helper_names, helper_text
from dlbuild.emit.merged import Merged, NotMerged, merge
from dlbuild.emit.naming import parameters_in
from dlbuild.emit.skeleton import skeleton_of
from dlbuild.ir.merged import Group, MergedFunctions
from dlbuild.ir.tile_plan import TilePlan
from dlbuild.stages.functions import Functions, commented
from dlbuild.stages.sources import Sources

Flash = Callable[[Functions], int | None]
"""From functions to the bytes of the object with them, None if the compiler refuses them."""


def chosen(model: Sources, apart: Functions, tiles: TilePlan, flash: Flash) -> MergedFunctions:
    """Decide group by group which functions are one, by the flash of the whole object.

    Args:
        model: the model.
        apart: its functions, each for its own sizes.
        tiles: the tasks of its kernels.
        flash: counts; not called where nothing can be merged.
    """
    groups = candidates(model, apart)
    least = flash(apart) if groups else None
    if least is None:
        return MergedFunctions()
    found: list[Group] = []
    for group in groups:
        taken = tuple(one.functions for one in found if one.is_merged)
        decided = replace(group, apart_bytes=least)
        try:
            numbers = _merged(model, apart, group.functions).fields
        except NotMerged as reason:
            found.append(replace(decided, obstacle=str(reason)))
            continue
        size = flash(with_merged(model, apart, tiles, (*taken, group.functions)))
        if size is None:
            decided = replace(decided, numbers=numbers, obstacle="the compiler refuses it")
        else:
            is_merged = size < least
            decided = replace(decided, numbers=numbers, together_bytes=size, is_merged=is_merged)
            least = min(least, size)
        found.append(decided)
    return MergedFunctions(tuple(found))


def candidates(model: Sources, apart: Functions) -> tuple[Group, ...]:
    """Return the groups of functions whose texts are equal but for numbers."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for name, text in apart.alone.items():
        alike.setdefault(skeleton_of(text.text, name), []).append(name)
    found = []
    for names in alike.values():
        kernels = _users(apart, names)
        layers = tuple(model.profile.kernel[kernel].anchor for kernel in kernels)
        found.append(Group(tuple(names), layers, tuple(kernels)))
    return tuple(group for group in found if len(group.functions) > 1)


def with_merged(
    model: Sources, apart: Functions, tiles: TilePlan, groups: Sequence[Sequence[str]]
) -> Functions:
    """Return the functions of which each of these groups is one.

    Raises:
        NotMerged: they cannot be.
    """
    texts, calls = list(apart.texts), dict(apart.calls)
    for names in groups:
        made, first = _merged(model, apart, names), apart.alone[names[0]]
        place = texts.index(first)
        more = f"sizes: those of its first call; {made.kind} says in what the others differ"
        about = commented(model, first, _users(apart, names), tiles, more).comment
        ours = replace(first, text=made.text, comment=about, sizes=made.declaration)
        others = [apart.alone[name] for name in names[1:]]
        texts = [ours if at == place else t for at, t in enumerate(texts) if t not in others]
        constant = dict(zip(names, made.constants, strict=True))
        for number, call in calls.items():
            if call.function in constant:
                arguments = (*call.arguments, f"&{constant[call.function]}")
                calls[number] = replace(call, function=names[0], arguments=arguments)
    return replace(apart, texts=tuple(texts), calls=calls)


def _users(apart: Functions, names: Sequence[str]) -> list[str]:
    """Return the kernels of several functions."""
    return [kernel for name in names for kernel in apart.users[name]]


def _merged(model: Sources, apart: Functions, names: Sequence[str]) -> Merged:
    def parameters(function: str) -> Sequence[str]:
        return _parameters(model.environment, function)

    return merge(names, [apart.alone[name].text for name in names], parameters)


def _parameters(environment: Environment, function: str) -> Sequence[str]:
    """Return the names of the parameters of a helper, nothing if there is none of this name."""
    if function not in helper_names(environment):
        return ()
    return parameters_in(helper_text(environment, function), function)
