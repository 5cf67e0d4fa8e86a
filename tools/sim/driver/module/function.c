#include "function.h"

#include "tools/sim/driver/core/calls.h"
#include "module_image.h"
#include "tools/sim/driver/core/handle.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sim_function *functions;

/* The paths of the loaded libraries.  They are opened later, because no call may be made here. */
struct loaded {
    char *paths[1000];
    size_t n;
};

static int note_path(struct dl_phdr_info *info, size_t n_bytes, void *data) {
    struct loaded *loaded = data;
    (void)n_bytes;
    if (info->dlpi_name[0] && loaded->n < sizeof loaded->paths / sizeof *loaded->paths)
        loaded->paths[loaded->n++] = strdup(info->dlpi_name);
    return 0;
}

/* In the global scope, then in any library, because those that dlopen opened have scopes of their
 * own. */
static void *find_symbol(const char *prefix, const char *name) {
    char symbol[512];
    struct loaded loaded = {.n = 0};
    snprintf(symbol, sizeof symbol, "%s%s", prefix, name);
    void *address = dlsym(RTLD_DEFAULT, symbol);
    if (!address)
        dl_iterate_phdr(note_path, &loaded);
    for (size_t i = 0; i < loaded.n; i++) {
        void *library =
            !address && loaded.paths[i] ? dlopen(loaded.paths[i], RTLD_LAZY | RTLD_NOLOAD) : NULL;
        if (library) {
            address = dlsym(library, symbol);
            dlclose(library);
        }
        free(loaded.paths[i]);
    }
    return address;
}

bool sim_function_is_of_program(const char *name) {
    return find_symbol("sim_kernel_", name) != NULL;
}

/* An address arrives as void *, and ISO C has no cast from it to a function, so copy the bytes. */
static void look_up(struct sim_function *function) {
    void *address = find_symbol("sim_kernel_", function->name);
    if (!address && !function->is_of_program)
        return; /* what an image said of it stays */
    if (!function->is_of_program) {
        free((size_t *)function->param_bytes);
        free((size_t *)function->param_offsets);
    }
    memcpy(&function->kernel, &address, sizeof address);
    function->param_bytes = address ? find_symbol("sim_params_", function->name) : NULL;
    function->param_offsets = NULL;
    function->is_of_program = address;
}

static void do_nothing(const struct sim_launch *launch, void **args) {
    (void)launch, (void)args;
}

/* In memory that the function keeps for good; the next image with the name overwrites it. */
static const size_t *keep(const size_t *kept, const size_t sizes[SIM_IMAGE_N_SIZES]) {
    size_t *own = kept ? (size_t *)kept : malloc(SIM_IMAGE_N_SIZES * sizeof *own);
    return own ? memcpy(own, sizes, SIM_IMAGE_N_SIZES * sizeof *own) : NULL;
}

void sim_function_describe(struct sim_function *function, const struct sim_image_row *row) {
    function->param_bytes = keep(function->param_bytes, row->sizes);
    if (row->has_offsets)
        function->param_offsets = keep(function->param_offsets, row->offsets);
    function->shared_bytes = row->shared_bytes;
    function->capability = row->capability;
    function->most_threads = row->most_threads;
    function->n_registers = row->n_registers;
    function->local_bytes = row->local_bytes;
}

void sim_function_declare(struct sim_function *function) {
    function->kernel = do_nothing;
}

size_t sim_function_offset(const struct sim_function *function, size_t i) {
    const size_t *sizes = function->param_bytes;
    size_t offset = 0;
    if (sizes && function->param_offsets && i > 0 && sizes[i - 1] && !sizes[i])
        return function->param_offsets[i - 1] + sizes[i - 1];
    if (sizes && function->param_offsets)
        return function->param_offsets[i];
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
    look_up(function); /* a library with the kernel may have come or gone since */
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
