"""What a rule must fulfil before it meets an operator: names that are known and do not clash."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from dlbuild.base.spelling import suggestion
from dlbuild.base.yamlsrc import Node, Scalar
from dlbuild.rulebook.expr import VALUE_WORDS, calls_in, names_in, parse, parse_map
from dlbuild.rulebook.names import Names, names_of
from dlbuild.rulebook.pack import FUNCTIONS, ExpressionError
from dlbuild.rulebook.rule import (
    AT_ONCE,
    COLUMNS,
    COUNT,
    NEST_TEMPLATE,
    SPACE,
    ConstantSpec,
    KernelSpec,
    OpRule,
    StepSpec,
    TableSpec,
)
from dlbuild.rulebook.source import fault

_LOWER = re.compile(r"[a-z][a-z0-9_]*")
_UPPER = re.compile(r"[A-Z][A-Za-z0-9_]*")
_SIZE_FUNCTIONS = frozenset(FUNCTIONS)
_VALUE_FUNCTIONS = frozenset((*FUNCTIONS, *VALUE_WORDS))


def check_rule(rule: OpRule) -> Names:
    """Refuse a rule that cites an unknown name or gives one name two meanings.

    Returns:
        The names that its expressions may use.

    Raises:
        UserError: at the place in the file.
    """
    if not rule.steps and rule.template == NEST_TEMPLATE:
        raise rule.text.error(
            f"the rule of '{rule.kind}' needs 'steps', or a 'template' of its own"
        )
    if rule.macs is not None and rule.steps:
        raise rule.text["macs"].error("the 'macs' of 'steps' are counted", fix="leave 'macs' out")
    _check_forms(rule)
    names = names_of(rule)
    _check_bindings(rule)
    _check_clashes(rule, names)
    _check_spatial(rule, names)
    _check_run_time(rule, names)
    _check_sizes(rule, names)
    _check_maps(rule, names)
    for layout in (rule.layout, *(variant.layout for variant in rule.variants)):
        _check_layout(rule, layout)
    check_steps(rule, names)
    return names


def check_steps(rule: OpRule, names: Names) -> None:
    """Check constants, steps and variants; the names are known already."""
    _check_body(rule, names, rule.constants, rule.steps)
    for variant in rule.variants:
        ours = replace(names, sizes=names.sizes | frozenset(variant.lets))
        if variant.when is not None:
            _check_text(variant.when, ours.sizes, _SIZE_FUNCTIONS)
        for text in variant.lets.values():
            _check_text(text, ours.sizes, _SIZE_FUNCTIONS)
        constants = {**rule.constants, **variant.constants}
        steps = rule.steps if variant.steps is None else variant.steps
        _check_body(rule, ours, constants, steps)
    for kernel in rule.kernels:
        _check_kernel(rule, kernel, names, rule.constants)


def _check_text(
    text: Scalar, names: frozenset[str], functions: frozenset[str], *, is_map: bool = False
) -> None:
    try:
        tree = parse_map(text.text) if is_map else parse(text.text)
    except ExpressionError as error:
        raise fault(text, error) from None
    shift = 1 if is_map else 0
    for name in names_in(tree):
        if name.id not in names:
            what = f"'{name.id}' is not known here"
            raise fault(text, ExpressionError(what, name.col_offset - shift), name.id, names)
    for function in calls_in(tree):
        if function.id not in functions:
            what = f"there is no function '{function.id}'"
            wrong = ExpressionError(what, function.col_offset - shift)
            raise fault(text, wrong, function.id, functions)


def _check_forms(rule: OpRule) -> None:
    """Check that sizes begin with an upper case letter, and axes and tensors with a lower one."""
    place: Node = rule.text
    tensors = (*rule.inputs, *rule.outputs)
    for spec in tensors:
        for part in spec.shape or ():
            name = part.removesuffix("...")
            if not name.isdigit():
                _check_form(name, _UPPER, "a size", spec.place)
    uppers = {**rule.lets, **{name: spec.value for name, spec in rule.tables.items()}}
    for name, text in uppers.items():
        _check_form(name, _UPPER, "a size", text)
    lowers: list[tuple[str, Node]] = [(spec.name, spec.place) for spec in tensors]
    lowers += [(axis.name, axis.extent) for axis in (*rule.domain_axes, *rule.reduce_axes)]
    maps = (*rule.reads.items(), *rule.writes.items())
    lowers += [(name, spec.at) for name, spec in maps if name != "*"]
    lowers += [(name, spec.value) for name, spec in rule.constants.items()]
    for name, place in lowers:
        _check_form(name, _LOWER, "an axis or tensor", place)


def _check_form(name: str, form: re.Pattern[str], what: str, place: Node) -> None:
    if not form.fullmatch(name):
        case = "an upper" if form is _UPPER else "a lower"
        raise place.error(f"'{name}' names {what}, so it must begin with {case} case letter")
    if name in VALUE_WORDS:
        raise place.error(f"'{name}' is the name of a function", fix="choose another name")


def _check_clashes(rule: OpRule, names: Names) -> None:
    """Check that no axis is also a tensor, and no size is bound twice."""
    tensors = {spec.name: spec.place for spec in (*rule.inputs, *rule.outputs)}
    for axis in (*rule.domain_axes, *rule.reduce_axes):
        for taken in (*tensors, *rule.reads, *rule.writes, *rule.constants):
            numbered = axis.is_pack and re.fullmatch(rf"{axis.name}\d+", taken)
            if taken == axis.name or numbered:
                raise axis.extent.error(
                    f"'{axis.name}' is an axis and '{taken}' a tensor", fix="rename one of them"
                )
        for other in (*rule.domain_axes, *rule.reduce_axes):
            if other is not axis and (
                other.name == axis.name
                or (axis.is_pack and re.fullmatch(rf"{axis.name}\d+", other.name))
            ):
                raise axis.extent.error(
                    f"'{axis.name}' and '{other.name}' are two axes", fix="rename one of them"
                )
    tied = {part.removesuffix("...") for spec in rule.outputs for part in spec.shape or ()}
    tied -= {part.removesuffix("...") for spec in rule.inputs for part in spec.shape or ()}
    for name, text in rule.lets.items():
        if name in names.bound - tied:
            raise text.error(f"'{name}' is bound already", fix="choose another name")
    for name, spec in rule.constants.items():
        if name in tensors or name in rule.reads:
            raise spec.value.error(f"'{name}' is a constant and a tensor")


def _check_bindings(rule: OpRule) -> None:
    """Check that no size, text or table is bound by two different things."""
    specs = (*rule.inputs, *rule.outputs)
    shapes = {part.removesuffix("...") for spec in specs for part in spec.shape or ()}
    types = {name for spec in specs for name in spec.dtypes if name[0].isupper()}
    once = [
        (name, spec.place)
        for spec in specs
        for name in (spec.value, spec.all_zero, spec.narrow)
        if name
    ]
    attributes = ((a.names, a.default) for a in rule.attributes.values() if a.default is not None)
    once += [(name, place) for names, place in attributes for name in names]
    once += [(name, table.value) for name, table in rule.tables.items()]
    seen = shapes | types
    for name in sorted(shapes & types):
        raise rule.text.error(f"'{name}' is a size and an element type", fix="rename one of them")
    for name, place in once:
        if name in seen:
            raise place.error(f"'{name}' is bound already", fix="choose another name")
        seen.add(name)


def _check_sizes(rule: OpRule, names: Names) -> None:
    bound = set(names.bound)
    for attribute in rule.attributes.values():
        if attribute.default is not None:
            _check_text(attribute.default, names.bound, _SIZE_FUNCTIONS)
    for spec in (*rule.inputs, *rule.outputs):
        if spec.absent is not None:
            _check_text(spec.absent, names.sizes, _SIZE_FUNCTIONS)
    for name, text in rule.lets.items():
        _check_text(text, frozenset(bound), _SIZE_FUNCTIONS)
        bound.add(name)
    for need in rule.requires:
        _check_text(need.that, names.sizes, _SIZE_FUNCTIONS)
    for axis in (*rule.domain_axes, *rule.reduce_axes):
        _check_text(axis.extent, names.sizes, _SIZE_FUNCTIONS)
    for table in rule.tables.values():
        _check_table(table, names)
    if rule.macs is not None:
        _check_text(rule.macs, names.sizes, _SIZE_FUNCTIONS)


def _check_table(table: TableSpec, names: Names) -> None:
    (outer, outer_size), (inner, inner_size) = table.outer, table.inner
    for extent in (outer_size, inner_size):
        _check_known(extent, names.sizes, "size", table.value)
    for axis in (outer, inner):
        _check_known(axis, names.axes, "axis", table.value)
    local = names.sizes | {outer, inner}
    for name, text in table.lets.items():
        _check_text(text, local, _SIZE_FUNCTIONS)
        local |= {name}
    _check_text(table.value, local, _SIZE_FUNCTIONS)


def _check_maps(rule: OpRule, names: Names) -> None:
    local = names.sizes | names.axes | names.tensors | {"SELF"}
    for name, spec in (*rule.reads.items(), *rule.writes.items()):
        _check_text(spec.at, local, _SIZE_FUNCTIONS, is_map=True)
        if spec.of != "*":
            _check_known(spec.of, names.tensors, "tensor", spec.at)
        if name == "*" and name in rule.writes:
            raise spec.at.error("'*' stands for all inputs, so it belongs under 'read'")
    for name, text in rule.views.items():
        _check_text(text, local, _SIZE_FUNCTIONS, is_map=True)
        _check_known(name, names.accesses, "tensor", text)
    for name, text in rule.outside.items():
        _check_known(name, frozenset(rule.reads) | names.accesses, "read", text)
        if text.text != "skip":
            _check_text(text, names.sizes | names.accesses, _VALUE_FUNCTIONS)
    if rule.for_each and not any(
        spec.is_variadic and spec.name == rule.for_each for spec in (*rule.inputs, *rule.outputs)
    ):
        raise rule.text["for_each"].error(
            f"'{rule.for_each}' is not a tensor of any number", fix=f"write '{rule.for_each}*'"
        )


def _check_known(name: str, known: frozenset[str], what: str, place: Node) -> None:
    if name not in known:
        raise place.error(f"there is no {what} '{name}'", fix=suggestion(name, known))


def _check_body(
    rule: OpRule,
    names: Names,
    constants: Mapping[str, ConstantSpec],
    steps: Sequence[StepSpec],
) -> None:
    known = names.sizes | names.axes | names.accesses | frozenset(rule.tables)
    earlier: frozenset[str] = frozenset()
    for name, spec in constants.items():
        for text in spec.over.values():
            _check_text(text, names.sizes, _SIZE_FUNCTIONS)
        if spec.at is not None:
            _check_text(spec.at, names.axes, frozenset(), is_map=True)
        _check_constant(spec, known | earlier | frozenset(spec.over), names)
        earlier |= {name}
    known |= earlier
    if rule.chain is not None:
        _check_text(rule.chain, known | {"l", "r"}, _VALUE_FUNCTIONS)
        known |= {"CHAIN"}
    outputs = names.outputs
    for step in steps:
        known = _check_step(step, known, names, outputs)


def _check_constant(spec: ConstantSpec, known: frozenset[str], names: Names) -> None:
    """Check the reads, sums and value of one constant."""
    for read in spec.reads.values():
        local = names.sizes | names.axes | frozenset(spec.over) | {"SELF"}
        _check_text(read.at, local, _SIZE_FUNCTIONS, is_map=True)
        _check_known(read.of, names.tensors, "tensor", read.at)
    known |= frozenset(spec.reads)
    for axis in spec.along:
        _check_known(axis, names.reduce, "axis under 'reduce'", spec.value)
    for start, _ in spec.folds.values():
        _check_text(start, known, _VALUE_FUNCTIONS)
    known |= frozenset(spec.folds)
    for _, each in spec.folds.values():
        _check_text(each, known, _VALUE_FUNCTIONS)
    _check_text(spec.value, known, _VALUE_FUNCTIONS)


def _check_kernel(
    rule: OpRule, kernel: KernelSpec, names: Names, constants: Mapping[str, ConstantSpec]
) -> None:
    """Check a hand-written kernel: what it uses, keeps and computes."""
    ours = replace(names, sizes=names.sizes | frozenset(kernel.lets))
    conditions = [kernel.when, *(form.when for form in kernel.at_once)]
    for text in [*kernel.lets.values(), *(text for text in conditions if text is not None)]:
        _check_text(text, ours.sizes, _SIZE_FUNCTIONS)
    for room in kernel.scratch.values():
        own = ours.sizes | ({AT_ONCE} if kernel.at_once else set())
        _check_text(room.count, own, _SIZE_FUNCTIONS)
        _check_text(room.row_count, own | {COLUMNS}, _SIZE_FUNCTIONS)
    constants = {**constants, **kernel.constants}
    _check_body(rule, ours, constants, ())
    folds = frozenset(name for step in rule.steps for name in step.folds)
    _check_text(kernel.result, ours.accesses | folds, _VALUE_FUNCTIONS)
    for name in kernel.uses:
        _check_known(name, names.accesses | frozenset(constants), "operand", kernel.result)
    blocks = kernel.blocks
    for name in blocks.sizes if blocks else ():
        _check_known(name, ours.sizes, "size", kernel.result)
    if blocks:
        _check_text(blocks.of, ours.sizes, _SIZE_FUNCTIONS)
    single = (*filter(None, [kernel.samples]), *((blocks.axis,) if blocks else ()))
    for axis in (*kernel.keep, *kernel.rows, *single):
        known = names.axes | {f"{a}{letter}" for a in rule.spatial for letter in SPACE}
        _check_known(axis, known, "axis", kernel.result)


def _check_step(
    step: StepSpec, known: frozenset[str], names: Names, outputs: frozenset[str]
) -> frozenset[str]:
    """Check one step and return the names that are known after it."""
    for axis in step.over:
        if axis not in names.reduce:
            fix = suggestion(axis, names.reduce)
            raise step.place.error(f"'{axis}' is no axis under 'reduce'", fix=fix)
    for text in step.when:
        _check_text(text, names.sizes | names.axes | names.tensors, _SIZE_FUNCTIONS)
    for name, text in step.lets.items():
        _check_local(name, known, names, text)
        _check_text(text, known, _VALUE_FUNCTIONS)
        known |= {name}
    for name, (start, _) in step.folds.items():
        _check_local(name, known, names, start)
        _check_text(start, known, _VALUE_FUNCTIONS)
    known |= frozenset(step.folds)
    for _, each in step.folds.values():
        _check_text(each, known, _VALUE_FUNCTIONS)
    for name, text in step.stores.items():
        if name not in outputs:
            words: Iterable[str] = ("over", "when", "let", "fold", *outputs)
            raise text.error(f"a step has no key '{name}'", fix=suggestion(name, words))
        _check_text(text, known, _VALUE_FUNCTIONS)
    return known


def _check_local(name: str, known: frozenset[str], names: Names, place: Scalar) -> None:
    _check_form(name, _LOWER, "a variable", place)
    if name in known or any(re.fullmatch(rf"{axis}\d+", name) for axis in names.packs):
        raise place.error(f"'{name}' is known already", fix="choose another name")


def _check_spatial(rule: OpRule, names: Names) -> None:
    """Refuse `spatial` of what is no pack of axes, or whose axes would have another's name."""
    for pack in rule.spatial:
        if pack not in names.packs:
            raise rule.text.error(
                f"'spatial' lists '{pack}', which is no pack of axes",
                fix=suggestion(pack, sorted(names.packs)) or f"write '{pack}...' in 'domain'",
            )
        for axis in (f"{pack}{letter}" for letter in SPACE):
            if axis in names.tensors | names.axes | names.accesses:
                raise rule.text.error(f"'{axis}' is an axis of '{pack}' already")


def _check_run_time(rule: OpRule, names: Names) -> None:
    """Refuse a run-time size of what is no output, or without an output for the count."""
    outputs = frozenset(spec.name for spec in rule.outputs)
    for name, size in rule.run_time.items():
        _check_known(name, outputs, "output", size.most)
        for text in filter(None, (size.most, size.axis)):
            _check_text(text, names.sizes, _SIZE_FUNCTIONS)
    if rule.run_time and rule.outputs[-1].name != COUNT:
        raise rule.text["run_time_size"].error(
            "the rule has no output for how many there are",
            fix=f"add the last output '{COUNT}: {{dtype: int32}}'",
        )


def _check_layout(rule: OpRule, layout: Mapping[str, tuple[str, ...]]) -> None:
    shapes = {spec.name: spec.shape for spec in (*rule.inputs, *rule.outputs)}
    for name, order in layout.items():
        shape = shapes.get(name)
        if shape is None or sorted(order) != sorted(shape):
            wanted = ", ".join(shape or ())
            raise rule.text.error(
                f"the layout of '{name}' must order the names of its shape [{wanted}]"
            )
