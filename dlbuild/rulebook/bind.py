"""The names of a rule bound to one operator's shapes, types, attributes and constants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dlbuild.base.yamlsrc import Scalar
from dlbuild.ir.graph import Attribute, Fact, Graph, Op
from dlbuild.rulebook.expr import evaluate, parse
from dlbuild.rulebook.instance import Operand
from dlbuild.rulebook.limits import DTYPE_SETS
from dlbuild.rulebook.pack import ExpressionError, Term, integer, truth
from dlbuild.rulebook.rule import OpRule, TensorSpec


class Unfit(Exception):  # noqa: N818 - no error: the next rule or variant is tried
    """Why a rule does not fit an operator; a sentence without a full stop."""


@dataclass
class Binding:
    """What is bound so far, while a rule is matched.

    names: sizes, texts and truths. operands: by the rule's names, `x0`, `x1`... for `x*`.
    specs: what the rule says of each operand. absent: values of inputs that are not there.
    members: how many tensors each variadic `x*` stands for.
    """

    rule: OpRule
    op: Op
    graph: Graph
    names: dict[str, Term]
    operands: dict[str, Operand]
    specs: dict[str, TensorSpec]
    absent: dict[str, Scalar]
    members: dict[str, int]

    def copy(self) -> Binding:
        """Return a binding whose names can be added to without changing this one's."""
        return replace(self, names=dict(self.names))


def size(text: Scalar, names: Mapping[str, Term]) -> Term:
    """Evaluate a size expression of a rule; its fault is why the rule does not fit."""
    try:
        return evaluate(parse(text.text), names)
    except ExpressionError as error:
        raise Unfit(fault_in(text, error)) from None


def holds(text: Scalar, names: Mapping[str, Term]) -> bool:
    """Evaluate a condition of a rule."""
    try:
        return truth(size(text, names))
    except ExpressionError as error:
        raise Unfit(fault_in(text, error)) from None


def whole_number(text: Scalar, names: Mapping[str, Term]) -> int:
    """Evaluate a size expression of a rule that is a whole number."""
    try:
        return integer(size(text, names))
    except ExpressionError as error:
        raise Unfit(fault_in(text, error)) from None


def fault_in(text: Scalar, error: ExpressionError) -> str:
    """Say what is wrong in an expression and where it stands."""
    return f"{error.what}, in '{text.text}' ({text.where})"


def bind(rule: OpRule, op: Op, graph: Graph, *, with_outputs: bool = True) -> Binding:
    """Bind tensors and attributes, but not yet `let` and `require`.

    with_outputs: results too, whose extents must then be known.

    Raises:
        Unfit: the operator is not of the rule's form.
    """
    first, last = rule.since
    if op.opset and (op.opset < first or (last is not None and op.opset > last)):
        raise Unfit(f"it is for opset {first} to {last if last is not None else 'the newest'}")
    _check_choices(rule, op)
    binding = Binding(rule, op, graph, {"opset": op.opset}, {}, {}, {}, {})
    _bind_tensors(binding, rule.inputs, op.inputs, is_input=True)
    if with_outputs:
        _bind_tensors(binding, rule.outputs, op.outputs, is_input=False)
    else:
        for spec, names in _assigned(rule.outputs, op.outputs):
            binding.names[f"has_{spec.name}"] = any(names)
    for name, operand in binding.operands.items():
        _bind_shape(binding, name, operand)
        _bind_dtype(binding, name, operand)
    _bind_attributes(binding)
    _bind_absent_values(binding)
    return binding


def _bind_tensors(
    binding: Binding, specs: Sequence[TensorSpec], tensors: Sequence[str], *, is_input: bool
) -> None:
    graph = binding.graph
    word = "input" if is_input else "output"
    for spec, names in _assigned(specs, tensors):
        if spec.is_variadic:
            shapes = tuple(graph.tensor[name].shape for name in names)
            binding.members[spec.name] = len(names)
            binding.names[f"{spec.name.upper()}S"] = shapes
            binding.names["COUNT"] = len(names)
            for number, name in enumerate(names):
                _add_operand(binding, f"{spec.name}{number}", spec, name, is_input=is_input)
            continue
        name = names[0] if names else ""
        binding.names[f"has_{spec.name}"] = bool(name)
        _bind_facts(binding, spec, name)
        if not name:
            if spec.absent is None:
                raise Unfit(f"the {word} '{spec.name}' is missing")
            if is_input:
                binding.absent[spec.name] = spec.absent
        elif spec.value:
            _bind_value(binding, spec, name)
        else:
            _add_operand(binding, spec.name, spec, name, is_input=is_input)
    if len(tensors) > len(specs) and not any(spec.is_variadic for spec in specs):
        raise Unfit(f"it has {len(tensors)} {word}s, the rule {len(specs)}")


def _bind_facts(binding: Binding, spec: TensorSpec, name: str) -> None:
    facts = binding.graph.facts
    if spec.all_zero:
        binding.names[spec.all_zero] = not name or Fact("all_zero", (name,)) in facts
    if spec.narrow:
        binding.names[spec.narrow] = bool(name) and Fact("narrow", (name,)) in facts


def _assigned(
    specs: Sequence[TensorSpec], tensors: Sequence[str]
) -> Iterator[tuple[TensorSpec, Sequence[str]]]:
    for position, spec in enumerate(specs):
        yield spec, tensors[position:] if spec.is_variadic else tensors[position : position + 1]


def _add_operand(
    binding: Binding, name: str, spec: TensorSpec, tensor: str, *, is_input: bool
) -> None:
    found = binding.graph.tensor[tensor]
    binding.operands[name] = Operand(
        name, tensor, found.dtype, found.shape, "input" if is_input else "output"
    )
    binding.specs[name] = spec


def _bind_value(binding: Binding, spec: TensorSpec, tensor: str) -> None:
    value = binding.graph.value.get(tensor)
    if value is None:
        raise Unfit(f"the input '{spec.name}' ({tensor}) must be known at build time")
    binding.names[f"shape_{spec.name}"] = value.shape
    binding.names[f"rank_{spec.name}"] = len(value.shape)
    binding.names[spec.value] = value.content if value.shape else value.content[0]


def _bind_shape(binding: Binding, name: str, operand: Operand) -> None:
    names, shape = binding.names, operand.shape
    names[f"shape_{name}"] = shape
    names[f"rank_{name}"] = len(shape)
    pattern = binding.specs[name].shape
    if pattern is None:
        return
    for part, extent in _matched(pattern, shape, f"{name} ({operand.tensor})"):
        bound = part.removesuffix("...")
        if bound.isdigit():
            if int(bound) != extent:
                raise Unfit(f"{name} needs an axis of {bound}, but it is {list(shape)}")
        elif names.setdefault(bound, extent) != extent:
            raise Unfit(f"{bound} is {_shown(names[bound])}, but {_shown(extent)} in {name}")


def _matched(
    pattern: Sequence[str], shape: tuple[int, ...], label: str
) -> Iterator[tuple[str, int | tuple[int, ...]]]:
    packs = [j for j, part in enumerate(pattern) if part.endswith("...")]
    spare = len(shape) - len(pattern) + 1
    if (not packs and len(shape) != len(pattern)) or (packs and spare < 0):
        wanted = f"at least {len(pattern) - 1}" if packs else f"{len(pattern)}"
        raise Unfit(f"{label} needs {wanted} axes [{', '.join(pattern)}], but it is {list(shape)}")
    at = 0
    for part in pattern:
        if part.endswith("..."):
            yield part, shape[at : at + spare]
            at += spare
        else:
            yield part, shape[at]
            at += 1


def _shown(term: Term) -> str:
    return str(list(term)) if isinstance(term, tuple) else str(term)


def _bind_dtype(binding: Binding, name: str, operand: Operand) -> None:
    names, dtype = binding.names, operand.dtype
    names[f"dtype_{name}"] = dtype
    wanted = binding.specs[name].dtypes
    if not wanted:
        return
    if wanted[0][0].isupper():
        if names.setdefault(wanted[0], dtype) != dtype:
            raise Unfit(f"{name} is {dtype}, but {wanted[0]} is {names[wanted[0]]}")
    elif not any(dtype == part or dtype in DTYPE_SETS.get(part, ()) for part in wanted):
        raise Unfit(f"{name} is {dtype}, the rule takes {', '.join(wanted)}")


def _check_choices(rule: OpRule, op: Op) -> None:
    for name, value in op.attributes:
        spec = rule.attributes.get(name)
        if spec is not None and spec.choices and value not in spec.choices:
            known = ", ".join(f"'{choice}'" for choice in spec.choices)
            raise Unfit(f"the attribute '{name}' is '{value}', it can be {known}")


def _bind_attributes(binding: Binding) -> None:
    given: dict[str, Attribute] = dict(binding.op.attributes)
    for name in given:
        if name not in binding.rule.attributes:
            raise Unfit(f"the attribute '{name}' is not in the rule")
    for name, spec in binding.rule.attributes.items():
        has = f"has_{name}"
        binding.names[has] = bool(binding.names.get(has)) or name in given
        if spec.default is None:
            continue
        value: Term = given[name] if name in given else size(spec.default, binding.names)
        if spec.choices and value not in spec.choices:  # those that are given were looked at before
            raise Unfit(f"the attribute '{name}' is missing")
        parts = len(spec.names)
        if parts > 1 and isinstance(value, tuple):
            if len(value) % parts:
                raise Unfit(f"the attribute '{name}' must hold {parts} equal parts: {value}")
            share = len(value) // parts
            for number, bound in enumerate(spec.names):
                binding.names[bound] = value[number * share : (number + 1) * share]
        else:
            binding.names.update(dict.fromkeys(spec.names, value))


def _bind_absent_values(binding: Binding) -> None:
    for name, text in binding.absent.items():
        spec = next(s for s in binding.rule.inputs if s.name == name)
        if spec.value:
            binding.names[spec.value] = size(text, binding.names)


def conclude(binding: Binding, lets: Mapping[str, Scalar]) -> None:
    """Bind `let` and check `require`.

    Raises:
        Unfit: a requirement does not hold, the sentence is its `because`; a result's extents are
            not those that `let` ties them to.
    """
    ties = {part.removesuffix("...") for spec in binding.rule.outputs for part in spec.shape or ()}
    told = {name: binding.names[name] for name in ties if name in binding.names}
    for name, text in lets.items():
        binding.names[name] = size(text, binding.names)
    for need in binding.rule.requires:
        if not holds(need.that, binding.names):
            raise Unfit(f"{need.because} ({need.that.text})")
    for name, extent in told.items():
        due = binding.names[name]
        if due != extent:
            raise Unfit(f"{name} of the result is {_shown(extent)}, but {_shown(due)} is due")
