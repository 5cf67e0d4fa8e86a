#include "function.h"

#include "calls.h"
#include "handle.h"

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

CUresult sim_function_by_name(CUfunction *function, const char *name) {
    if (!function || !name)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_lock);
    *function = (CUfunction)sim_function_get(name);
    pthread_mutex_unlock(&sim_lock);
    return *function ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
