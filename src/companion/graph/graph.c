#include "companion/graph/graph.h"

#include <stdlib.h>

#include "companion/arena/arena.h"
#include "companion/pool/pool_call.h"

bool cushim_graph_is_gone(const struct cushim_context_object *context) {
    return cushim_context_is_dead(context) ||
           load_acquire(&cushim_driver_state_now) != CUSHIM_DRIVER_READY;
}

/* The resources go after the driver's graph. */
static void finish(struct cushim_object *object) {
    struct cushim_graph_object *graph = (struct cushim_graph_object *)object;
    CUSHIM_SCOPE scope = {0};
    bool is_lost = !cushim_call_begin_quietly(&scope, object->context) &&
                   cushim_graph_is_gone(object->context);
    if (!is_lost && graph->handle && !graph->is_wrapped)
        /* There is one attempt: the driver may return an error of earlier work and destroy the
         * graph all the same. */
        is_lost = CUSHIM_DRIVER(cuGraphDestroy)(graph->handle) != CUDA_SUCCESS;
    cushim_call_end(&scope, CUSHIM_OK);
    cushim_graph_resources_disown(graph->resources, is_lost);
    free(graph);
}

enum cushim_status cushim_graph_open(struct cushim_scope *scope, CUgraph handle, bool is_wrapped,
                                     struct cushim_graph_resources *resources,
                                     struct cushim_graph **g) {
    struct cushim_graph_object *graph = calloc(1, sizeof *graph);
    if (!graph) {
        if (handle && !is_wrapped)
            CUSHIM_DRIVER(cuGraphDestroy)(handle);
        cushim_graph_resources_disown(resources, false);
        return cushim_scope_fail(scope, CUSHIM_NOMEM, "host memory");
    }
    graph->handle = handle;
    graph->is_wrapped = is_wrapped;
    graph->resources = resources;
    cushim_object_init(&graph->object, CUSHIM_KIND_GRAPH, scope->context, finish);
    return cushim_object_open(&graph->object, g);
}

enum cushim_status cushim_graph_check_handle(struct cushim_scope *scope,
                                             const struct cushim_graph_object *graph) {
    return graph->handle ? CUSHIM_OK
                         : cushim_scope_fail(scope, CUSHIM_STATE, "it holds memory, and no nodes");
}

enum cushim_status cushim_graph_destroy(struct cushim_graph *g) {
    return cushim_graph_resources_collected(cushim_call_destroy(__func__, CUSHIM_KIND_GRAPH, g));
}

enum cushim_status cushim_graph_attach(struct cushim_graph *g, cushim_graph_attach_fn *fn,
                                       void *cookie) {
    CUSHIM_FAIL_IF(__func__, !fn, CUSHIM_INVALID, "fn=NULL");
    CUSHIM_ENTER(GRAPH, graph, g);
    return cushim_graph_resources_attach(graph->resources, fn, cookie)
               ? CUSHIM_OK
               : cushim_scope_fail(&scope, CUSHIM_NOMEM, "host memory");
}

/* ---- resources ---- */

static void give_back(struct cushim_graph_resources *resources) {
    for (size_t i = 0; i < resources->n_pools; i++)
        cushim_pool_graph_release(resources->pools[i], true);
    for (size_t i = 0; i < resources->n_arenas; i++)
        cushim_arena_graph_drop(resources->arenas[i]);
}

struct cushim_graph_resources *cushim_graph_create_resources(void) {
    return cushim_graph_resources_create(give_back);
}

/* ---- handles ---- */

enum cushim_status cushim_graph_wrap(struct CUgraph_st *cu, struct cushim_graph **g) {
    CUSHIM_OUT(g);
    CUSHIM_NEED(cu);
    CUSHIM_ENTER_CONTEXT(NULL);
    struct cushim_graph_resources *resources = cushim_graph_create_resources();
    CUSHIM_FAIL_IF(scope.what, !resources, CUSHIM_NOMEM, "host memory");
    enum cushim_status status = cushim_graph_resources_bind(&scope, resources, cu);
    if (status == CUSHIM_OK)
        status = cushim_graph_open(&scope, cu, true, resources, g);
    else
        cushim_graph_resources_disown(resources, false);
    cushim_call_end(&scope, status);
    cushim_graph_resources_collect();
    return status;
}

enum cushim_status cushim_graph_handle(struct cushim_graph *g, struct CUgraph_st **cu) {
    CUSHIM_OUT(cu);
    CUSHIM_ENTER(GRAPH, graph, g);
    CUSHIM_TRY(cushim_graph_check_handle(&scope, graph));
    *cu = graph->handle;
    return CUSHIM_OK;
}

/* ---- memory alone ---- */

/* Open a handle that holds the pool memory of a capture of other code. */
static enum cushim_status open_held(struct cushim_scope *scope,
                                    struct cushim_pool_graph *pool_graph, struct cushim_graph **g) {
    struct cushim_graph_resources *resources = cushim_graph_create_resources();
    CUSHIM_FAIL_IF(scope->what, !resources, CUSHIM_NOMEM, "host memory");
    struct cushim_graph_resources *kept =
        cushim_graph_resources_own(resources); /* so that it can be filled when nothing can fail */
    enum cushim_status status = cushim_graph_open(scope, NULL, false, resources, g);
    if (status == CUSHIM_OK && pool_graph)
        kept->pools[kept->n_pools++] = pool_graph;
    cushim_graph_resources_disown(kept, false);
    return status;
}

enum cushim_status cushim_pool_unfreeze(struct cushim_pool *p, struct cushim_stream *s,
                                        struct cushim_graph **g) {
    CUSHIM_SCOPE scope = {0};
    struct cushim_stream_use use;
    struct cushim_pool_graph *pool_graph = NULL;
    CUSHIM_CLEAR(g);
    CUSHIM_ENTER_POOL(p);
    CUSHIM_TRY(cushim_stream_enter(&scope, call.what, s, &use));
    if (cushim_pool_unfreeze_stream(scope.context, call.pool, use.handle, g ? &pool_graph : NULL) !=
        CUSHIM_OK)
        return cushim_scope_fail(&scope, CUSHIM_STATE, "not frozen for stream=%p",
                                 (void *)use.handle);
    enum cushim_status status = g ? open_held(&scope, pool_graph, g) : CUSHIM_OK;
    if (status != CUSHIM_OK)
        cushim_pool_graph_release(pool_graph, false);
    return status;
}
