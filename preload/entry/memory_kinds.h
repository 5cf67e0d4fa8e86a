/*
 * Kinds: pinned and managed memory served by pools (docs/internals/memory-engine.md section 11),
 * and the clearing of what is handed out again, of any kind (CUSHIM_ZERO).
 */
#ifndef CUSHIM_PRELOAD_MEMORY_KINDS_H
#define CUSHIM_PRELOAD_MEMORY_KINDS_H

#include "preload/state/process.h"

struct cushim_mem_block;
struct cushim_mem_heap;

/* What a program asked for: the kind's flags as it gave them to the driver. */
struct cushim_want {
    enum cushim_mem_kind kind;
    unsigned flags;
    size_t n_bytes;
};

/* Serve it from the pool of the current context; false: it is the driver's to answer. */
bool cushim_memory_kinds_alloc(struct cushim_cuda *cuda, const struct cushim_want *want,
                               uint64_t *address);

/* The same where it takes no driver call. */
bool cushim_memory_kinds_alloc_hit(struct cushim_cuda *cuda, const struct cushim_want *want,
                                   uint64_t *address);

/* Does a block of this kind need driver calls before it is handed out again? */
bool cushim_memory_kinds_is_cleared_by_device(enum cushim_mem_kind kind);

/*
 * Make a block that was just obtained read as zero, where CUSHIM_ZERO says so.  False: that could
 * not be done in time, the block is out of the caller's hands, and the driver is to serve.
 */
bool cushim_memory_kinds_make_zero(struct cushim_mem_heap *pool,
                                   const struct cushim_mem_block *block, size_t n_bytes);

/*
 * The program tells the driver how managed memory in this range is used, which is an allocation's
 * own: it is not handed out again.  False: the range is not inside one live block, native refuses.
 */
bool cushim_memory_kinds_note_hint(uint64_t address, size_t n_bytes);

#endif
