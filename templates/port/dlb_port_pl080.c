/* The port of chips with Arm's DMA controller PL080 or PL081 (Technical Reference Manuals DDI 0196
 * and DDI 0218): copies from memory to memory, one engine channel for all, polled.
 *
 * DLB_PL080_BASE: where the controller is; on MPS2 with AN505 the secure address of the first.
 * Its channel 0 is ours. What it reads and writes must not be cached. */
#include "dlb_port.h"

#ifndef DLB_PL080_BASE
#define DLB_PL080_BASE 0x50110000u
#endif

#define REGISTER(offset) (*(volatile uint32_t *)(uintptr_t)(DLB_PL080_BASE + (offset)))
#define ENABLED_CHANNELS REGISTER(0x01Cu)
#define CONFIGURATION REGISTER(0x030u)
#define CHANNEL_SOURCE REGISTER(0x100u)
#define CHANNEL_DESTINATION REGISTER(0x104u)
#define CHANNEL_NEXT REGISTER(0x108u)
#define CHANNEL_CONTROL REGISTER(0x10Cu)
#define CHANNEL_CONFIGURATION REGISTER(0x110u)

#define SOURCE_INCREMENTS (1u << 26)
#define DESTINATION_INCREMENTS (1u << 27)
#define BURST_OF_4 ((1u << 12) | (1u << 15))

enum { COPIES = 64, MOST_ELEMENTS = 4095, CHANNELS = 32 };

/* A copy: what is left of it, from the row that is under way on. */
typedef struct {
    uint8_t *dst;
    const uint8_t *src;
    uint32_t channel, bytes, rows, dst_pitch, src_pitch, done;
} copy_t;

static copy_t copies[COPIES];
static uint32_t first, count, outstanding[CHANNELS];
static uint32_t piece; /* bytes that the engine copies now, 0 if none */

/* Starts the next piece of the oldest copy: of one row, as many elements as fit the counter. */
static void start(const copy_t *copy)
{
    const uintptr_t from = (uintptr_t)copy->src + copy->done;
    const uintptr_t to = (uintptr_t)copy->dst + copy->done;
    const uint32_t left = copy->bytes - copy->done;
    const uint32_t width = ((from | to | left) % 4u == 0u)   ? 2u
                           : ((from | to | left) % 2u == 0u) ? 1u
                                                             : 0u;
    const uint32_t most = (uint32_t)MOST_ELEMENTS << width;

    piece = left < most ? left : most;
    CONFIGURATION = 1u;
    CHANNEL_SOURCE = (uint32_t)from;
    CHANNEL_DESTINATION = (uint32_t)to;
    CHANNEL_NEXT = 0u;
    CHANNEL_CONTROL = (piece >> width) | BURST_OF_4 | (width << 18) | (width << 21) |
                      SOURCE_INCREMENTS | DESTINATION_INCREMENTS;
    CHANNEL_CONFIGURATION = 1u; /* memory to memory, begins at once */
}

/* Goes on with what has ended; nothing if the engine is still at work. */
static void advance(void)
{
    copy_t *copy = &copies[first];

    if (count == 0u || (ENABLED_CHANNELS & 1u) != 0u) {
        return;
    }
    copy->done += piece;
    piece = 0u;
    if (copy->done == copy->bytes) {
        copy->done = 0u;
        --copy->rows;
        if (copy->rows > 0u) {
            copy->src += copy->src_pitch;
            copy->dst += copy->dst_pitch;
        }
    }
    if (copy->rows == 0u) {
        --outstanding[copy->channel];
        first = (first + 1u) % COPIES;
        --count;
    }
    if (count > 0u) {
        start(&copies[first]);
    }
}

void dlb_copy_start(uint32_t channel, void *dst, const void *src, uint32_t bytes, uint32_t rows,
                    uint32_t dst_pitch, uint32_t src_pitch)
{
    if (bytes == 0u || rows == 0u) {
        return; /* it has ended: nobody waits for it in vain */
    }
    if (rows > 1u && dst_pitch == bytes && src_pitch == bytes) {
        bytes *= rows;
        rows = 1u;
    }
    while (count == COPIES) {
        advance();
    }
    copy_t *copy = &copies[(first + count) % COPIES];
    copy->dst = dst;
    copy->src = src;
    copy->channel = channel % CHANNELS;
    copy->bytes = bytes;
    copy->rows = rows;
    copy->dst_pitch = dst_pitch;
    copy->src_pitch = src_pitch;
    copy->done = 0u;
    ++outstanding[copy->channel];
    ++count;
    if (count == 1u) {
        start(copy);
    }
}

void dlb_copy_wait(uint32_t channel, uint32_t n_outstanding)
{
    while (outstanding[channel % CHANNELS] > n_outstanding) {
        advance();
    }
}
