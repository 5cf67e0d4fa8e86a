/*
 * Clients: a device with a compute stream, a copy stream, a pool and spare events, for runtimes
 * that queue all work of a device in one order.
 *
 * Both streams do not block against the legacy stream.  The objects that a client returns are
 * borrowed: they stay the client's, and destroying them is refused while the client lives.
 */
#ifndef CUSHIM_CLIENT_H
#define CUSHIM_CLIENT_H

#include "cushim/graph.h"
#include "cushim/types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cushim_client_options {
    size_t struct_size;
    struct cushim_pool *pool;    /* the caller's, which outlives the client; NULL: make one */
    struct CUstream_st *compute; /* the caller's, which outlive the client; NULL: make them */
    struct CUstream_st *copy;
};

/**
 * Fill in the defaults: streams and a pool of its own.
 * @param options  out; NULL is ignored
 * Threads  any
 */
CUSHIM_API void cushim_client_options_default(struct cushim_client_options *options);

/* --- making */

/**
 * Get the process-wide client of a device, in its primary context; the first call makes it.
 * @param dev  ordinal, -1: the calling thread's
 * @param c    out; the same handle for all callers
 * @return CUSHIM_OK | BADDEVICE | NOMEM | the driver's: the next call tries again
 * Threads  any
 * Owner    counted: end each get with one cushim_client_destroy
 */
CUSHIM_API enum cushim_status cushim_client_get(int dev, struct cushim_client **c);

/**
 * Create a client beside the process-wide one. The work of the two is not ordered.
 * @param ctx      NULL: the context that a call would use
 * @param options  NULL: the defaults
 * @param c        out
 * @return CUSHIM_OK | INVALID | ABI | BADHANDLE | DEADCONTEXT | NOMEM | the driver's
 * Threads  any
 * Owner    caller: cushim_client_destroy
 */
CUSHIM_API enum cushim_status cushim_client_create(struct cushim_context *ctx,
                                                   const struct cushim_client_options *options,
                                                   struct cushim_client **c);

/**
 * Release a client; the process-wide one ends with its last user.
 * @param c  NULL is fine; its work runs on, its live blocks become plain memory
 * @return CUSHIM_OK | BADHANDLE
 * Threads  any
 * Stream   does not wait for running work
 */
CUSHIM_API enum cushim_status cushim_client_destroy(struct cushim_client *c);

/* --- what it has */

/**
 * Get its context.
 * @param ctx  out; borrowed: destroying it gives STATE until the client ends
 * @return CUSHIM_OK | BADHANDLE | DEADCONTEXT | NOMEM
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_client_context(struct cushim_client *c,
                                                    struct cushim_context **ctx);

/**
 * Get the stream that allocations, copies and work are queued on.
 * @param s  out; borrowed
 * @return CUSHIM_OK | BADHANDLE
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_client_compute(struct cushim_client *c,
                                                    struct cushim_stream **s);

/**
 * Get the stream that pipelined copies run on.
 * @param s  out; borrowed
 * @return CUSHIM_OK | BADHANDLE
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_client_copy(struct cushim_client *c, struct cushim_stream **s);

/**
 * Get its pool.
 * @param p  out; borrowed, unless the options gave it
 * @return CUSHIM_OK | BADHANDLE
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_client_pool(struct cushim_client *c, struct cushim_pool **p);

/* --- memory */

/**
 * Allocate device memory for use on the compute stream.
 * @param bytes  0: address 0
 * @param p      out
 * @return as cushim_pool_alloc
 * Threads  any
 * Stream   compute
 * Owner    caller: cushim_client_free
 */
CUSHIM_API enum cushim_status cushim_client_alloc(struct cushim_client *c, size_t bytes,
                                                  cushim_devptr *p);

/**
 * Free it; work queued on the compute stream may still use it.
 * @param p      0 is fine
 * @param bytes  as asked for; 0: unchecked
 * @return as cushim_pool_free
 * Threads  any
 * Stream   compute
 */
CUSHIM_API enum cushim_status cushim_client_free(struct cushim_client *c, cushim_devptr p,
                                                 size_t bytes);

/* --- copies */

/**
 * Copy to the device, in the order of the compute stream.
 * @param src  host, pageable or pinned; may change once the call returns. In a capture the graph
 *             keeps the bytes that src has now, and each launch copies those
 * @return CUSHIM_OK | INVALID | BADHANDLE | BADDEVICE | NOMEM | the driver's
 * Threads  any
 * Stream   compute; with pinned memory it waits for this copy
 */
CUSHIM_API enum cushim_status cushim_client_h2d(struct cushim_client *c, cushim_devptr dst,
                                                const void *src, size_t bytes);

/**
 * Copy to the host, behind all work of the compute stream.
 * @return CUSHIM_OK | INVALID | BADHANDLE | BADDEVICE | CAPTURE (the stream captures) | the
 *         driver's
 * Threads  any
 * Stream   compute; waits
 */
CUSHIM_API enum cushim_status cushim_client_d2h(struct cushim_client *c, void *dst,
                                                cushim_devptr src, size_t bytes);

/**
 * Copy within the device, in the order of the compute stream.
 * @return CUSHIM_OK | INVALID (the ranges overlap) | BADHANDLE | BADDEVICE | the driver's
 * Threads  any
 * Stream   compute; queued
 */
CUSHIM_API enum cushim_status cushim_client_d2d(struct cushim_client *c, cushim_devptr dst,
                                                cushim_devptr src, size_t bytes);

/**
 * Record an event behind all work of the compute stream so far.
 * @param e  out: for a pipelined copy, which consumes it; or cushim_event_destroy
 * @return CUSHIM_OK | BADHANDLE | NOMEM | the driver's
 * Threads  any
 * Stream   compute
 * Owner    caller
 */
CUSHIM_API enum cushim_status cushim_client_record(struct cushim_client *c,
                                                   struct cushim_event **e);

/**
 * Copy to the host on the copy stream, behind an event; later work of the compute stream runs on.
 * @param e  consumed on every path: its handle is gone after the call
 * @return CUSHIM_OK | INVALID | BADHANDLE | BADDEVICE | CAPTURE | the driver's
 * Threads  any
 * Stream   copy; waits for this copy only
 */
CUSHIM_API enum cushim_status cushim_client_d2h_pipelined(struct cushim_client *c, void *dst,
                                                          cushim_devptr src, size_t bytes,
                                                          struct cushim_event *e);

/**
 * Like cushim_client_d2h_pipelined, without the wait.
 * @param dst   pinned, or the call may block; the caller's again once *done is over
 * @param e     consumed on every path
 * @param done  out: an event behind the copy; the caller destroys it; NULL after a failure, and
 *              then nothing writes to dst any more
 * @return as cushim_client_d2h_pipelined, NOMEM
 * Threads  any
 * Stream   copy; queued
 * Owner    caller: *done
 */
CUSHIM_API enum cushim_status cushim_client_d2h_start(struct cushim_client *c, void *dst,
                                                      cushim_devptr src, size_t bytes,
                                                      struct cushim_event *e,
                                                      struct cushim_event **done);

/* --- work */

/**
 * Copy a strided view into dense order with the kernel library.
 * @param src         first element of the view
 * @param dst         dense
 * @param shape       [ndim], host
 * @param strides     [ndim], host; in elements, may be negative
 * @param ndim        0 (one element) to 8
 * @param elem_bytes  of one element
 * @return CUSHIM_OK | INVALID | BADHANDLE | NOTFOUND (there is no kernel library, or none that has
 *         the copy) | of cushim_kernels_open | the kernel's
 * Threads  any
 * Stream   compute; queued
 */
CUSHIM_API enum cushim_status cushim_client_strided(struct cushim_client *c, cushim_devptr src,
                                                    cushim_devptr dst, const int64_t *shape,
                                                    const int64_t *strides, int ndim,
                                                    size_t elem_bytes);

/**
 * Capture the compute stream, with the client's pool attached: cushim_graph_capture.
 * @param options  its pools and arenas are attached, too
 * @return as cushim_graph_capture
 * Threads  any
 * Owner    caller: *g and *x
 */
CUSHIM_API enum cushim_status cushim_client_capture(struct cushim_client *c,
                                                    const struct cushim_graph_options *options,
                                                    cushim_graph_fn *fn, void *cookie,
                                                    int *fn_result, struct cushim_graph **g,
                                                    struct cushim_graphexec **x);

/**
 * Wait for all work of both streams.
 * @return CUSHIM_OK | BADHANDLE | CAPTURE (one of them captures) | the driver's
 * Threads  any
 * Stream   waits for both
 */
CUSHIM_API enum cushim_status cushim_client_synchronize(struct cushim_client *c);

#ifdef __cplusplus
}
#endif

#endif
