/*
 * Modules and libraries.
 *
 * A software device runs no code of a GPU: a fatbin, cubin or PTX has no binary for it.  The image
 * SIM_MODULE_IMAGE stands for all kernels that the program exports.  Modules and libraries are one
 * thing here, and so are kernels and functions.
 */
#include "abi.h"
#include "calls.h"
#include "context.h"
#include "function.h"
#include "handle.h"
#include "sim.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct module {
    int unused; /* an address of its own is all that a module is */
};

/* What images begin with: a fatbin's wrapper, a fatbin, an ELF file. */
static bool is_binary(const void *image) {
    static const uint32_t magics[] = {0x466243b1, 0xba55ed50, 0x464c457f};
    uint32_t magic;
    memcpy(&magic, image, sizeof magic);
    for (size_t i = 0; i < sizeof magics / sizeof magics[0]; i++) {
        if (magic == magics[i])
            return true;
    }
    return false;
}

/* The first words of an image decide what it is; text may be shorter than the words looked for. */
static CUresult judge(const void *image) {
    const char *text = image;
    if (strncmp(text, SIM_MODULE_IMAGE, sizeof SIM_MODULE_IMAGE - 1) == 0)
        return CUDA_SUCCESS;
    if (strncmp(text, "//", 2) == 0 || strncmp(text, ".version", 8) == 0)
        return CUDA_ERROR_NO_BINARY_FOR_GPU; /* PTX */
    if (text[0] && text[1] && text[2] && is_binary(image))
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    return CUDA_ERROR_INVALID_IMAGE;
}

static CUresult create(void **out) {
    struct module *module = calloc(1, sizeof *module);
    if (!module || !sim_handle_add(module, SIM_HANDLE_MODULE)) {
        free(module);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = module;
    return CUDA_SUCCESS;
}

static CUresult load(void **out, const void *image) {
    if (!out || !image)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(judge(image));
    return create(out);
}

static CUresult load_in_context(CUmodule *out, const void *image) {
    struct sim_context *context;
    void *module;
    SIM_TRY(sim_context_current(&context));
    SIM_TRY(load(out ? &module : NULL, image));
    *out = (CUmodule)module;
    return CUDA_SUCCESS;
}

/* As much of a file as tells what it is. */
static CUresult load_file(void **out, const char *path) {
    char text[sizeof SIM_MODULE_IMAGE] = "";
    FILE *file = path ? fopen(path, "rb") : NULL;
    if (!path)
        return CUDA_ERROR_INVALID_VALUE;
    if (!file)
        return CUDA_ERROR_FILE_NOT_FOUND;
    size_t n_bytes = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    return n_bytes ? load(out, text) : CUDA_ERROR_INVALID_IMAGE;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    SIM_ENTER(cuModuleLoadData);
    return sim_leave(load_in_context(module, image));
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions,
                            CUjit_option *options, void **optionValues) {
    SIM_ENTER(cuModuleLoadDataEx);
    (void)numOptions, (void)options, (void)optionValues;
    return sim_leave(load_in_context(module, image));
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin) {
    SIM_ENTER(cuModuleLoadFatBinary);
    return sim_leave(load_in_context(module, fatCubin));
}

CUresult cuModuleLoad(CUmodule *module, const char *fname) {
    SIM_ENTER(cuModuleLoad);
    return sim_leave(load_file((void **)module, fname));
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions,
                           void **jitOptionsValues, unsigned int numJitOptions,
                           CUlibraryOption *libraryOptions, void **libraryOptionValues,
                           unsigned int numLibraryOptions) {
    SIM_ENTER(cuLibraryLoadData);
    (void)jitOptions, (void)jitOptionsValues, (void)numJitOptions;
    (void)libraryOptions, (void)libraryOptionValues, (void)numLibraryOptions;
    return sim_leave(load((void **)library, code));
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *fileName, CUjit_option *jitOptions,
                               void **jitOptionsValues, unsigned int numJitOptions,
                               CUlibraryOption *libraryOptions, void **libraryOptionValues,
                               unsigned int numLibraryOptions) {
    SIM_ENTER(cuLibraryLoadFromFile);
    (void)jitOptions, (void)jitOptionsValues, (void)numJitOptions;
    (void)libraryOptions, (void)libraryOptionValues, (void)numLibraryOptions;
    return sim_leave(load_file((void **)library, fileName));
}

static CUresult unload(void *module) {
    if (!sim_handle_is(module, SIM_HANDLE_MODULE))
        return CUDA_ERROR_INVALID_HANDLE;
    sim_handle_remove(module);
    free(module);
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

/* --- what is in them
 * ------------------------------------------------------------------------------- */

static CUresult find(struct sim_function **out, const void *module, const char *name) {
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_handle_is(module, SIM_HANDLE_MODULE))
        return CUDA_ERROR_INVALID_HANDLE;
    *out = sim_function_get(name);
    if (!*out)
        return CUDA_ERROR_OUT_OF_MEMORY;
    return (*out)->kernel ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
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

CUresult cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel) {
    SIM_ENTER(cuKernelGetFunction);
    struct sim_function *function;
    CUresult result = sim_function_of_handle((CUfunction)kernel, &function);
    if (result == CUDA_SUCCESS)
        *pFunc = (CUfunction)kernel;
    return sim_leave(result);
}

/* There are no variables in device memory. */
static CUresult find_variable(const void *module, const char *name) {
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    return sim_handle_is(module, SIM_HANDLE_MODULE) ? CUDA_ERROR_NOT_FOUND
                                                    : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name) {
    SIM_ENTER(cuModuleGetGlobal_v2);
    (void)dptr, (void)bytes;
    return sim_leave(find_variable(hmod, name));
}

CUresult cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name) {
    SIM_ENTER(cuLibraryGetGlobal);
    (void)dptr, (void)bytes;
    return sim_leave(find_variable(library, name));
}

CUresult cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library,
                             const char *name) {
    SIM_ENTER(cuLibraryGetManaged);
    (void)dptr, (void)bytes;
    return sim_leave(find_variable(library, name));
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode) {
    SIM_ENTER(cuModuleGetLoadingMode);
    if (!mode)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *mode = CU_MODULE_LAZY_LOADING;
    return sim_leave(CUDA_SUCCESS);
}
