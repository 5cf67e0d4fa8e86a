/* Executable graphs: made, launched, updated, ended. */
#include "companion/graph/graph.h"

#include <stdlib.h>

#include "companion/capture/known_captures.h"
#include "companion/module/launch.h"
#include "base/lock.h"

enum {
    KNOWN = CUSHIM_GRAPH_FLAG_AUTO_FREE | CUSHIM_GRAPH_FLAG_UPLOAD |
            CUSHIM_GRAPH_FLAG_DEVICE_LAUNCH | CUSHIM_GRAPH_FLAG_NODE_PRIORITY
};

/* ---- memory of nodes ---- */

/* Let go of host memory. */
static void finish_left(struct cushim_graph_node_memory *left) {
    free(left->addresses);
    cushim_object_release(left->stream);
    *left = (struct cushim_graph_node_memory){.n = 0};
}

/* Add the memory of allocation nodes, then remove that of free nodes. */
static enum cushim_status look_at(struct cushim_scope *scope, CUgraphNode node,
                                  CUgraphNodeType wanted, struct cushim_graph_node_memory *left) {
    CUgraphNodeType type;
    CUDA_MEM_ALLOC_NODE_PARAMS params;
    CUdeviceptr freed;
    CUSHIM_TRY(CUSHIM_CALL(scope, cuGraphNodeGetType, node, &type));
    if (type != wanted)
        return CUSHIM_OK;
    if (wanted == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
        CUSHIM_TRY(CUSHIM_CALL(scope, cuGraphMemAllocNodeGetParams, node, &params));
        left->addresses[left->n++] = params.dptr;
        return CUSHIM_OK;
    }
    CUSHIM_TRY(CUSHIM_CALL(scope, cuGraphMemFreeNodeGetParams, node, &freed));
    for (size_t i = 0; i < left->n; i++) {
        if (left->addresses[i] == freed)
            left->addresses[i--] = left->addresses[--left->n];
    }
    return CUSHIM_OK;
}

/* The memory that launches of a graph would leave; none if the driver cannot say. */
static enum cushim_status find_left(struct cushim_scope *scope, CUgraph graph,
                                    struct cushim_graph_node_memory *left) {
    CUgraphNode *nodes;
    size_t n = 0;
    if (!CUSHIM_DRIVER(cuGraphMemAllocNodeGetParams) || !CUSHIM_DRIVER(cuGraphMemFreeNodeGetParams))
        return CUSHIM_OK;
    enum cushim_status status = cushim_graph_nodes(scope, graph, &nodes, &n);
    left->addresses = malloc((n + 1) * sizeof *left->addresses);
    if (status == CUSHIM_OK && !left->addresses)
        status = cushim_scope_fail(scope, CUSHIM_NOMEM, "nodes=%zu", n);
    for (size_t i = 0; i < 2 * n && status == CUSHIM_OK; i++)
        status = look_at(scope, nodes[i % n],
                         i < n ? CU_GRAPH_NODE_TYPE_MEM_ALLOC : CU_GRAPH_NODE_TYPE_MEM_FREE, left);
    free(nodes);
    if (status != CUSHIM_OK)
        finish_left(left);
    return status;
}

/* ---- launches ---- */

/* A launch was made. */
static void note_left(struct cushim_graph_node_memory *left, const struct cushim_stream_use *use) {
    struct cushim_stream_object *before = left->stream;
    left->is_launched = true;
    left->handle = use->handle;
    left->thread = pthread_self();
    if (before == use->object)
        return;
    left->stream = cushim_object_keep(use->object);
    cushim_object_release(before);
}

/* Whether work can be queued on the stream of the last launch.  Our own streams are kept.  A
 * wrapped stream may end at any time once its wrapper is gone. */
static bool can_follow(const struct cushim_graph_node_memory *left) {
    if (left->handle == CU_STREAM_PER_THREAD && !pthread_equal(left->thread, pthread_self()))
        return false;
    if (left->stream && left->stream->is_wrapped && atomic_load(&left->stream->object.is_closed))
        return false;
    return CUSHIM_DRIVER(cuMemFreeAsync) && !cushim_stream_capture_id(left->handle);
}

/* Free it in the driver: the executable is alive, and its context current.  If nothing can be
 * queued behind the last launch, wait for the context; if a capture is known there, the memory
 * stays. */
static void free_left(struct cushim_scope *scope, struct cushim_graph_node_memory *left) {
    if (!left->is_launched || !left->n)
        return;
    bool follows = can_follow(left);
    if (!follows &&
        (cushim_capture_count(scope->context) || CUSHIM_DRIVER(cuCtxSynchronize)() != CUDA_SUCCESS))
        return;
    for (size_t i = 0; i < left->n; i++) {
        if (follows)
            CUSHIM_DRIVER(cuMemFreeAsync)(left->addresses[i], left->handle);
        else
            CUSHIM_DRIVER(cuMemFree_v2)(left->addresses[i]);
    }
}

/* ---- making ---- */

/* Like the destroy of graphs.  The context is current, unless it could not be entered. */
static bool destroy(struct cushim_scope *scope, struct cushim_graphexec_object *exec) {
    free_left(scope, &exec->left);
    return CUSHIM_DRIVER(cuGraphExecDestroy)(exec->handle) == CUDA_SUCCESS;
}

static void finish(struct cushim_object *object) {
    struct cushim_graphexec_object *exec = (struct cushim_graphexec_object *)object;
    CUSHIM_SCOPE scope = {0};
    bool is_lost = !cushim_call_begin_quietly(&scope, object->context) &&
                   cushim_graph_is_gone(object->context);
    if (!is_lost)
        is_lost = !CUSHIM_RELAXED(destroy(&scope, exec));
    cushim_call_end(&scope, CUSHIM_OK);
    atomic_fetch_sub(&exec->resources->n_executables, 1);
    cushim_graph_resources_disown(exec->resources, is_lost);
    finish_left(&exec->left);
    pthread_mutex_destroy(&exec->lock);
    free(exec);
}

/* Handle and memory pass to the object, which is gone after a failure. */
static enum cushim_status open(struct cushim_scope *scope, CUgraphExec handle, unsigned flags,
                               struct cushim_graph_node_memory *left,
                               struct cushim_graph_resources *resources,
                               struct cushim_graphexec **x) {
    struct cushim_graphexec_object *exec = cushim_object_alloc(sizeof *exec);
    if (!exec) {
        finish_left(left);
        CUSHIM_DRIVER(cuGraphExecDestroy)(handle);
        return cushim_scope_fail(scope, CUSHIM_NOMEM, "host memory");
    }
    exec->handle = handle;
    exec->must_be_current = cushim_launch_context(scope->context);
    exec->flags = flags;
    exec->left = *left;
    exec->resources = cushim_graph_resources_own(resources);
    atomic_fetch_add(&resources->n_executables, 1);
    pthread_mutex_init(&exec->lock, NULL);
    cushim_object_init(&exec->object, CUSHIM_KIND_GRAPHEXEC, scope->context, finish);
    return cushim_object_open(&exec->object, x);
}

/* The driver uploads on a stream; the calling thread's own stream delays no other thread. */
static enum cushim_status upload(struct cushim_scope *scope, CUgraphExec handle) {
    CUSHIM_TRY(cushim_capture_refuse_stream(scope, CU_STREAM_PER_THREAD));
    return CUSHIM_CALL(scope, cuGraphUpload, handle, CU_STREAM_PER_THREAD);
}

static enum cushim_status instantiate(struct cushim_scope *scope, CUgraph graph, unsigned flags,
                                      CUgraphExec *handle) {
    unsigned long long of_driver = flags & ~(unsigned)CUSHIM_GRAPH_FLAG_UPLOAD;
    CUSHIM_NEED_ENTRY(scope->what, cuGraphExecDestroy);
    CUSHIM_NEED_ENTRY(scope->what, cuGraphLaunch); /* so that launches need not look */
    CUSHIM_TRY(CUSHIM_CALL(scope, cuGraphInstantiateWithFlags, handle, graph, of_driver));
    enum cushim_status status =
        flags & CUSHIM_GRAPH_FLAG_UPLOAD ? upload(scope, *handle) : CUSHIM_OK;
    if (status != CUSHIM_OK)
        CUSHIM_DRIVER(cuGraphExecDestroy)(*handle);
    return status;
}

/* Look for nodes that allocate, because then the driver allows one executable at a time. */
static enum cushim_status judge_memory(struct cushim_scope *scope,
                                       const struct cushim_graph_object *graph,
                                       struct cushim_graph_node_memory *left) {
    size_t counts[CUSHIM_GRAPH_N_TYPES];
    CUSHIM_TRY(cushim_graph_check_handle(scope, graph));
    CUSHIM_TRY(cushim_graph_count(scope, graph->handle, counts));
    left->has_nodes = counts[CU_GRAPH_NODE_TYPE_MEM_ALLOC] != 0;
    CUSHIM_FAIL_IF(scope->what, left->has_nodes && atomic_load(&graph->resources->n_executables),
                   CUSHIM_STATE, "its nodes allocate, and an executable of it is alive");
    return left->has_nodes ? find_left(scope, graph->handle, left) : CUSHIM_OK;
}

enum cushim_status cushim_graph_instantiate(struct cushim_graph *g, unsigned flags,
                                            struct cushim_graphexec **x) {
    CUgraphExec handle;
    struct cushim_graph_node_memory left = {.n = 0};
    CUSHIM_OUT(x);
    if (flags & ~(unsigned)KNOWN ||
        (flags & CUSHIM_GRAPH_FLAG_AUTO_FREE && flags & CUSHIM_GRAPH_FLAG_DEVICE_LAUNCH))
        return CUSHIM_FAIL(CUSHIM_INVALID, "flags=%u", flags);
    CUSHIM_ENTER(GRAPH, graph, g);
    CUSHIM_TRY(judge_memory(&scope, graph, &left));
    enum cushim_status status = CUSHIM_RELAXED(instantiate(&scope, graph->handle, flags, &handle));
    if (status == CUSHIM_OK)
        return open(&scope, handle, flags, &left, graph->resources, x);
    finish_left(&left);
    return status;
}

enum cushim_status cushim_graphexec_destroy(struct cushim_graphexec *x) {
    return cushim_graph_resources_collected(
        cushim_call_destroy(__func__, CUSHIM_KIND_GRAPHEXEC, x));
}

/* ---- use ---- */

/* The driver gives INVALID_VALUE if memory of the last launch is still allocated. */
static COLD enum cushim_status fail_launch(struct cushim_scope *scope,
                                           const struct cushim_graphexec_object *exec,
                                           CUresult result) {
    if (result == CUDA_ERROR_INVALID_VALUE && exec->left.has_nodes &&
        !(exec->flags & CUSHIM_GRAPH_FLAG_AUTO_FREE))
        return cushim_scope_fail(scope, CUSHIM_STATE,
                                 "node memory of the last launch was not freed");
    return cushim_scope_answer(scope, "cuGraphLaunch", result);
}

/* Launches that leave memory are serialised, because the last one must be known. */
static COLD CUresult launch_leaving(struct cushim_graphexec_object *exec,
                                    const struct cushim_stream_use *use) {
    CUSHIM_LOCKED(&exec->lock);
    CUresult result = CUSHIM_DRIVER(cuGraphLaunch)(exec->handle, use->handle);
    if (result == CUDA_SUCCESS)
        note_left(&exec->left, use);
    return result;
}

/* The first thread that launches counts without an atomic addition. */
static inline void count_launch(struct cushim_graphexec_object *exec,
                                struct cushim_thread *thread) {
    struct cushim_thread *counter = load_relaxed(&exec->counter);
    if (unlikely(!counter) && atomic_compare_exchange_strong(&exec->counter, &counter, thread))
        counter = thread;
    if (likely(counter == thread))
        store_relaxed(&exec->n_launches_of_counter, load_relaxed(&exec->n_launches_of_counter) + 1);
    else
        atomic_fetch_add_explicit(&exec->n_launches, 1, memory_order_relaxed);
}

static enum cushim_status launch(struct cushim_scope *scope, struct cushim_graphexec_object *exec,
                                 const struct cushim_stream_use *use) {
    CUresult result = exec->left.n == 0 ? CUSHIM_DRIVER(cuGraphLaunch)(exec->handle, use->handle)
                                        : launch_leaving(exec, use);
    if (result != CUDA_SUCCESS)
        return fail_launch(scope, exec, result);
    if (cushim_thread_mine)
        count_launch(exec, cushim_thread_mine);
    else
        atomic_fetch_add_explicit(&exec->n_launches, 1, memory_order_relaxed);
    return CUSHIM_OK;
}

/* From the start. */
static COLD enum cushim_status launch_slowly(const char *what, struct cushim_graphexec *x,
                                             struct cushim_stream *s) {
    CUSHIM_STREAM_USE use = {0};
    uint64_t n_changes = cushim_changes_now(); /* read before the conditions are checked */
    CUSHIM_ENTER_AS(what, GRAPHEXEC, graphexec, x);
    CUSHIM_TRY(cushim_stream_use_here(&scope, s, &use));
    CUSHIM_TRY(launch(&scope, graphexec, &use));
    if (graphexec->left.n == 0)
        cushim_pin_note_fast(&graphexec->n_fast, n_changes);
    return CUSHIM_OK;
}

/* The error of a fast path, which has no scope. */
static COLD enum cushim_status
fail_fast(const char *what, const struct cushim_graphexec_object *exec, CUresult result) {
    struct cushim_scope scope = {.what = what, .context = exec->object.context};
    return fail_launch(&scope, exec, result);
}

enum cushim_status cushim_graphexec_launch(struct cushim_graphexec *x, struct cushim_stream *s) {
    struct cushim_thread *thread = cushim_thread_mine;
    struct cushim_slot *slot = cushim_slot_of_kind(CUSHIM_KIND_GRAPHEXEC, (uintptr_t)x);
    if (likely(cushim_launch_has_fast_path(thread, slot) &&
               cushim_pin_fast(thread, CUSHIM_CELL_LAUNCH, slot, x))) {
        struct cushim_graphexec_object *exec =
            (struct cushim_graphexec_object *)load_relaxed(&slot->object);
        struct cushim_launch_stream use;
        enum cushim_status status = CUSHIM_OK;
        bool is_done = false;
        if (likely(load_acquire(&exec->n_fast) == cushim_changes_now() &&
                   cushim_launch_stream_enter(thread, &exec->object, exec->must_be_current, s,
                                              &use))) {
            CUresult result = CUSHIM_DRIVER(cuGraphLaunch)(exec->handle, use.handle);
            is_done = cushim_launch_is_final(exec->must_be_current, result);
            if (likely(result == CUDA_SUCCESS))
                count_launch(exec, thread);
            else if (is_done)
                status = fail_fast(__func__, exec, result);
            cushim_unpin_fast(thread, CUSHIM_CELL_STREAM, use.slot);
        }
        cushim_unpin_fast(thread, CUSHIM_CELL_LAUNCH, slot);
        if (likely(is_done))
            return status;
    }
    return launch_slowly(__func__, x, s);
}

enum cushim_status cushim_graphexec_upload(struct cushim_graphexec *x, struct cushim_stream *s) {
    CUSHIM_STREAM_USE use = {0};
    CUSHIM_ENTER(GRAPHEXEC, graphexec, x);
    CUSHIM_TRY(cushim_stream_use_in(&scope, s, &use));
    CUSHIM_TRY(cushim_stream_refuse_captured(&scope, use.handle));
    return CUSHIM_CALL(&scope, cuGraphUpload, graphexec->handle, use.handle);
}

/* ---- update ---- */

/* Update by the entry that the driver has; *why is always set. */
static enum cushim_status update(struct cushim_scope *scope, CUgraphExec exec, CUgraph graph,
                                 int *why) {
    CUgraphExecUpdateResultInfo info = {.result = CU_GRAPH_EXEC_UPDATE_ERROR};
    const char *entry = "cuGraphExecUpdate";
    CUresult result;
    *why = (int)info.result;
    if (CUSHIM_DRIVER(cuGraphExecUpdate_v2)) {
        result = CUSHIM_DRIVER(cuGraphExecUpdate_v2)(exec, graph, &info);
    } else if (CUSHIM_DRIVER(cuGraphExecUpdate)) {
        result = CUSHIM_DRIVER(cuGraphExecUpdate)(exec, graph, &info.errorNode, &info.result);
    } else {
        return cushim_fail_nosym(scope->what, entry);
    }
    *why = (int)info.result;
    return result == CUDA_SUCCESS
               ? CUSHIM_OK
               : cushim_scope_fail_cu(scope, entry, result, "why=%d", (int)info.result);
}

/* From here on the executable keeps what the graph keeps, as the driver does with its own. */
static void exchange_resources(struct cushim_graphexec_object *exec,
                               struct cushim_graph_resources *resources) {
    struct cushim_graph_resources *old = exec->resources;
    exec->resources = cushim_graph_resources_own(resources);
    atomic_fetch_add(&resources->n_executables, 1);
    atomic_fetch_sub(&old->n_executables, 1);
    atomic_fetch_add_explicit(&exec->n_updates, 1, memory_order_relaxed);
    cushim_graph_resources_disown(old, false);
}

static enum cushim_status update_from(const char *what, struct cushim_graphexec *x,
                                      struct cushim_graph *g, int *why) {
    CUSHIM_PIN pin = {0};
    CUSHIM_ENTER_AS(what, GRAPHEXEC, graphexec, x);
    const struct cushim_graph_object *graph = cushim_handle_pin(&pin, CUSHIM_KIND_GRAPH, g);
    CUSHIM_FAIL_IF(scope.what, !graph, CUSHIM_BADHANDLE, "graph=%p", (void *)g);
    CUSHIM_FAIL_IF(scope.what, !cushim_context_is_same(graph->object.context, scope.context),
                   CUSHIM_BADDEVICE, "graph=%p: of another context", (void *)g);
    CUSHIM_TRY(cushim_graph_check_handle(&scope, graph));
    CUSHIM_LOCKED(&graphexec->lock);
    enum cushim_status status =
        CUSHIM_RELAXED(update(&scope, graphexec->handle, graph->handle, why));
    if (status == CUSHIM_OK)
        exchange_resources(graphexec, graph->resources);
    return status;
}

enum cushim_status cushim_graphexec_update(struct cushim_graphexec *x, struct cushim_graph *g,
                                           int *why) {
    int answer = 0;
    CUSHIM_CLEAR(why);
    CUSHIM_NEED(g);
    enum cushim_status status = update_from(__func__, x, g, &answer);
    if (why)
        *why = answer;
    cushim_graph_resources_collect();
    return status;
}

CUSHIM_FACT(GRAPHEXEC, graphexec, handle, struct CUgraphExec_st *, cu, graphexec->handle)
