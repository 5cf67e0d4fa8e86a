/* The public calls that capture (cushim/graph.h). */

#include "companion/capture/known_captures.h"
#include "companion/graph/graph.h"

void cushim_graph_options_default(struct cushim_graph_options *options) {
    if (options)
        *options = (struct cushim_graph_options){.struct_size = sizeof *options};
}

/* ---- options ---- */

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

/* ---- begin and end ---- */

static enum cushim_status begin(const char *what, struct cushim_stream *s,
                                const struct cushim_graph_options *options, int default_mode) {
    CUSHIM_SCOPE scope = {0};
    struct cushim_stream_use use;
    CUSHIM_FAIL_IF(what, !s, CUSHIM_INVALID, "the legacy stream cannot be captured");
    CUSHIM_TRY(cushim_stream_enter(&scope, what, s, &use));
    if (!use.handle || use.handle == CU_STREAM_LEGACY)
        return cushim_scope_fail(&scope, CUSHIM_INVALID, "the legacy stream cannot be captured");
    return cushim_graph_recording_begin(&scope, s, use.handle, options,
                                        mode_of(options->mode, default_mode));
}

/* As cushim_stream_enter; if that fails for a stream that we capture, the capture is over. */
static enum cushim_status enter_end(struct cushim_scope *scope, const char *what,
                                    struct cushim_stream *s, struct cushim_stream_use *use) {
    CUSHIM_FAIL_IF(what, !s, CUSHIM_STATE, "no capture was begun on the legacy stream");
    enum cushim_status status = cushim_stream_enter(scope, what, s, use);
    if (status != CUSHIM_OK) /* the driver may be called only if the stream is certainly alive */
        cushim_graph_recording_lose(s, status == CUSHIM_DEADCONTEXT || status == CUSHIM_BADHANDLE ||
                                           status == CUSHIM_NOCUDA);
    return status;
}

static enum cushim_status end(const char *what, struct cushim_stream *s, struct cushim_graph **g) {
    CUSHIM_SCOPE scope = {0};
    struct cushim_stream_use use;
    struct cushim_graph_resources *resources;
    CUgraph graph;
    CUSHIM_TRY(enter_end(&scope, what, s, &use));
    CUSHIM_TRY(cushim_graph_recording_end(&scope, use.handle, &graph, &resources));
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
    CUSHIM_TRY(enter_end(&scope, what, s, &use));
    return cushim_graph_recording_abort(&scope, use.handle);
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
