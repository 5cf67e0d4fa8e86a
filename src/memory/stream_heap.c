#include "memory/stream_heap.h"

#include <stdlib.h>
#include <string.h>

#include "memory/heap.h"
#include "memory/reclaim.h"
#include "memory/stream_blocks.h"
#include "memory/stream_reclaim.h"
#include "memory/state/heap_state.h"

static _Atomic(struct cushim_mem_streams *) everyone; /* grows at its head only */

struct cushim_mem_streams *cushim_mem_streams_next_used(struct cushim_mem_streams *streams) {
    streams =
        streams ? streams->next_of_all : atomic_load_explicit(&everyone, memory_order_acquire);
    while (streams && !atomic_load_explicit(&streams->is_used, memory_order_acquire))
        streams = streams->next_of_all;
    return streams;
}

/* ---- from one use to the next ---- */

enum { ALIGN_BYTES = 128 };

struct cushim_mem_streams *cushim_mem_streams_obtain(size_t n_bytes) {
    struct cushim_mem_streams *streams = atomic_load_explicit(&everyone, memory_order_acquire);
    for (; streams; streams = streams->next_of_all) {
        bool is_used = false;
        if (atomic_compare_exchange_strong(&streams->is_used, &is_used, true))
            return streams;
    }
    /* not mapped, because a leak checker has to follow the struct's pointers */
    n_bytes = cushim_rounded(n_bytes, ALIGN_BYTES);
    streams = aligned_alloc(ALIGN_BYTES, n_bytes);
    struct cushim_mem_heap *heap = streams ? cushim_mem_meta_map(sizeof *heap) : NULL;
    if (!heap) {
        free(streams);
        return NULL;
    }
    memset(streams, 0, n_bytes);
    pthread_mutex_init(&streams->lock, NULL);
    streams->heap = heap;
    streams->forget = cushim_mem_streams_forget;
    heap->owner = streams;
    atomic_init(&streams->is_lost, true);
    atomic_init(&streams->is_used, true);
    streams->next_of_all = atomic_load_explicit(&everyone, memory_order_acquire);
    while (!atomic_compare_exchange_weak(&everyone, &streams->next_of_all, streams)) {
    }
    return streams;
}

static void put_aside(struct cushim_mem_streams *streams) {
    cushim_mem_streams_end(streams);
    atomic_store(&streams->is_used, false);
}

/* Called by the thread that set is_lost.  The heap is empty, or the driver has freed its memory. */
static void forget(struct cushim_mem_streams *streams) {
    cushim_mem_heap_abandon(streams->heap);
    pthread_mutex_lock(&streams->lock);
    bool is_orphan = streams->is_orphan;
    if (!is_orphan)
        streams->owner->forgot(streams);
    streams->is_forgotten = true;
    pthread_mutex_unlock(&streams->lock);
    if (is_orphan)
        put_aside(streams);
}

bool cushim_mem_streams_open(struct cushim_mem_streams *streams,
                             const struct cushim_mem_heap_setup *setup) {
    if (!cushim_mem_streams_begin(streams, setup->fence)) {
        put_aside(streams);
        return false;
    }
    cushim_mem_heap_open(streams->heap, setup);
    pthread_mutex_lock(&streams->lock);
    streams->is_orphan = streams->is_forgotten = false;
    atomic_store(&streams->is_lost, false);
    pthread_mutex_unlock(&streams->lock);
    return true;
}

void cushim_mem_streams_close(struct cushim_mem_streams *streams) {
    bool has_entered,
        is_alive = !atomic_load(&streams->is_lost) &&
                   cushim_mem_stream_fence_enter(streams->heap->fence, &has_entered) == CUSHIM_OK;
    if (is_alive) {
        cushim_mem_streams_empty(streams);
        cushim_mem_reclaim_trim(streams->heap, 0);
        cushim_mem_stream_fence_leave(streams->heap->fence, has_entered);
    }
    pthread_mutex_lock(&streams->lock);
    streams->owner->leave(streams);
    streams->is_orphan = true;
    bool is_forgotten = streams->is_forgotten;
    bool is_ours =
        (!is_alive || !streams->table.n_used) && !atomic_exchange(&streams->is_lost, true);
    pthread_mutex_unlock(&streams->lock);
    if (is_ours)
        forget(streams);
    else if (is_forgotten)
        put_aside(streams);
}

void cushim_mem_streams_lose_gone(void) {
    struct cushim_mem_streams *streams = NULL;
    while ((streams = cushim_mem_streams_next_used(streams))) {
        pthread_mutex_lock(&streams->lock);
        /* a heap that is not lost keeps its context, and so its fence */
        bool is_ours = !atomic_load(&streams->is_lost) &&
                       cushim_mem_fence_is_gone(streams->heap->fence) &&
                       !atomic_exchange(&streams->is_lost, true);
        pthread_mutex_unlock(&streams->lock);
        if (is_ours)
            forget(streams);
    }
}

void cushim_mem_streams_end_orphan(struct cushim_mem_streams *streams) {
    forget(streams);
}

/* ---- streams that are destroyed, threads that end ---- */

void cushim_mem_streams_note(struct cushim_mem_fence *fence, CUstream handle, uint64_t begun) {
    struct cushim_mem_streams *streams = NULL;
    while ((streams = cushim_mem_streams_next_used(streams)))
        cushim_mem_stream_caches_note(streams, fence, handle, begun);
}

void cushim_mem_streams_end_thread(void) {
    struct cushim_mem_streams *streams = NULL;
    while ((streams = cushim_mem_streams_next_used(streams)))
        cushim_mem_stream_caches_end_thread(streams);
}
