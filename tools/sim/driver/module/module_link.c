/* Linking: the texts of several images become one, in which every .extern has its .func. */
#include "tools/sim/driver/core/abi.h"
#include "tools/sim/driver/core/calls.h"
#include "tools/sim/driver/context/context.h"
#include "tools/sim/driver/core/handle.h"
#include "module_image.h"
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct link {
    struct sim_image_log errors, infos; /* the program's buffers, until cuLinkDestroy */
    char *text;                         /* the image so far */
};

static CUresult create(CUlinkState *out, unsigned n, const CUjit_option *options, void **values) {
    struct sim_context *context;
    SIM_TRY(sim_context_current(&context));
    if (!out || (n && (!options || !values)))
        return CUDA_ERROR_INVALID_VALUE;
    struct link *link = calloc(1, sizeof *link);
    if (!link || !(link->text = strdup(SIM_MODULE_IMAGE "\n")) ||
        !sim_handle_add(link, SIM_HANDLE_LINK)) {
        if (link)
            free(link->text);
        free(link);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    link->errors = sim_image_log_of(n, options, values, CU_JIT_ERROR_LOG_BUFFER,
                                    CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
    link->infos = sim_image_log_of(n, options, values, CU_JIT_INFO_LOG_BUFFER,
                                   CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES);
    *out = (CUlinkState)link;
    return CUDA_SUCCESS;
}

CUresult cuLinkCreate_v2(unsigned int numOptions, CUjit_option *options, void **optionValues,
                         CUlinkState *stateOut) {
    SIM_ENTER(cuLinkCreate_v2);
    return sim_leave(create(stateOut, numOptions, options, optionValues));
}

static CUresult of_handle(CUlinkState handle, struct link **out) {
    if (!sim_handle_is(handle, SIM_HANDLE_LINK))
        return CUDA_ERROR_INVALID_HANDLE;
    *out = (struct link *)handle;
    return CUDA_SUCCESS;
}

/* Append the lines after the first one. */
static CUresult append(struct link *link, const char *text) {
    const char *lines = strchr(text, '\n');
    size_t n_bytes = strlen(link->text) + (lines ? strlen(lines) : 0) + 2;
    char *longer = realloc(link->text, n_bytes);
    if (!longer)
        return CUDA_ERROR_OUT_OF_MEMORY;
    link->text = longer;
    if (lines)
        strcat(strcat(longer, lines + 1), "\n");
    return CUDA_SUCCESS;
}

static CUresult add(CUlinkState handle, const char *data, size_t n_bytes) {
    struct link *link;
    struct sim_image image;
    SIM_TRY(of_handle(handle, &link));
    if (!data || n_bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    char *text = strndup(data, n_bytes);
    if (!text)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = sim_image_judge((struct sim_part){text, n_bytes});
    bool is_own = result == CUDA_SUCCESS && sim_image_is_own(text);
    if (is_own) /* a GPU's image adds nothing; if there is nothing else, the result has every
                   kernel */
        result = sim_image_read(&image, (struct sim_part){text, n_bytes}, &link->errors);
    if (is_own && result == CUDA_SUCCESS) {
        sim_image_finish(&image);
        result = append(link, text);
    }
    free(text);
    return result;
}

CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size,
                          const char *name, unsigned int numOptions, CUjit_option *options,
                          void **optionValues) {
    SIM_ENTER(cuLinkAddData_v2);
    (void)name, (void)numOptions, (void)options, (void)optionValues;
    if (type > CU_JIT_INPUT_NVVM)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    return sim_leave(add(state, data, size));
}

/* An archive has images of a GPU, which add nothing. */
static bool is_archive(struct sim_part part) {
    static const char first[] = "!<arch>\n";
    return part.n_bytes >= sizeof first - 1 && memcmp(part.bytes, first, sizeof first - 1) == 0;
}

static CUresult add_file(CUlinkState handle, CUjitInputType type, const char *path) {
    struct link *link;
    struct sim_part content;
    SIM_TRY(of_handle(handle, &link));
    CUresult result = sim_image_of_file(path, &content);
    if (result == CUDA_SUCCESS && (type != CU_JIT_INPUT_LIBRARY || !is_archive(content)))
        result = add(handle, content.bytes, content.n_bytes);
    free((void *)content.bytes);
    return result;
}

CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path,
                          unsigned int numOptions, CUjit_option *options, void **optionValues) {
    SIM_ENTER(cuLinkAddFile_v2);
    (void)numOptions, (void)options, (void)optionValues;
    if (type > CU_JIT_INPUT_NVVM)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    return sim_leave(add_file(state, type, path));
}

static CUresult complete(CUlinkState handle, void **image_out, size_t *n_bytes) {
    struct link *link;
    struct sim_image image;
    SIM_TRY(of_handle(handle, &link));
    if (!image_out)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_image_read(&image, (struct sim_part){link->text, SIZE_MAX}, &link->errors));
    const char *missing = sim_image_unresolved(&image);
    if (missing)
        snprintf(link->errors.text, link->errors.cap_bytes,
                 "error   : Undefined reference to '%s'\n", missing);
    else
        snprintf(link->infos.text, link->infos.cap_bytes, "info    : %zu symbols linked\n",
                 image.n);
    CUresult result = missing ? CUDA_ERROR_INVALID_IMAGE : CUDA_SUCCESS;
    sim_image_finish(&image);
    *image_out = link->text;
    if (n_bytes)
        *n_bytes = strlen(link->text) + 1;
    return result;
}

CUresult cuLinkComplete(CUlinkState state, void **cubinOut, size_t *sizeOut) {
    SIM_ENTER(cuLinkComplete);
    return sim_leave(complete(state, cubinOut, sizeOut));
}

CUresult cuLinkDestroy(CUlinkState state) {
    SIM_ENTER(cuLinkDestroy);
    struct link *link = NULL;
    CUresult result = of_handle(state, &link);
    if (result == CUDA_SUCCESS) {
        sim_handle_remove(link);
        free(link->text);
        free(link);
    }
    return sim_leave(result);
}
