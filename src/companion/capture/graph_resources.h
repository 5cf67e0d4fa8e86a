/*
 * Graph resources: the memory and the attached functions that a graph keeps, beside the driver's
 * own nodes.
 *
 * They are made when a capture begins and filled while it is open.  Then their owners are the
 * graph, each executable that we made of it, and the driver: a user object on the driver's graph
 * stands for every copy that we cannot see (clones, children, executables made of the raw handle)
 * and for running launches.  They are over when the last owner is gone.
 *
 * The driver's destructor reports that, but no CUDA function may be called in it, so the next call
 * of the library that collects gives the memory back.  Attached functions belong to the program.
 * They run only in calls on graphs and in waits, because the program may hold its own locks around
 * a call that allocates.
 *
 * If the context died, the memory does not wait for the driver's destructor; the struct stays in
 * case it runs.  Lock: one mutex for all, held over no driver call and no callback.
 */
#pragma once

#include "cushim/graph.h"
#include "companion/context/call.h"

enum { CUSHIM_GRAPH_RESOURCES_MOST = 16 }; /* pools, and arenas, of one capture */

struct cushim_graph_resources {
    /* Gives the memory back to its pools and arenas (graph/graph.c).  Constant. */
    void (*give_back)(struct cushim_graph_resources *resources);
    unsigned n_owners; /* the capture, then the graph and executables; the mutex */
    bool is_bound;     /* the driver's destructor has not run yet; the mutex */
    bool is_lost; /* the context is gone or damaged, so do not wait for the destructor; the mutex */
    bool is_over; /* its memory goes back, or has gone back; the mutex */
    bool is_shell; /* ended before the destructor ran; the mutex */

    struct cushim_pool_graph *pools[CUSHIM_GRAPH_RESOURCES_MOST]; /* set by the capture alone */
    struct cushim_arena_graph *arenas[CUSHIM_GRAPH_RESOURCES_MOST];
    size_t n_pools, n_arenas;

    struct cushim_graph_resources_attached *attached; /* newest first; the mutex */
    atomic_size_t n_attached;
    atomic_size_t host_bytes;    /* of cushim_graph_resources_bytes */
    atomic_size_t n_executables; /* ours, alive */

    struct cushim_graph_resources *next; /* on one of the two lists; the mutex */
};

/* An empty one with one owner; NULL: no memory. */
struct cushim_graph_resources *
cushim_graph_resources_create(void (*give_back)(struct cushim_graph_resources *resources));

/**
 * Let the driver own it, too.
 * @param graph  the driver's, all of whose copies keep it from here on
 * @return CUSHIM_OK | CUSHIM_NOSYM | what the driver said: the caller is still the only owner
 */
enum cushim_status cushim_graph_resources_bind(struct cushim_scope *scope,
                                               struct cushim_graph_resources *resources,
                                               CUgraph graph);

/* One owner more; returns its argument. */
struct cushim_graph_resources *cushim_graph_resources_own(struct cushim_graph_resources *resources);

/* One owner less, after the driver's handle ended (is_lost: it could not); NULL is fine. */
void cushim_graph_resources_disown(struct cushim_graph_resources *resources, bool is_lost);

/* Add a function; false: no memory. */
bool cushim_graph_resources_attach(struct cushim_graph_resources *resources,
                                   cushim_graph_attach_fn *fn, void *cookie);

/**
 * Keep a copy of bytes with a graph that is being captured, here or by other code.
 * @param stream  takes part in a capture
 * @param bytes   > 0
 * @param copy    out: valid until the graph and all its copies are gone
 * @return CUSHIM_OK | CUSHIM_NOMEM | CUSHIM_NOSYM | what the driver said
 */
enum cushim_status cushim_graph_resources_bytes(struct cushim_scope *scope, CUstream stream,
                                                const void *src, size_t bytes, void **copy);

extern atomic_size_t cushim_graph_resources_n_over; /* their memory is to go back */
extern atomic_size_t
    cushim_graph_resources_n_uncalled; /* it went back, and attached functions are to run */

void cushim_graph_resources_give_back_now(void);
void cushim_graph_resources_collect_now(void);

static inline bool cushim_graph_resources_is_due(void) {
    return unlikely(load_relaxed(&cushim_graph_resources_n_over) != 0);
}

/* Give back the memory of what is over.  For calls on pools and arenas; no lock of theirs is held.
 */
static inline void cushim_graph_resources_give_back(void) {
    if (cushim_graph_resources_is_due())
        cushim_graph_resources_give_back_now();
}

/* The same, and run the attached functions.  For calls on graphs and waits, outside their scope: no
 * lock is held, nothing is pinned, no context is exchanged. */
static inline void cushim_graph_resources_collect(void) {
    if (cushim_graph_resources_is_due() || load_relaxed(&cushim_graph_resources_n_uncalled) != 0)
        cushim_graph_resources_collect_now();
}

/* At the end of a call that may collect. */
static inline enum cushim_status cushim_graph_resources_collected(enum cushim_status status) {
    cushim_graph_resources_collect();
    return status;
}
