/* Copies to shared memory in flight: they happen as late as the waits allow. */
#include "kernels/tests/emulator/block.h"
#include "kernels/tests/emulator/thread.h"

#include <stdint.h>
#include <string.h>

namespace emulated {

void copy_later(void *to, const void *from, unsigned n_bytes, unsigned n_read) {
    Thread *self = running.thread;
    if ((uintptr_t)to % n_bytes || (uintptr_t)from % n_bytes)
        fail("copies %u bytes from %p to %p: not both are multiples", n_bytes, from, to);
    if (n_read > n_bytes)
        fail("a copy of %u bytes takes %u from memory", n_bytes, n_read);
    self->copies.push_back({to, from, n_bytes, n_read, self->n_copy_groups});
}

void end_copy_group() {
    running.thread->n_copy_groups++;
}

void wait_for_copies(unsigned n_groups_left) {
    Thread *self = running.thread;
    size_t n_done = 0;
    for (const Copy &copy : self->copies) {
        if (n_groups_left && copy.group + n_groups_left >= self->n_copy_groups)
            break;
        memcpy(copy.to, copy.from, copy.n_read);
        memset((char *)copy.to + copy.n_read, 0, copy.n_bytes - copy.n_read);
        n_done++;
    }
    self->copies.erase(self->copies.begin(), self->copies.begin() + (ptrdiff_t)n_done);
}

/* ---- bulk copies ---- */

struct Delivery {
    int32_t n_due, n_rounds;
};
static_assert(sizeof(Delivery) == sizeof(uint64_t), "as in shared memory");

void expect_bytes(uint64_t *delivery, unsigned n_bytes) {
    Delivery *of = (Delivery *)delivery;
    if (of->n_due)
        fail("a round of bulk copies begins when %d bytes of the last are due", of->n_due);
    of->n_due = (int32_t)n_bytes;
    of->n_rounds++;
}

void copy_bulk_later(void *to, const void *from, unsigned n_bytes, uint64_t *delivery) {
    Delivery *of = (Delivery *)delivery;
    if ((uintptr_t)to % 16 || (uintptr_t)from % 16 || n_bytes % 16)
        fail("copies %u bytes from %p to %p: not all are multiples of 16", n_bytes, from, to);
    of->n_due -= (int32_t)n_bytes;
    running.thread->copies.push_back({to, from, n_bytes, n_bytes, running.thread->n_copy_groups});
}

/* The thread's own copies happen now; those of the warp's others are there after its meeting. */
void wait_for_bytes(const uint64_t *delivery, unsigned round) {
    const Delivery *of = (const Delivery *)delivery;
    if (of->n_due || of->n_rounds != (int32_t)round + 1)
        fail("waits for round %u of bulk copies: %d were begun, and %d bytes are due", round,
             of->n_rounds, of->n_due);
    wait_for_copies(0);
}

} // namespace emulated
