/*
 * Types that all headers of the companion library share.
 *
 * An object is an opaque pointer whose value is a ticket, not an address: kind, generation, slot.
 * It is looked up in a table and never dereferenced, so a stale or random value is refused with
 * CUSHIM_BADHANDLE.  A binding may keep it as a 64-bit integer.
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

/* Stream arguments beside a ticket; each is valid only where its function says so. */
#define CUSHIM_STREAM_LEGACY     ((struct cushim_stream *)0) /* the legacy default stream */
#define CUSHIM_STREAM_PER_THREAD ((struct cushim_stream *)2) /* another stream in each thread */
#define CUSHIM_STREAM_ALL        ((struct cushim_stream *)3) /* pool, arena: any stream */
#define CUSHIM_STREAM_OWN        ((struct cushim_stream *)4) /* arena: the stream of its options */

#ifdef __cplusplus
}
#endif

#endif
