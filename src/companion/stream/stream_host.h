/*
 * The host of stream fences (memory/fence/stream_fence.h): what the engine asks of contexts and
 * captures, and who is told of streams that go.
 */
#ifndef CUSHIM_COMPANION_STREAM_HOST_H
#define CUSHIM_COMPANION_STREAM_HOST_H

#include "companion/context/call.h"
#include "memory/fence/stream_fence.h"

/* The context object is being made, or finished: its fence begins, or its spare events go. */
void cushim_stream_host_begin(struct cushim_context_object *context);
void cushim_stream_host_end(struct cushim_context_object *context);

/*
 * Who notes streams: pools.  Called with the stream alive and in the scope of its context, which
 * may not be current; records what is needed, destroys nothing.
 */
struct cushim_stream_listener {
    /* A stream is about to be destroyed, or its wrapper is. */
    void (*goes)(struct cushim_scope *scope, CUstream stream);
    /* A wait for this stream, begun through the library, is over. */
    void (*done)(struct cushim_scope *scope, CUstream stream, uint64_t begun);
};

/* The one that there is, for good.  Threads  any. */
void cushim_stream_host_listen(const struct cushim_stream_listener *only);

/* cushim_stream_destroy calls it before the driver's destroy; wrappers do too. */
void cushim_stream_host_goes(struct cushim_scope *scope, CUstream stream);

/* A wait for a stream is over: `begun` is the epoch that was closed before it
 * (cushim_mem_fence_close). */
void cushim_stream_host_done(struct cushim_scope *scope, CUstream stream, uint64_t begun);

#endif
