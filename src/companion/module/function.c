/* Functions as objects, and what the driver knows of them. */
#include "companion/module/function.h"
#include "companion/module/launch.h"

#include <stdlib.h>
#include <string.h>

#include "companion/capture/known_captures.h"

/* ---- making ---- */

static void finish(struct cushim_object *object) {
    struct cushim_function_object *function = (struct cushim_function_object *)object;
    cushim_object_release(function->module);
    free(function->params);
    free(function->name);
    free(function);
}

static bool add_param(struct cushim_function_object *function, size_t offset, size_t bytes) {
    size_t n = function->n_params + 1;
    struct cushim_param *params = realloc(function->params, n * sizeof *params);
    if (!params)
        return false;
    params[n - 1] = (struct cushim_param){offset, bytes};
    function->params = params;
    function->n_params = n;
    function->n_bytes = offset + bytes;
    return true;
}

/* Ask for one parameter after the other, until the driver has none of that number. */
static enum cushim_status ask_layout(struct cushim_scope *scope,
                                     struct cushim_function_object *function) {
    size_t offset, bytes;
    if (!CUSHIM_DRIVER(cuFuncGetParamInfo))
        return CUSHIM_OK;
    for (;;) {
        CUresult result = CUSHIM_DRIVER(cuFuncGetParamInfo)(function->fast.handle,
                                                            function->n_params, &offset, &bytes);
        if (result == CUDA_ERROR_INVALID_VALUE) {
            function->has_layout = true;
            function->fast.n = function->n_params;
            return CUSHIM_OK;
        }
        CUSHIM_TRY(cushim_scope_answer(scope, "cuFuncGetParamInfo", result));
        if (!add_param(function, offset, bytes))
            return cushim_scope_fail(scope, CUSHIM_NOMEM, "parameters=%zu", function->n_params);
    }
}

static enum cushim_status ask(struct cushim_scope *scope, struct cushim_function_object *function,
                              const char *name) {
    CUSHIM_NEED_ENTRY(scope->what, cuModuleGetFunction);
    CUresult result =
        CUSHIM_DRIVER(cuModuleGetFunction)(&function->fast.handle, function->module->handle, name);
    if (result != CUDA_SUCCESS)
        return cushim_scope_fail_cu(scope, "cuModuleGetFunction", result, "device=%d name=%s",
                                    scope->context->device, name);
    return ask_layout(scope, function);
}

enum cushim_status cushim_function_make(struct cushim_scope *scope,
                                        struct cushim_module_object *module, const char *name,
                                        struct cushim_function_object **out) {
    struct cushim_function_object *function = cushim_object_alloc(sizeof *function);
    *out = NULL;
    if (!function || !(function->name = strdup(name))) {
        free(function);
        return cushim_scope_fail(scope, CUSHIM_NOMEM, "name=%s", name);
    }
    function->module = cushim_object_keep(module);
    function->fast.function = function;
    function->fast.n = SIZE_MAX;
    function->fast.must_be_current = cushim_launch_context(scope->context);
    cushim_object_init(&function->object, CUSHIM_KIND_FUNCTION, scope->context, finish);
    /* the first look may load the code */
    enum cushim_status status = CUSHIM_RELAXED(ask(scope, function, name));
    if (status == CUSHIM_OK)
        *out = function;
    else
        cushim_object_release(function);
    return status;
}

/* ---- facts ---- */

enum cushim_status cushim_function_attribute(struct cushim_function *f, int attr, int *value) {
    CUSHIM_OUT(value);
    CUSHIM_ENTER(FUNCTION, function, f);
    return CUSHIM_CALL(&scope, cuFuncGetAttribute, value, (CUfunction_attribute)attr,
                       function->fast.handle);
}

enum cushim_status cushim_function_attribute_set(struct cushim_function *f, int attr, int value) {
    CUSHIM_ENTER(FUNCTION, function, f);
    return CUSHIM_CALL(&scope, cuFuncSetAttribute, function->fast.handle,
                       (CUfunction_attribute)attr, value);
}

enum cushim_status cushim_function_cache(struct cushim_function *f, int cache) {
    if (cache < CU_FUNC_CACHE_PREFER_NONE || cache > CU_FUNC_CACHE_PREFER_EQUAL)
        return CUSHIM_FAIL(CUSHIM_INVALID, "cache=%d", cache);
    CUSHIM_ENTER(FUNCTION, function, f);
    return CUSHIM_CALL(&scope, cuFuncSetCacheConfig, function->fast.handle, (CUfunc_cache)cache);
}

enum cushim_status cushim_function_occupancy(struct cushim_function *f, int threads,
                                             size_t shared_bytes, int *blocks) {
    CUSHIM_OUT(blocks);
    if (threads <= 0 || shared_bytes > SIZE_MAX / 2)
        return CUSHIM_FAIL(CUSHIM_INVALID, "threads=%d shared=%zu", threads, shared_bytes);
    CUSHIM_ENTER(FUNCTION, function, f);
    return CUSHIM_CALL(&scope, cuOccupancyMaxActiveBlocksPerMultiprocessor, blocks,
                       function->fast.handle, threads, shared_bytes);
}

enum cushim_status cushim_function_suggest(struct cushim_function *f, size_t shared_bytes,
                                           int limit, int *grid, int *block) {
    if (!grid || !block)
        return CUSHIM_FAIL(CUSHIM_INVALID, "grid=%p block=%p", (void *)grid, (void *)block);
    *grid = *block = 0;
    if (limit < 0 || shared_bytes > SIZE_MAX / 2)
        return CUSHIM_FAIL(CUSHIM_INVALID, "limit=%d shared=%zu", limit, shared_bytes);
    CUSHIM_ENTER(FUNCTION, function, f);
    return CUSHIM_CALL(&scope, cuOccupancyMaxPotentialBlockSize, grid, block, function->fast.handle,
                       NULL, shared_bytes, limit);
}
