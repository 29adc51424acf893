import pytest

from dlbuild.run.stack import Function, worst_stack
from dlbuild.run.stack_code import functions_in, objdump_of


def body(*lines: str, name: str = "f") -> Function | None:
    text = [f"00000010 <{name}>:", *(f"      10:\t{line}" for line in lines)]
    return functions_in("\n".join(text)).get(name)


@pytest.mark.parametrize(
    ("line", "size_bytes"),
    [
        ("push\t{r4, r5, r6, lr}", 16),
        ("stmdb\tsp!, {r4, r5, r6, r7, r8, lr}", 24),
        ("stmdb\tr0!, {r4, r5}", 0),
        ("vpush\t{d8-d11}", 32),
        ("vpush\t{s16}", 4),
        ("sub\tsp, #24", 24),
        ("sub.w\tsp, sp, #264\t@ 0x108", 264),
        ("str.w\tlr, [sp, #-8]!", 8),
        ("addi\tsp,sp,-48", 48),
        ("add\tsp,sp,-16", 16),
        ("addi\tsp,sp,48", 0),
        ("add\tsp, #16", 0),
        ("ldr\tr0, [sp, #8]", 0),
    ],
)
def test_an_instruction_takes_its_bytes(line: str, size_bytes: int) -> None:
    assert body(line) == Function(size_bytes, ())


@pytest.mark.parametrize(
    ("line", "calls"),
    [
        ("bl\tb74 <__gnu_ldivmod_helper>", ("__gnu_ldivmod_helper",)),
        ("beq.w\tb74 <__udivsi3+0x10>", ("__udivsi3",)),
        ("b.n\t10 <f+0x2>", ()),
        ("jal\tra,800 <memcpy>", ("memcpy",)),
        ("j\t800 <memcpy>", ("memcpy",)),
        ("ldr\tr0, [pc, #8]\t@ (afc <other>)", ()),
        ("bx\tlr", ()),
    ],
)
def test_an_instruction_goes_where_it_says(line: str, calls: tuple[str, ...]) -> None:
    assert body(line) == Function(0, calls)


@pytest.mark.parametrize("line", ["blx\tr3", "sub\tsp, r4", "jalr\ta5"])
def test_what_the_code_does_not_say_is_unknown(line: str) -> None:
    assert body(line) is None


def test_a_prologue_that_is_called_leaves_its_stack_to_the_caller() -> None:
    text = (
        "00000010 <expf>:\n"
        "      10:\tjal\tt0,40 <__riscv_save_0>\n"
        "      14:\tjal\tra,80 <deeper>\n"
        "00000040 <__riscv_save_0>:\n"
        "      40:\taddi\tsp,sp,-16\n"
        "00000080 <deeper>:\n"
        "      80:\taddi\tsp,sp,-32\n"
    )
    found = worst_stack("", "expf", functions_in(text))
    assert found is not None
    assert (found.size_bytes, found.path, found.unknown) == (48, ("expf", "deeper"), ())


def test_the_compilers_call_graph_goes_before_the_machine_code() -> None:
    graph = (
        'node: { title: "run" label: "run\\nm.c:1:1\\n16 bytes (static)" }\n'
        'node: { title: "rintf" label: "rintf\\nmath.h:1:1" shape : ellipse }\n'
        'edge: { sourcename: "run" targetname: "rintf" label: "m.c:2:2" }\n'
    )
    others = {"run": Function(99, ()), "rintf": Function(8, ())}
    alone, both = worst_stack(graph, "run"), worst_stack(graph, "run", others)
    assert alone is not None
    assert both is not None
    assert (alone.size_bytes, alone.unknown) == (16, ("rintf",))
    assert (both.size_bytes, both.unknown) == (24, ())


def test_the_disassembler_is_that_of_the_toolchain() -> None:
    assert objdump_of("arm-none-eabi-size") == "arm-none-eabi-objdump"
    assert objdump_of("llvm-size-14") == "llvm-objdump-14"
