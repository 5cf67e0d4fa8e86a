/*
 * The CPU backend: a reference runs as a host function of the stream, or as a node of the graph in
 * a capture.
 */
#include <stdlib.h>
#include <string.h>

#include "companion/shared.h"
#include "kernels/launch/call.h"

struct request {
    void (*run)(const void *args);
    _Alignas(16) unsigned char args[];
};

/* A graph runs the request again and again, and frees it when it is destroyed. */
static void CUDA_CB run(void *data) {
    const struct request *request = data;
    request->run(request->args);
}

static void CUDA_CB run_once(void *data) {
    run(data);
    free(data);
}

/* The graph that the stream captures into; NULL if it does not capture. */
static CUresult find_graph(CUstream stream, CUgraph *graph) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    *graph = NULL;
    if (!stream || stream == CU_STREAM_LEGACY || !CUSHIM_DRIVER(cuStreamGetCaptureInfo_v2))
        return CUDA_SUCCESS; /* the legacy stream cannot capture */
    CUresult result =
        CUSHIM_DRIVER(cuStreamGetCaptureInfo_v2)(stream, &status, NULL, graph, NULL, NULL);
    if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        *graph = NULL; /* the driver refuses the host function if the capture is invalidated */
    return result;
}

/* Give the request to the graph, which owns it from then on. */
static CUresult give_to_graph(CUgraph graph, struct request *request) {
    CUuserObject object;
    CUresult result = CUSHIM_DRIVER(cuUserObjectCreate)(&object, request, free, 1,
                                                        CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
    if (result != CUDA_SUCCESS) {
        free(request);
        return result;
    }
    result = CUSHIM_DRIVER(cuGraphRetainUserObject)(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
    if (result != CUDA_SUCCESS)
        CUSHIM_DRIVER(cuUserObjectRelease)(object, 1);
    return result;
}

enum cushim_status cushim_kernel_call_reference(const struct cushim_kernel_call *call,
                                                void (*reference)(const void *args),
                                                const void *args, size_t n_bytes) {
    CUgraph graph;
    struct request *request = malloc(sizeof *request + n_bytes);
    if (!request)
        return cushim_fail(call->what, CUSHIM_NOMEM, "host memory exhausted");
    request->run = reference;
    memcpy(request->args, args, n_bytes);
    const char *entry = "cuStreamGetCaptureInfo";
    CUresult result = find_graph(call->stream, &graph);
    if (result != CUDA_SUCCESS) {
        free(request);
        return cushim_fail_cu(entry, result, "function=%s", call->what);
    }
    if (graph) {
        entry = "cuGraphRetainUserObject";
        result = give_to_graph(graph, request);
    }
    if (result == CUDA_SUCCESS) {
        entry = "cuLaunchHostFunc";
        result = CUSHIM_DRIVER(cuLaunchHostFunc)(call->stream, graph ? run : run_once, request);
        if (result != CUDA_SUCCESS && !graph)
            free(request);
    }
    return result == CUDA_SUCCESS ? CUSHIM_OK
                                  : cushim_fail_cu(entry, result, "function=%s", call->what);
}
