/*
 * Kinds of memory: pinned and managed memory that heaps serve (docs/internals/memory-engine.md,
 * "Managed and pinned memory"), and the clearing of blocks of any kind that serve again
 * (CUSHIM_ZERO).
 */
#pragma once

#include "preload/state/process.h"

struct cushim_mem_block;
struct cushim_mem_heap;
struct cushim_mem_request;

/* What a program asked for, with the flags of the kind as it gave them. */
struct cushim_want {
    enum cushim_mem_kind kind;
    unsigned flags;
    size_t n_bytes;
};

/* Serve it from a heap of the current context; false: the driver must answer. */
bool cushim_memory_kinds_alloc(struct cushim_cuda *cuda, const struct cushim_want *want,
                               uint64_t *address);

/* The same, if it needs no driver call; compare cushim_entry_alloc_hit. */
bool cushim_memory_kinds_alloc_hit(struct cushim_cuda *cuda, const struct cushim_want *want,
                                   uint64_t *address, struct cushim_mem_request *request);

/* Does a block of this kind need driver calls before it is handed out again? */
bool cushim_memory_kinds_is_cleared_by_device(enum cushim_mem_kind kind);

/*
 * With CUSHIM_ZERO, make a block that was just obtained read as zero.  False: that could not be
 * done in time, so the block was released, and the driver must serve.
 */
bool cushim_memory_kinds_make_zero(struct cushim_mem_heap *heap,
                                   const struct cushim_mem_block *block, size_t n_bytes);

/*
 * The program tells the driver how it uses managed memory in this range.  The driver remembers that
 * for the allocation, so the block is not reused.  False: the range is not inside one live block,
 * and the driver refuses the call.
 */
bool cushim_memory_kinds_note_hint(uint64_t address, size_t n_bytes);
