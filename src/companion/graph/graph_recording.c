
#include <stdlib.h>
#include <utlist.h>

#include "cuda/translate.h"
#include "companion/capture/known_captures.h"
#include "companion/arena/arena.h"
#include "companion/graph/graph.h"
#include "companion/pool/pool.h"
#include "base/lock.h"

struct cushim_graph_recording {
    const struct cushim_stream *handle; /* as given to begin */
    CUstream stream;
    pthread_t thread;                      /* that began it: the per-thread stream is its own */
    bool is_threads;                       /* not RELAXED: that thread must end it */
    uint64_t id;                           /* the driver's; 0 until it began */
    struct cushim_context_object *context; /* kept */
    struct cushim_pool_object *pools[CUSHIM_GRAPH_RESOURCES_MOST]; /* kept; frozen for the stream */
    size_t n_pools;
    bool allows_empty;
    struct cushim_graph_resources *resources; /* owned; its arenas are the attached ones */
    struct cushim_graph_recording *next;      /* lock */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct cushim_graph_recording *recordings;

/* ---- the list ---- */

static bool is_on(const struct cushim_graph_recording *recording,
                  const struct cushim_context_object *context, CUstream stream) {
    return recording->stream == stream && cushim_context_is_same(recording->context, context) &&
           (stream != CU_STREAM_PER_THREAD || pthread_equal(recording->thread, pthread_self()));
}

static bool is_by(const struct cushim_graph_recording *recording,
                  const struct cushim_stream *handle) {
    return recording->handle == handle &&
           (handle != CUSHIM_STREAM_PER_THREAD || pthread_equal(recording->thread, pthread_self()));
}

/* With the lock: take it off the list; NULL: there is none there. */
static struct cushim_graph_recording *take_at(struct cushim_graph_recording **at) {
    struct cushim_graph_recording *recording = *at;
    if (recording)
        *at = recording->next;
    return recording;
}

/* Take it off the list; NULL: there is none.  With is_others, one that another thread must end
 * stays in the list, and *is_others is true. */
static struct cushim_graph_recording *take(const struct cushim_scope *scope, CUstream stream,
                                           bool *is_others) {
    CUSHIM_LOCKED(&lock);
    struct cushim_graph_recording **at = &recordings;
    while (*at && !is_on(*at, scope->context, stream))
        at = &(*at)->next;
    if (is_others)
        *is_others = *at && (*at)->is_threads && !pthread_equal((*at)->thread, pthread_self());
    return is_others && *is_others ? NULL : take_at(at);
}

static struct cushim_graph_recording *take_by_handle(const struct cushim_stream *handle) {
    CUSHIM_LOCKED(&lock);
    struct cushim_graph_recording **at = &recordings;
    while (*at && !is_by(*at, handle))
        at = &(*at)->next;
    return take_at(at);
}

void cushim_graph_recording_note_bytes(uint64_t capture_id, size_t bytes) {
    CUSHIM_LOCKED(&lock);
    for (struct cushim_graph_recording *recording = recordings; recording;
         recording = recording->next) {
        if (recording->id == capture_id)
            atomic_fetch_add(&recording->resources->host_bytes, bytes);
    }
}

/* ---- what is attached ---- */

/* With `keeps`, the memory of the capture goes to its resources, else back at once. */
static void detach(struct cushim_graph_recording *recording, bool keeps) {
    struct cushim_graph_resources *resources = recording->resources;
    for (size_t i = 0; i < recording->n_pools; i++) {
        struct cushim_pool_graph *pool_graph = NULL;
        cushim_pool_unfreeze_stream(recording->context, recording->pools[i], recording->stream,
                                    keeps ? &pool_graph : NULL);
        if (pool_graph)
            resources->pools[resources->n_pools++] = pool_graph;
        cushim_object_release(recording->pools[i]);
    }
    recording->n_pools = 0;
    for (size_t i = 0; i < resources->n_arenas; i++)
        cushim_arena_graph_stop(resources->arenas[i]);
}

/* The end of every recording; with `resources` it goes to the caller. */
static void finish(struct cushim_graph_recording *recording,
                   struct cushim_graph_resources **resources) {
    detach(recording, resources != NULL);
    if (resources)
        *resources = recording->resources;
    else
        cushim_graph_resources_disown(recording->resources, false);
    cushim_object_release(recording->context);
    free(recording);
    cushim_graph_resources_give_back(); /* the memory of a capture that gave no graph */
}

static enum cushim_status attach_pool(struct cushim_scope *scope,
                                      struct cushim_graph_recording *recording,
                                      struct cushim_pool *handle, int memory) {
    CUSHIM_SCOPE of_pool = {0};
    struct cushim_pool_object *pool;
    CUSHIM_TRY(cushim_call_begin_object(&of_pool, scope->what, CUSHIM_KIND_POOL, handle, &pool));
    CUSHIM_TRY(cushim_pool_freeze_stream(scope, pool, recording->stream,
                                         (enum cushim_graph_memory)memory));
    recording->pools[recording->n_pools++] = cushim_object_keep(pool);
    return CUSHIM_OK;
}

/* Arenas first, because they may wait, and a frozen pool should not wait. */
static enum cushim_status attach(struct cushim_scope *scope,
                                 struct cushim_graph_recording *recording,
                                 const struct cushim_graph_options *options) {
    struct cushim_graph_resources *resources = recording->resources;
    for (size_t i = 0; i < options->n_arenas; i++) {
        CUSHIM_TRY(cushim_arena_graph_prepare(scope->what, scope->context, options->arenas[i],
                                              &resources->arenas[i]));
        resources->n_arenas++;
    }
    for (size_t i = 0; i < options->n_pools; i++)
        CUSHIM_TRY(attach_pool(scope, recording, options->pools[i], options->memory));
    return CUSHIM_OK;
}

/* ---- the driver's side ---- */

/* End without a result, and without an error text. */
static void end_quietly(CUstream stream) {
    CUgraph graph = NULL;
    if (CUSHIM_DRIVER(cuStreamEndCapture)(stream, &graph) == CUDA_SUCCESS && graph)
        CUSHIM_DRIVER(cuGraphDestroy)(graph);
}

static enum cushim_status begin_driver(struct cushim_scope *scope,
                                       struct cushim_graph_recording *recording,
                                       CUstreamCaptureMode mode) {
    CUstream stream = recording->stream;
    CUstreamCaptureStatus state;
    cuuint64_t id = 0;
    CUSHIM_TRY(CUSHIM_CALL(scope, cuStreamBeginCapture_v2, stream, mode));
    enum cushim_status status =
        CUSHIM_CALL(scope, cuStreamGetCaptureInfo_v2, stream, &state, &id, NULL, NULL, NULL);
    recording->id = id;
    if (status != CUSHIM_OK)
        end_quietly(stream);
    return status;
}

/* The entries that an open capture needs, checked before it begins. */
static enum cushim_status check_driver(const struct cushim_scope *scope) {
    CUSHIM_NEED_ENTRY(scope->what, cuStreamBeginCapture_v2);
    CUSHIM_NEED_ENTRY(scope->what, cuStreamEndCapture);
    CUSHIM_NEED_ENTRY(scope->what, cuStreamGetCaptureInfo_v2);
    CUSHIM_NEED_ENTRY(scope->what, cuGraphDestroy);
    CUSHIM_NEED_ENTRY(scope->what, cuGraphGetNodes);
    CUSHIM_NEED_ENTRY(scope->what, cuUserObjectCreate);
    CUSHIM_NEED_ENTRY(scope->what, cuGraphRetainUserObject);
    return CUSHIM_OK;
}

/* ---- begin ---- */

static struct cushim_graph_recording *create(struct cushim_scope *scope,
                                             const struct cushim_stream *handle, CUstream stream,
                                             bool is_threads, bool allows_empty) {
    struct cushim_graph_recording *recording = calloc(1, sizeof *recording);
    if (!recording)
        return NULL;
    *recording = (struct cushim_graph_recording){.handle = handle,
                                                 .stream = stream,
                                                 .thread = pthread_self(),
                                                 .is_threads = is_threads,
                                                 .allows_empty = allows_empty,
                                                 .resources = cushim_graph_create_resources()};
    if (!recording->resources) {
        free(recording);
        return NULL;
    }
    recording->context = cushim_object_keep(scope->context);
    return recording;
}

enum cushim_status cushim_graph_recording_begin(struct cushim_scope *scope,
                                                const struct cushim_stream *handle, CUstream stream,
                                                const struct cushim_graph_options *options,
                                                CUstreamCaptureMode mode) {
    CUSHIM_TRY(check_driver(scope));
    CUSHIM_TRY(cushim_capture_refuse_stream(scope, stream));
    /* A recording that the driver does not know: other code destroyed its stream, and the driver
     * has reused the handle. */
    struct cushim_graph_recording *stale = take(scope, stream, NULL);
    if (stale) {
        cushim_capture_end(stale->context);
        finish(stale, NULL);
    }
    struct cushim_graph_recording *recording = create(
        scope, handle, stream, mode != CU_STREAM_CAPTURE_MODE_RELAXED, options->allow_empty != 0);
    CUSHIM_FAIL_IF(scope->what, !recording, CUSHIM_NOMEM, "host memory");
    enum cushim_status status = attach(scope, recording, options);
    if (status == CUSHIM_OK) {
        cushim_capture_begin(scope->context);
        status = begin_driver(scope, recording, mode);
        if (status != CUSHIM_OK)
            cushim_capture_end(scope->context);
    }
    if (status != CUSHIM_OK) {
        finish(recording, NULL);
        return status;
    }
    for (size_t i = 0; i < recording->resources->n_arenas; i++)
        cushim_arena_graph_start(recording->resources->arenas[i], recording->id);
    CUSHIM_LOCKED(&lock);
    LL_PREPEND(recordings, recording);
    return CUSHIM_OK;
}

/* ---- end ---- */

/* End it in the driver; the capture is over even after an error. */
static CUresult end_driver(CUstream stream, CUgraph *graph) {
    *graph = NULL;
    CUresult result = CUSHIM_DRIVER(cuStreamEndCapture)(stream, graph);
    if (result == CUDA_SUCCESS)
        return result;
    *graph = NULL;
    if (cushim_capture_has(stream)) /* the call failed, not the capture */
        end_quietly(stream);
    return result;
}

/* Take what is to be ended. */
static enum cushim_status claim(struct cushim_scope *scope, CUstream stream,
                                struct cushim_graph_recording **recording) {
    bool is_others;
    *recording = take(scope, stream, &is_others);
    CUSHIM_FAIL_IF(scope->what, is_others, CUSHIM_CAPTURE, "stream=%p: another thread must end it",
                   (void *)stream);
    CUSHIM_FAIL_IF(scope->what, !*recording, CUSHIM_STATE, "stream=%p: no capture was begun on it",
                   (void *)stream);
    return CUSHIM_OK;
}

enum cushim_status cushim_graph_recording_end(struct cushim_scope *scope, CUstream stream,
                                              CUgraph *graph,
                                              struct cushim_graph_resources **resources) {
    struct cushim_graph_recording *recording;
    *graph = NULL;
    *resources = NULL;
    CUSHIM_TRY(claim(scope, stream, &recording));
    enum cushim_status status =
        cushim_scope_answer(scope, "cuStreamEndCapture", end_driver(stream, graph));
    cushim_capture_end(recording->context);
    size_t n_nodes = recording->allows_empty;
    if (status == CUSHIM_OK && !n_nodes)
        status = CUSHIM_CALL(scope, cuGraphGetNodes, *graph, NULL, &n_nodes);
    if (status == CUSHIM_OK && !n_nodes)
        status = cushim_scope_fail(scope, CUSHIM_EMPTYGRAPH, "nothing was captured");
    if (status != CUSHIM_OK && *graph) {
        CUSHIM_DRIVER(cuGraphDestroy)(*graph);
        *graph = NULL;
    }
    finish(recording, status == CUSHIM_OK ? resources : NULL);
    return status;
}

enum cushim_status cushim_graph_recording_abort(struct cushim_scope *scope, CUstream stream) {
    struct cushim_graph_recording *recording;
    CUgraph graph;
    CUSHIM_TRY(claim(scope, stream, &recording));
    CUresult result = end_driver(stream, &graph);
    /* An invalidated capture gives no graph, but an abort needs none. */
    enum cushim_status status = cushim_status_from_cu(result) == CUSHIM_CAPTURE
                                    ? CUSHIM_OK
                                    : cushim_scope_answer(scope, "cuStreamEndCapture", result);
    cushim_capture_end(recording->context);
    if (graph)
        CUSHIM_DRIVER(cuGraphDestroy)(graph);
    finish(recording, NULL);
    return status;
}

void cushim_graph_recording_lose(const struct cushim_stream *handle, bool is_dead) {
    struct cushim_graph_recording *recording = take_by_handle(handle);
    if (!recording)
        return;
    if (!is_dead)
        end_quietly(recording->stream);
    cushim_capture_end(recording->context);
    finish(recording, NULL);
}
