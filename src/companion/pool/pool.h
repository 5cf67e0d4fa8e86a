/*
 * The pool as other modules use it (graph, client, arena, memory).  The public interface is
 * cushim/pool.h.
 *
 * A pool belongs to no context: its object.context is NULL, so a call on it changes no current
 * context.  It has a heap for each context and kind of memory, which enters its own context.
 *
 * A stream's capture can be attached to a pool.  What is then allocated for that stream belongs to
 * the capture, and at its end to a list, `struct cushim_pool_graph`, which a graph owns.  The
 * blocks of a list serve no other request until the list is released.  They outlive the pool.
 *
 * Pools show their live blocks to the address map (companion/context/address_map.h), with the pool
 * as owner, and register with companion/context/pressure.h.
 */
#pragma once

#include "cushim/graph.h"
#include "cushim/pool.h"
#include "companion/context/call.h"

struct cushim_pool_object;
struct cushim_pool_graph; /* the blocks and nodes of one capture */

/* ---- captures ---- */

/**
 * Attach a capture of a stream to a pool, before the stream begins to capture.  Records fences for
 * what was freed on the stream so far, so that it can complete during the capture.  The calling
 * thread's requests for CUSHIM_STREAM_ALL belong to the capture.
 * @param scope   not the pool's; its context is the stream's, and current
 * @param pool    the caller pins or keeps it
 * @param stream  the legacy stream is CUSHIM_INVALID
 * @return CUSHIM_OK | CUSHIM_INVALID | CUSHIM_STATE (frozen for this stream already) | CUSHIM_NOMEM
 */
enum cushim_status cushim_pool_freeze_stream(struct cushim_scope *scope,
                                             struct cushim_pool_object *pool, CUstream stream,
                                             enum cushim_graph_memory memory);

/**
 * Detach a capture that has ended or failed.
 * @param graph  the list of what was allocated and freed in the capture; *graph is NULL if there is
 *               nothing.  If graph == NULL (the capture gave no graph), the list is dropped at
 *               once, and blocks that the caller still has from the capture stay live
 * @return CUSHIM_OK | CUSHIM_STATE (not frozen for this stream); no error text
 */
enum cushim_status cushim_pool_unfreeze_stream(struct cushim_context_object *context,
                                               struct cushim_pool_object *pool, CUstream stream,
                                               struct cushim_pool_graph **graph);

/* The bytes of the blocks of a list, without those of its nodes; NULL is fine. */
size_t cushim_pool_graph_bytes(const struct cushim_pool_graph *graph);

/*
 * Release a list once the graph, its executables and their last launch are over.  The blocks serve
 * again, even those that their caller did not free; but if no graph was made from it, live blocks
 * stay their callers'.  NULL is fine.  Makes no blocking driver call unless the pool is gone.
 * Threads  any
 */
void cushim_pool_graph_release(struct cushim_pool_graph *graph, bool was_made);
