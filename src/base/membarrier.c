#include "base/membarrier.h"

#include <linux/membarrier.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

/* 0: the kernel was not asked yet; else it will do it, or (-1) not. */
static atomic_int granted;

static bool call(int command) {
    return syscall(SYS_membarrier, command, 0, 0) == 0;
}

bool cushim_membarrier_ask(void) {
    int known = atomic_load(&granted);
    if (!known) {
        known = call(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) ? 1 : -1;
        atomic_store(&granted, known);
    }
    return known > 0;
}

bool cushim_membarrier_pass(void) {
    return call(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}
