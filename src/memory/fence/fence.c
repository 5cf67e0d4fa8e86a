#include "memory/fence/fence.h"

#include "base/clock.h"
#include "cuda/table.h"

struct cushim_mem_launches cushim_mem_launches = {.round = 1};

_Thread_local struct cushim_mem_waits cushim_mem_waits_of_thread
    __attribute__((tls_model("initial-exec")));

void cushim_mem_waits_count(struct cushim_mem_stats *stats, uint64_t start_ns) {
    uint64_t ns = cushim_mem_stats_add_time(stats, &stats->wait_ns, start_ns);
    cushim_mem_stats_add(&stats->n_waits, 1);
    cushim_mem_waits_of_thread.n++;
    cushim_mem_waits_of_thread.ns += ns;
}

void cushim_mem_fence_begin(struct cushim_mem_fence *fence, struct cushim_cuda *cuda,
                            CUcontext context) {
    if (!fence->cuda) /* a first life: a lock is never made twice */
        pthread_mutex_init(&fence->lock, NULL);
    fence->cuda = cuda;
    fence->event_flags = CU_EVENT_DISABLE_TIMING;
    cushim_mem_epochs_begin(&fence->epochs);
    atomic_store(&fence->context, context);
}

void cushim_mem_fence_init(struct cushim_mem_fence *fence, struct cushim_cuda *cuda,
                           CUcontext context) {
    unsigned flags = 0;
    cushim_mem_fence_begin(fence, cuda, context);
    fence->brings_out = true;
    if (cuda->cuCtxGetFlags && cuda->cuCtxGetFlags(&flags) == CUDA_SUCCESS &&
        (flags & CU_CTX_SCHED_MASK) == CU_CTX_SCHED_BLOCKING_SYNC)
        fence->event_flags |= CU_EVENT_BLOCKING_SYNC;
}

void cushim_mem_fence_abandon(struct cushim_mem_fence *fence) {
    pthread_mutex_lock(&fence->lock);
    fence->n_spares = 0;
    atomic_fetch_add(&fence->life, 1);
    atomic_store(&fence->context, NULL);
    pthread_mutex_unlock(&fence->lock);
    cushim_mem_epochs_end(&fence->epochs);
}
