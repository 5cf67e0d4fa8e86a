#include "thread.h"

#include <stdatomic.h>

static _Thread_local struct sim_thread thread;
static atomic_ulong n_threads;

struct sim_thread *sim_thread(void) {
    if (thread.number == 0)
        thread.number = atomic_fetch_add(&n_threads, 1) + 1;
    return &thread;
}
