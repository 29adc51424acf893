/* The port of tests: a copy engine that is as slow, as fast or as moody as the rules of dlb_port.h
 * allow, and that stops the program where those rules are broken.
 *
 * DLB_PORT_MODE: 0 late (a copy happens when it is waited for), 1 early (when it is started),
 * 2 random (any time between). What a copy under way will overwrite holds no meaning until it is
 * waited for; its source must stay as it was. */
#include "dlb_port_honest.h"

#include "dlb_port.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef DLB_PORT_MODE
#define DLB_PORT_MODE 0
#endif

enum { LATE = 0, EARLY = 1, RANDOM = 2 };
enum { CHANNELS = 32, COPIES = 512, POISON = 0xA5 };

typedef struct {
    uint8_t *dst;
    const uint8_t *src;
    uint32_t bytes, rows, dst_pitch, src_pitch;
    uint64_t hash;
    int is_done;
} copy_t;

static struct {
    copy_t copies[COPIES];
    uint32_t first, count;
} channels[CHANNELS];

static uint32_t mode = DLB_PORT_MODE;
static uint32_t seed = 1;
static uint64_t n_bytes, n_copies;

static void stop(const char *what, uint32_t channel)
{
    fprintf(stderr, "dlb_port: channel %u: %s\n", (unsigned)channel, what);
    exit(70);
}

static uint32_t drawn(uint32_t limit)
{
    seed = (seed * 1664525u) + 1013904223u;
    return (seed >> 16) % limit;
}

static uint64_t hash_of(const copy_t *copy)
{
    uint64_t hash = 1469598103934665603u;

    for (uint32_t row = 0; row < copy->rows; ++row) {
        const uint8_t *from = &copy->src[(size_t)row * copy->src_pitch];
        for (uint32_t at = 0; at < copy->bytes; ++at) {
            hash = (hash ^ from[at]) * 1099511628211u;
        }
    }
    return hash;
}

/* Whether two areas of rows share a byte. Rows of one may lie between those of the other, so each
 * row of one is compared with the first row of the other that ends behind its beginning. */
static int meet(const uint8_t *a, uint32_t a_rows, uint32_t a_pitch, uint32_t a_bytes,
                const uint8_t *b, uint32_t b_rows, uint32_t b_pitch, uint32_t b_bytes)
{
    const uintptr_t two = (uintptr_t)b;
    const uintptr_t two_end = two + ((uintptr_t)(b_rows - 1u) * b_pitch) + b_bytes;

    if ((b_rows == 0u) || (a_bytes == 0u) || (b_bytes == 0u)) {
        return 0;
    }
    for (uint32_t i = 0; i < a_rows; ++i) {
        const uintptr_t one = (uintptr_t)&a[(size_t)i * a_pitch];
        uintptr_t row = two;

        if ((two_end <= one) || (one + a_bytes <= two)) {
            continue;
        }
        if (row + b_bytes <= one) { /* so b has several rows */
            row += (((one - row - b_bytes) / b_pitch) + 1u) * b_pitch;
        }
        if (row < one + a_bytes) {
            return 1;
        }
    }
    return 0;
}

static void carry_out(copy_t *copy)
{
    for (uint32_t row = 0; (row < copy->rows) && !copy->is_done; ++row) {
        memcpy(&copy->dst[(size_t)row * copy->dst_pitch], &copy->src[(size_t)row * copy->src_pitch],
               copy->bytes);
    }
    copy->is_done = 1;
}

static void finish(copy_t *copy, uint32_t channel)
{
    if (hash_of(copy) != copy->hash) {
        stop("the source was written while a copy was under way", channel);
    }
    for (uint32_t row = 0; (row < copy->rows) && !copy->is_done; ++row) {
        const uint8_t *to = &copy->dst[(size_t)row * copy->dst_pitch];
        for (uint32_t at = 0; at < copy->bytes; ++at) {
            if (to[at] != POISON) {
                stop("the destination was written while a copy was under way", channel);
            }
        }
    }
    carry_out(copy);
    if (hash_of(copy) != copy->hash) {
        stop("a copy overwrites its own source", channel);
    }
}

static void check_meetings(const copy_t *copy, uint32_t channel)
{
    for (uint32_t other = 0; other < CHANNELS; ++other) {
        for (uint32_t n = 0; n < channels[other].count; ++n) {
            const copy_t *old = &channels[other].copies[(channels[other].first + n) % COPIES];
            if (meet(copy->dst, copy->rows, copy->dst_pitch, copy->bytes, old->dst, old->rows,
                     old->dst_pitch, old->bytes)) {
                stop("two copies under way write the same bytes", channel);
            }
            if (meet(copy->dst, copy->rows, copy->dst_pitch, copy->bytes, old->src, old->rows,
                     old->src_pitch, old->bytes) ||
                meet(copy->src, copy->rows, copy->src_pitch, copy->bytes, old->dst, old->rows,
                     old->dst_pitch, old->bytes)) {
                stop("a copy meets the other end of one that is under way", channel);
            }
        }
    }
}

void dlb_copy_start(uint32_t channel, void *dst, const void *src, uint32_t bytes, uint32_t rows,
                    uint32_t dst_pitch, uint32_t src_pitch)
{
    copy_t copy = {dst, src, bytes, rows, dst_pitch, src_pitch, 0, 0};

    if ((channel >= CHANNELS) || (channels[channel].count == COPIES)) {
        stop("more channels or copies than this port knows", channel);
    }
    check_meetings(&copy, channel);
    copy.hash = hash_of(&copy);
    if ((mode == EARLY) || ((mode == RANDOM) && (drawn(2) == 0))) {
        carry_out(&copy);
    } else {
        for (uint32_t row = 0; row < rows; ++row) {
            memset(&copy.dst[(size_t)row * dst_pitch], POISON, bytes);
        }
    }
    channels[channel].copies[(channels[channel].first + channels[channel].count) % COPIES] = copy;
    ++channels[channel].count;
    n_bytes += (uint64_t)bytes * rows;
    ++n_copies;
}

void dlb_copy_wait(uint32_t channel, uint32_t n_outstanding)
{
    if (channel >= CHANNELS) {
        stop("more channels than this port knows", channel);
    }
    while (channels[channel].count > n_outstanding) {
        finish(&channels[channel].copies[channels[channel].first], channel);
        channels[channel].first = (channels[channel].first + 1) % COPIES;
        --channels[channel].count;
    }
    if ((mode == RANDOM) && (channels[channel].count > 0) && (drawn(2) == 0)) {
        carry_out(&channels[channel].copies[channels[channel].first]);
    }
}

void dlb_port_begin(uint32_t with_mode, uint32_t with_seed)
{
    mode = with_mode;
    seed = with_seed;
    n_bytes = 0;
    n_copies = 0;
}

uint64_t dlb_port_end(void)
{
    for (uint32_t channel = 0; channel < CHANNELS; ++channel) {
        if (channels[channel].count > 0) {
            stop("a copy was never waited for", channel);
        }
    }
    return n_bytes;
}
