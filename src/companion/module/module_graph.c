/*
 * Modules of graphs: a user object on the graph that is being captured holds a reference, which is
 * released by the next call that collects after the graph and all its copies are gone.  Launches of
 * one module in a row into one capture make one user object.
 */
#include "companion/module/module.h"

#include "companion/capture/graph_resources.h"

static void release_module(void *module) {
    cushim_object_release(module);
}

/* No memory of pools and arenas. */
static void give_back(struct cushim_graph_resources *resources) {
    (void)resources;
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
    struct cushim_graph_resources *resources = cushim_graph_resources_create(give_back);
    enum cushim_status status = CUSHIM_OK;
    if (!resources || !cushim_graph_resources_attach(resources, release_module, module))
        status = cushim_scope_fail(scope, CUSHIM_NOMEM, "bytes=%zu", sizeof *resources);
    else
        cushim_object_keep(module);
    if (status == CUSHIM_OK)
        status = cushim_graph_resources_bind(scope, resources, graph);
    cushim_graph_resources_disown(resources, false);
    if (status == CUSHIM_OK)
        store_relaxed(&module->kept_by, id);
    return status;
}
