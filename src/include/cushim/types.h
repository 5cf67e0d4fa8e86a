/*
 * Types that all headers of the companion library share.
 *
 * An object is an opaque pointer whose value is a handle, not an address: kind, generation, slot.
 * It is looked up in a table and never dereferenced, so a stale or random value is refused with
 * CUSHIM_BADHANDLE.  A binding may keep it as a 64-bit integer.
 *
 * Constants have the name of their set, as in CUSHIM_<NOUN>_FLAG_<WORD> for flags, so that no two
 * similar names are interchangeable.  Flags are bits of an `unsigned`; one of several values has an
 * enum type, in arguments and structs.
 */
#ifndef CUSHIM_TYPES_H
#define CUSHIM_TYPES_H

#include <stddef.h>
#include <stdint.h>

#include "cushim/status.h"
#include "cushim/version.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An address of device memory. */
typedef uint64_t cushim_devptr;

/* A kind of memory: what is asked for, and what an address belongs to.  Pools and arenas give the
 * first three. */
enum cushim_memory_kind {
    CUSHIM_MEMORY_DEVICE = 0,
    CUSHIM_MEMORY_MANAGED = 1,    /* host and devices address it alike */
    CUSHIM_MEMORY_PINNED = 2,     /* of the host, page-locked: cushim_host_alloc, pools */
    CUSHIM_MEMORY_REGISTERED = 3, /* cushim_host_register */
    CUSHIM_MEMORY_ASYNC = 4,      /* cushim_memory_alloc_async */
    CUSHIM_MEMORY_ADOPTED = 5,    /* cushim_memory_adopt */
    CUSHIM_MEMORY_IPC = 6,        /* of another process */
    CUSHIM_MEMORY_GLOBAL = 7,     /* of a module */
    CUSHIM_MEMORY_GRAPH = 8,      /* of a graph's node */
    CUSHIM_MEMORY_MAPPED = 9,     /* of a mapper */
    CUSHIM_MEMORY_FOREIGN = 10,   /* the driver knows it; it is not from this library */
    CUSHIM_MEMORY_ALL = -1        /* cushim_pool_stats: of all kinds */
};

struct cushim_context;
struct cushim_stream;
struct cushim_event;
struct cushim_module;
struct cushim_function;
struct cushim_prepared;
struct cushim_client;
struct cushim_pool;
struct cushim_arena;
struct cushim_graph;
struct cushim_graphexec;
struct cushim_mapper;
struct cushim_mapped;
struct cushim_library; /* a library opened by cushim_dl_open */

/* The driver's own objects, as <cuda.h> declares them: pointers are passed through, never read. */
struct CUctx_st;
struct CUstream_st;
struct CUevent_st;
struct CUgraph_st;
struct CUgraphExec_st;

/* What an attached pool does for an allocation in a capture. */
enum cushim_graph_memory {
    CUSHIM_GRAPH_MEMORY_HOLD = 0,  /* the block belongs to the graph until the graph is gone */
    CUSHIM_GRAPH_MEMORY_NODES = 1, /* allocation and free become nodes of the graph */
    CUSHIM_GRAPH_MEMORY_REFUSE = 2 /* CAPTURE if the cache cannot serve */
};

/* Stream arguments beside a handle; each is valid only in functions that say so. */
#define CUSHIM_STREAM_LEGACY     ((struct cushim_stream *)0) /* the legacy default stream */
#define CUSHIM_STREAM_PER_THREAD ((struct cushim_stream *)2) /* another stream in each thread */
#define CUSHIM_STREAM_ALL        ((struct cushim_stream *)3) /* pool, arena: any stream */
#define CUSHIM_STREAM_OWN        ((struct cushim_stream *)4) /* arena: the stream of its options */

#ifdef __cplusplus
}
#endif

#endif
