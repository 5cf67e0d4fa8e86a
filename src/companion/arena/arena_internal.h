/*
 * The arena object: its block table, the memory behind it, the order of its reuse, and the blocks
 * that the fallback pool gave.
 *
 * Two locks.  order.lock serialises resets, waits for fences and pins; it may be held over a wait
 * of the host.  `lock` guards the block table and the list of fallback blocks, and is held over no
 * driver call, so that a free never waits for the device.  order.lock comes first.  A block from
 * the top is taken without either.
 */
#ifndef CUSHIM_COMPANION_ARENA_INTERNAL_H
#define CUSHIM_COMPANION_ARENA_INTERNAL_H

#include "cushim/arena.h"
#include "companion/arena/arena_order.h"

enum { CUSHIM_ARENA_GRAIN_BYTES = 256 };

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

#endif
