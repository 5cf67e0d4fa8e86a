/*
 * The counted costs of an allocation and a free: driver calls, and with the shim preloaded first
 * mutexes and yields.  Under callgrind two runs of different lengths give instructions.
 *
 *   property-pairs BYTES PAIRS [pool|copy]  `pool`: by a pool of the companion library
 *                                           `copy`: a copy to a block instead of each pair
 *
 * It prints: calls memory_calls mutexes rwlocks yields, for all pairs.  The caches are warm and the
 * device is idle.
 */
#include "shim.h"
#include "trace.h"

#include "tools/sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_WARM = 200, COPY_BYTES = 16 };

static void pairs(struct world *world, size_t n_bytes, long n) {
    struct step alloc = {.kind = STEP_ALLOC, .n_bytes = n_bytes}, free = {.kind = STEP_FREE};
    for (long i = 0; i < n; i++) {
        if (world_take(world, &alloc) != CUDA_SUCCESS || world_take(world, &free) != CUDA_SUCCESS)
            exit(3);
    }
}

static CUdeviceptr block;

static void copies(struct world *world, size_t n_bytes, long n) {
    const char bytes[COPY_BYTES] = {0};
    (void)world;
    if (!block && cuMemAlloc(&block, n_bytes) != CUDA_SUCCESS)
        exit(3);
    for (long i = 0; i < n; i++) {
        if (cuMemcpyHtoD(block, bytes, sizeof bytes) != CUDA_SUCCESS)
            exit(3);
    }
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    const char *what = argc > 3 ? argv[3] : "";
    void (*const play)(struct world *, size_t, long) = strcmp(what, "copy") ? pairs : copies;
    size_t n_bytes = strtoull(argv[1], NULL, 10);
    long n = strtol(argv[2], NULL, 10);
    struct shim_counts counts = {0};
    struct world world;
    world_open(&world, !strcmp(what, "pool"));
    play(&world, n_bytes, N_WARM);
    if (shim_begin)
        shim_begin();
    unsigned long n_calls = sim_calls_total();
    unsigned long n_memory = sim_calls("cuMemAlloc_v2") + sim_calls("cuMemFree_v2");
    play(&world, n_bytes, n);
    n_calls = sim_calls_total() - n_calls;
    n_memory = sim_calls("cuMemAlloc_v2") + sim_calls("cuMemFree_v2") - n_memory;
    if (shim_end)
        shim_end(&counts);
    printf("calls=%lu memory_calls=%lu mutexes=%lu rwlocks=%lu yields=%lu\n", n_calls, n_memory,
           counts.n_mutexes, counts.n_rwlocks, counts.n_yields);
    return 0;
}
