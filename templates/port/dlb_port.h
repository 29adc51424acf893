/* What generated code asks of a firmware: copies between memories, and how cores wait for each
 * other. One port for all models. */
#ifndef DLB_PORT_H
#define DLB_PORT_H

#include <stdint.h>

#define DLB_PORT_VERSION 1

#ifdef __cplusplus
extern "C" {
#endif

/** @brief Start to copy `rows` rows of `bytes` each.
 *
 *  Returns at once or when the copy is done. Copies of one channel end in the order in which they
 *  began. Until a copy is waited for, nobody else reads or writes `dst`, nor writes `src`.
 *  Nothing is copied if `bytes` or `rows` is 0, but it counts as a copy.
 *
 *  @param[in] channel    from 0; each operand of a kernel has its own. A port with fewer channels
 *                        takes it modulo their number
 *  @param[in] dst_pitch  bytes from one row to the next; of no meaning if `rows` is 1
 *  @param[in] src_pitch  the same
 */
void dlb_copy_start(uint32_t channel, void *dst, const void *src, uint32_t bytes, uint32_t rows,
                    uint32_t dst_pitch, uint32_t src_pitch);

/** @brief Return when at most `n_outstanding` copies of a channel are still under way. */
void dlb_copy_wait(uint32_t channel, uint32_t n_outstanding);

/** @brief Return how far a core is: 0 at the start, what it signalled last since then.
 *
 *  All models of a firmware that use several cores use the same number of them, one model at a
 *  time.
 */
uint32_t dlb_progress(uint32_t core);

/** @brief Say how far this core is. All that it wrote before is seen by whoever waited for that.
 *
 *  @param[in] core      the caller's own
 *  @param[in] progress  more than before; it runs through zero at the end of its range
 */
void dlb_signal(uint32_t core, uint32_t progress);

/** @brief Return when another core has signalled at least that progress. */
void dlb_wait(uint32_t core, uint32_t progress);

#ifdef __cplusplus
}
#endif

#endif
