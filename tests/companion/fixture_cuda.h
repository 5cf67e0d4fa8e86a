/*
 * Raw driver calls that bypass the library, for cases with foreign code: FIXTURE_CU(cuGraphDestroy,
 * graph) must succeed. The names of <cuda.h> mean the newest revisions.
 */
#pragma once

#include <cuda.h>
#include <string.h>

#include "tests/companion/fixture.h"

#define FIXTURE_NAME(name)  FIXTURE_NAMED(name)
#define FIXTURE_NAMED(name) #name

#define FIXTURE_CU(name, ...)                                                                      \
    do {                                                                                           \
        __typeof__(&name) entry_;                                                                  \
        void *address_ = fixture_symbol(FIXTURE_NAME(name));                                       \
        memcpy(&entry_, &address_, sizeof entry_);                                                 \
        CUresult result_ = entry_(__VA_ARGS__);                                                    \
        ck_assert_msg(result_ == CUDA_SUCCESS, #name " gave %d", (int)result_);                    \
    } while (0)

/* Begins a capture through the driver and announces it to the library. */
static inline void fixture_capture_begin(struct cushim_stream *s, CUstreamCaptureMode mode) {
    struct CUstream_st *handle;
    fixture_ok(cushim_stream_handle(s, &handle));
    FIXTURE_CU(cuStreamBeginCapture, handle, mode);
    fixture_ok(cushim_context_capture_enter(NULL));
}

/* Ends it: a graph proves that no call has invalidated it. */
static inline CUgraph fixture_capture_end(struct cushim_stream *s) {
    CUgraph graph = NULL;
    struct CUstream_st *handle;
    fixture_ok(cushim_stream_handle(s, &handle));
    FIXTURE_CU(cuStreamEndCapture, handle, &graph);
    fixture_ok(cushim_context_capture_leave(NULL));
    ck_assert_ptr_nonnull(graph);
    return graph;
}
