/*
 * Guards: a pattern before and after each block of a heap, and the driver calls to write and read
 * it.
 *
 * A heap that has guards serves blocks that are larger by them; the program sees what lies between.
 * Patterns are written and read on a stream of the guard's own, which is waited for: it does not
 * depend on a stream of the program, and works in any capture mode.
 *
 * No lock.  The stream is made at first use, by compare and exchange.
 */
#ifndef CUSHIM_MEMORY_GUARD_H
#define CUSHIM_MEMORY_GUARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/types.h"
#include "cushim/status.h"

struct cushim_mem_heap;

enum {
    CUSHIM_MEM_GUARD_BYTES = 512, /* on either side: blocks stay aligned */
    CUSHIM_MEM_GUARD_FILL = 0xfa,
    CUSHIM_MEM_GUARD_FRESH = 0xcb, /* what was not written since it was allocated */
    CUSHIM_MEM_GUARD_DEAD = 0xdb   /* what was freed */
};

/* Of a pool; all zero has none. */
struct cushim_mem_guard {
    size_t n_bytes; /* on either side of each block: 0 or CUSHIM_MEM_GUARD_BYTES; constant */
    _Atomic(CUstream) stream;
};

struct cushim_mem_fill {
    uint64_t address;
    size_t n_bytes; /* 0: nothing */
    unsigned char value;
};

/**
 * Write patterns.
 * @return CUSHIM_OK (they are there) | CUSHIM_TIMEOUT (under way on the guard's stream: the memory
 * must not be used before a wait of the context) | another status: nothing, or not all, was written
 * Threads  any, with any current context   Stream   host wait, of seconds at most
 */
enum cushim_status cushim_mem_guard_write(struct cushim_mem_heap *pool,
                                          const struct cushim_mem_fill *fills, unsigned n_fills);

/* The place of the first byte of a range that is not `value`. */
struct cushim_mem_flaw {
    size_t offset; /* n_bytes: there is none */
    unsigned char found;
};

/* Compare a range of device memory with a value; threads and stream as above. */
enum cushim_status cushim_mem_guard_compare(struct cushim_mem_heap *pool, uint64_t address,
                                            size_t n_bytes, unsigned char value,
                                            struct cushim_mem_flaw *flaw);

/* Guards that are read with one wait. */
enum { CUSHIM_MEM_GUARD_READS = 32 };

/* Read n guards, at most CUSHIM_MEM_GUARD_READS, and say where each is damaged: flaws[i].offset is
 * CUSHIM_MEM_GUARD_BYTES where it is not.  Threads and stream as above. */
enum cushim_status cushim_mem_guard_look(struct cushim_mem_heap *pool, const uint64_t *addresses,
                                         unsigned n, struct cushim_mem_flaw *flaws);

/* The context is gone, and the stream with it. */
void cushim_mem_guard_abandon(struct cushim_mem_guard *guard);

#endif
