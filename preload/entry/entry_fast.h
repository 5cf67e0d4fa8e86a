/*
 * The fast path of the entry points: the fast-path guard (cushim_guard) says that no entry point
 * has anything to check, and the thread's cache has the block (memory/fast.h).
 *
 * What is served here is counted here; all else goes on to entry.h, which does and counts
 * everything.
 */
#ifndef CUSHIM_PRELOAD_ENTRY_FAST_H
#define CUSHIM_PRELOAD_ENTRY_FAST_H

#include "cuda/table.h"
#include "memory/alloc.h"
#include "memory/free.h"
#include "memory/state/heap_state.h"
#include "preload/entry/alloc.h"
#include "preload/entry/entry.h"
#include "preload/entry/free.h"

/* Was this thread served since a context last went, and is nothing else to be looked at?  Then its
 * heap and its counters are known, and the heap knows the driver. */
static inline bool cushim_entry_fast_is(const struct cushim_thread *thread) {
    return thread->fast_epoch == cushim_guard_now();
}

/* The thread's current context, which may be none; false: the driver will not say. */
static inline bool cushim_entry_fast_context(const struct cushim_thread *thread,
                                             CUcontext *context) {
    return thread->heap->cuda->cuCtxGetCurrent(context) == CUDA_SUCCESS;
}

/* Device memory of the current context for a call of `row`; 0: nothing was done. */
static inline CUdeviceptr cushim_entry_fast_alloc(size_t n_bytes, enum cushim_cuda_symbol symbol) {
    const struct cushim_thread *thread = &cushim_thread;
    CUcontext context;
    CUdeviceptr block = 0;
    if (cushim_entry_fast_is(thread) && n_bytes - 1 < thread->heap->quick_bytes &&
        cushim_entry_fast_context(thread, &context) && context == thread->context)
        block = cushim_mem_alloc_fast(thread->heap, n_bytes);
    if (block)
        cushim_process_count_in(thread->shard, symbol);
    return block;
}

/* Take a live block of ours back, whichever context is current: CUSHIM_MEM_FREE_DECLINED, or the
 * driver's answer.  Counted where it succeeds: all else is to go on to entry.h. */
static inline int cushim_entry_fast_free(CUdeviceptr address, enum cushim_mem_free_entry entry,
                                         enum cushim_cuda_symbol symbol) {
    struct cushim_mem_blocks *blocks = &cushim_process.blocks;
    int answer = CUSHIM_MEM_FREE_DECLINED;
    if (!cushim_process.policy.is_relaxed)
        answer = cushim_mem_free_fast_behind_wait(blocks, address, entry);
    else if (cushim_mem_free_fast(blocks, address, entry))
        answer = CUDA_SUCCESS;
    if (answer == CUDA_SUCCESS)
        cushim_process_count_in(cushim_thread.shard, symbol);
    return answer;
}

#endif
