/*
 * The arena object: its block table, the memory behind it, the order of its reuse, and the blocks
 * that the fallback pool gave.
 *
 * Two locks.  order.lock serialises resets, waits for fences and pins; it may be held over a wait
 * of the host.  `lock` guards the block table and the list of fallback blocks, and is held over no
 * driver call, so that a free never waits for the device.  order.lock comes first.  A block from
 * the top is taken without either.
 */
#pragma once

#include "cushim/arena.h"
#include "companion/arena/arena_region.h"
#include "companion/context/call.h"
#include "memory/fence/stream_fence.h"

enum { CUSHIM_ARENA_GRAIN_BYTES = 256 };

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
enum { CUSHIM_ARENA_N_READY = 4, CUSHIM_ARENA_N_BATCHES = 4 };

/* No stream. */
#define CUSHIM_ARENA_NOBODY ((struct cushim_stream *)1)

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

/* A block that the fallback pool gave, with the values that its free must pass to the pool. */
struct cushim_arena_loan {
    uint64_t address;
    size_t bytes; /* as asked; never 0 */
    int device;
    uint64_t epoch;
    struct cushim_stream *stream; /* of the request */
};

/* The fallback pool and its loans, which outlive resets.  The pool is called without `lock`. */
struct cushim_arena_fallback {
    struct cushim_pool *pool;        /* NULL: none; constant */
    struct cushim_arena_loan *loans; /* in order of address */
    size_t n, cap, bytes;
};

struct cushim_arena_object {
    struct cushim_object object;   /* its context is NULL with UNFENCED */
    struct cushim_arena_book book; /* under `lock`, except functions that need none */
    /* constant */
    uint64_t base;
    int device;
    unsigned flags;               /* of enum cushim_arena_flag */
    bool is_managed, is_ours;     /* is_ours: `base` is to be freed */
    struct cushim_stream *stream; /* of the options */
    atomic_uint_fast64_t n_fast;  /* the number of changes at which the fast path was allowed */
    struct cushim_arena_order order;
    pthread_mutex_t lock;
    struct cushim_arena_fallback fallback; /* under `lock` */
    uint64_t n_misses;                     /* under `lock` */
    uint64_t warned_epoch;                 /* under `lock`: when it was last said to be full */
    atomic_bool is_ended;                  /* destroyed while pinned: only unpin works */
    bool has_memory;                       /* is_ours, and neither drained nor finished */
    bool has_row;                          /* in the ledger of addresses; order.lock */
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

/* One call of cushim_arena_alloc. */
struct cushim_arena_request {
    int device, kind;
    size_t bytes;
    uint64_t n_grains;
    struct cushim_stream *stream; /* OWN replaced */
};

/* Begin a call; an arena that was destroyed while pinned is BADHANDLE. */
enum cushim_status cushim_arena_enter(struct cushim_scope *scope, const char *what,
                                      struct cushim_arena *handle,
                                      struct cushim_arena_object **arena);

/* The same for calls that need no driver, even in a dead context.  Unpin at the end. */
enum cushim_status cushim_arena_look(struct cushim_pin *pin, const char *what,
                                     struct cushim_arena *handle,
                                     struct cushim_arena_object **arena);

/* Both for a call that ends with its block: they declare the arena, and what holds it. */
#define CUSHIM_ENTER_ARENA(what, handle)                                                           \
    CUSHIM_SCOPE scope = {0};                                                                      \
    struct cushim_arena_object *arena;                                                             \
    CUSHIM_TRY(cushim_arena_enter(&scope, (what), (handle), &arena))
#define CUSHIM_LOOK_AT_ARENA(what, handle)                                                         \
    CUSHIM_PIN pin = {0};                                                                          \
    struct cushim_arena_object *arena;                                                             \
    CUSHIM_TRY(cushim_arena_look(&pin, (what), (handle), &arena))

/* The number of grains that hold the bytes; 0 for 0. */
static inline uint64_t cushim_arena_grains(size_t bytes) {
    return ((uint64_t)bytes + CUSHIM_ARENA_GRAIN_BYTES - 1) / CUSHIM_ARENA_GRAIN_BYTES;
}

static inline uint64_t cushim_arena_address(const struct cushim_arena_object *arena, uint64_t at) {
    return arena->base + at * CUSHIM_ARENA_GRAIN_BYTES;
}

/* Whether the address is in a region and begins a grain. */
static inline bool cushim_arena_place(const struct cushim_arena_object *arena, uint64_t address,
                                      uint64_t *at) {
    uint64_t offset = address - arena->base;
    *at = offset / CUSHIM_ARENA_GRAIN_BYTES;
    return address >= arena->base && offset % CUSHIM_ARENA_GRAIN_BYTES == 0 &&
           *at < arena->book.n_grains * arena->book.n_regions;
}

/* Give the memory behind the regions back; order.lock, or not shared any more. */
enum cushim_status cushim_arena_memory_release(struct cushim_scope *scope,
                                               struct cushim_arena_object *arena);

/* Note a loan; false if host memory is out. */
bool cushim_arena_lend(struct cushim_arena_object *arena, const struct cushim_arena_loan *loan);

/* RESET_FALLBACK: give the pool its blocks of epochs up to this back, behind the stream that the
 * reset names. */
void cushim_arena_pay_back_all(struct cushim_arena_object *arena, uint64_t epoch,
                               struct cushim_stream *stream);
