"""The copy engine of tests: what it calls a meeting of two areas of rows is one, byte by byte."""

import subprocess
from pathlib import Path

from dlbuild.base.paths import builtin_folder

PORT = builtin_folder() / "templates" / "port"

PROGRAM = r"""
#include "dlb_port_honest.c"

enum { BYTES = 256, CASES = 200000 };

static uint8_t near[BYTES];

typedef struct { uint32_t first, rows, pitch, bytes; } area_t;

static area_t area(void)
{
    const uint32_t bytes = drawn(9), rows = drawn(6), pitch = bytes + drawn(12);
    return (area_t){drawn(BYTES - 110), rows, pitch, bytes};
}

static int touches(area_t a, uint32_t at)
{
    for (uint32_t row = 0; row < a.rows; ++row) {
        const uint32_t from = a.first + (row * a.pitch);
        if ((from <= at) && (at < from + a.bytes)) { return 1; }
    }
    return 0;
}

int main(void)
{
    unsigned n_meetings = 0;
    for (int number = 0; number < CASES; ++number) {
        const area_t a = area(), b = area();
        int is_shared = 0;
        for (uint32_t at = 0; at < BYTES; ++at) { is_shared |= touches(a, at) && touches(b, at); }
        n_meetings += (unsigned)is_shared;
        if (meet(&near[a.first], a.rows, a.pitch, a.bytes,
                 &near[b.first], b.rows, b.pitch, b.bytes) != is_shared) {
            printf("%u %u %u %u and %u %u %u %u\n", a.first, a.rows, a.pitch, a.bytes,
                   b.first, b.rows, b.pitch, b.bytes);
            return 1;
        }
    }
    printf("%s\n", (n_meetings > CASES / 10) && (n_meetings < CASES * 9 / 10) ? "both" : "one");
    return 0;
}
"""


def test_two_areas_of_rows_meet_where_they_share_a_byte(tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text(PROGRAM)
    command = ["gcc", "-std=c99", "-O1", f"-I{PORT}", "main.c", "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run(["./main"], cwd=tmp_path, check=False, capture_output=True, text=True)
    assert done.stdout == "both\n"
