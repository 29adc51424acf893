/* The port of a chip without a copy engine: the core copies, and is done when it returns. */
#include "dlb_port.h"

#include <string.h>

void dlb_copy_start(uint32_t channel, void *dst, const void *src, uint32_t bytes, uint32_t rows,
                    uint32_t dst_pitch, uint32_t src_pitch)
{
    uint8_t *to = dst;
    const uint8_t *from = src;

    (void)channel;
    for (uint32_t row = 0; row < rows; ++row) {
        memcpy(to, from, bytes);
        to += (row + 1 < rows) ? dst_pitch : 0U;
        from += (row + 1 < rows) ? src_pitch : 0U;
    }
}

void dlb_copy_wait(uint32_t channel, uint32_t n_outstanding)
{
    (void)channel;
    (void)n_outstanding;
}
