/* Launches: a shape, a stream, arguments. */

#include "companion/capture/graph_resources.h"
#include "companion/capture/known_captures.h"
#include "companion/stream/event.h"
#include "companion/module/launch.h"

void cushim_launch_default(struct cushim_launch *launch) {
    if (launch)
        *launch = (struct cushim_launch){
            .struct_size = sizeof *launch, .grid = {1, 1, 1}, .block = {1, 1, 1}};
}

/* The caller's struct, or a copy of one that is of another size. */
static inline enum cushim_status take(struct cushim_scope *scope, const struct cushim_launch *given,
                                      struct cushim_launch *copy,
                                      const struct cushim_launch **out) {
    *out = given;
    CUSHIM_FAIL_IF(scope->what, !given, CUSHIM_INVALID, "launch=NULL");
    if (unlikely(given->struct_size != sizeof *given)) {
        cushim_launch_default(copy);
        CUSHIM_TRY(cushim_struct_size_take(scope->what, copy, sizeof *copy, given));
        *out = given = copy;
    }
    if (given->block[0] && given->block[1] && given->block[2])
        return CUSHIM_OK;
    return cushim_scope_fail(scope, CUSHIM_INVALID, "block=%u,%u,%u", given->block[0],
                             given->block[1], given->block[2]);
}

/* With an attribute: what cuLaunchCooperativeKernel does, and packed arguments too. */
static enum cushim_status run_cooperative(struct cushim_scope *scope, CUfunction handle,
                                          const struct cushim_launch *launch, CUstream stream,
                                          struct cushim_args args) {
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value.cooperative = 1};
    const CUlaunchConfig config = {.gridDimX = cushim_launch_blocks(launch->grid[0]),
                                   .gridDimY = cushim_launch_blocks(launch->grid[1]),
                                   .gridDimZ = cushim_launch_blocks(launch->grid[2]),
                                   .blockDimX = launch->block[0],
                                   .blockDimY = launch->block[1],
                                   .blockDimZ = launch->block[2],
                                   .sharedMemBytes = launch->shared_bytes,
                                   .hStream = stream,
                                   .attrs = &attribute,
                                   .numAttrs = 1};
    if (CUSHIM_DRIVER(cuLaunchKernelEx) || args.packed)
        return CUSHIM_CALL(scope, cuLaunchKernelEx, &config, handle,
                           cushim_args_for_driver(args.each), args.packed);
    return CUSHIM_CALL(scope, cuLaunchCooperativeKernel, handle, config.gridDimX, config.gridDimY,
                       config.gridDimZ, config.blockDimX, config.blockDimY, config.blockDimZ,
                       config.sharedMemBytes, stream, cushim_args_for_driver(args.each));
}

/* ---- graphs keep modules ---- */

static void release_module(void *module) {
    cushim_object_release(module);
}

/* No memory of pools and arenas. */
static void give_back(struct cushim_graph_resources *resources) {
    (void)resources;
}

/*
 * A kernel of the module goes into the capture of this stream, if there is one.  A user object on
 * the graph that is being captured holds a reference, which is released by the next call that
 * collects after the graph and all its copies are gone.  Launches of one module in a row into one
 * capture make one user object.
 */
static enum cushim_status keep_module(struct cushim_scope *scope,
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

/* ---- launches ---- */

static COLD enum cushim_status tell(struct cushim_scope *scope,
                                    const struct cushim_function_object *function,
                                    const struct cushim_launch *launch, CUresult result) {
    return cushim_scope_fail_cu(
        scope, "cuLaunchKernel", result,
        "device=%d function=%s grid=%u,%u,%u block=%u,%u,%u shared_bytes=%u",
        scope->context->device, function->name, launch->grid[0], launch->grid[1], launch->grid[2],
        launch->block[0], launch->block[1], launch->block[2], launch->shared_bytes);
}

ALWAYS_INLINE enum cushim_status submit(struct cushim_scope *scope,
                                        struct cushim_function_object *function,
                                        const struct cushim_launch *launch, CUstream stream,
                                        struct cushim_args args) {
    if (unlikely(cushim_launch_may_capture(scope->context)))
        CUSHIM_TRY(!stream || stream == CU_STREAM_LEGACY
                       ? cushim_capture_refuse(scope)
                       : keep_module(scope, function->module, stream));
    if (unlikely(launch->cooperative))
        return run_cooperative(scope, function->fast.handle, launch, stream, args);
    if (unlikely(!load_relaxed(&CUSHIM_DRIVER(cuLaunchKernel))))
        return cushim_fail_nosym(scope->what, "cuLaunchKernel");
    CUresult result = cushim_launch_submit(function->fast.handle, launch, stream, args);
    return likely(result == CUDA_SUCCESS) ? CUSHIM_OK : tell(scope, function, launch, result);
}

enum cushim_status cushim_function_run(struct cushim_scope *scope,
                                       struct cushim_function_object *function,
                                       const struct cushim_launch *launch,
                                       struct cushim_args args) {
    struct cushim_launch copy;
    CUSHIM_STREAM_USE use = {0};
    CUSHIM_TRY(take(scope, launch, &copy, &launch));
    CUSHIM_TRY(cushim_stream_use_here(scope, launch->stream, &use));
    return submit(scope, function, launch, use.handle, args);
}

COLD enum cushim_status cushim_launch_tell(const char *what,
                                           const struct cushim_function_object *function,
                                           const struct cushim_launch *launch, CUresult result) {
    struct cushim_scope scope = {.what = what, .context = function->object.context};
    return tell(&scope, function, launch, result);
}

/* ---- the public ones ---- */

static enum cushim_status check_count(struct cushim_scope *scope,
                                      const struct cushim_function_object *function,
                                      const void *const *args, size_t n) {
    CUSHIM_FAIL_IF(scope->what, function->has_layout && n != function->n_params, CUSHIM_INVALID,
                   "function=%s n=%zu parameters=%zu", function->name, n, function->n_params);
    size_t n_there = cushim_args_count(args, n); /* n is checked by now */
    return n_there == n ? CUSHIM_OK
                        : cushim_scope_fail(scope, CUSHIM_INVALID, "function=%s index=%zu: NULL",
                                            function->name, n_there);
}

/* From the start. */
static COLD enum cushim_status launch_slowly(const char *what, struct cushim_function *f,
                                             const struct cushim_launch *launch,
                                             const void *const *args, size_t n) {
    uint64_t n_changes = cushim_changes_now(); /* read before the conditions are checked */
    CUSHIM_ENTER_AS(what, FUNCTION, function, f);
    CUSHIM_TRY(check_count(&scope, function, args, n));
    CUSHIM_TRY(cushim_function_run(&scope, function, launch,
                                   (struct cushim_args){.each = n ? args : NULL}));
    if (!cushim_launch_may_capture(scope.context))
        cushim_pin_note_fast(&function->fast.n_fast, n_changes);
    return CUSHIM_OK;
}

enum cushim_status cushim_function_launch(struct cushim_function *f,
                                          const struct cushim_launch *launch,
                                          const void *const *args, size_t n) {
    enum cushim_status status = CUSHIM_OK;
    if (likely(cushim_launch_fast(__func__, CUSHIM_KIND_FUNCTION, f, launch, args, n, &status)))
        return status;
    return launch_slowly(__func__, f, launch, args, n);
}

enum cushim_status cushim_function_launch_packed(struct cushim_function *f,
                                                 const struct cushim_launch *launch,
                                                 const void *buf, size_t bytes) {
    /* The driver only reads the buffer, although its prototype is not const. */
    union {
        const void *given;
        void *taken;
    } buffer = {.given = buf};
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer.taken, CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &bytes, CU_LAUNCH_PARAM_END};
    CUSHIM_FAIL_IF(__func__, !buf && bytes, CUSHIM_INVALID, "buf=NULL bytes=%zu", bytes);
    CUSHIM_ENTER(FUNCTION, function, f);
    if (function->has_layout && bytes != function->n_bytes)
        return cushim_scope_fail(&scope, CUSHIM_INVALID, "function=%s bytes=%zu parameters=%zu",
                                 function->name, bytes, function->n_bytes);
    return cushim_function_run(&scope, function, launch,
                               (struct cushim_args){.packed = bytes ? extra : NULL});
}

/* ---- timed ---- */

struct timed {
    struct cushim_event_object *start, *end;
};

static enum cushim_status run_between(struct cushim_scope *scope,
                                      struct cushim_function_object *function,
                                      const struct cushim_launch *launch, CUstream stream,
                                      const void *const *args, struct timed *events, float *ms) {
    CUSHIM_TRY(cushim_stream_refuse_captured(scope, stream));
    CUSHIM_TRY(cushim_event_make(scope, 0, &events->start));
    CUSHIM_TRY(cushim_event_make(scope, 0, &events->end));
    CUSHIM_TRY(cushim_event_record_in(scope, events->start, stream));
    CUSHIM_TRY(submit(scope, function, launch, stream, (struct cushim_args){.each = args}));
    CUSHIM_TRY(cushim_event_record_in(scope, events->end, stream));
    CUSHIM_TRY(cushim_event_wait_in(scope, events->end));
    return cushim_event_elapsed_in(scope, events->start, events->end, ms);
}

enum cushim_status cushim_function_launch_timed(struct cushim_function *f,
                                                const struct cushim_launch *launch,
                                                const void *const *args, size_t n, float *ms) {
    struct cushim_launch copy;
    struct timed events = {NULL, NULL};
    CUSHIM_STREAM_USE use = {0};
    CUSHIM_OUT(ms);
    CUSHIM_ENTER(FUNCTION, function, f);
    CUSHIM_TRY(check_count(&scope, function, args, n));
    CUSHIM_TRY(take(&scope, launch, &copy, &launch));
    CUSHIM_TRY(cushim_stream_use_in(&scope, launch->stream, &use));
    enum cushim_status status =
        run_between(&scope, function, launch, use.handle, n ? args : NULL, &events, ms);
    cushim_object_release(events.start);
    cushim_object_release(events.end);
    return status;
}
