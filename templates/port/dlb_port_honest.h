/* What a test asks of the honest copy engine. */
#ifndef DLB_PORT_HONEST_H
#define DLB_PORT_HONEST_H

#include <stdint.h>

/* Begin to count. mode: 0 late, 1 early, 2 random. */
void dlb_port_begin(uint32_t with_mode, uint32_t with_seed);

/* Check that every copy was waited for, and return the bytes copied since the beginning. */
uint64_t dlb_port_end(void);

#endif
