/*
 * Modules of graphs: a user object on the graph that is being captured holds a reference.
 *
 * The driver calls its destructor when the graph and all its copies are gone, and no CUDA function
 * may be called there; so the reference is queued for the next call on modules.  Launches of one
 * module in a row into one capture make one user object.
 */
#include "companion/module/module.h"

#include <stdlib.h>

#include "companion/capture/graph_resources.h"

struct kept {
    struct cushim_module_object *module; /* a reference */
    struct kept *next;
};

static _Atomic(struct kept *) over;

static void CUDA_CB graph_is_gone(void *argument) {
    struct kept *kept = argument;
    kept->next = load_relaxed(&over);
    while (!atomic_compare_exchange_weak_explicit(&over, &kept->next, kept, memory_order_release,
                                                  memory_order_relaxed))
        ;
}

void cushim_module_collect(void) {
    if (likely(!load_relaxed(&over)))
        return;
    struct kept *kept = atomic_exchange_explicit(&over, NULL, memory_order_acquire);
    while (kept) {
        struct kept *next = kept->next;
        cushim_object_release(kept->module);
        free(kept);
        kept = next;
    }
}

enum cushim_status cushim_module_keep(struct cushim_scope *scope,
                                      struct cushim_module_object *module, CUstream stream) {
    CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t id = 0;
    CUgraph graph = NULL;
    if (!CUSHIM_DRIVER(cuStreamGetCaptureInfo_v2) || !CUSHIM_DRIVER(cuUserObjectCreate) ||
        !CUSHIM_DRIVER(cuGraphRetainUserObject) || !CUSHIM_DRIVER(cuUserObjectRelease))
        return CUSHIM_OK; /* a driver before 11.3: the program must keep the module */
    CUSHIM_TRY(
        CUSHIM_CALL(scope, cuStreamGetCaptureInfo_v2, stream, &state, &id, &graph, NULL, NULL));
    if (state != CU_STREAM_CAPTURE_STATUS_ACTIVE || load_relaxed(&module->kept_by) == id)
        return CUSHIM_OK;
    struct kept *kept = malloc(sizeof *kept);
    if (!kept)
        return cushim_scope_fail(scope, CUSHIM_NOMEM, "bytes=%zu", sizeof *kept);
    kept->module = cushim_object_keep(module);
    CUSHIM_TRY(cushim_graph_resources_hang(scope, graph, graph_is_gone, kept));
    store_relaxed(&module->kept_by, id);
    return CUSHIM_OK;
}
