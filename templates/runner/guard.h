/* An arena between pages that nobody may touch, for programs that run on this machine.
 *
 * GUARD_BEHIND: the page follows the last byte of the arena, else it precedes the first. What is
 * left of the arena's pages is filled with canaries, which are looked at when the program ends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define GUARD_CANARY 0xC3

static unsigned char *guard_canaries;
static size_t guard_count;

static void guard_check(void)
{
    for (size_t i = 0; i < guard_count; ++i) {
        if (guard_canaries[i] != GUARD_CANARY) {
            fprintf(stderr, "byte %zu beside the arena was written\n", i);
            _Exit(3);
        }
    }
}

static void *guard_arena(size_t size)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t inside = (size + page - 1) / page * page;
    const size_t whole = inside + 2 * page;
    unsigned char *pages = mmap(NULL, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || mprotect(pages + page, inside, PROT_READ | PROT_WRITE) != 0) {
        _Exit(4);
    }
    memset(pages + page, GUARD_CANARY, inside);
    guard_count = inside - size;
    guard_canaries = pages + page + (GUARD_BEHIND ? 0 : size);
    atexit(guard_check);
    return pages + page + (GUARD_BEHIND ? guard_count : 0);
}
