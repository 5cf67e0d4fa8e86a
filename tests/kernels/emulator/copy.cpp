/* Copies to shared memory that are under way: as late as the waits allow. */
#include "tests/kernels/emulator/block.h"
#include "tests/kernels/emulator/thread.h"

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

} // namespace emulated
