/*
 * Hooks of streams: captures (interposition.md C7), work in which the host takes part (C9, C11),
 * graph launches.
 */
#include <stdlib.h>

#include "cuda/table.h"
#include "memory/fence/record.h"
#include "preload/entry/async_pool.h"
#include "preload/entry/graph_memory.h"
#include "preload/state/captures.h"
#include "preload/state/contexts.h"
#include "preload/state/host_effect.h"
#include "preload/entry/host_function.h"

/* ---- host functions and callbacks: the thread that runs one is flagged ---- */

static CUhostFn wrap_host(CUhostFn function) {
    return cushim_process_is_on() ? cushim_host_function_wrap(function) : function;
}

/* The answer of a launch of a host function. */
static CUresult launched(CUresult answer, CUstream stream) {
    if (answer == CUDA_SUCCESS && cushim_process_is_on())
        cushim_host_effect_note(cushim_driver(), stream);
    return answer;
}

CUSHIM_EXPORT CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data) {
    CUSHIM_ENTER(cuLaunchHostFunc)
    return launched(cuda->cuLaunchHostFunc(stream, wrap_host(function), data), stream);
}

CUSHIM_EXPORT CUresult cuLaunchHostFunc_ptsz(CUstream stream, CUhostFn function, void *data) {
    CUSHIM_ENTER(cuLaunchHostFunc_ptsz)
    return launched(cuda->cuLaunchHostFunc_ptsz(stream, wrap_host(function), data), stream);
}

CUSHIM_EXPORT CUresult cuLaunchHostFunc_v2(CUstream stream, CUhostFn function, void *data,
                                           unsigned sync_mode) {
    CUSHIM_ENTER(cuLaunchHostFunc_v2)
    CUhostFn ours = wrap_host(function);
    return launched(cuda->cuLaunchHostFunc_v2(stream, ours, data, sync_mode), stream);
}

CUSHIM_EXPORT CUresult cuLaunchHostFunc_v2_ptsz(CUstream stream, CUhostFn function, void *data,
                                                unsigned sync_mode) {
    CUSHIM_ENTER(cuLaunchHostFunc_v2_ptsz)
    CUhostFn ours = wrap_host(function);
    return launched(cuda->cuLaunchHostFunc_v2_ptsz(stream, ours, data, sync_mode), stream);
}

/* A callback cannot be captured, so it runs once, and it gets a fault of its context. */
struct wrapped {
    CUstreamCallback callback;
    void *data;
};

static void run_callback(CUstream stream, CUresult status, void *data) {
    struct wrapped *wrapped = data;
    cushim_thread_enter(&cushim_thread.host_function_depth);
    wrapped->callback(stream, status, wrapped->data);
    cushim_thread_leave(&cushim_thread.host_function_depth);
    free(wrapped);
}

static struct wrapped *wrap(CUstreamCallback callback, void *data) {
    struct wrapped *wrapped = malloc(sizeof *wrapped);
    if (wrapped)
        *wrapped = (struct wrapped){callback, data};
    return wrapped;
}

static CUresult add_callback(__typeof__(&cuStreamAddCallback) real, CUstream stream,
                             CUstreamCallback callback, void *data, unsigned flags) {
    struct wrapped *wrapped = NULL;
    if (callback && cushim_process_is_on())
        wrapped = wrap(callback, data);
    if (!wrapped)
        return real(stream, callback, data, flags);
    CUresult answer = real(stream, run_callback, wrapped, flags);
    if (answer == CUDA_SUCCESS)
        cushim_host_effect_note(cushim_driver(), stream);
    else
        free(wrapped);
    return answer;
}

CUSHIM_EXPORT CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void *data,
                                           unsigned flags) {
    CUSHIM_ENTER(cuStreamAddCallback)
    return add_callback(cuda->cuStreamAddCallback, stream, callback, data, flags);
}

CUSHIM_EXPORT CUresult cuStreamAddCallback_ptsz(CUstream stream, CUstreamCallback callback,
                                                void *data, unsigned flags) {
    CUSHIM_ENTER(cuStreamAddCallback_ptsz)
    return add_callback(cuda->cuStreamAddCallback_ptsz, stream, callback, data, flags);
}

/* ---- graph launches: a graph may hold copies from and to any context ---- */

static CUresult launch_graph(struct cushim_cuda *cuda, __typeof__(&cuGraphLaunch) real,
                             CUgraphExec graph, CUstream stream) {
    CUresult answer = real(graph, stream);
    if (answer == CUDA_SUCCESS) {
        cushim_host_effect_note_all();
        cushim_mem_launches_note(); /* of its kernels */
        if (atomic_load_explicit(&cushim_graph_memory_devices, memory_order_relaxed))
            cushim_graph_memory_look(cuda);
    }
    return answer;
}

CUSHIM_EXPORT CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream) {
    CUSHIM_ENTER(cuGraphLaunch)
    return launch_graph(cuda, cuda->cuGraphLaunch, graph, stream);
}

CUSHIM_EXPORT CUresult cuGraphLaunch_ptsz(CUgraphExec graph, CUstream stream) {
    CUSHIM_ENTER(cuGraphLaunch_ptsz)
    return launch_graph(cuda, cuda->cuGraphLaunch_ptsz, graph, stream);
}

/* ---- captures ---- */

/* The rest of a hook that begins a capture on the stream that `key` stands for. */
#define BEGIN(stream, key, mode, graph, call)                                                      \
    if (!cushim_process_is_on())                                                                   \
        return call;                                                                               \
    struct cushim_capture capture = {key, cushim_contexts_of_stream(cuda, stream), mode, graph};   \
    if (!cushim_capture_begin_enter())                                                             \
        return CUDA_ERROR_OUT_OF_MEMORY;                                                           \
    CUresult answer = call;                                                                        \
    cushim_capture_begin_leave(&capture, answer);                                                  \
    return answer

CUSHIM_EXPORT CUresult cuStreamBeginCapture(CUstream stream) {
    CUSHIM_ENTER(cuStreamBeginCapture)
    BEGIN(stream, stream, CU_STREAM_CAPTURE_MODE_GLOBAL, NULL, cuda->cuStreamBeginCapture(stream));
}

CUSHIM_EXPORT CUresult cuStreamBeginCapture_ptsz(CUstream stream) {
    CUSHIM_ENTER(cuStreamBeginCapture_ptsz)
    BEGIN(stream, cushim_per_thread(stream), CU_STREAM_CAPTURE_MODE_GLOBAL, NULL,
          cuda->cuStreamBeginCapture_ptsz(stream));
}

CUSHIM_EXPORT CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
    CUSHIM_ENTER(cuStreamBeginCapture_v2)
    BEGIN(stream, stream, mode, NULL, cuda->cuStreamBeginCapture_v2(stream, mode));
}

CUSHIM_EXPORT CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode) {
    CUSHIM_ENTER(cuStreamBeginCapture_v2_ptsz)
    BEGIN(stream, cushim_per_thread(stream), mode, NULL,
          cuda->cuStreamBeginCapture_v2_ptsz(stream, mode));
}

CUSHIM_EXPORT CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph,
                                                   const CUgraphNode *dependencies,
                                                   const CUgraphEdgeData *edges,
                                                   size_t n_dependencies,
                                                   CUstreamCaptureMode mode) {
    CUSHIM_ENTER(cuStreamBeginCaptureToGraph)
    BEGIN(stream, stream, mode, graph,
          cuda->cuStreamBeginCaptureToGraph(stream, graph, dependencies, edges, n_dependencies,
                                            mode));
}

CUSHIM_EXPORT CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph,
                                                        const CUgraphNode *dependencies,
                                                        const CUgraphEdgeData *edges,
                                                        size_t n_dependencies,
                                                        CUstreamCaptureMode mode) {
    CUSHIM_ENTER(cuStreamBeginCaptureToGraph_ptsz)
    BEGIN(stream, cushim_per_thread(stream), mode, graph,
          cuda->cuStreamBeginCaptureToGraph_ptsz(stream, graph, dependencies, edges, n_dependencies,
                                                 mode));
}

static CUresult end_capture(struct cushim_cuda *cuda, __typeof__(&cuStreamEndCapture) real,
                            CUstream stream, CUstream key, CUgraph *graph) {
    CUresult answer = real(stream, graph);
    if (cushim_process_is_on())
        cushim_capture_end(cuda, key, answer, answer == CUDA_SUCCESS && graph ? *graph : NULL);
    return answer;
}

CUSHIM_EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
    CUSHIM_ENTER(cuStreamEndCapture)
    return end_capture(cuda, cuda->cuStreamEndCapture, stream, stream, graph);
}

CUSHIM_EXPORT CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph) {
    CUSHIM_ENTER(cuStreamEndCapture_ptsz)
    return end_capture(cuda, cuda->cuStreamEndCapture_ptsz, stream, cushim_per_thread(stream),
                       graph);
}

/* ---- the end of a stream ---- */

static CUresult destroy_stream(__typeof__(&cuStreamDestroy_v2) real, CUstream stream) {
    CUresult answer = real(stream);
    if (answer == CUDA_SUCCESS && cushim_process_is_on()) {
        cushim_capture_drop_stream(stream);
        cushim_async_forget_streams();
    }
    return answer;
}

CUSHIM_EXPORT CUresult cuStreamDestroy(CUstream stream) {
    CUSHIM_ENTER(cuStreamDestroy)
    return destroy_stream(cuda->cuStreamDestroy, stream);
}

CUSHIM_EXPORT CUresult cuStreamDestroy_v2(CUstream stream) {
    CUSHIM_ENTER(cuStreamDestroy_v2)
    return destroy_stream(cuda->cuStreamDestroy_v2, stream);
}
