/*
 * One request of a pool on its way through what could serve it, and what the files of the pool
 * offer each other on that way (parts: pool_object.h).
 */
#ifndef CUSHIM_RUNTIME_POOL_ERRAND_H
#define CUSHIM_RUNTIME_POOL_ERRAND_H

#include "runtime/pin.h"
#include "runtime/pool_branch.h"

struct cushim_pool_errand {
    const char *what;
    struct cushim_pool_object *pool;
    struct cushim_pool_branch *branch;
    struct cushim_pool_lane *lane;
    size_t bytes, bucket_bytes;
    bool is_captured;                /* the work will be part of a capture */
    struct cushim_pool_block *block; /* what serves */
    bool is_miss;                    /* the driver was asked for memory */
};

/* The public call: its pool is pinned. */
struct cushim_pool_call {
    const char *what;
    struct cushim_pin pin;
    struct cushim_pool_object *pool;
};

/* Why the pool could not be pinned. */
enum cushim_status cushim_pool_refuse(const char *what, struct cushim_pool *p);

static inline enum cushim_status cushim_pool_begin(struct cushim_pool_call *call, const char *what,
                                                   struct cushim_pool *p) {
    call->what = what;
    bool is_ready =
        atomic_load_explicit(&cushim_driver_state_now, memory_order_acquire) == CUSHIM_DRIVER_READY;
    call->pool = is_ready ? cushim_pin(&call->pin, CUSHIM_KIND_POOL, p) : NULL;
    return __builtin_expect(call->pool != NULL, 1) ? CUSHIM_OK : cushim_pool_refuse(what, p);
}

static inline enum cushim_status cushim_pool_end(struct cushim_pool_call *call,
                                                 enum cushim_status status) {
    cushim_unpin(&call->pin);
    return status;
}

/* What a stream argument names; the pin is the caller's to let go, after a failure too. */
enum cushim_status cushim_pool_stream_of(const char *what, struct cushim_stream *s,
                                         struct cushim_pool_stream *stream, struct cushim_pin *pin);

/* What a thread remembers of a stream ticket: its lane in a branch, as long as no stream went. */
struct cushim_pool_remembered {
    const void *pool, *stream; /* tickets, which are never used again */
    struct cushim_pool_branch *branch;
    uint64_t n_gone;
    struct cushim_pool_lane *lane;
};

enum { CUSHIM_POOL_N_REMEMBERED = 8, CUSHIM_POOL_N_BLOCKS = 16 };

/* Lines of its own: every hit writes one. */
struct cushim_pool_memory {
    _Alignas(64) struct cushim_pool_remembered rows[CUSHIM_POOL_N_REMEMBERED];
    /* Blocks that the thread got last, by their address; it may well be the one to free them. */
    struct cushim_pool_block *blocks[CUSHIM_POOL_N_BLOCKS];
};

/* One word, so that a library opened late finds room for it beside the program's own. */
extern _Thread_local struct cushim_pool_memory *cushim_pool_memory
    __attribute__((tls_model("initial-exec")));

static inline size_t cushim_pool_memory_place(uint64_t address) {
    return (address / CUSHIM_MEM_GRAIN_BYTES) % CUSHIM_POOL_N_BLOCKS;
}

static inline void cushim_pool_remember(struct cushim_pool_block *block, uint64_t address) {
    struct cushim_pool_memory *memory = cushim_pool_memory;
    if (memory)
        memory->blocks[cushim_pool_memory_place(address)] = block;
}

/*
 * The block off the shelf that starts at an address: the one remembered, if it is there, else by
 * the ledger.  NULL: none.
 *
 * What is remembered may be stale: another thread freed the block, and it has gone to the shelf or
 * come out at another address since.  It is type-stable, and says itself where it is: its address
 * is 0 on the shelf, set last when it comes off.  A live block's address is no other block's, so
 * equal means the same; and whoever may free it got it, with all that was written before, from the
 * thread that it was handed out to.  The rest is cushim_pool_block_take's to see.
 */
static inline struct cushim_pool_block *cushim_pool_block_find(uint64_t address) {
    const struct cushim_pool_memory *memory = cushim_pool_memory;
    struct cushim_pool_block *block =
        memory ? memory->blocks[cushim_pool_memory_place(address)] : NULL;
    if (__builtin_expect(block && cushim_pool_block_address(block) == address, 1))
        return block;
    block = cushim_pool_branch_block(address);
    return block && cushim_pool_block_address(block) == address ? block : NULL;
}

/* The lane of a stream argument in a branch, and remember it. */
enum cushim_status cushim_pool_lane_look_up(const char *what, struct cushim_pool_branch *branch,
                                            const void *pool_ticket, struct cushim_stream *s,
                                            struct cushim_pool_lane **lane);

static inline size_t cushim_pool_memory_row(const void *pool_ticket, const void *stream,
                                            const struct cushim_pool_branch *branch) {
    return ((uintptr_t)stream ^ (uintptr_t)pool_ticket ^ (uintptr_t)branch->kind) %
           CUSHIM_POOL_N_REMEMBERED;
}

/* The lane that is remembered, or ALL's; NULL: none, or a stream went since. */
static inline struct cushim_pool_lane *
cushim_pool_lane_remembered(const struct cushim_pool_memory *memory,
                            const struct cushim_pool_branch *branch, const void *pool_ticket,
                            const struct cushim_stream *s) {
    const struct cushim_pool_remembered *row =
        &memory->rows[cushim_pool_memory_row(pool_ticket, s, branch)];
    bool is_it =
        row->stream == s && row->pool == pool_ticket && row->branch == branch &&
        row->n_gone == atomic_load_explicit(&cushim_pool_streams_gone, memory_order_acquire);
    return __builtin_expect(is_it, 1) ? row->lane : s == CUSHIM_STREAM_ALL ? branch->all : NULL;
}

static inline enum cushim_status
cushim_pool_lane_find(const char *what, struct cushim_pool_branch *branch, const void *pool_ticket,
                      struct cushim_stream *s, struct cushim_pool_lane **lane) {
    const struct cushim_pool_memory *memory = cushim_pool_memory;
    *lane = memory ? cushim_pool_lane_remembered(memory, branch, pool_ticket, s) : NULL;
    return *lane ? CUSHIM_OK : cushim_pool_lane_look_up(what, branch, pool_ticket, s, lane);
}

/* From what is idle, or free on the shelf, without a driver call for memory; the block is LIVE or
 * PENDING, and on no lane.  CUSHIM_NOTFOUND: nothing serves. */
enum cushim_status cushim_pool_serve(struct cushim_pool_errand *errand);

/* From the shelf alone. */
enum cushim_status cushim_pool_serve_shelf(struct cushim_pool_errand *errand, bool is_pressed);

/* From the driver. */
enum cushim_status cushim_pool_fetch(struct cushim_pool_errand *errand);

/* Fetch said that memory is out: the ladder.  The text is set where it could not help. */
enum cushim_status cushim_pool_climb(struct cushim_pool_errand *errand);

/* Hand a block to the caller: counted, and LIVE. */
void cushim_pool_hand_out(struct cushim_pool_errand *errand);

/* ---- pool_tidy.c: giving back ---- */

/* Idle blocks of a branch that are over go to the shelf, the largest first, until `bytes` did.
 * `effort` says how hard to look.  Returns their bytes, counted as evicted. */
size_t cushim_pool_reclaim(struct cushim_pool_branch *branch, const char *what, size_t bytes,
                           enum cushim_pool_effort effort, enum cushim_status *status);

/* Free segments beyond keep_bytes go to the driver; the bytes. */
size_t cushim_pool_give_back(struct cushim_pool_branch *branch, const char *what,
                             size_t keep_bytes);

/* After a free: batches, caps, and whether blocks are kept at all. */
void cushim_pool_tidy(struct cushim_pool_object *pool, struct cushim_pool_branch *branch,
                      struct cushim_pool_lane *lane, const char *what, size_t bucket_bytes);

/* ---- pool_capture.c ---- */

/* The capture that work for a lane would be part of, attached to the pool or not. */
enum cushim_pool_captured {
    CUSHIM_POOL_NOT_CAPTURED,
    CUSHIM_POOL_CAPTURED,         /* by one that the pool is not attached to */
    CUSHIM_POOL_CAPTURED_ATTACHED /* *freeze; the pool's lock is held: cushim_pool_freeze_leave */
};

enum cushim_pool_captured cushim_pool_captured_by(struct cushim_pool_object *pool,
                                                  const struct cushim_pool_lane *lane,
                                                  struct cushim_pool_freeze *freeze);

/* Serve a request of an attached capture; *node is set where the block is a node's memory. */
enum cushim_status cushim_pool_capture_alloc(struct cushim_pool_errand *errand,
                                             const struct cushim_pool_freeze *freeze,
                                             cushim_devptr *node);

/* Take a block that was freed in an attached capture: PENDING, on no lane. */
enum cushim_status cushim_pool_capture_free(const struct cushim_pool_freeze *freeze,
                                            struct cushim_pool_block *block,
                                            struct cushim_pool_lane *lane);

/* A node's memory, freed in an attached capture.  CUSHIM_NOTFOUND: it is none. */
enum cushim_status cushim_pool_capture_free_node(const char *what, struct cushim_pool_object *pool,
                                                 const struct cushim_pool_freeze *freeze,
                                                 uint64_t address);

#endif
