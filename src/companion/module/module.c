#include "companion/module/module.h"
#include "companion/capture/graph_resources.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "companion/context/address_map.h"
#include "companion/capture/known_captures.h"
#include "companion/module/function.h"
#include "memory/fence/stream_fence.h"

/* ---- loading ---- */

static void unload(CUmodule handle) {
    (void)CUSHIM_RELAXED(CUSHIM_DRIVER(cuModuleUnload)(handle));
}

static void finish(struct cushim_object *object) {
    struct cushim_module_object *module = (struct cushim_module_object *)object;
    CUSHIM_SCOPE scope = {0};
    if (cushim_call_begin_quietly(&scope, object->context))
        unload(module->handle);
    pthread_mutex_destroy(&module->lock);
    free(module->log);
    free(module);
}

/* The driver's module passes to the object, which is gone after a failure. */
static enum cushim_status adopt(struct cushim_scope *scope, CUmodule handle, const char *log,
                                struct cushim_module **m) {
    struct cushim_module_object *module = calloc(1, sizeof *module);
    if (!module) {
        unload(handle);
        return cushim_scope_fail(scope, CUSHIM_NOMEM, "bytes=%zu", sizeof *module);
    }
    module->handle = handle;
    module->log = *log ? strdup(log) : NULL; /* without memory nothing was said */
    pthread_mutex_init(&module->lock, NULL);
    cushim_object_init(&module->object, CUSHIM_KIND_MODULE, scope->context, finish);
    return cushim_object_open(&module->object, m);
}

enum cushim_status cushim_module_open(struct cushim_scope *scope, const void *image,
                                      struct cushim_jit *jit, const char *log,
                                      struct cushim_module **m) {
    CUmodule handle = NULL;
    CUSHIM_NEED_ENTRY(scope->what, cuModuleUnload);
    CUSHIM_NEED_ENTRY(scope->what, cuModuleLoadDataEx);
    CUresult result = CUSHIM_RELAXED(
        CUSHIM_DRIVER(cuModuleLoadDataEx)(&handle, image, jit->n, jit->names, jit->values));
    if (result != CUDA_SUCCESS) {
        enum cushim_status status = cushim_jit_fail(scope, jit, "cuModuleLoadDataEx", result);
        bool is_other_code = result == CUDA_ERROR_NO_BINARY_FOR_GPU && cushim_image_is_code(image);
        return is_other_code ? CUSHIM_NOBINARY : status; /* whatever was said of it */
    }
    return adopt(scope, handle, log, m);
}

/* The image as given, or in a file; `what` is the public function. */
static enum cushim_status load_image(const char *what, struct cushim_context *ctx,
                                     const void *image, size_t bytes,
                                     const struct cushim_module_options *opts,
                                     struct cushim_module **m) {
    CUSHIM_SCOPE scope = {0};
    struct cushim_jit jit;
    char *copy = NULL;
    cushim_graph_resources_collect();
    CUSHIM_TRY(cushim_jit_init(&jit, what, opts));
    enum cushim_status status = cushim_image_take(what, image, bytes, &copy);
    if (status == CUSHIM_OK)
        status = cushim_call_begin_context(&scope, what, ctx);
    if (status == CUSHIM_OK)
        status = cushim_module_open(&scope, copy ? copy : image, &jit, jit.infos, m);
    free(copy);
    cushim_jit_finish(&jit);
    return status;
}

enum cushim_status cushim_module_load(struct cushim_context *ctx, const void *image, size_t bytes,
                                      const struct cushim_module_options *opts,
                                      struct cushim_module **m) {
    CUSHIM_OUT(m);
    if (!image || bytes > PTRDIFF_MAX)
        return CUSHIM_FAIL(CUSHIM_INVALID, "image=%p bytes=%zu", image, bytes);
    return load_image(__func__, ctx, image, bytes, opts, m);
}

enum cushim_status cushim_module_load_file(struct cushim_context *ctx, const char *path,
                                           const struct cushim_module_options *opts,
                                           struct cushim_module **m) {
    char *image;
    size_t bytes;
    CUSHIM_OUT(m);
    CUSHIM_NEED(path);
    CUSHIM_TRY(cushim_driver_use(__func__));
    CUSHIM_TRY(cushim_image_read(__func__, path, &image, &bytes));
    enum cushim_status status = load_image(__func__, ctx, image, bytes, opts, m);
    free(image);
    return status;
}

enum cushim_status cushim_module_log(struct cushim_module *m, char *buf, size_t cap) {
    if (!buf || cap == 0 || cap > SIZE_MAX / 2)
        return CUSHIM_FAIL(CUSHIM_INVALID, "buf=%p cap=%zu", (void *)buf, cap);
    buf[0] = '\0';
    CUSHIM_ENTER(MODULE, module, m);
    return cushim_give_text(__func__, buf, cap, module->log ? module->log : "");
}

/* ---- unloading ---- */

static void forget_parts(struct cushim_module_object *module) {
    struct cushim_address_map_row row;
    pthread_mutex_lock(&module->lock);
    struct cushim_function_object *functions = module->functions;
    struct cushim_module_global *globals = module->globals;
    module->is_unloaded = true;
    module->functions = NULL;
    module->globals = NULL;
    pthread_mutex_unlock(&module->lock);
    while (functions) {
        struct cushim_function_object *function = functions;
        functions = function->next; /* first, because the close may free it */
        cushim_object_close(&function->object);
    }
    cushim_changes_note();
    while (globals) {
        struct cushim_module_global *global = globals;
        globals = global->next;
        if (cushim_address_map_erase(global->start, &row) == CUSHIM_OK)
            cushim_address_map_drop(&row);
        free(global);
    }
}

enum cushim_status cushim_module_unload(struct cushim_module *m) {
    CUSHIM_SCOPE scope = {0};
    struct cushim_module_object *module;
    if (!m)
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_driver_use_process(__func__));
    cushim_graph_resources_collect();
    /* an unload waits for the context, which no capture survives */
    CUSHIM_TRY(cushim_capture_refuse_handle(__func__, CUSHIM_KIND_MODULE, m));
    CUSHIM_TRY(cushim_call_begin_destroy(&scope, __func__, CUSHIM_KIND_MODULE, m, &module));
    forget_parts(module);
    enum cushim_status status =
        scope.is_dead ? CUSHIM_OK : cushim_mem_stream_fence_wait_all(&scope.context->fence);
    return status == CUSHIM_DEADCONTEXT ? CUSHIM_OK : status;
}

/* ---- what is in it ---- */

/* Under the lock. */
static struct cushim_function_object *find(struct cushim_module_object *module, const char *name) {
    struct cushim_function_object *function = module->functions;
    while (function && strcmp(function->name, name) != 0)
        function = function->next;
    return function;
}

/* The one of this name, if there is one, else `made`, which the module has from then on. */
static enum cushim_status put_function(struct cushim_scope *scope,
                                       struct cushim_module_object *module, const char *name,
                                       struct cushim_function_object *made,
                                       struct cushim_function **f) {
    pthread_mutex_lock(&module->lock);
    bool is_gone = module->is_unloaded;
    struct cushim_function_object *function = find(module, name);
    if (!is_gone && !function && made) {
        made->next = module->functions;
        module->functions = function = made;
    }
    *f = function ? function->object.handle : NULL;
    pthread_mutex_unlock(&module->lock);
    return is_gone ? cushim_scope_fail(scope, CUSHIM_BADHANDLE, "unloaded meanwhile") : CUSHIM_OK;
}

static enum cushim_status get_function(struct cushim_scope *scope,
                                       struct cushim_module_object *module, const char *name,
                                       struct cushim_function **f) {
    struct cushim_function_object *made;
    struct cushim_function *handle;
    CUSHIM_TRY(put_function(scope, module, name, NULL, f));
    if (*f)
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_function_make(scope, module, name, &made));
    CUSHIM_TRY(cushim_object_open(&made->object, &handle));
    enum cushim_status status = put_function(scope, module, name, made, f);
    if (*f != handle) /* another thread was first, or it is unloaded */
        cushim_object_close(&made->object);
    return status;
}

enum cushim_status cushim_module_function(struct cushim_module *m, const char *name,
                                          struct cushim_function **f) {
    CUSHIM_OUT(f);
    CUSHIM_NEED(name);
    CUSHIM_ENTER(MODULE, module, m);
    return get_function(&scope, module, name, f);
}

/* Record a row for the variable, if there is none; the unload erases it. */
static enum cushim_status record(struct cushim_scope *scope, struct cushim_module_object *module,
                                 uint64_t start, size_t bytes) {
    const struct cushim_address_map_row row = cushim_address_map_row_of(
        CUSHIM_MEMORY_GLOBAL, start, bytes, scope->context, &module->object);
    struct cushim_module_global *global = malloc(sizeof *global), *noted;
    enum cushim_status status = global ? CUSHIM_OK : CUSHIM_NOMEM;
    pthread_mutex_lock(&module->lock);
    LL_SEARCH_SCALAR(module->globals, noted, start, start);
    if (global && !module->is_unloaded && !noted) {
        *global = (struct cushim_module_global){start, module->globals};
        module->globals = global;
        global = NULL;
        status = cushim_address_map_record(&row);
    }
    pthread_mutex_unlock(&module->lock);
    free(global);
    /* A row that overlaps is stale, because the driver has put the variable there. */
    return status == CUSHIM_NOMEM
               ? cushim_scope_fail(scope, CUSHIM_NOMEM, "ptr=0x%llx", (unsigned long long)start)
               : CUSHIM_OK;
}

enum cushim_status cushim_module_global(struct cushim_module *m, const char *name, cushim_devptr *p,
                                        size_t *bytes) {
    CUdeviceptr start = 0;
    size_t n_bytes = 0;
    CUSHIM_CLEAR(bytes);
    CUSHIM_CLEAR(p);
    if (!p || !name)
        return CUSHIM_FAIL(CUSHIM_INVALID, "name=%s p=%p", name ? name : "NULL", (void *)p);
    CUSHIM_ENTER(MODULE, module, m);
    CUSHIM_NEED_ENTRY(__func__, cuModuleGetGlobal_v2);
    /* the first look may load it */
    CUresult result =
        CUSHIM_RELAXED(CUSHIM_DRIVER(cuModuleGetGlobal_v2)(&start, &n_bytes, module->handle, name));
    if (result != CUDA_SUCCESS)
        return cushim_scope_fail_cu(&scope, "cuModuleGetGlobal_v2", result, "device=%d name=%s",
                                    scope.context->device, name);
    CUSHIM_TRY(record(&scope, module, start, n_bytes ? n_bytes : 1));
    *p = start;
    if (bytes)
        *bytes = n_bytes;
    return CUSHIM_OK;
}
