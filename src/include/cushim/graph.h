/*
 * Graphs: work captured from a stream, made executable, and launched again and again.
 *
 * A capture begins and ends on one stream, and spreads to streams that wait for events recorded in
 * it.  The graph keeps what the captured work uses: pool blocks that were served or freed in the
 * capture, arena spans, bytes of cushim_client_h2d, and what cushim_graph_attach names.  It goes
 * back when the graph and all executables made of it are gone and the last launch is over.  A later
 * call of the library notices that: one on graphs, pools or arenas, or a wait.  Attached functions
 * run only in calls on graphs and in waits.
 */
#ifndef CUSHIM_GRAPH_H
#define CUSHIM_GRAPH_H

#include "cushim/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Which threads' calls a capture forbids, and which thread may end it. */
enum cushim_graph_mode {
    CUSHIM_GRAPH_MODE_DEFAULT = 0, /* RELAXED for begin and end, THREAD_LOCAL with a callback */
    CUSHIM_GRAPH_MODE_RELAXED = 1, /* none; any thread may end it */
    CUSHIM_GRAPH_MODE_THREAD_LOCAL =
        2,                       /* unsafe calls of the thread that began it, which must end it */
    CUSHIM_GRAPH_MODE_GLOBAL = 3 /* unsafe calls of all threads */
};

/* Flags of cushim_graph_instantiate. */
enum cushim_graph_flag {
    CUSHIM_GRAPH_FLAG_AUTO_FREE = 1, /* a launch first frees node memory that the last one left */
    CUSHIM_GRAPH_FLAG_UPLOAD = 2,    /* prepare it on the device at once */
    CUSHIM_GRAPH_FLAG_DEVICE_LAUNCH = 4, /* kernels may launch it; not with AUTO_FREE */
    CUSHIM_GRAPH_FLAG_NODE_PRIORITY = 8  /* nodes run with the priority of their streams */
};

/* What to capture: the work that this function submits, called once; 0 is success. */
typedef int cushim_graph_fn(struct cushim_stream *stream, void *cookie);

/* Called when a graph has given back all that it keeps. */
typedef void cushim_graph_attach_fn(void *cookie);

struct cushim_graph_options {
    size_t struct_size;
    enum cushim_graph_mode mode;
    enum cushim_graph_memory memory; /* for all of `pools` */
    int allow_empty;                 /* 1: an empty capture is no failure */
    unsigned flags;           /* of enum cushim_graph_flag: cushim_graph_capture's executable */
    size_t n_pools, n_arenas; /* at most 16 each */
    struct cushim_pool *const *pools;   /* [n_pools]: attached while it is open */
    struct cushim_arena *const *arenas; /* [n_arenas] */
};

struct cushim_graph_info {
    size_t struct_size;
    size_t nodes;                        /* in all; those of child graphs are not counted */
    size_t kernels, copies, sets, hosts; /* by kind */
    size_t children, allocs, frees, others;
    size_t pool_bytes, arena_bytes; /* kept: of pools (as asked of the pool), of arenas */
    size_t host_bytes;              /* kept: bytes of cushim_client_h2d */
    size_t attached;                /* functions of cushim_graph_attach */
    size_t executables;             /* alive, and last made of or updated from this graph */
};

struct cushim_graphexec_info {
    size_t struct_size;
    unsigned flags;                 /* as instantiated */
    int has_node_memory;            /* 1: it has allocation nodes */
    size_t pool_bytes, arena_bytes; /* kept, as above */
    size_t host_bytes;
    size_t attached;
    uint64_t launches; /* of this one */
    uint64_t updates;  /* that succeeded */
};

/**
 * Fill in the defaults: mode DEFAULT, HOLD, no pool, no arena.
 * @param options  out; NULL is ignored
 * Threads  any
 */
CUSHIM_API void cushim_graph_options_default(struct cushim_graph_options *options);

/* --- capture */

/**
 * Begin to capture a stream.
 * @param s        not the legacy stream
 * @param options  NULL: the defaults; pools and arenas are attached until the end
 * @return CUSHIM_OK | INVALID (the legacy stream, an unknown mode) | CAPTURE (it captures already)
 *         | BADHANDLE | BADDEVICE (a pool or arena of another context) | NOTSUPPORTED
 *         (CUSHIM_GRAPH=0) | the driver's: nothing is captured, pools and arenas are as before
 * Threads  any
 * Stream   waits for the fences of attached arenas
 * Owner    streams, pools and arenas are kept until the end
 */
CUSHIM_API enum cushim_status cushim_graph_begin(struct cushim_stream *s,
                                                 const struct cushim_graph_options *options);

/**
 * End a capture begun by cushim_graph_begin.
 * @param s  the stream it began on
 * @param g  out
 * @return CUSHIM_OK | STATE (none was begun) | EMPTYGRAPH (nothing was captured) | CAPTURE (it was
 *         invalidated; or another thread must end it, and it goes on) | NOMEM | the driver's: the
 *         capture is over, pools and arenas are as before
 * Threads  any if the mode is RELAXED
 * Owner    caller: cushim_graph_destroy
 */
CUSHIM_API enum cushim_status cushim_graph_end(struct cushim_stream *s, struct cushim_graph **g);

/**
 * End a capture and drop what was captured.
 * @param s  the stream it began on
 * @return CUSHIM_OK (also if it was invalidated) | STATE (none was begun) | CAPTURE (another
 *         thread must end it) | the driver's: the capture is over
 * Threads  as cushim_graph_end
 */
CUSHIM_API enum cushim_status cushim_graph_abort(struct cushim_stream *s);

/**
 * Capture what a function submits, and make it executable.
 * @param s          not the legacy stream
 * @param options    NULL: the defaults; its flags are those of the executable
 * @param fn         called once in this thread, no lock held; not 0: CALLBACK
 * @param cookie     passed to fn
 * @param fn_result  out, may be NULL: what fn returned
 * @param g          out, may be NULL: the graph
 * @param x          out, may be NULL: then it is not instantiated
 * @return CUSHIM_OK | the first failure of: begin, fn (CALLBACK), capture, EMPTYGRAPH, instantiate:
 *         the capture is over, *g and *x are NULL
 * Threads  any
 * Owner    caller: both
 */
CUSHIM_API enum cushim_status cushim_graph_capture(struct cushim_stream *s,
                                                   const struct cushim_graph_options *options,
                                                   cushim_graph_fn *fn, void *cookie,
                                                   int *fn_result, struct cushim_graph **g,
                                                   struct cushim_graphexec **x);

/**
 * Check whether a stream takes part in a capture, whatever began it.
 * @param s  NULL: the legacy stream, which never does
 * @param v  out: 0 no, 1 yes, 2 in one that was invalidated
 * @return CUSHIM_OK | BADHANDLE | DEADCONTEXT | the driver's
 * Threads  any
 * Stream   leaves captures valid
 */
CUSHIM_API enum cushim_status cushim_graph_status(struct cushim_stream *s, int *v);

/**
 * Count the open captures that are known in a context: begun here, announced, or seen by the
 * preload.
 * @param ctx  NULL: the context that a call would use
 * @param n    out
 * @return CUSHIM_OK | BADHANDLE | DEADCONTEXT | the driver's
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_graph_capturing(struct cushim_context *ctx, int *n);

/* --- executables */

/**
 * Make a graph executable.
 * @param flags  of enum cushim_graph_flag
 * @param x      out
 * @return CUSHIM_OK | INVALID (unknown flags; AUTO_FREE with DEVICE_LAUNCH) | STATE (the graph has
 *         nodes that allocate, and an executable of it is alive) | NOMEM | the driver's
 * Threads  any
 * Owner    caller: cushim_graphexec_destroy; keeps what the graph keeps
 */
CUSHIM_API enum cushim_status cushim_graph_instantiate(struct cushim_graph *g, unsigned flags,
                                                       struct cushim_graphexec **x);

/**
 * Launch an executable graph.
 * @param s  NULL: the legacy stream; in a capture it becomes a child of what is captured
 * @return CUSHIM_OK | BADHANDLE | BADDEVICE (a stream of another context) | STATE (node memory of
 *         the last launch was not freed, without AUTO_FREE) | the driver's
 * Errors   a fault of a kernel shows at the next wait
 * Threads  any; takes no lock
 * Stream   queued; launches of one executable run one after another
 */
CUSHIM_API enum cushim_status cushim_graphexec_launch(struct cushim_graphexec *x,
                                                      struct cushim_stream *s);

/**
 * Prepare an executable graph on the device, so that its first launch is as short as the others.
 * @param s  NULL: the legacy stream
 * @return CUSHIM_OK | BADHANDLE | BADDEVICE | CAPTURE (the stream captures) | the driver's
 * Threads  any
 * Stream   queued
 */
CUSHIM_API enum cushim_status cushim_graphexec_upload(struct cushim_graphexec *x,
                                                      struct cushim_stream *s);

/**
 * Give an executable graph the parameters of another graph of the same shape.
 * @param g    of the same context; from here on x keeps what g keeps, and what it kept before goes
 *             back once running launches are over
 * @param why  out, may be NULL: number of CUgraphExecUpdateResult; 0: updated
 * @return CUSHIM_OK | UPDATE (shapes differ: x is as before) | BADHANDLE | BADDEVICE | the driver's
 * Threads  any
 * Stream   running launches do not change
 */
CUSHIM_API enum cushim_status cushim_graphexec_update(struct cushim_graphexec *x,
                                                      struct cushim_graph *g, int *why);

/* --- ends */

/**
 * Destroy a graph; its executables stay.
 * @param g  NULL is fine
 * @return CUSHIM_OK | BADHANDLE
 * Threads  any, in any order with the executables
 */
CUSHIM_API enum cushim_status cushim_graph_destroy(struct cushim_graph *g);

/**
 * Destroy an executable graph; running launches finish.
 * @param x  NULL is fine
 * @return CUSHIM_OK | BADHANDLE
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_graphexec_destroy(struct cushim_graphexec *x);

/**
 * Register a function to be called when a graph gives back what it keeps. The function may release
 * buffers that the captured work uses.
 * @param fn      called once, without a lock, in the thread of a later call on graphs (not launch
 *                or upload), or of a later wait for a stream, event, context or client; never
 *                inside another call. It may use the library
 * @param cookie  passed to fn
 * @return CUSHIM_OK | INVALID | BADHANDLE | NOMEM: fn will not be called
 * Threads  any
 * Owner    the cookie stays valid until then
 */
CUSHIM_API enum cushim_status cushim_graph_attach(struct cushim_graph *g,
                                                  cushim_graph_attach_fn *fn, void *cookie);

/* --- questions */

/**
 * Count the nodes of a graph and what it keeps.
 * @param info  out; struct_size says how much of it is filled
 * @return CUSHIM_OK | ABI | BADHANDLE | the driver's
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_graph_info(struct cushim_graph *g,
                                                struct cushim_graph_info *info);

/**
 * Get what an executable graph keeps and how often it was launched.
 * @param info  out; struct_size says how much of it is filled
 * @return CUSHIM_OK | ABI | BADHANDLE | the driver's
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_graphexec_info(struct cushim_graphexec *x,
                                                    struct cushim_graphexec_info *info);

/**
 * Write a graph as DOT text.
 * @param path   written anew
 * @param flags  of CUgraphDebugDot_flags; 1: everything
 * @return CUSHIM_OK | NOFILE (it cannot be written) | NOSYM | the driver's
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_graph_dot(struct cushim_graph *g, const char *path,
                                               unsigned flags);

/* --- the driver's own handles */

/**
 * Make a handle for a graph that other code created.
 * @param cu  CUgraph or cudaGraph_t; it must live as long as the handle is used
 * @param g   out
 * @return CUSHIM_OK | INVALID | NOMEM | NOSYM (a driver without user objects) | the driver's
 * Threads  any
 * Owner    the caller destroys the handle; the graph still belongs to the code that created it
 */
CUSHIM_API enum cushim_status cushim_graph_wrap(struct CUgraph_st *cu, struct cushim_graph **g);

/**
 * Get the driver's handle of a graph.
 * @param cu  out; valid while the graph lives
 * @return CUSHIM_OK | BADHANDLE | DEADCONTEXT
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_graph_handle(struct cushim_graph *g, struct CUgraph_st **cu);

/**
 * Get the driver's handle of an executable graph.
 * @param cu  out; valid while it lives; launches through it are not counted
 * @return CUSHIM_OK | BADHANDLE | DEADCONTEXT
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_graphexec_handle(struct cushim_graphexec *x,
                                                      struct CUgraphExec_st **cu);

/* --- memory of allocation nodes */

/**
 * Get how much memory the allocation nodes of all graphs on a device have.
 * @param dev       ordinal, -1: the calling thread's
 * @param used      out, may be NULL: bytes that graphs use; driver 580 counts what was freed until
 *                  the next trim
 * @param reserved  out, may be NULL: bytes that the driver keeps for them
 * @return CUSHIM_OK | BADDEVICE | NOSYM | the driver's
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_graph_memory(int dev, size_t *used, size_t *reserved);

/**
 * Give memory that no allocation node uses back to the system.
 * @param dev  ordinal, -1: the calling thread's
 * @return CUSHIM_OK | BADDEVICE | NOSYM | the driver's
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_graph_memory_trim(int dev);

#ifdef __cplusplus
}
#endif

#endif
