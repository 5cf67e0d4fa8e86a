/*
 * The order of an arena's reuse: what a stream must wait for before it may touch a block.
 *
 * A reset leaves a fence in its region, recorded behind the work of the stream that it names. Until
 * the fence is known to be complete, that stream gets blocks at once, and other streams after a
 * wait on the device.  A request for ALL, or in managed memory, waits on the host.
 *
 * An ordered stream is noted by its handle and the epoch, so that its next block needs no lock.  A
 * region whose fence is complete is noted, too.  We compare our handles, because the driver reuses
 * its own.
 *
 * With flag REUSE frees come in batches: a span of batch b may be served once `done` has reached b.
 *
 * Lock: order.lock of the arena, except for atomic fields.
 */
#ifndef CUSHIM_COMPANION_ARENA_ORDER_H
#define CUSHIM_COMPANION_ARENA_ORDER_H

#include "companion/arena/arena_region.h"
#include "companion/context/call.h"
#include "memory/fence/stream_fence.h"

enum { CUSHIM_ARENA_N_READY = 4, CUSHIM_ARENA_N_BATCHES = 4 };

/* No stream. */
#define CUSHIM_ARENA_NOBODY ((struct cushim_stream *)1)

struct cushim_arena_object;

struct cushim_arena_fence {
    struct cushim_mem_stream_fence mark; /* empty if it is complete */
    struct cushim_stream *stream;        /* it needs no wait; NOBODY: each stream does */
};

struct cushim_arena_batch {
    struct cushim_mem_stream_fence mark;
    uint64_t number;
};

struct cushim_arena_order {
    _Alignas(64) atomic_uint_fast64_t ready_epoch; /* for which `ready` holds; 0: none */
    _Atomic(struct cushim_stream *) ready[CUSHIM_ARENA_N_READY]; /* good, and ordered */
    atomic_uint_fast64_t clean_epoch; /* in which no fence is pending; 0: none */
    unsigned next_ready;
    atomic_uint n_collecting; /* holds of captures that are open: nothing is ready then */
    struct cushim_arena_fence fences[CUSHIM_ARENA_N_REGIONS];
    CUstream fill_stream; /* for POISON behind ALL; made at its first use */
    bool has_warned_fill; /* that a fill was skipped */
    struct cushim_arena_batch batches[CUSHIM_ARENA_N_BATCHES]; /* oldest first */
    unsigned n_batches;
    uint64_t open; /* the batch of a free now; the arena's `lock` */
    uint64_t done;
    pthread_mutex_t lock;
};

void cushim_arena_order_init(struct cushim_arena_order *order);

/* Release all fences and the stream; is_dead: the context is gone. */
void cushim_arena_order_finish(struct cushim_arena_order *order, bool is_dead);

/* Whether the stream may get a block of this epoch without a wait.  Takes no lock. */
ALWAYS_INLINE bool cushim_arena_order_is_ready(const struct cushim_arena_order *order,
                                               uint64_t epoch, struct cushim_stream *stream) {
    bool has_ready = load_acquire(&order->ready_epoch) == epoch;
    for (unsigned i = 0; has_ready && i < CUSHIM_ARENA_N_READY; i++) {
        if (likely(load_acquire(&order->ready[i]) == stream))
            return true;
    }
    return (uintptr_t)stream <= (uintptr_t)CUSHIM_STREAM_OWN &&
           load_acquire(&order->clean_epoch) == epoch;
}

/**
 * Order a stream behind the fence of the current region.
 * @param stream      the argument, OWN replaced
 * @param handle      what it stands for; NULL for ALL
 * @param is_captured  it takes part in a capture
 * @return CUSHIM_OK | CUSHIM_CAPTURE | what the driver said; the text is set
 */
enum cushim_status cushim_arena_order_stream(struct cushim_scope *scope,
                                             struct cushim_arena_object *arena,
                                             struct cushim_stream *stream, CUstream handle,
                                             bool is_captured);

/* The batch up to which freed spans may go to the stream. */
uint64_t cushim_arena_order_done(const struct cushim_arena_object *arena,
                                 struct cushim_stream *stream, bool is_captured);

/* Poll the batches, and record a fence for frees that have none yet. */
void cushim_arena_order_ripen(struct cushim_scope *scope, struct cushim_arena_object *arena);

/* Let the host wait for all fences. */
enum cushim_status cushim_arena_order_wait(struct cushim_scope *scope,
                                           struct cushim_arena_object *arena);

/* No stream is ready until the slow path has looked at it again. */
void cushim_arena_order_forget(struct cushim_arena_order *order);

#endif
