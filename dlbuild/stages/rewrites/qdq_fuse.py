"""Dequantise -> operator -> [limits] -> quantise, fused to one operator on integers.

The integer operator writes the tensor that the quantise node wrote, under its name. Relu and Clip
become a maximum and a minimum with constants on the integers: quantising keeps the order, so it
may come first.
"""

from collections.abc import Callable
from dataclasses import dataclass

from dlbuild.ir.graph import Attribute
from dlbuild.rulebook.load import RuleBook
from dlbuild.stages.rewrites.contrib import DOMAIN
from dlbuild.stages.rewrites.draft import Draft, Node
from dlbuild.stages.rewrites.grid import NARROW, QUANTIZE, Grid, are_equal, dequantized, grid_of
from dlbuild.stages.rewrites.grid import zero_point as zero_of
from dlbuild.stages.rewrites.qdq_bias import integer_bias
from dlbuild.stages.rewrites.qdq_move import limits

LIMITS = frozenset({"Relu", "Clip"})
MATRIX = 2


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor of integers, with the names of its scale and zero point."""

    name: str
    grid: Grid
    zero: str

    @property
    def triple(self) -> list[str]:
        """The three inputs that stand for it."""
        return [self.name, self.grid.scale, self.zero]


@dataclass(frozen=True, slots=True)
class Site:
    """A place where a fusion is tried."""

    draft: Draft
    producers: dict[str, Node]
    node: Node
    output: Grid

    def operand(self, position: int, axis: int | None = None) -> Operand | None:
        """Return an operand of 8-bit integers with one scale, or with scales along `axis`."""
        name = self.node.input(position)
        found = dequantized(self.draft, self.producers, name)
        if found is None or found[1].dtype not in NARROW:
            return None
        integers, grid = found
        if grid.axis is not None and grid.axis != axis:
            return None
        return Operand(integers, grid, zero_of(self.draft, grid))

    @property
    def result(self) -> list[str]:
        """The two inputs that stand for the result's grid."""
        return [self.output.scale, zero_of(self.draft, self.output)]


Fused = tuple[str, str, list[str], dict[str, Attribute]]
"""Domain, operator, inputs, attributes."""
Rule = Callable[[Site], Fused | None]


def fuse(draft: Draft, book: RuleBook) -> None:
    """Fuse at each quantise node where it can be done."""
    producers, consumers = draft.producers(), draft.consumers()
    replaced: dict[int, list[Node]] = {}
    for node in draft.nodes:
        if node.kind != QUANTIZE:
            continue
        grid = grid_of(draft, node)
        if grid is None or grid.axis is not None or grid.dtype not in NARROW:
            continue
        chain = limits_before(draft, producers, consumers, node)
        core = producers.get(chain[-1].inputs[0])
        if core is None:
            continue
        site = Site(draft, producers, core, grid)
        if core.kind == "DequantizeLinear":
            newer = limit_only(site, chain)
        elif is_private(draft, consumers, chain[-1].inputs[0]):
            newer = fused(site, chain, book)
        else:
            newer = None
        if newer is not None:
            replaced[id(node)] = newer
    draft.nodes = [new for node in draft.nodes for new in replaced.get(id(node), [node])]
    draft.drop_dead()


def is_private(draft: Draft, consumers: dict[str, list[Node]], name: str) -> bool:
    """Say whether one node alone reads a tensor."""
    return len(consumers[name]) == 1 and draft.is_plain(name)


def limits_before(
    draft: Draft, producers: dict[str, Node], consumers: dict[str, list[Node]], node: Node
) -> list[Node]:
    """Return the quantise node and the Relu and Clip nodes before it, from last to first."""
    chain = [node]
    while is_private(draft, consumers, chain[-1].inputs[0]):
        before = producers.get(chain[-1].inputs[0])
        if before is None or before.domain or before.kind not in LIMITS:
            break
        if any(name not in draft.constants for name in before.inputs[1:] if name):
            break
        chain.append(before)
    return chain


def limit_only(site: Site, chain: list[Node]) -> list[Node] | None:
    """Fuse dequantise -> limits -> quantise of an equal grid to the limits alone."""
    draft = site.draft
    source = grid_of(draft, site.node)
    if len(chain) == 1 or source is None or not are_equal(draft, source, site.output):
        return None
    return limited(site, chain[0].outputs[0], limits_of(site, chain), site.node.inputs[0])


def fused(site: Site, chain: list[Node], book: RuleBook) -> list[Node] | None:
    """Fuse a whole pattern: the integer operator, then its limits."""
    rule = RULES.get(site.node.kind)
    if rule is None or site.node.domain or len(site.node.outputs) != 1:
        return None
    found = rule(site)
    if found is None:
        return None
    domain, kind, inputs, attributes = found
    if not book.rules_for(domain, kind):
        return None
    draft, last = site.draft, chain[0].outputs[0]
    output, steps = last, limits_of(site, chain)
    if steps:
        output = draft.tensor(f"{last}_unlimited", draft.dtype(last), draft.shape(last))
    opset = 1 if domain else max(site.node.opset, 10)
    core = Node(kind, inputs, [output], attributes, site.node.name, domain, opset)
    return [core, *(limited(site, last, steps, output) if steps else [])]


def limits_of(site: Site, chain: list[Node]) -> list[tuple[str, str]]:
    """Return the maxima and minima, each with its constant, of the limits of a chain."""
    draft = site.draft
    return [step for node in chain[:0:-1] for step in limits(draft, node, site.output) or ()]


def limited(site: Site, last: str, steps: list[tuple[str, str]], source: str) -> list[Node]:
    """Return the maxima and minima from `source` to `last`."""
    draft = site.draft
    nodes: list[Node] = []
    for number, (kind, constant) in enumerate(steps, start=1):
        is_last = number == len(steps)
        result = last if is_last else draft.tensor(f"{last}_limited", *like(draft, last))
        nodes.append(Node(kind, [source, constant], [result], opset=13))
        source = result
    if not nodes:
        nodes.append(Node("Identity", [source], [last], opset=13))
    return nodes


def like(draft: Draft, name: str) -> tuple[str, tuple[int, ...]]:
    """Return a tensor's element type and extents."""
    return draft.dtype(name), draft.shape(name)


def convolution(site: Site) -> Fused | None:
    """Conv with constant weights, one scale or one for each output channel."""
    draft, node = site.draft, site.node
    x, w = site.operand(0), site.operand(1, axis=0)
    if x is None or w is None or w.name not in draft.constants:
        return None
    channels = draft.shape(w.name)[0]
    bias = integer_bias(site.draft, site.producers, node.input(2), (x.grid, w.grid), channels)
    if bias is None:
        return None
    inputs = [*x.triple, *w.triple, *site.result, *([bias] if bias else [])]
    return "", "QLinearConv", inputs, dict(node.attributes)


def gemm(site: Site) -> Fused | None:
    """Gemm with constant weights; beta goes into the bias."""
    draft, node = site.draft, site.node
    is_transposed = bool(node.integer("transB", 0))
    a, b = site.operand(0), site.operand(1, axis=0 if is_transposed else 1)
    if a is None or b is None or b.name not in draft.constants:
        return None
    alpha, beta = node.number("alpha", 1.0), node.number("beta", 1.0)
    if not alpha:
        return None
    columns = draft.shape(node.outputs[0])[1]
    grids = (a.grid, b.grid)
    bias = integer_bias(draft, site.producers, node.input(2), grids, columns, factor=beta / alpha)
    if bias is None:
        return None
    attributes = {name: v for name, v in node.attributes.items() if name != "beta"}
    return DOMAIN, "QGemm", [*a.triple, *b.triple, bias, *site.result], attributes


def product(site: Site) -> Fused | None:
    """MatMul; the right operand may have a scale for each column if it is a matrix."""
    draft, node = site.draft, site.node
    is_matrix = len(draft.shape(node.inputs[1])) == MATRIX
    a, b = site.operand(0), site.operand(1, axis=1 if is_matrix else None)
    if a is None or b is None:
        return None
    return "", "QLinearMatMul", [*a.triple, *b.triple, *site.result], {}


def pair(kind: str) -> Rule:
    """Return the rule of an element-wise operator on two operands."""

    def rule(site: Site) -> Fused | None:
        a, b = site.operand(0), site.operand(1)
        if a is None or b is None or not a.grid.dtype == b.grid.dtype == site.output.dtype:
            return None
        return DOMAIN, kind, [*a.triple, *b.triple, *site.result], {}

    return rule


def single(kind: str, **extra: Attribute) -> Rule:
    """Return the rule of an operator on one operand."""

    def rule(site: Site) -> Fused | None:
        x = site.operand(0)
        if x is None or x.grid.dtype != site.output.dtype:
            return None
        return DOMAIN, kind, [*x.triple, *site.result], {**site.node.attributes, **extra}

    return rule


def average(site: Site) -> Fused | None:
    """AveragePool; of a window that passes the counted pads ONNX leaves out what is behind them.

    The operator on integers counts the whole window, as ONNX Runtime does.
    """
    if site.node.integer("ceil_mode", 0) and site.node.integer("count_include_pad", 0):
        return None
    return single("QLinearAveragePool")(site)


RULES: dict[str, Rule] = {
    "Conv": convolution,
    "Gemm": gemm,
    "MatMul": product,
    "Add": pair("QLinearAdd"),
    "Mul": pair("QLinearMul"),
    "AveragePool": average,
    "GlobalAveragePool": single("QLinearGlobalAveragePool"),
    "Softmax": single("QLinearSoftmax", opset=13),
    "Sigmoid": single("QLinearSigmoid"),
    "LeakyRelu": single("QLinearLeakyRelu"),
}
