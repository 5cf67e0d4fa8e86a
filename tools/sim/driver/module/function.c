#include "function.h"

#include "tools/sim/driver/core/calls.h"
#include "tools/sim/driver/core/handle.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sim_function *functions;

/* An address arrives as void *, and ISO C has no cast from it to a function: copy the bytes. */
static void look_up(struct sim_function *function) {
    char symbol[512];
    void *address;
    if (function->kernel)
        return;
    snprintf(symbol, sizeof symbol, "sim_kernel_%s", function->name);
    address = dlsym(RTLD_DEFAULT, symbol);
    memcpy(&function->kernel, &address, sizeof address);
    snprintf(symbol, sizeof symbol, "sim_params_%s", function->name);
    function->param_bytes = dlsym(RTLD_DEFAULT, symbol);
}

static void do_nothing(const struct sim_launch *launch, void **args) {
    (void)launch, (void)args;
}

void sim_function_declare(struct sim_function *function, const size_t *sizes, size_t n_sizes) {
    size_t *kept = calloc(n_sizes, sizeof *kept);
    if (!kept)
        return;
    memcpy(kept, sizes, n_sizes * sizeof *kept);
    function->param_bytes = kept;
    function->kernel = do_nothing;
}

size_t sim_function_offset(const struct sim_function *function, size_t i) {
    const size_t *sizes = function->param_bytes;
    size_t offset = 0;
    for (size_t k = 0; sizes && sizes[k] && k <= i; k++) {
        size_t align = sizes[k] & -sizes[k];
        align = align > 8 ? 8 : align;
        offset = (offset + align - 1) / align * align;
        if (k == i)
            return offset;
        offset += sizes[k];
    }
    return offset;
}

size_t sim_function_shared_limit(const struct sim_function *function) {
    enum { SHARED_BYTES = 48 * 1024 }; /* static and dynamic, of a kernel without a limit */
    if (function->dynamic_shared_bytes)
        return (size_t)function->dynamic_shared_bytes;
    return function->shared_bytes < SHARED_BYTES ? SHARED_BYTES - function->shared_bytes : 0;
}

struct sim_function *sim_function_get(const char *name) {
    struct sim_function *function = functions;
    while (function && strcmp(function->name, name) != 0)
        function = function->next;
    if (!function) {
        function = calloc(1, sizeof *function);
        if (!function)
            return NULL;
        function->name = strdup(name);
        if (!function->name || !sim_handle_add(function, SIM_HANDLE_FUNCTION)) {
            free(function->name);
            free(function);
            return NULL;
        }
        function->next = functions;
        functions = function;
    }
    look_up(function); /* a library that has the kernel may have been loaded since */
    return function;
}

CUresult sim_function_of_handle(CUfunction handle, struct sim_function **out) {
    if (!sim_handle_is(handle, SIM_HANDLE_FUNCTION))
        return CUDA_ERROR_INVALID_HANDLE;
    *out = (struct sim_function *)handle;
    return CUDA_SUCCESS;
}

unsigned long sim_skipped(const char *name) {
    unsigned long n = 0;
    pthread_mutex_lock(&sim_lock);
    for (const struct sim_function *function = functions; function; function = function->next) {
        if (!name || strcmp(function->name, name) == 0)
            n += function->n_skipped;
    }
    pthread_mutex_unlock(&sim_lock);
    return n;
}

CUresult sim_function_by_name(CUfunction *function, const char *name) {
    if (!function || !name)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_lock);
    *function = (CUfunction)sim_function_get(name);
    pthread_mutex_unlock(&sim_lock);
    return *function ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
