/* A plugin for QEMU that counts instructions between marks, and which bytes of memory are written
 * there. It prints lines of the protocol of docs/runner.md among those of the program:
 *
 *     dlb unit instructions                    at the start
 *     dlb count REGION INSTRUCTIONS [CORE]     at the mark that ends a region
 *     dlb wrote ADDRESS BYTES                  at the end, with the argument mem=1
 *     dlb stranger ADDRESS CORE                at the end, with arguments room=
 *
 * room=FROM-TO-FIRST-LAST: the memory of a cluster, which cores FIRST to LAST alone may touch in a
 * region. open=NAME: a function whose instructions may read it on any core.
 *
 * A mark is a call of board_mark (mark.c), whose own instructions do not count. Regions other than
 * 0 count.
 *
 * Each core has a clock of its own, which an instruction moves by one. Of several cores it is a
 * logical one (L. Lamport, "Time, Clocks, and the Ordering of Events in a Distributed System",
 * 1978): board_signal keeps the clock under the progress that a core says, and board_wait moves the
 * waiting core's to that, if it is later, and by what a wait costs that need not wait. The
 * instructions of dlb_wait itself do not count, of which there are more or less in each run. So a
 * region of core 0, behind which it waits for all others, is the critical path in instructions, in
 * every run the same, whatever the emulator's threads do.
 *
 * Debian has no qemu-plugin.h, so what is used of version 1 of the interface is declared here
 * (QEMU 7.2, docs/devel/tcg-plugins.rst). */
#include <inttypes.h>
#include <pthread.h>
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
enum { INLINE_ADD_U64 = 0, NO_REGISTERS = 0, WRITES = 2, BOTH = 3 };

typedef void (*translated)(plugin_id, struct qemu_plugin_tb *);
typedef void (*executed)(unsigned core, void *user);
typedef void (*accessed)(unsigned core, memory_info, uint64_t address, void *user);
typedef void (*ended)(plugin_id, void *user);
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, translated);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, executed, int, void *);
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *, int, void *, uint64_t);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *, accessed, int, int, void *);
void qemu_plugin_register_atexit_cb(plugin_id, ended, void *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
const char *qemu_plugin_insn_symbol(const struct qemu_plugin_insn *);
unsigned qemu_plugin_mem_size_shift(memory_info);
bool qemu_plugin_mem_is_store(memory_info);
struct qemu_plugin_hwaddr;
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(memory_info, uint64_t address);
bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

enum { CORES = 16, NIBBLES = 4, PAGE = 4096 };
enum { SAID = 65536, LONG_NIBBLES = 9, WAIT_COST = 12 };
enum { ROOMS = 16, OPEN = 64, STRANGERS = 32 };
typedef enum { MARK = 1, SIGNAL, WAIT } mark_kind;

typedef struct {
    uint64_t count;  /* the clock: instructions so far, and what was waited for */
    uint64_t before; /* when the region began */
    uint32_t region;
    uint64_t said; /* the number that a mark is saying, and how much of it it has said */
    unsigned n_said;
} core_state;

typedef struct page {
    uint64_t base;
    struct page *next;
    unsigned char written[PAGE];
} page;

typedef struct {
    uint64_t from, to;
    unsigned first, last;
} room;

typedef struct {
    uint64_t address;
    unsigned core;
} stranger;

static core_state cores[CORES];
static room rooms[ROOMS];
static unsigned n_rooms;
static const char *open_names[OPEN];
static unsigned n_open;
static stranger strangers[STRANGERS]; /* the first of all */
static unsigned n_strangers;
static uint64_t signalled[CORES][SAID]; /* the clock of a core at each progress */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
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

/* user: how many instructions of a block count. A mark is in blocks of its own. */
static void on_execution(unsigned core, void *user)
{
    cores[core].count += (uintptr_t)user;
}

static void on_write(unsigned core, memory_info info, uint64_t address, void *user)
{
    (void)core;
    (void)user;
    /* QEMU 7.2 calls for loads too, whatever was registered. What core 0 does is the run. */
    if (cores[0].region == 0 || !qemu_plugin_mem_is_store(info)) {
        return;
    }
    const struct qemu_plugin_hwaddr *const place = qemu_plugin_get_hwaddr(info, address);
    if (place != NULL && qemu_plugin_hwaddr_is_io(place)) {
        return; /* the register of a device */
    }
    const uint64_t end = address + (UINT64_C(1) << qemu_plugin_mem_size_shift(info));
    (void)pthread_mutex_lock(&lock);
    for (; address < end; ++address) {
        page_of(address)->written[address % PAGE] = 1;
    }
    (void)pthread_mutex_unlock(&lock);
}

/* user: whether the instruction may read the memory of any cluster. */
static void on_access(unsigned core, memory_info info, uint64_t address, void *user)
{
    if (cores[0].region == 0 || (user != NULL && !qemu_plugin_mem_is_store(info))) {
        return;
    }
    for (unsigned i = 0; i < n_rooms; ++i) {
        if (address < rooms[i].from || address >= rooms[i].to ||
            (core >= rooms[i].first && core <= rooms[i].last)) {
            continue;
        }
        (void)pthread_mutex_lock(&lock);
        if (n_strangers < STRANGERS) {
            strangers[n_strangers++] = (stranger){address, core};
        }
        (void)pthread_mutex_unlock(&lock);
    }
}

static void begin_region(unsigned core, uint32_t region)
{
    core_state *const state = &cores[core];
    if (state->region != 0) {
        printf("dlb count %" PRIu32 " %" PRIu64, state->region, state->count - state->before);
        if (core != 0) {
            printf(" %u", core);
        }
        printf("\n");
        fflush(stdout);
    }
    state->region = region;
    state->before = state->count;
}

static void wait_for(unsigned core, unsigned other, uint32_t progress)
{
    const uint64_t then = signalled[other % CORES][progress % SAID];
    if (cores[core].count < then) {
        cores[core].count = then;
    }
    cores[core].count += WAIT_COST;
}

static void on_mark(unsigned core, memory_info info, uint64_t address, void *user)
{
    const mark_kind kind = (mark_kind)(uintptr_t)user;
    core_state *const state = &cores[core];
    /* Its marks are bytes; it may save registers as well. */
    if (!qemu_plugin_mem_is_store(info) || qemu_plugin_mem_size_shift(info) != 0) {
        return;
    }
    if (!has_cell) { /* the program begins with region 0, before other cores */
        first_cell = address;
        has_cell = true;
    }
    /* QEMU 7.2 calls for later stores of vectors elsewhere, too. */
    if (address - first_cell > 15) {
        return;
    }
    state->said |= ((address - first_cell) & 15U) << (4 * state->n_said);
    if (++state->n_said < (kind == MARK ? (unsigned)NIBBLES : (unsigned)LONG_NIBBLES)) {
        return;
    }
    const uint32_t number = (uint32_t)state->said;
    const unsigned other = (unsigned)(state->said >> 32);
    state->said = 0;
    state->n_said = 0;
    (void)pthread_mutex_lock(&lock);
    if (kind == MARK) {
        begin_region(core, number);
    } else if (kind == SIGNAL) {
        signalled[core][number % SAID] = state->count;
    } else {
        wait_for(core, other, number);
    }
    (void)pthread_mutex_unlock(&lock);
}

/* Say what kind of mark a function is; 0 = none. */
static uintptr_t kind_of(const char *symbol)
{
    static const char *const names[] = {"board_mark", "board_signal", "board_wait"};
    for (uintptr_t i = 0; symbol != NULL && i < sizeof names / sizeof names[0]; ++i) {
        if (strcmp(symbol, names[i]) == 0) {
            return i + 1;
        }
    }
    return 0;
}

static bool is_idle(const char *symbol)
{
    static const char *const names[] = {"dlb_wait", "dlb_progress", "rest", "ring", "board_park"};
    for (size_t i = 0; symbol != NULL && i < sizeof names / sizeof names[0]; ++i) {
        if (strcmp(symbol, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_open(const char *symbol)
{
    for (unsigned i = 0; symbol != NULL && i < n_open; ++i) {
        /* A compiler may make a copy of a function for its callers: copy.constprop.0. */
        const size_t length = strlen(open_names[i]);
        if (strncmp(symbol, open_names[i], length) == 0 &&
            (symbol[length] == '\0' || symbol[length] == '.')) {
            return true;
        }
    }
    return false;
}

static void on_translation(plugin_id id, struct qemu_plugin_tb *block)
{
    (void)id;
    const size_t n = qemu_plugin_tb_n_insns(block);
    uintptr_t n_counted = 0;
    for (size_t i = 0; i < n; ++i) {
        struct qemu_plugin_insn *const one = qemu_plugin_tb_get_insn(block, i);
        const char *const symbol = qemu_plugin_insn_symbol(one);
        const uintptr_t kind = kind_of(symbol);
        if (kind != 0) {
            qemu_plugin_register_vcpu_mem_cb(one, on_mark, NO_REGISTERS, WRITES, (void *)kind);
            continue;
        }
        if (is_idle(symbol)) {
            continue;
        }
        if (is_single) {
            qemu_plugin_register_vcpu_insn_exec_inline(one, INLINE_ADD_U64, &cores[0].count, 1);
        }
        ++n_counted;
        if (n_rooms > 0) {
            qemu_plugin_register_vcpu_mem_cb(one, on_access, NO_REGISTERS, BOTH,
                                             is_open(symbol) ? (void *)1 : NULL);
        }
        if (sees_memory) {
            qemu_plugin_register_vcpu_mem_cb(one, on_write, NO_REGISTERS, WRITES, NULL);
        }
    }
    if (!is_single && n_counted > 0) {
        qemu_plugin_register_vcpu_tb_exec_cb(block, on_execution, NO_REGISTERS, (void *)n_counted);
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
    for (unsigned i = 0; i < n_strangers; ++i) {
        printf("dlb stranger 0x%08" PRIx64 " %u\n", strangers[i].address, strangers[i].core);
    }
    fflush(stdout);
}

/* Take room=FROM-TO-FIRST-LAST or open=NAME; false if it is neither. */
static bool is_watch(char *word)
{
    if (strncmp(word, "open=", 5) == 0 && n_open < OPEN) {
        open_names[n_open] = strdup(word + 5);
        return open_names[n_open++] != NULL;
    }
    if (strncmp(word, "room=", 5) != 0 || n_rooms == ROOMS) {
        return false;
    }
    room *const found = &rooms[n_rooms++];
    return sscanf(word + 5, "%" SCNx64 "-%" SCNx64 "-%u-%u", &found->from, &found->to,
                  &found->first, &found->last) == 4;
}

__attribute__((visibility("default"))) int qemu_plugin_install(plugin_id id,
                                                               const machine_info *info, int argc,
                                                               char **argv)
{
    for (int i = 0; i < argc; ++i) {
        if (strcmp(argv[i], "mem=1") == 0) {
            sees_memory = true;
        } else if (!is_watch(argv[i])) {
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
