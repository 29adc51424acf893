"""The function that calls the kernel of one sample for each sample of a batch."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dlbuild.base.free import free_name
from dlbuild.emit.comments import filled
from dlbuild.emit.itext import IndexText, Place
from dlbuild.emit.kernel import declarations, signature_of
from dlbuild.emit.parameter import Parameter
from dlbuild.emit.ranges import Ranges
from dlbuild.rulebook.address import view_strides
from dlbuild.rulebook.derive import Orders
from dlbuild.rulebook.index import Index
from dlbuild.rulebook.instance import Access, Instance
from dlbuild.rulebook.samples import Sampled

_SAMPLE = "sample"


@dataclass(frozen=True)
class SampleCalls:
    """Calls of the kernel of one sample.

    whole: the kernel of all samples. sampled: the same as of one. name: of the function.
    orders, restrict: see `kernel.render_kernel`.
    """

    whole: Instance
    sampled: Sampled
    name: str
    orders: Orders
    restrict: frozenset[str]

    @property
    def axis(self) -> str:
        """The axis of the samples, empty if there is one."""
        (nest,) = self.whole.nests
        kernel = self.whole.handwritten
        assert kernel is not None
        return kernel.samples if kernel.samples in nest.domain else ""

    @property
    def is_needed(self) -> bool:
        """Whether the kernel of one sample is not what the schedule calls."""
        return bool(self.axis or self.sampled.starts)

    def signature(
        self, parameters: Sequence[Parameter], given: Sequence[str], names: Mapping[str, str]
    ) -> str:
        """Return the head of the function that the template is printed for."""
        if not self.is_needed:
            return signature_of(self.name, parameters, given, names, self.restrict)
        items = declarations(parameters, given, names, self.restrict)
        return filled(f"static inline void {self.name}_sample(", items, ")")

    def function(
        self, parameters: Sequence[Parameter], given: Sequence[str], names: Mapping[str, str]
    ) -> tuple[str, tuple[str, ...]]:
        """Return the function of all samples, and the numbers that its caller gives.

        Args:
            parameters: of the function of one sample, and of this.
            given: the numbers that the function of one sample is given.
            names: the C name of each operand.
        """
        (nest,) = self.whole.nests
        sample = free_name(_SAMPLE, names.values())
        depth = 2 if self.axis else 1
        items = [self._argument(p, names[p.operand], sample) for p in parameters]
        lines = [filled(f"{'    ' * depth}{self.name}_sample(", [*items, *given], ");")]
        if self.axis:
            count = nest.count.get(self.axis, str(nest.extent[self.axis]))
            head = f"    for (int32_t {sample} = 0; {sample} < {count}; ++{sample}) {{"
            lines = [head, *lines, "    }"]
        body = "\n".join(lines)
        words = set(re.findall(r"\w+", body))
        all_given = tuple(number for number in nest.given if number in words)
        signature = signature_of(self.name, parameters, all_given, names, self.restrict)
        return f"{signature}\n{{\n{body}\n}}\n", all_given

    def _argument(self, parameter: Parameter, name: str, sample: str) -> str:
        """Return the C of a pointer to where a sample of an operand begins, or of its number."""
        start = self.sampled.starts.get(parameter.operand)
        if start is None:
            return name
        (nest,) = self.whole.nests
        ranges = Ranges({sample: nest.extent.get(self.axis, 1)}, {}, nest.given)
        text = IndexText(ranges, {}, _unloaded, {})
        put = {self.axis: Index.axis(sample)}
        return f"&{name}[{text.address(self._place(start).mapped(lambda i: i.substitute(put)))}]"

    def _place(self, start: Access) -> Place:
        operand = self.whole.operand(start.operand)
        pitch = view_strides(start.view, operand.shape, self.orders.get(operand.name, ()))
        assert pitch is not None, "it lies in an order that the template takes"
        return Place(tuple(zip(start.index, pitch, strict=True)))


def _unloaded(_: object) -> Place:
    raise AssertionError("no content decides where a sample begins")
