/* The public calls that capture (cushim/graph.h), and the captures that they begin. */

#include <stdlib.h>
#include <utlist.h>

#include "cuda/translate.h"
#include "companion/capture/known_captures.h"
#include "companion/arena/arena.h"
#include "companion/graph/graph.h"
#include "companion/pool/pool.h"
#include "base/lock.h"

/*
 * Recordings: captures that were begun through this library and are open.
 *
 * A recording has the stream it began on, the pools and arenas attached to it, and the resources
 * that the graph will own.  It is counted with its context (companion/capture/known_captures.h)
 * from before the driver begins until after the driver ended.  The thread that ends it takes it off
 * the list first, so only one thread does.  Each end detaches the pools and stops the arenas.
 *
 * Lock: one mutex for the list, held over no driver call.
 */
struct recording {
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
    struct recording *next;                   /* lock */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct recording *recordings;

/* ---- the list ---- */

static bool is_mine(const struct recording *recording) {
    return pthread_equal(recording->thread, pthread_self());
}

/* Take it off the list; NULL: there is none.  With is_others, one that another thread must end
 * stays in the list, and *is_others is true. */
static struct recording *take(const struct cushim_scope *scope, CUstream stream, bool *is_others) {
    struct recording *found;
    CUSHIM_LOCKED(&lock);
    LL_FOREACH(recordings, found) {
        if (found->stream == stream && cushim_context_is_same(found->context, scope->context) &&
            (stream != CU_STREAM_PER_THREAD || is_mine(found)))
            break;
    }
    if (is_others && (*is_others = found && found->is_threads && !is_mine(found)))
        return NULL;
    if (found)
        LL_DELETE(recordings, found);
    return found;
}

static struct recording *take_by_handle(const struct cushim_stream *handle) {
    struct recording *found;
    CUSHIM_LOCKED(&lock);
    LL_FOREACH(recordings, found) {
        if (found->handle == handle && (handle != CUSHIM_STREAM_PER_THREAD || is_mine(found)))
            break;
    }
    if (found)
        LL_DELETE(recordings, found);
    return found;
}

void cushim_graph_recording_note_bytes(uint64_t capture_id, size_t bytes) {
    CUSHIM_LOCKED(&lock);
    for (struct recording *recording = recordings; recording; recording = recording->next) {
        if (recording->id == capture_id)
            atomic_fetch_add(&recording->resources->host_bytes, bytes);
    }
}

/* ---- what is attached ---- */

/* With `keeps`, the memory of the capture goes to its resources, else back at once. */
static void detach(struct recording *recording, bool keeps) {
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
static void finish(struct recording *recording, struct cushim_graph_resources **resources) {
    detach(recording, resources != NULL);
    if (resources)
        *resources = recording->resources;
    else
        cushim_graph_resources_disown(recording->resources, false);
    cushim_object_release(recording->context);
    free(recording);
    cushim_graph_resources_give_back(); /* the memory of a capture that gave no graph */
}

static enum cushim_status attach_pool(struct cushim_scope *scope, struct recording *recording,
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
static enum cushim_status attach(struct cushim_scope *scope, struct recording *recording,
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

static enum cushim_status begin_driver(struct cushim_scope *scope, struct recording *recording,
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

static struct recording *create(struct cushim_scope *scope, const struct cushim_stream *handle,
                                CUstream stream, bool is_threads, bool allows_empty) {
    struct recording *recording = calloc(1, sizeof *recording);
    if (!recording)
        return NULL;
    *recording = (struct recording){.handle = handle,
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

/*
 * Begin to capture.  `handle` is the public argument, a way to find the recording when the context
 * died.  After a failure nothing is left.
 */
static enum cushim_status start(struct cushim_scope *scope, const struct cushim_stream *handle,
                                CUstream stream, const struct cushim_graph_options *options,
                                CUstreamCaptureMode mode) {
    CUSHIM_TRY(check_driver(scope));
    CUSHIM_TRY(cushim_capture_refuse_stream(scope, stream));
    /* A recording that the driver does not know: other code destroyed its stream, and the driver
     * has reused the handle. */
    struct recording *stale = take(scope, stream, NULL);
    if (stale) {
        cushim_capture_end(stale->context);
        finish(stale, NULL);
    }
    struct recording *recording = create(
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
                                struct recording **recording) {
    bool is_others;
    *recording = take(scope, stream, &is_others);
    CUSHIM_FAIL_IF(scope->what, is_others, CUSHIM_CAPTURE, "stream=%p: another thread must end it",
                   (void *)stream);
    CUSHIM_FAIL_IF(scope->what, !*recording, CUSHIM_STATE, "stream=%p: no capture was begun on it",
                   (void *)stream);
    return CUSHIM_OK;
}

/*
 * End it.  *graph, the caller's from here on, and *resources, what it keeps, the caller being the
 * owner, are NULL after a failure.  CUSHIM_OK | CUSHIM_STATE (none was begun here) |
 * CUSHIM_EMPTYGRAPH | CUSHIM_CAPTURE (it was invalidated and is over, or it is another thread's to
 * end and goes on) | the driver's
 */
static enum cushim_status stop(struct cushim_scope *scope, CUstream stream, CUgraph *graph,
                               struct cushim_graph_resources **resources) {
    struct recording *recording;
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

/* The context cannot be entered (is_dead: it is gone), so the capture of this handle is over. */
static void lose(const struct cushim_stream *handle, bool is_dead) {
    struct recording *recording = take_by_handle(handle);
    if (!recording)
        return;
    if (!is_dead)
        end_quietly(recording->stream);
    cushim_capture_end(recording->context);
    finish(recording, NULL);
}

/* ---- options ---- */

void cushim_graph_options_default(struct cushim_graph_options *options) {
    if (options)
        *options = (struct cushim_graph_options){.struct_size = sizeof *options};
}

static enum cushim_status check_options(const char *what,
                                        const struct cushim_graph_options *options) {
    if ((unsigned)options->mode > CUSHIM_GRAPH_MODE_GLOBAL)
        return cushim_fail(what, CUSHIM_INVALID, "mode=%d", (int)options->mode);
    if (options->memory < CUSHIM_GRAPH_MEMORY_HOLD || options->memory > CUSHIM_GRAPH_MEMORY_REFUSE)
        return cushim_fail(what, CUSHIM_INVALID, "memory=%d", options->memory);
    if (options->n_pools > CUSHIM_GRAPH_RESOURCES_MOST || (options->n_pools && !options->pools))
        return cushim_fail(what, CUSHIM_INVALID, "n_pools=%zu", options->n_pools);
    if (options->n_arenas > CUSHIM_GRAPH_RESOURCES_MOST || (options->n_arenas && !options->arenas))
        return cushim_fail(what, CUSHIM_INVALID, "n_arenas=%zu", options->n_arenas);
    CUSHIM_FAIL_IF(what, !cushim_settings()->graph, CUSHIM_NOTSUPPORTED, "CUSHIM_GRAPH=0");
    return CUSHIM_OK;
}

static enum cushim_status take_options(const char *what, const struct cushim_graph_options *given,
                                       struct cushim_graph_options *options) {
    cushim_graph_options_default(options);
    CUSHIM_TRY(cushim_struct_size_take(what, options, sizeof *options, given));
    return check_options(what, options);
}

static CUstreamCaptureMode mode_of(enum cushim_graph_mode mode,
                                   enum cushim_graph_mode default_mode) {
    switch (mode == CUSHIM_GRAPH_MODE_DEFAULT ? default_mode : mode) {
    case CUSHIM_GRAPH_MODE_THREAD_LOCAL:
        return CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    case CUSHIM_GRAPH_MODE_GLOBAL:
        return CU_STREAM_CAPTURE_MODE_GLOBAL;
    default:
        return CU_STREAM_CAPTURE_MODE_RELAXED;
    }
}

/* ---- by stream ---- */

static enum cushim_status begin(const char *what, struct cushim_stream *s,
                                const struct cushim_graph_options *options, int default_mode) {
    CUSHIM_SCOPE scope = {0};
    struct cushim_stream_use use;
    CUSHIM_FAIL_IF(what, !s, CUSHIM_INVALID, "the legacy stream cannot be captured");
    CUSHIM_TRY(cushim_stream_enter(&scope, what, s, &use));
    if (!use.handle || use.handle == CU_STREAM_LEGACY)
        return cushim_scope_fail(&scope, CUSHIM_INVALID, "the legacy stream cannot be captured");
    return start(&scope, s, use.handle, options, mode_of(options->mode, default_mode));
}

/* As cushim_stream_enter; if that fails for a stream that we capture, the capture is over. */
static enum cushim_status enter_end(struct cushim_scope *scope, const char *what,
                                    struct cushim_stream *s, struct cushim_stream_use *use) {
    CUSHIM_FAIL_IF(what, !s, CUSHIM_STATE, "no capture was begun on the legacy stream");
    enum cushim_status status = cushim_stream_enter(scope, what, s, use);
    if (status != CUSHIM_OK) /* the driver may be called only if the stream is certainly alive */
        lose(s,
             status == CUSHIM_DEADCONTEXT || status == CUSHIM_BADHANDLE || status == CUSHIM_NOCUDA);
    return status;
}

static enum cushim_status end(const char *what, struct cushim_stream *s, struct cushim_graph **g) {
    CUSHIM_SCOPE scope = {0};
    struct cushim_stream_use use;
    struct cushim_graph_resources *resources;
    CUgraph graph;
    CUSHIM_TRY(enter_end(&scope, what, s, &use));
    CUSHIM_TRY(stop(&scope, use.handle, &graph, &resources));
    enum cushim_status status = cushim_graph_resources_bind(&scope, resources, graph);
    if (status == CUSHIM_OK)
        return cushim_graph_open(&scope, graph, false, resources, g);
    CUSHIM_DRIVER(cuGraphDestroy)(graph);
    cushim_graph_resources_disown(resources, false);
    return status;
}

static enum cushim_status drop(const char *what, struct cushim_stream *s) {
    CUSHIM_SCOPE scope = {0};
    struct cushim_stream_use use;
    struct recording *recording;
    CUgraph graph;
    CUSHIM_TRY(enter_end(&scope, what, s, &use));
    CUSHIM_TRY(claim(&scope, use.handle, &recording));
    CUresult result = end_driver(use.handle, &graph);
    /* An invalidated capture gives no graph, but an abort needs none. */
    enum cushim_status status = cushim_status_from_cu(result) == CUSHIM_CAPTURE
                                    ? CUSHIM_OK
                                    : cushim_scope_answer(&scope, "cuStreamEndCapture", result);
    cushim_capture_end(recording->context);
    if (graph)
        CUSHIM_DRIVER(cuGraphDestroy)(graph);
    finish(recording, NULL);
    return status;
}

enum cushim_status cushim_graph_begin(struct cushim_stream *s,
                                      const struct cushim_graph_options *options) {
    struct cushim_graph_options taken;
    CUSHIM_TRY(take_options(__func__, options, &taken));
    return begin(__func__, s, &taken, CUSHIM_GRAPH_MODE_RELAXED);
}

enum cushim_status cushim_graph_end(struct cushim_stream *s, struct cushim_graph **g) {
    CUSHIM_OUT(g);
    return cushim_graph_resources_collected(end(__func__, s, g));
}

enum cushim_status cushim_graph_abort(struct cushim_stream *s) {
    return cushim_graph_resources_collected(drop(__func__, s));
}

/* ---- with a callback ---- */

/* Run fn between begin and end; the capture always ends. */
static enum cushim_status capture(const char *what, struct cushim_stream *s,
                                  const struct cushim_graph_options *options, cushim_graph_fn *fn,
                                  void *cookie, int *result, struct cushim_graph **g) {
    CUSHIM_TRY(begin(what, s, options, CUSHIM_GRAPH_MODE_THREAD_LOCAL));
    *result = fn(s, cookie);
    if (*result == 0)
        return end(what, s, g);
    drop(what, s);
    return cushim_fail(what, CUSHIM_CALLBACK, "fn_result=%d", *result);
}

enum cushim_status cushim_graph_capture(struct cushim_stream *s,
                                        const struct cushim_graph_options *options,
                                        cushim_graph_fn *fn, void *cookie, int *fn_result,
                                        struct cushim_graph **g, struct cushim_graphexec **x) {
    struct cushim_graph_options taken;
    struct cushim_graph *graph = NULL;
    int result = 0;
    CUSHIM_CLEAR(fn_result);
    CUSHIM_CLEAR(g);
    CUSHIM_CLEAR(x);
    CUSHIM_FAIL_IF(__func__, !fn || (!g && !x), CUSHIM_INVALID, fn ? "g=NULL x=NULL" : "fn=NULL");
    CUSHIM_TRY(take_options(__func__, options, &taken));
    enum cushim_status status = capture(__func__, s, &taken, fn, cookie, &result, &graph);
    if (fn_result)
        *fn_result = result;
    if (status == CUSHIM_OK && x)
        status = cushim_graph_instantiate(graph, taken.flags, x);
    if (status == CUSHIM_OK && g)
        *g = graph;
    else
        cushim_graph_destroy(graph);
    return status;
}

/* ---- questions ---- */

enum cushim_status cushim_graph_status(struct cushim_stream *s, int *v) {
    CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
    CUSHIM_OUT(v);
    if (!s)
        return CUSHIM_OK;
    CUSHIM_ENTER_STREAM(use, s);
    if (use.handle && use.handle != CU_STREAM_LEGACY)
        CUSHIM_TRY(CUSHIM_CALL(&scope, cuStreamIsCapturing, use.handle, &state));
    if (state != CU_STREAM_CAPTURE_STATUS_NONE)
        *v = state == CU_STREAM_CAPTURE_STATUS_ACTIVE ? 1 : 2;
    return CUSHIM_OK;
}

enum cushim_status cushim_graph_capturing(struct cushim_context *ctx, int *n) {
    CUSHIM_OUT(n);
    CUSHIM_ENTER_CONTEXT(ctx);
    *n = cushim_capture_count(scope.context);
    return CUSHIM_OK;
}
