/*
 * One call of a public kernel, between the checks and the launch: where it runs, and how.
 *
 * A call makes no driver call that allocates, waits or reads device memory.  What it is about to
 * launch on is known from the stream; nothing is kept but facts about devices, written once.
 */
#ifndef CUSHIM_KERNELS_CALL_H
#define CUSHIM_KERNELS_CALL_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/launch/facts.h"
#include "kernels/launch/family.h"

enum {
    CUSHIM_PORTABLE_CLUSTER = 8, /* blocks that every device with clusters runs together, a part of
                                 it too small for that aside */
    CUSHIM_MOST_CLUSTER = 16     /* of a kernel that is_wide, where the driver allows it */
};

struct cushim_kernel_call {
    const char *what; /* the public function */
    struct cushim_kernel_family *family;
    CUstream stream;
    bool is_cpu; /* run the reference on the stream: cushim_kernel_call_reference */
    int device;  /* the rest: where it is not */
    const struct cushim_kernel_facts *facts;
    int arch;          /* of the instructions to use: 75, 80, 89 or 90, which later devices have */
    bool has_clusters; /* and the code, too: blocks that share k or a row */
    bool has_wgmma;    /* the device is of 9.0 exactly, as is the code, and its path is taken */
    bool has_pdl;      /* may be launched dependent on the kernel before */
    unsigned n_sms;    /* multiprocessors */
};

/* Whether a block may have the dynamic shared memory that this kernel is launched with at most. */
static inline bool cushim_kernel_call_holds(const struct cushim_kernel_call *call,
                                            unsigned kernel) {
    return call->family->kernels[kernel].shared_bytes <= call->facts->shared_bytes;
}

/* What each of n_blocks that run on a multiprocessor together may have of its shared memory. */
static inline unsigned cushim_kernel_call_share(const struct cushim_kernel_call *call,
                                                unsigned n_blocks) {
    const struct cushim_kernel_facts *facts = call->facts;
    unsigned bytes = facts->shared_bytes_of_sm / n_blocks;
    bytes = bytes > facts->reserved_shared_bytes ? bytes - facts->reserved_shared_bytes : 0;
    return bytes < facts->shared_bytes ? bytes : facts->shared_bytes;
}

struct cushim_kernel_shape {
    unsigned grid[3], block[3]; /* 0 counts as 1 */
    unsigned shared_bytes;      /* dynamic */
    unsigned cluster;           /* blocks of a cluster along x; 0: no clusters */
    bool is_dependent;          /* may start before the kernel ahead ended: its first step is
                                   wait_for_earlier() */
};

/**
 * Find out where a call runs, and load its family there.
 * @param what    the public function
 * @param stream  the caller's; NULL: the legacy stream of the thread's current context
 * @return CUSHIM_OK | NOCUDA, NODEVICE (no driver) | NOCONTEXT | NOTSUPPORTED | another status of
 *         the driver; the error text is set
 */
enum cushim_status cushim_kernel_call_begin(struct cushim_kernel_call *call, const char *what,
                                            struct cushim_kernel_family *family,
                                            struct CUstream_st *stream);

/**
 * Queue a kernel.
 * @param kernel  its index in the family
 * @param params  pointers to its parameters, in their order
 */
enum cushim_status cushim_kernel_call_launch(const struct cushim_kernel_call *call, unsigned kernel,
                                             const struct cushim_kernel_shape *shape,
                                             void **params);

/**
 * How many clusters of this shape the device runs at once.
 * @param n_clusters  out; 0: none, be it that the driver refuses the size
 */
enum cushim_status cushim_kernel_call_clusters(const struct cushim_kernel_call *call,
                                               unsigned kernel,
                                               const struct cushim_kernel_shape *shape,
                                               int *n_clusters);

/**
 * Tell whether the device runs a kernel in clusters of this shape.  Each kernel has one size of
 * block and one amount of shared memory in clusters, so the driver is asked once a kernel and
 * device: of up to 8 blocks, and of more.
 * @param has  out
 */
enum cushim_status cushim_kernel_call_has_clusters(const struct cushim_kernel_call *call,
                                                   unsigned kernel,
                                                   const struct cushim_kernel_shape *shape,
                                                   bool *has);

/**
 * Queue the reference as a host function.
 * @param run     calls the reference; `args` is the copy
 * @param args    copied now; in a capture the copy belongs to the graph
 * @return CUSHIM_OK | NOMEM | a status of the driver
 */
enum cushim_status cushim_kernel_call_reference(const struct cushim_kernel_call *call,
                                                void (*run)(const void *args), const void *args,
                                                size_t n_bytes);

/* Blocks that cover n_items with n_per_block each, no more than `most`; at least 1. */
static inline unsigned cushim_n_blocks(int64_t n_items, int64_t n_per_block, int64_t most) {
    int64_t n = (n_items - 1) / n_per_block + 1;
    return (unsigned)(n < 1 ? 1 : n < most ? n : most);
}

#endif
