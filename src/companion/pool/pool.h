/*
 * The pool as other modules use it (graph, client, arena, memory); the public face is
 * cushim/pool.h.
 *
 * A pool object belongs to no context (object.context is NULL, entering it changes no current
 * context): it has a heap for each context and kind of memory, which enters its own.
 *
 * A capture of a stream freezes the pools attached to it: what is then allocated for that stream
 * belongs to the capture, and at the end to the list `struct cushim_pool_graph`, which a graph
 * owns.  Its blocks serve nobody else until the list is released; they outlive the pool.
 *
 * Pools show their live blocks to the address map (companion/context/address_map.h), with the pool
 * as owner, and register with companion/context/pressure.h.
 */
#ifndef CUSHIM_COMPANION_POOL_H
#define CUSHIM_COMPANION_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cushim/graph.h"
#include "cushim/pool.h"
#include "companion/context/context.h"
#include "companion/context/call.h"

struct cushim_pool_object;
struct cushim_pool_graph; /* blocks, and nodes, of one capture */

/* ---- captures ---- */

/**
 * Attach a capture of a stream to a pool, before the stream begins to capture.
 * @param scope   its context is the stream's, and current; not the pool's scope
 * @param pool    pinned or kept by the caller; kept by the freeze
 * @param stream  not the legacy stream: CUSHIM_INVALID
 * @return CUSHIM_OK | CUSHIM_INVALID | CUSHIM_STATE (frozen for this stream already) | CUSHIM_NOMEM
 * Marks what was freed on the stream so far, so that it can become complete.  The calling thread is
 * the one whose requests for CUSHIM_STREAM_ALL belong to the capture.
 */
enum cushim_status cushim_pool_freeze_stream(struct cushim_scope *scope,
                                             struct cushim_pool_object *pool, CUstream stream,
                                             enum cushim_graph_memory memory);

/**
 * Detach it, after the capture has ended in whatever way.
 * @param graph  what the capture got and what was freed in it; NULL if there is nothing.  With
 *               graph == NULL (the capture gave no graph) all of it goes back at once: what the
 * caller still has from the capture stays live
 * @return CUSHIM_OK | CUSHIM_STATE (not frozen for this stream); no error text
 */
enum cushim_status cushim_pool_unfreeze_stream(struct cushim_context_object *context,
                                               struct cushim_pool_object *pool, CUstream stream,
                                               struct cushim_pool_graph **graph);

/* Bytes that a list holds (buckets; nodes are not counted); NULL is fine. */
size_t cushim_pool_graph_bytes(const struct cushim_pool_graph *graph);

/*
 * The graph, its executables and their last launch are over: the blocks serve again, whether their
 * caller freed them or not; the list is gone.  NULL is fine.  Makes no blocking driver call unless
 * the pool is gone.
 * Threads  any
 */
void cushim_pool_graph_release(struct cushim_pool_graph *graph);

/* Nobody made a graph of it: its live blocks are their callers' as before.  NULL is fine. */
void cushim_pool_graph_forget(struct cushim_pool_graph *graph);

#endif
