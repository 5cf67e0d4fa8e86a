/*
 * One call of a public kernel, between the checks and the launch: where it runs, and how.
 *
 * A call makes no driver call that allocates, waits or reads device memory.  The stream names the
 * device.  Nothing is kept except facts about devices, which are written once.
 */
#ifndef CUSHIM_KERNELS_CALL_H
#define CUSHIM_KERNELS_CALL_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/launch/facts.h"
#include "kernels/launch/family.h"

enum {
    CUSHIM_PORTABLE_CLUSTER = 8, /* every device with clusters runs one of 8 blocks, unless it is
                                    a small part of a device */
    CUSHIM_MOST_CLUSTER = 16     /* of a kernel that is_wide, if the driver allows it */
};

struct cushim_kernel_call {
    const char *what; /* the public function */
    struct cushim_kernel_family *family;
    CUstream stream;
    bool is_cpu; /* run the reference on the stream: cushim_kernel_call_reference */
    int device;  /* this and the rest are not set if is_cpu */
    const struct cushim_kernel_facts *facts;
    int arch;          /* whose instructions to use: 75, 80, 89 or 90; later devices have those
                          of 90 */
    bool has_clusters; /* the device and its code have clusters: blocks that share k or a row */
    bool has_wgmma;    /* the device and its code are exactly 9.0, and its path is taken */
    bool has_pdl;      /* may be launched dependent on the kernel ahead */
    unsigned n_sms;    /* multiprocessors */
};

/* Whether a block may have the most dynamic shared memory that this kernel is launched with. */
static inline bool cushim_kernel_call_holds(const struct cushim_kernel_call *call,
                                            unsigned kernel) {
    return call->family->kernels[kernel].shared_bytes <= call->facts->shared_bytes;
}

/* The shared memory that each of n_blocks may have if they run together on a multiprocessor. */
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
    unsigned cluster;           /* blocks in a cluster along x; 0 means no clusters */
    bool is_dependent;          /* may start before the kernel ahead ends, because its first step
                                   is wait_for_earlier() */
};

/**
 * Find out where a call runs, and load its family there.
 * @param what    the public function
 * @param stream  the caller's; NULL means the legacy stream of the thread's current context
 * @return CUSHIM_OK | NOCUDA, NODEVICE (no driver) | NOCONTEXT | NOTSUPPORTED | another driver
 *         status; the error text is set
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
 * @param n_clusters  out; 0 if none, or if the driver refuses the size
 */
enum cushim_status cushim_kernel_call_clusters(const struct cushim_kernel_call *call,
                                               unsigned kernel,
                                               const struct cushim_kernel_shape *shape,
                                               int *n_clusters);

/**
 * Whether the device runs a kernel in clusters of this shape.  A kernel in clusters has one size of
 * block and one amount of shared memory.  So the driver is asked twice per kernel and device: for
 * up to 8 blocks, and for more.
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
 * @return CUSHIM_OK | NOMEM | a driver status
 */
enum cushim_status cushim_kernel_call_reference(const struct cushim_kernel_call *call,
                                                void (*run)(const void *args), const void *args,
                                                size_t n_bytes);

/* How many blocks of n_per_block cover n_items: at least 1 and at most `most`. */
static inline unsigned cushim_n_blocks(int64_t n_items, int64_t n_per_block, int64_t most) {
    int64_t n = (n_items - 1) / n_per_block + 1;
    return (unsigned)(n < 1 ? 1 : n < most ? n : most);
}

#endif
