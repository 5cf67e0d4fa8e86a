/*
 * Arenas: memory that lives for one pass, taken by moving a mark and given back by a reset.
 *
 * An arena has one to four regions of the same capacity.  A block is taken from the current region,
 * in steps of 256 bytes.  A reset ends the epoch, and the next epoch reuses the memory once all
 * work that may touch it is ordered before.  Memory that must outlive resets lies below the floor,
 * is pinned, or belongs to a graph.  The fallback pool serves what the arena cannot.
 *
 * Every function may also return NOCUDA, BADHANDLE (a handle that is not open), DEADCONTEXT and the
 * driver's own failures; the text is in cushim_last_error.
 */
#ifndef CUSHIM_ARENA_H
#define CUSHIM_ARENA_H

#include "cushim/types.h"

#ifdef __cplusplus
extern "C" {
#endif

enum cushim_arena_flag {
    CUSHIM_ARENA_FLAG_REUSE = 1,  /* freed blocks are reused in the same epoch */
    CUSHIM_ARENA_FLAG_POISON = 2, /* a reset fills what it reclaims with the word 0x7FF80000 */
    CUSHIM_ARENA_FLAG_RESET_FALLBACK =
        4,                         /* a reset frees the fallback's blocks of the ended epoch */
    CUSHIM_ARENA_FLAG_UNFENCED = 8 /* with `base` only: the caller orders work; no CUDA call */
};

enum cushim_arena_managed_mode {
    CUSHIM_ARENA_MANAGED_AUTO = 0,   /* if device and host share memory physically */
    CUSHIM_ARENA_MANAGED_NEVER = 1,  /* device memory */
    CUSHIM_ARENA_MANAGED_ALWAYS = 2, /* managed memory, or NOTSUPPORTED */
};

struct cushim_arena_options {
    size_t struct_size;
    struct cushim_context *ctx; /* NULL: `device` decides */
    int device;                 /* uses its primary context; -1: as every call without ctx */
    enum cushim_arena_managed_mode managed;
    size_t capacity_bytes;        /* of each region, rounded up to 256; (size_t)-1: CUSHIM_ARENA */
    cushim_devptr base;           /* the caller's memory for all regions, aligned to 256; 0: ours */
    struct cushim_pool *fallback; /* NULL: none; borrowed */
    struct cushim_stream
        *stream;      /* for CUSHIM_STREAM_OWN and REUSE frees; borrowed; a stream or ALL */
    unsigned regions; /* 1 to 4: each reset moves to the next */
    unsigned flags;   /* of enum cushim_arena_flag */
};

struct cushim_arena_stats {
    size_t struct_size;
    uint64_t hits;    /* requests served from regions */
    uint64_t misses;  /* other requests, the fallback's among them */
    uint64_t frees;   /* valid frees, the fallback's among them */
    uint64_t refused; /* frees: unknown, double, wrong size or device */
    uint64_t stale;   /* frees from before a reset, dropped */
    uint64_t resets;
    uint64_t reuses;   /* hits served from freed spans */
    size_t used_bytes; /* of the current region, up to the mark */
    size_t peak_bytes; /* the most that was used */
    size_t pinned_bytes;
    size_t spans;                           /* freed, waiting for reuse */
    size_t fallback_blocks, fallback_bytes; /* live */
};

/**
 * Fill in the defaults: CUSHIM_ARENA, CUSHIM_ARENA_MANAGED and CUSHIM_ARENA_POISON of the
 * environment, stream ALL, one region, no fallback.
 * @param options  out; may be uninitialised; NULL: nothing
 * Threads  any; needs no CUDA
 */
CUSHIM_API void cushim_arena_options_default(struct cushim_arena_options *options);

/**
 * Create an arena.
 * @param options  NULL: the defaults, which have a capacity only if CUSHIM_ARENA names one
 * @param arena    out
 * @return CUSHIM_OK | INVALID (capacity 0 or too large, base misaligned, UNFENCED without base,
 *         an unknown flag) | ABI | NOMEM | NOTSUPPORTED (ALWAYS without managed memory) | BADHANDLE
 * Units    capacity_bytes is that of one region: `base` has regions * capacity_bytes
 * Errors   POISON has no effect with UNFENCED
 * Threads  any
 * Stream   none; allowed while a capture is open
 * Owner    caller: cushim_arena_destroy; `base` stays the caller's and must live as long as the
 *          arena
 */
CUSHIM_API enum cushim_status cushim_arena_create(const struct cushim_arena_options *options,
                                                  struct cushim_arena **arena);

/**
 * Destroy an arena.
 * @param arena  NULL: nothing
 * @return CUSHIM_OK | BADHANDLE
 * Threads  any
 * Stream   may wait, as the driver does when memory is freed
 * Owner    pinned memory lives until its pins end, and then only cushim_arena_unpin is answered;
 *          memory that graphs hold lives until they are gone. Live blocks of the fallback stay the
 *          caller's, for cushim_pool_free
 */
CUSHIM_API enum cushim_status cushim_arena_destroy(struct cushim_arena *arena);

/**
 * Allocate a block.
 * @param dev    the arena's device, or -1 for it; another device: the fallback
 * @param kind   DEVICE; MANAGED: the arena if it is managed, otherwise the fallback; PINNED: the
 *               fallback
 * @param bytes  rounded up to 256; 0 takes 256, too, so that each block has its own address
 * @param s      the stream of first use, ALL, or OWN
 * @param ptr    out
 * @param epoch  out, may be NULL: for cushim_arena_free
 * @return CUSHIM_OK | INVALID | LIMIT (full, no fallback) | BADDEVICE (another device, no fallback;
 *         a stream of another context) | CAPTURE (a fence is not over, `s` takes part in a capture,
 *         no fallback) | the fallback's
 * Threads  any
 * Stream   after a reset on S: no wait on S; on another stream the device waits, on ALL and in
 *          managed memory the host
 * Owner    the arena: until the next reset, unless kept
 */
CUSHIM_API enum cushim_status cushim_arena_alloc(struct cushim_arena *arena, int dev,
                                                 enum cushim_memory_kind kind, size_t bytes,
                                                 struct cushim_stream *s, cushim_devptr *ptr,
                                                 uint64_t *epoch);

/**
 * Allocate a block of the arena's device, as cushim_arena_alloc does with dev -1 and kind DEVICE.
 * @param bytes  as of cushim_arena_alloc
 * @param s      the stream of first use, ALL, or OWN
 * @param ptr    out
 * @return as of cushim_arena_alloc
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_arena_take(struct cushim_arena *arena, size_t bytes,
                                                struct cushim_stream *s, cushim_devptr *ptr);

/**
 * Free a block. It is counted, and with REUSE reused; the fallback's goes back to the pool.
 * @param dev    checked; -1: not checked
 * @param ptr    0: nothing
 * @param bytes  as requested; 0: not checked
 * @param epoch  from cushim_arena_alloc; 0: unknown
 * @return CUSHIM_OK | STALE (from before a reset: dropped and counted; free a block that survived
 *         it with epoch 0 or the present one) | UNKNOWNPTR | DOUBLEFREE | INVALID (wrong bytes, a
 *         future epoch) | BADDEVICE: all but STALE are counted as refused
 * Errors   a pinned block is freed when its last pin goes, one held by a graph with a later reset
 * Threads  any
 * Stream   the last use was on the stream of the options; ALL: on any
 */
CUSHIM_API enum cushim_status cushim_arena_free(struct cushim_arena *arena, int dev,
                                                cushim_devptr ptr, size_t bytes, uint64_t epoch);

/**
 * End the epoch: rewind to the floor, or to the end of the highest pin, in the next region.
 * @param s  the memory is reused after the work of this stream; ALL: after all work of the context;
 *           OWN
 * @return CUSHIM_OK | CAPTURE (`s` takes part in a capture; ALL and one is known): nothing changed
 * Threads  any
 * Stream   records on s, waits for nothing
 */
CUSHIM_API enum cushim_status cushim_arena_reset(struct cushim_arena *arena,
                                                 struct cushim_stream *s);

/**
 * Set the floor of the current region: a reset does not go below it.
 * @param bytes  rounded up to 256; may be lower than before
 * @return CUSHIM_OK | INVALID (above what is used)
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_arena_set_floor(struct cushim_arena *arena, size_t bytes);

/**
 * Get the floor of the current region.
 * @param bytes  out
 * @return CUSHIM_OK | INVALID
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_arena_floor(struct cushim_arena *arena, size_t *bytes);

/**
 * Get how much of the current region is used, up to the mark.
 * @param bytes  out
 * @return CUSHIM_OK | INVALID
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_arena_used(struct cushim_arena *arena, size_t *bytes);

/**
 * Get the capacity of a region; 0 after a drain.
 * @param bytes  out
 * @return CUSHIM_OK | INVALID
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_arena_capacity(struct cushim_arena *arena, size_t *bytes);

/**
 * Check whether the memory is managed.
 * @param managed  out; 0 or 1
 * @return CUSHIM_OK | INVALID
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_arena_managed(struct cushim_arena *arena, int *managed);

/**
 * Get the epoch.
 * @param epoch  out; from 1, one more with each reset
 * @return CUSHIM_OK | INVALID
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_arena_epoch(struct cushim_arena *arena, uint64_t *epoch);

/**
 * Get how much is pinned, by cushim_arena_pin (each block once) and by graphs.
 * @param bytes  out
 * @return CUSHIM_OK | INVALID
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_arena_pinned(struct cushim_arena *arena, size_t *bytes);

/**
 * Pin a block; each call adds a pin. Resets do not rewind below the end of a pinned block.
 * @param ptr  as handed out by a region, and not freed
 * @return CUSHIM_OK | INVALID | UNKNOWNPTR | NOMEM
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_arena_pin(struct cushim_arena *arena, cushim_devptr ptr);

/**
 * Remove one pin. After the last one, the next reset may reuse the block.
 * @return CUSHIM_OK | INVALID | UNKNOWNPTR | STATE (it has no pin)
 * Threads  any
 * Owner    the last unpin of a destroyed arena frees its memory
 */
CUSHIM_API enum cushim_status cushim_arena_unpin(struct cushim_arena *arena, cushim_devptr ptr);

/**
 * Read the counters.
 * @param stats  struct_size set by the caller
 * @return CUSHIM_OK | INVALID | ABI
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_arena_stats(struct cushim_arena *arena,
                                                 struct cushim_arena_stats *stats);

/**
 * Give the memory of the regions back, and drain the fallback: all requests miss from here on.
 * @return CUSHIM_OK (also a second time) | STATE (something is pinned) | CAPTURE (one is known) |
 *         what the drain of the fallback says
 * Threads  any
 * Stream   waits for the fences, and as the driver does when memory is freed
 */
CUSHIM_API enum cushim_status cushim_arena_drain(struct cushim_arena *arena);

/**
 * Set the default arena of the process; the library itself never uses it.
 * @param arena  NULL: none; stays the caller's, and destroying it clears the default
 * @return CUSHIM_OK | BADHANDLE
 * Threads  any; atomic
 */
CUSHIM_API enum cushim_status cushim_arena_set_default(struct cushim_arena *arena);

/**
 * Get the default arena of the process.
 * @param arena  out; NULL: none was set, or it was destroyed
 * @return CUSHIM_OK | INVALID
 * Threads  any; atomic
 */
CUSHIM_API enum cushim_status cushim_arena_default(struct cushim_arena **arena);

#ifdef __cplusplus
}
#endif

#endif
