/*
 * Modules and libraries.
 *
 * A software device runs no code of a GPU.  A fatbin, cubin or PTX loads if the program has a
 * function for a kernel in it, or if the option `kernels` says so, and has those kernels
 * (gpu_image.h).  Its own images are text (module_image.h); SIM_MODULE_IMAGE alone stands for all
 * kernels that the program exports. Modules and libraries are the same here, and so are kernels and
 * functions.  Variables are device memory of the module's context, which goes with the module or
 * the context.
 */
#include "tools/sim/driver/core/abi.h"
#include "cuda/patchable.h"
#include "tools/sim/driver/memory/block.h"
#include "tools/sim/driver/core/calls.h"
#include "tools/sim/driver/context/context.h"
#include "function.h"
#include "tools/sim/driver/core/handle.h"
#include "tools/sim/driver/core/options.h"
#include "module_image.h"
#include "sim.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct variable {
    const char *name; /* the image's */
    CUdeviceptr address;
    size_t n_bytes;
    unsigned long long buffer_id; /* its block's, which may go earlier */
};

struct module {
    struct sim_image image;
    struct variable *variables; /* [n_variables]; none for a library that no context loaded */
    size_t n_variables;
    struct module *next;
};

static struct module *modules; /* the newest first */

static void end_variables(struct module *module) {
    for (size_t i = 0; i < module->n_variables; i++) {
        struct sim_block *block = sim_block_at(module->variables[i].address);
        if (block && block->buffer_id == module->variables[i].buffer_id)
            sim_block_release(block);
    }
    free(module->variables);
}

static CUresult make_variables(struct module *module, struct sim_context *context) {
    module->variables = calloc(module->image.n + 1, sizeof *module->variables);
    if (!module->variables)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < module->image.n; i++) {
        const struct sim_image_row *row = &module->image.rows[i];
        struct variable *variable = &module->variables[module->n_variables];
        struct sim_block *block;
        if (row->kind != SIM_IMAGE_GLOBAL)
            continue;
        SIM_TRY(sim_block_obtain(context->root, row->sizes[0], &block));
        if (row->contents)
            memcpy(block->address, row->contents, row->sizes[0]);
        else
            memset(block->address, 0, row->sizes[0]);
        variable->name = row->name;
        variable->address = (CUdeviceptr)(uintptr_t)block->address;
        variable->n_bytes = row->sizes[0];
        variable->buffer_id = block->buffer_id;
        module->n_variables++;
    }
    return CUDA_SUCCESS;
}

static void destroy(struct module *module) {
    end_variables(module);
    sim_image_finish(&module->image);
    free(module);
}

static CUresult create(struct module **out, struct sim_part text, struct sim_context *context,
                       struct sim_image_log *errors) {
    struct module *module = calloc(1, sizeof *module);
    if (!module)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = sim_image_read(&module->image, text, errors);
    const char *missing = result == CUDA_SUCCESS ? sim_image_unresolved(&module->image) : NULL;
    if (missing) {
        snprintf(errors->text, errors->cap_bytes, "fatal   : Unresolved extern function '%s'\n",
                 missing);
        result = CUDA_ERROR_INVALID_PTX;
    }
    if (result == CUDA_SUCCESS && context)
        result = make_variables(module, context);
    if (result == CUDA_SUCCESS && !sim_handle_add(module, SIM_HANDLE_MODULE))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result != CUDA_SUCCESS) {
        destroy(module);
        return result;
    }
    module->next = modules;
    modules = module;
    *out = module;
    return CUDA_SUCCESS;
}

static CUresult load_part(void **out, struct sim_part image, struct sim_context *context,
                          struct sim_image_log *errors) {
    struct module *module;
    if (!out || !image.bytes)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult verdict = sim_image_judge(image);
    if (verdict == CUDA_ERROR_NO_BINARY_FOR_GPU)
        snprintf(errors->text, errors->cap_bytes,
                 "fatal   : The software device runs no GPU code: see docs/examples/README.md\n");
    SIM_TRY(verdict);
    SIM_TRY(create(&module, image, context, errors));
    *out = module;
    return CUDA_SUCCESS;
}

/* Only an image in memory itself tells how long it is. */
static CUresult load(void **out, const void *image, struct sim_context *context,
                     struct sim_image_log *errors) {
    return load_part(out, (struct sim_part){image, SIZE_MAX}, context, errors);
}

static CUresult load_in_context(CUmodule *out, const void *image, struct sim_image_log *errors) {
    struct sim_context *context;
    void *module;
    SIM_TRY(sim_context_current(&context));
    SIM_TRY(load(out ? &module : NULL, image, context, errors));
    *out = (CUmodule)module;
    return CUDA_SUCCESS;
}

CUresult sim_image_of_file(const char *path, struct sim_part *content) {
    struct stat status;
    FILE *file = path ? fopen(path, "rb") : NULL;
    *content = (struct sim_part){NULL, 0};
    if (!path)
        return CUDA_ERROR_INVALID_VALUE;
    if (!file)
        return CUDA_ERROR_FILE_NOT_FOUND;
    char *bytes = fstat(fileno(file), &status) == 0 && status.st_size > 0
                      ? calloc((size_t)status.st_size + 1, 1)
                      : NULL;
    size_t n_bytes = bytes ? fread(bytes, 1, (size_t)status.st_size, file) : 0;
    fclose(file);
    *content = (struct sim_part){bytes, n_bytes};
    return n_bytes > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
}

/* The context is NULL for a library. */
static CUresult load_file(void **out, const char *path, struct sim_context *context) {
    struct sim_image_log silent = {NULL, 0};
    struct sim_part content;
    CUresult result = sim_image_of_file(path, &content);
    if (result == CUDA_SUCCESS)
        result = load_part(out, content, context, &silent);
    free((void *)content.bytes);
    return result;
}

static CUresult load_file_in_context(CUmodule *out, const char *path) {
    struct sim_context *context;
    void *module;
    SIM_TRY(sim_context_current(&context));
    SIM_TRY(load_file(out ? &module : NULL, path, context));
    *out = (CUmodule)module;
    return CUDA_SUCCESS;
}

/* With the compiler's log, if the program wants it. */
static CUresult load_logged(CUmodule *out, const void *image, unsigned n,
                            const CUjit_option *options, void **values) {
    if (n && (!options || !values))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_image_log errors = sim_image_log_of(n, options, values, CU_JIT_ERROR_LOG_BUFFER,
                                                   CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
    struct sim_image_log infos = sim_image_log_of(n, options, values, CU_JIT_INFO_LOG_BUFFER,
                                                  CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES);
    SIM_TRY(load_in_context(out, image, &errors));
    snprintf(infos.text, infos.cap_bytes, "info    : %zu symbols\n",
             ((struct module *)*out)->image.n);
    return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    SIM_ENTER(cuModuleLoadData);
    struct sim_image_log silent = {NULL, 0};
    return sim_leave(load_in_context(module, image, &silent));
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions,
                            CUjit_option *options, void **optionValues) {
    SIM_ENTER(cuModuleLoadDataEx);
    return sim_leave(load_logged(module, image, numOptions, options, optionValues));
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin) {
    SIM_ENTER(cuModuleLoadFatBinary);
    struct sim_image_log silent = {NULL, 0};
    return sim_leave(load_in_context(module, fatCubin, &silent));
}

CUresult cuModuleLoad(CUmodule *module, const char *fname) {
    SIM_ENTER(cuModuleLoad);
    return sim_leave(load_file_in_context(module, fname));
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions,
                           void **jitOptionsValues, unsigned int numJitOptions,
                           CUlibraryOption *libraryOptions, void **libraryOptionValues,
                           unsigned int numLibraryOptions) {
    SIM_ENTER(cuLibraryLoadData);
    (void)jitOptions, (void)jitOptionsValues, (void)numJitOptions;
    (void)libraryOptions, (void)libraryOptionValues, (void)numLibraryOptions;
    struct sim_image_log silent = {NULL, 0};
    return sim_leave(load((void **)library, code, NULL, &silent));
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *fileName, CUjit_option *jitOptions,
                               void **jitOptionsValues, unsigned int numJitOptions,
                               CUlibraryOption *libraryOptions, void **libraryOptionValues,
                               unsigned int numLibraryOptions) {
    SIM_ENTER(cuLibraryLoadFromFile);
    (void)jitOptions, (void)jitOptionsValues, (void)numJitOptions;
    (void)libraryOptions, (void)libraryOptionValues, (void)numLibraryOptions;
    return sim_leave(load_file((void **)library, fileName, NULL));
}

static CUresult unload(void *handle) {
    if (!sim_handle_is(handle, SIM_HANDLE_MODULE))
        return CUDA_ERROR_INVALID_HANDLE;
    struct module **at = &modules;
    while (*at != handle)
        at = &(*at)->next;
    *at = (*at)->next;
    sim_handle_remove(handle);
    destroy(handle);
    return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule hmod) {
    SIM_ENTER(cuModuleUnload);
    return sim_leave(unload(hmod));
}

CUresult cuLibraryUnload(CUlibrary library) {
    SIM_ENTER(cuLibraryUnload);
    return sim_leave(unload(library));
}

/* ---- what is in them ---- */

static CUresult find(struct sim_function **out, const void *handle, const char *name) {
    const struct module *module = handle;
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_handle_is(handle, SIM_HANDLE_MODULE))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!sim_image_has_kernel(&module->image, name))
        return CUDA_ERROR_NOT_FOUND;
    *out = sim_function_get(name);
    if (!*out)
        return CUDA_ERROR_OUT_OF_MEMORY;
    const struct sim_image_row *entry = sim_image_find(&module->image, SIM_IMAGE_ENTRY, name);
    const struct sim_image_row *shared = sim_image_find(&module->image, SIM_IMAGE_SHARED, name);
    if (entry && !(*out)->kernel) {
        sim_function_describe(*out, entry);
        if (!module->image.is_complete)
            sim_function_declare(*out);
    }
    if (shared)
        (*out)->shared_bytes = shared->sizes[0];
    bool is_there = (*out)->kernel || sim_options()->kernels != SIM_KERNELS_PROGRAM;
    return is_there ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name) {
    SIM_ENTER(cuModuleGetFunction);
    struct sim_function *function = NULL;
    CUresult result = hfunc ? find(&function, hmod, name) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *hfunc = (CUfunction)function;
    return sim_leave(result);
}

CUresult cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name) {
    SIM_ENTER(cuLibraryGetKernel);
    struct sim_function *function = NULL;
    CUresult result = pKernel ? find(&function, library, name) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *pKernel = (CUkernel)function;
    return sim_leave(result);
}

CUresult cuLibraryGetModule(CUmodule *pMod, CUlibrary library) {
    SIM_ENTER(cuLibraryGetModule);
    if (!pMod || !sim_handle_is(library, SIM_HANDLE_MODULE))
        return sim_leave(CUDA_ERROR_INVALID_HANDLE);
    *pMod = (CUmodule)library;
    return sim_leave(CUDA_SUCCESS);
}

/* An image that does not tell its contents has every name asked for, so there is no list. */
static CUresult enumerate(CUkernel *kernels, unsigned n_asked, unsigned *n, const void *handle) {
    const struct module *module = handle;
    if (!sim_handle_is(handle, SIM_HANDLE_MODULE))
        return CUDA_ERROR_INVALID_HANDLE;
    *n = 0;
    for (size_t i = 0; i < module->image.n; i++) {
        struct sim_function *function;
        if (module->image.rows[i].kind != SIM_IMAGE_ENTRY)
            continue;
        if (*n < n_asked) {
            SIM_TRY(find(&function, handle, module->image.rows[i].name));
            kernels[*n] = (CUkernel)function;
        }
        ++*n;
    }
    return *n ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuLibraryGetKernelCount(unsigned int *count, CUlibrary lib) {
    SIM_ENTER(cuLibraryGetKernelCount);
    return sim_leave(count ? enumerate(NULL, 0, count, lib) : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int numKernels, CUlibrary lib) {
    SIM_ENTER(cuLibraryEnumerateKernels);
    unsigned n = 0;
    return sim_leave(kernels ? enumerate(kernels, numKernels, &n, lib) : CUDA_ERROR_INVALID_VALUE);
}

/* Functions that host and device call alike: no image here has one. */
CUresult cuLibraryGetUnifiedFunction(void **fptr, CUlibrary library, const char *symbol) {
    SIM_ENTER(cuLibraryGetUnifiedFunction);
    if (!fptr || !symbol)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    return sim_leave(sim_handle_is(library, SIM_HANDLE_MODULE) ? CUDA_ERROR_NOT_FOUND
                                                               : CUDA_ERROR_INVALID_HANDLE);
}

CUresult cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel) {
    SIM_ENTER(cuKernelGetFunction);
    struct sim_function *function;
    CUresult result = sim_function_of_handle((CUfunction)kernel, &function);
    if (result == CUDA_SUCCESS)
        *pFunc = (CUfunction)kernel;
    return sim_leave(result);
}

static CUresult find_variable(CUdeviceptr *address, size_t *n_bytes, const void *handle,
                              const char *name) {
    const struct module *module = handle;
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_handle_is(handle, SIM_HANDLE_MODULE))
        return CUDA_ERROR_INVALID_HANDLE;
    for (size_t i = 0; i < module->n_variables; i++) {
        if (strcmp(module->variables[i].name, name) != 0)
            continue;
        if (address)
            *address = module->variables[i].address;
        if (n_bytes)
            *n_bytes = module->variables[i].n_bytes;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_FOUND;
}

/* Kernels call it, so the lock is free. */
void *sim_variable(const char *name) {
    CUdeviceptr address = 0;
    pthread_mutex_lock(&sim_lock);
    for (const struct module *module = modules; module && !address; module = module->next)
        find_variable(&address, NULL, module, name);
    pthread_mutex_unlock(&sim_lock);
    return (void *)(uintptr_t)address;
}

CUSHIM_PATCHABLE(cuModuleGetGlobal_v2)
CUresult cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name) {
    SIM_ENTER(cuModuleGetGlobal_v2);
    return sim_leave(find_variable(dptr, bytes, hmod, name));
}

CUSHIM_PATCHABLE(cuLibraryGetGlobal)
CUresult cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name) {
    SIM_ENTER(cuLibraryGetGlobal);
    return sim_leave(find_variable(dptr, bytes, library, name));
}

CUresult cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library,
                             const char *name) {
    SIM_ENTER(cuLibraryGetManaged);
    return sim_leave(find_variable(dptr, bytes, library, name));
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode) {
    SIM_ENTER(cuModuleGetLoadingMode);
    if (!mode)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *mode = CU_MODULE_LAZY_LOADING;
    return sim_leave(CUDA_SUCCESS);
}
