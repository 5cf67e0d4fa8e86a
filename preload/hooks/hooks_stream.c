/*
 * Hooks of streams: captures (interposition.md C7), work in which the host takes part (C9, C11),
 * graph launches.
 */
#include <stdlib.h>

#include "memory/fence/record.h"
#include "preload/entry/async_pool.h"
#include "preload/entry/entry.h"
#include "preload/entry/graph_memory.h"
#include "preload/entry/host_function.h"
#include "preload/hooks/hook.h"
#include "preload/state/captures.h"
#include "preload/state/contexts.h"
#include "preload/state/host_effect.h"

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

HOOKS_PTSZ(cuLaunchHostFunc, TAKES(CUstream stream, CUhostFn function, void *data),
           return launched(REAL(stream, wrap_host(function), data), stream))
HOOKS_PTSZ(cuLaunchHostFunc_v2,
           TAKES(CUstream stream, CUhostFn function, void *data, unsigned sync_mode),
           return launched(REAL(stream, wrap_host(function), data, sync_mode), stream))

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

static CUresult add_callback(__typeof__(&cuStreamAddCallback) real, CUstream stream,
                             CUstreamCallback callback, void *data, unsigned flags) {
    struct wrapped *wrapped = callback && cushim_process_is_on() ? malloc(sizeof *wrapped) : NULL;
    if (!wrapped)
        return real(stream, callback, data, flags);
    *wrapped = (struct wrapped){callback, data};
    CUresult answer = real(stream, run_callback, wrapped, flags);
    if (answer == CUDA_SUCCESS)
        cushim_host_effect_note(cushim_driver(), stream);
    else
        free(wrapped);
    return answer;
}

HOOKS_PTSZ(cuStreamAddCallback,
           TAKES(CUstream stream, CUstreamCallback callback, void *data, unsigned flags),
           return add_callback(REAL, stream, callback, data, flags))

/* ---- graph launches: a graph may hold copies from and to any context ---- */

static CUresult launch_graph(struct cushim_cuda *cuda, __typeof__(&cuGraphLaunch) real,
                             CUgraphExec graph, CUstream stream) {
    CUresult answer = CUSHIM_ENTRY_RETRIED(real(graph, stream));
    if (answer != CUDA_SUCCESS)
        return cushim_entry_note(cuda, CUSHIM_KIND_GRAPH, answer, 0, 0);
    cushim_host_effect_note_all();
    cushim_mem_launches_note(); /* of its kernels */
    if (atomic_load_explicit(&cushim_graph_memory_devices, memory_order_relaxed))
        cushim_graph_memory_look(cuda);
    return CUDA_SUCCESS;
}

HOOKS_PTSZ(cuGraphLaunch, TAKES(CUgraphExec graph, CUstream stream),
           return launch_graph(cuda, REAL, graph, stream))

/* ---- captures ---- */

/* What a hook does that begins a capture; `call` is the driver's. */
#define BEGIN(mode, graph, call)                                                                   \
    if (!cushim_process_is_on())                                                                   \
        return call;                                                                               \
    struct cushim_capture capture = {ORDER, cushim_contexts_of_stream(cuda, stream), mode, graph}; \
    if (!cushim_capture_begin_enter())                                                             \
        return CUDA_ERROR_OUT_OF_MEMORY;                                                           \
    CUresult answer = call;                                                                        \
    cushim_capture_begin_leave(&capture, answer);                                                  \
    return answer

HOOKS_PTSZ(cuStreamBeginCapture, TAKES(CUstream stream),
           BEGIN(CU_STREAM_CAPTURE_MODE_GLOBAL, NULL, REAL(stream)))
HOOKS_PTSZ(cuStreamBeginCapture_v2, TAKES(CUstream stream, CUstreamCaptureMode mode),
           BEGIN(mode, NULL, REAL(stream, mode)))
HOOKS_PTSZ(cuStreamBeginCaptureToGraph,
           TAKES(CUstream stream, CUgraph graph, const CUgraphNode *dependencies,
                 const CUgraphEdgeData *edges, size_t n_dependencies, CUstreamCaptureMode mode),
           BEGIN(mode, graph, REAL(stream, graph, dependencies, edges, n_dependencies, mode)))

static CUresult end_capture(struct cushim_cuda *cuda, __typeof__(&cuStreamEndCapture) real,
                            CUstream stream, CUstream key, CUgraph *graph) {
    CUresult answer = real(stream, graph);
    if (cushim_process_is_on())
        cushim_capture_end(cuda, key, answer, answer == CUDA_SUCCESS && graph ? *graph : NULL);
    return answer;
}

HOOKS_PTSZ(cuStreamEndCapture, TAKES(CUstream stream, CUgraph *graph),
           return end_capture(cuda, REAL, stream, ORDER, graph))

/* ---- the end of a stream ---- */

static CUresult destroy_stream(__typeof__(&cuStreamDestroy_v2) real, CUstream stream) {
    CUresult answer = real(stream);
    if (answer == CUDA_SUCCESS && cushim_process_is_on()) {
        cushim_capture_drop_stream(stream);
        cushim_async_forget_streams();
    }
    return answer;
}

HOOK(cuStreamDestroy, TAKES(CUstream stream), return destroy_stream(REAL, stream))
HOOK(cuStreamDestroy_v2, TAKES(CUstream stream), return destroy_stream(REAL, stream))
