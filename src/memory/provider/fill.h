/*
 * Filling: we write zeros and patterns into a heap's memory, and read them back.
 *
 * Memory that is handed out again reads as zero, like the driver's own.  Only memory that a block
 * covered before is cleared; each segment knows how far blocks reached.  The host clears pinned
 * memory.  Everything else happens on the heap's own stream.  It is non-blocking, so it waits for
 * no stream of the program, and it works in any capture mode.  The wait for it is limited, because
 * behind a kernel that fills the device it might never end.
 *
 * No lock.  The stream is made at first use, by compare and exchange, and goes with its context.
 */
#pragma once

#include "cuda/types.h"
#include "memory/layout/segment.h"

/* Of a heap. */
struct cushim_mem_filler {
    struct cushim_cuda *cuda;
    CUcontext context;
    _Atomic(CUstream) stream; /* NULL: not needed yet */
};

/* A range that is filled, or read to the host. */
struct cushim_mem_fill {
    uint64_t address;
    size_t n_bytes; /* 0: nothing */
    unsigned char value;
    unsigned char *host; /* NULL: it is filled */
};

/**
 * Fill managed or device memory, or read it, with one wait.
 * @param fills        all are filled, or all are read
 * @param patience_ns  how long to wait, besides the time of the bytes on any bus; 0: to the end, as
 *                     for any read
 * @return CUSHIM_OK (it is filled) | CUSHIM_NOTSUPPORTED (nothing was begun) | CUSHIM_TIMEOUT (it
 *         may be under way on the filler's stream, also if the driver refused to say; the block
 *         must not be used, see cushim_mem_alloc_undo) | another status: nothing, or not all, was
 *         filled, and nothing is under way
 * Threads  any, with any current context, which is the same afterwards
 * Stream   host wait; valid while any thread captures
 */
enum cushim_status cushim_mem_fill_device(struct cushim_mem_filler *filler,
                                          const struct cushim_mem_fill *fills, unsigned n_fills,
                                          uint64_t patience_ns);

/**
 * Note that a block was handed out.
 * @param segment    that it lies in
 * @param n_bytes    asked for, at most block_bytes
 * @return how many of these may have been used before; the rest is as the driver gave it
 * Threads  any; the block belongs to the caller
 */
size_t cushim_mem_fill_due(struct cushim_mem_segment *segment, uint64_t address, size_t n_bytes,
                           size_t block_bytes);

/* Clear host memory past the caches, because it is not read soon. address is a multiple of 64. */
void cushim_mem_fill_host(void *address, size_t n_bytes);
