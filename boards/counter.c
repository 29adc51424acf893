/* A plugin for QEMU that counts instructions between marks, and which bytes of memory are written
 * there. It prints lines of the protocol of docs/runner.md among those of the program:
 *
 *     dlb unit instructions                    at the start
 *     dlb count REGION INSTRUCTIONS [CORE]     at the mark that ends a region
 *     dlb wrote ADDRESS BYTES                  at the end, with the argument mem=1
 *
 * A mark is a call of board_mark (mark.c), whose own instructions do not count. Each core counts
 * for itself. Regions other than 0 count.
 *
 * Debian has no qemu-plugin.h, so what is used of version 1 of the interface is declared here
 * (QEMU 7.2, docs/devel/tcg-plugins.rst). */
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t plugin_id;
typedef uint32_t memory_info;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef struct {
    const char *target_name;
    struct {
        int min;
        int cur;
    } version;
    bool system_emulation;
    struct {
        int smp_vcpus;
        int max_vcpus;
    } system;
} machine_info;
enum { INLINE_ADD_U64 = 0, NO_REGISTERS = 0, WRITES = 2 };

typedef void (*translated)(plugin_id, struct qemu_plugin_tb *);
typedef void (*executed)(unsigned core, void *user);
typedef void (*accessed)(unsigned core, memory_info, uint64_t address, void *user);
typedef void (*ended)(plugin_id, void *user);
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, translated);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *, executed, int, void *);
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *, int, void *, uint64_t);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *, accessed, int, int, void *);
void qemu_plugin_register_atexit_cb(plugin_id, ended, void *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
const char *qemu_plugin_insn_symbol(const struct qemu_plugin_insn *);
unsigned qemu_plugin_mem_size_shift(memory_info);
bool qemu_plugin_mem_is_store(memory_info);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

enum { CORES = 64, NIBBLES = 4, PAGE = 4096 };

typedef struct {
    uint64_t count;  /* instructions so far */
    uint64_t before; /* of them when the region began */
    uint32_t region;
    uint32_t said; /* the region that a mark is saying, and how much of it it has said */
    unsigned n_said;
} core_state;

typedef struct page {
    uint64_t base;
    struct page *next;
    unsigned char written[PAGE];
} page;

static core_state cores[CORES];
static uint64_t first_cell;
static bool has_cell;
static bool is_single;
static bool sees_memory;
static page *pages; /* by ascending address */
static page *latest;

static page *page_of(uint64_t address)
{
    const uint64_t base = address & ~(uint64_t)(PAGE - 1);
    if (latest != NULL && latest->base == base) {
        return latest;
    }
    page **at = &pages;
    while (*at != NULL && (*at)->base < base) {
        at = &(*at)->next;
    }
    if (*at == NULL || (*at)->base != base) {
        page *const made = calloc(1, sizeof *made);
        if (made == NULL) {
            abort();
        }
        made->base = base;
        made->next = *at;
        *at = made;
    }
    latest = *at;
    return latest;
}

static void on_execution(unsigned core, void *user)
{
    (void)user;
    ++cores[core].count;
}

static void on_write(unsigned core, memory_info info, uint64_t address, void *user)
{
    (void)user;
    /* QEMU 7.2 calls for loads too, whatever was registered. */
    if (cores[core].region == 0 || !qemu_plugin_mem_is_store(info)) {
        return;
    }
    const uint64_t end = address + (UINT64_C(1) << qemu_plugin_mem_size_shift(info));
    for (; address < end; ++address) {
        page_of(address)->written[address % PAGE] = 1;
    }
}

static void on_mark(unsigned core, memory_info info, uint64_t address, void *user)
{
    (void)user;
    core_state *const state = &cores[core];
    /* Its marks are bytes; it may save registers as well. */
    if (!qemu_plugin_mem_is_store(info) || qemu_plugin_mem_size_shift(info) != 0) {
        return;
    }
    if (!has_cell) { /* the program begins with region 0 */
        first_cell = address;
        has_cell = true;
    }
    state->said |= (uint32_t)((address - first_cell) & 15U) << (4 * state->n_said);
    if (++state->n_said < NIBBLES) {
        return;
    }
    if (state->region != 0) {
        printf("dlb count %" PRIu32 " %" PRIu64, state->region, state->count - state->before);
        if (core != 0) {
            printf(" %u", core);
        }
        printf("\n");
        fflush(stdout);
    }
    state->region = state->said;
    state->before = state->count;
    state->said = 0;
    state->n_said = 0;
}

static void on_translation(plugin_id id, struct qemu_plugin_tb *block)
{
    (void)id;
    const size_t n = qemu_plugin_tb_n_insns(block);
    for (size_t i = 0; i < n; ++i) {
        struct qemu_plugin_insn *const one = qemu_plugin_tb_get_insn(block, i);
        const char *const symbol = qemu_plugin_insn_symbol(one);
        if (symbol != NULL && strcmp(symbol, "board_mark") == 0) {
            qemu_plugin_register_vcpu_mem_cb(one, on_mark, NO_REGISTERS, WRITES, NULL);
            continue;
        }
        if (is_single) {
            qemu_plugin_register_vcpu_insn_exec_inline(one, INLINE_ADD_U64, &cores[0].count, 1);
        } else {
            qemu_plugin_register_vcpu_insn_exec_cb(one, on_execution, NO_REGISTERS, NULL);
        }
        if (sees_memory) {
            qemu_plugin_register_vcpu_mem_cb(one, on_write, NO_REGISTERS, WRITES, NULL);
        }
    }
}

static void put_range(uint64_t from, uint64_t to)
{
    if (to > from) {
        printf("dlb wrote 0x%08" PRIx64 " %" PRIu64 "\n", from, to - from);
    }
}

static void on_end(plugin_id id, void *user)
{
    (void)id;
    (void)user;
    uint64_t from = 0;
    uint64_t to = 0;
    for (const page *at = pages; at != NULL; at = at->next) {
        for (uint64_t i = 0; i < PAGE; ++i) {
            if (!at->written[i]) {
                continue;
            }
            if (at->base + i != to) {
                put_range(from, to);
                from = at->base + i;
            }
            to = at->base + i + 1;
        }
    }
    put_range(from, to);
    fflush(stdout);
}

__attribute__((visibility("default"))) int qemu_plugin_install(plugin_id id,
                                                               const machine_info *info, int argc,
                                                               char **argv)
{
    for (int i = 0; i < argc; ++i) {
        if (strcmp(argv[i], "mem=1") == 0) {
            sees_memory = true;
        } else {
            fprintf(stderr, "counter: there is no argument %s\n", argv[i]);
            return -1;
        }
    }
    is_single = info->system_emulation && info->system.max_vcpus == 1;
    if (info->system.max_vcpus > CORES) {
        fprintf(stderr, "counter: more than %d cores\n", CORES);
        return -1;
    }
    printf("dlb unit instructions\n");
    fflush(stdout);
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    qemu_plugin_register_atexit_cb(id, on_end, NULL);
    return 0;
}
