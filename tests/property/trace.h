/*
 * A trace: the calls of a program to the driver, in order, and the results of the software device
 * alone.
 *
 * Generators (generate.c) play it without the preload and write each step with its result and the
 * pages in use. The judge (judge.c) plays the same steps under the preload. Both use a world
 * (world.c). Memory is never touched, so the device may be unbacked and of any size. `Native` means
 * a run without cushim here.
 */
#pragma once

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
    STEP_FREE_WRONG, /* an address inside a block, which is an error */
    STEP_LAUNCH,     /* `n_bytes` turns of work on stream `place` */
    STEP_GATE,       /* work on stream `place` that ends when it is opened */
    STEP_GATE_OPEN,
    STEP_SYNC,
    STEP_STREAM_SYNC,
    STEP_CAPTURE_BEGIN, /* stream `place`, RELAXED; allocations and frees pass meanwhile */
    STEP_CAPTURE_END,
    STEP_CONTEXT_ENTER, /* context `place`, 0 is the primary one; created if there is none */
    STEP_CONTEXT_END,   /* with all its blocks */
};

struct step {
    uint8_t kind;
    uint8_t thread;  /* 0: the main one */
    uint8_t place;   /* stream or context */
    uint8_t is_late; /* frees on streams may not be done, so `used_bytes` depends on timing */
    uint32_t slot;
    int32_t answer; /* natively */
    uint64_t n_bytes;
    uint64_t used_bytes; /* without the preload, in pages, after the step */
};

/* The head of a trace. The judge's device is larger by the slack: the charge budget and the part
 * for small blocks. */
struct trace_head {
    uint64_t seed, n_steps, device_bytes, slack_bytes;
    uint64_t budget_bytes; /* the part of the slack that is 0 in modes that pack nothing */
};

/* The pages that only this block has; small blocks share pages and count as 0. */
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
    /* large blocks in whole pages, small ones as requested in steps of 512 bytes */
    size_t live_bytes;
    size_t large_live_bytes;              /* the pages of large blocks */
    size_t context_cut_bytes[N_CONTEXTS]; /* of live blocks, as large as cushim may cut them */
    CUcontext contexts[N_CONTEXTS];
    CUstream streams[N_STREAMS]; /* the stream of context 0 */
    CUfunction linger, gate;
    int is_gate_open;
    struct cushim_pool *pool; /* the source of blocks; NULL: cuMemAlloc */
    int context;              /* the current context */
};

/* Start CUDA in this process with a primary context and streams, or with a pool of the companion
 * library. */
void world_open(struct world *world, bool is_pooled);

/* Take one step, whatever its result; if it succeeds, the block of its slot comes or goes. */
CUresult world_take(struct world *world, const struct step *step);

struct block *world_block(struct world *world, uint32_t slot);

/* ---- the generators ---- */

/* Play the trace of that name and seed without the preload in this process, on a device of
 * `trace_device_bytes`, and write its head and steps to a descriptor. */
void trace_generate(const char *name, uint64_t seed, int fd);

/* Returns 0 if there is no such generator. */
size_t trace_device_bytes(const char *name, uint64_t seed);

/* The i-th generator's name, or NULL. */
const char *trace_generator(unsigned i);

/* ---- the judge ---- */

/*
 * Play a trace in this process, under the preload, and print one line of findings. With is_by_step
 * a line per step precedes it: step, native's pages, held, pinned, idle, live, in bytes.
 */
void trace_judge(const struct trace_head *head, const struct step *steps, bool is_by_step);
