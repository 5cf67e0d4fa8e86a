/*
 * The host of stream fences (memory/fence/stream_fence.h): what the engine asks about contexts and
 * captures, and what it learns of streams.
 */
#pragma once

#include "companion/context/call.h"
#include "memory/fence/stream_fence.h"

/* Of the fence of each context; see companion/events.c. */
extern const struct cushim_mem_stream_host cushim_stream_host;

/* cushim_stream_destroy calls it before the driver's destroy; wrappers do too. */
void cushim_stream_host_goes(struct cushim_scope *scope, CUstream stream);

/* A wait for a stream is over: `begun` is the epoch that was closed before it
 * (cushim_mem_fence_close). */
void cushim_stream_host_done(struct cushim_scope *scope, CUstream stream, uint64_t begun);
