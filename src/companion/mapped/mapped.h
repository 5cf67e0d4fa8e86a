/*
 * Blocks of mapped memory: a whole span, or a piece of a slab's.
 *
 * A span is one allocation of a card, imported into a context: host and device address of the same
 * bytes.  A slab is a span cut into units of a bitmap.  Blocks are rows of the address map, which
 * keeps them; their driver objects are released when the block is finished, after its last user.
 *
 * Lock: the mapper's, for slabs and their bitmaps; held over no call of CUDA or Vulkan.
 */
#pragma once

#include "companion/mapped/mapper.h"

struct cushim_span {
    struct cushim_card_memory memory;
    CUexternalMemory external;
    CUdeviceptr device;
};

struct cushim_mapped_object {
    struct cushim_object object;         /* context: what it was imported into; never NULL */
    struct cushim_mapper_object *mapper; /* kept */
    struct cushim_span span;             /* its own; with a slab: a copy of the slab's */
    struct cushim_slab *slab;            /* NULL: the span is the block's own */
    size_t offset;                       /* in the span; a multiple of the atom */
    size_t bytes;                        /* as asked */
};

/**
 * Allocate, map and import.
 * @param scope  its context is the block's, and current
 * @param bytes  not 0
 * @return CUSHIM_OK | what failed: nothing is held; the error text is set
 */
enum cushim_status cushim_span_obtain(struct cushim_scope *scope,
                                      struct cushim_mapper_object *mapper, size_t bytes,
                                      struct cushim_span *span);

/* Release the memory in CUDA, if the context lives, and in Vulkan. */
void cushim_span_release(struct cushim_mapper_object *mapper, struct cushim_context_object *context,
                         struct cushim_span *span);

/* The most that a slab serves; larger blocks get spans of their own. */
enum { CUSHIM_SLAB_MOST_BYTES = 512 << 10 };

/**
 * Take a piece of a slab, a new one if need be, for a block whose bytes are set.
 * @param scope  as above
 * @return CUSHIM_OK (span, slab and offset are set) | what failed
 */
enum cushim_status cushim_slab_take(struct cushim_scope *scope,
                                    struct cushim_mapped_object *mapped);

/* Give the piece back; one empty slab is kept for the next block. */
void cushim_slab_give(struct cushim_mapped_object *mapped);

/* The mapper is finished: so are its blocks. */
void cushim_slabs_end(struct cushim_mapper_object *mapper);

/* Order all earlier stores of this thread, non-temporal ones too, before its later operations. */
void cushim_mapped_fence(void);
