/*
 * A trace: what a program asks of the driver, in order, and what the software device alone
 * answered.
 *
 * Generators (generate.c) play it natively and write down each step with its answer and the pages
 * then taken; the judge (judge.c) plays the same steps under the preload.  Both act through a world
 * (world.c).  Memory is never touched, so the device may be unbacked and of any size.
 */
#ifndef CUSHIM_PROPERTY_TRACE_H
#define CUSHIM_PROPERTY_TRACE_H

#include "cushim/pool.h"

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MIB        ((size_t)1 << 20)
#define GIB        ((size_t)1 << 30)
#define PAGE_BYTES (2 * MIB)

enum { N_STREAMS = 4, N_CONTEXTS = 4, N_THREADS = 4 };

enum step_kind {
    STEP_ALLOC,
    STEP_FREE,
    STEP_FREE_ASYNC, /* on stream `place` */
    STEP_FREE_WRONG, /* inside of a block: an error */
    STEP_LAUNCH,     /* `n_bytes` turns of work on stream `place` */
    STEP_GATE,       /* work on stream `place` that does not end before it is opened */
    STEP_GATE_OPEN,
    STEP_SYNC,
    STEP_STREAM_SYNC,
    STEP_CAPTURE_BEGIN, /* stream `place`, RELAXED; allocations and frees pass meanwhile */
    STEP_CAPTURE_END,
    STEP_CONTEXT_ENTER, /* context `place`, 0 the primary one; made where there is none */
    STEP_CONTEXT_END,   /* with all its blocks */
};

struct step {
    uint8_t kind;
    uint8_t thread; /* 0: the main one */
    uint8_t place;  /* stream or context */
    uint8_t
        is_late; /* frees on streams may not be over, so that `used_bytes` is a matter of luck */
    uint32_t slot;
    int32_t answer; /* natively */
    uint64_t n_bytes;
    uint64_t used_bytes; /* natively, in pages, after it */
};

/* What stands in front of a trace's steps.  The judge's device is larger by the slack: the charge
 * budget and the part of small blocks. */
struct trace_head {
    uint64_t seed, n_steps, device_bytes, slack_bytes;
    uint64_t budget_bytes; /* of the slack, what is 0 where nothing is packed */
};

/* Pages of a block alone; small blocks share pages and count as 0. */
static inline size_t large_bytes(size_t n_bytes) {
    return n_bytes <= MIB ? 0 : (n_bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

/* ---- the world ---- */

struct block {
    CUdeviceptr address; /* 0: none */
    size_t n_bytes;
    uint8_t context;
};

struct world {
    struct block *blocks; /* by slot */
    size_t n_blocks;
    size_t live_bytes;       /* large blocks in pages, small ones as asked, in 512 bytes */
    size_t large_live_bytes; /* the pages of large ones */
    size_t context_cut_bytes[N_CONTEXTS]; /* of live blocks, as large as ours may be cut */
    CUcontext contexts[N_CONTEXTS];
    CUstream streams[N_STREAMS]; /* of context 0 */
    CUfunction linger, gate;
    int is_gate_open;
    struct cushim_pool *pool; /* where blocks come from; NULL: cuMemAlloc */
    int context;              /* which is current */
};

/* Start CUDA in this process: a primary context and streams; and a pool of the companion library.
 */
void world_open(struct world *world, bool is_pooled);

/* Take one step, whatever its answer; the block of its slot comes or goes with success. */
CUresult world_take(struct world *world, const struct step *step);

struct block *world_block(struct world *world, uint32_t slot);

/* ---- the generators ---- */

/* Play the trace of that name and seed natively in this process, on a device whose size
 * `trace_device_bytes` says, and write its head and steps to a descriptor. */
void trace_generate(const char *name, uint64_t seed, int fd);

/* 0: no such generator. */
size_t trace_device_bytes(const char *name, uint64_t seed);

/* The i-th generator's name; NULL: no more. */
const char *trace_generator(unsigned i);

/* ---- the judge ---- */

/*
 * Play a trace in this process, under the preload, and print one line on what it found.  By step, a
 * line each is in front of it: step, native's pages, held, pinned, idle, live, in bytes.
 */
void trace_judge(const struct trace_head *head, const struct step *steps, bool is_by_step);

#endif
