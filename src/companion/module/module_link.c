/* Linking: the driver's linker makes one image of several, which is loaded at once. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "companion/capture/known_captures.h"
#include "companion/module/module.h"
#include "companion/capture/graph_resources.h"

static enum cushim_status check(const char *what, const struct cushim_link_input *inputs,
                                size_t n) {
    if (!inputs || n == 0)
        return cushim_fail(what, CUSHIM_INVALID, "inputs=%p n=%zu", (const void *)inputs, n);
    for (size_t i = 0; i < n; i++) {
        const struct cushim_link_input *input = &inputs[i];
        if (input->kind < CUSHIM_LINK_CUBIN || input->kind > CUSHIM_LINK_LIBRARY || !input->data ||
            input->bytes > PTRDIFF_MAX || (input->bytes == 0 && input->kind != CUSHIM_LINK_PTX))
            return cushim_fail(what, CUSHIM_INVALID, "index=%zu kind=%d data=%p bytes=%zu", i,
                               input->kind, input->data, input->bytes);
    }
    return CUSHIM_OK;
}

/* The linker needs the NUL behind PTX. */
static enum cushim_status add(struct cushim_scope *scope, struct cushim_jit *jit, CUlinkState state,
                              const struct cushim_link_input *input, size_t i) {
    char name[32], *copy = NULL;
    size_t bytes = input->bytes;
    if (input->kind == CUSHIM_LINK_PTX) {
        CUSHIM_TRY(cushim_image_take(scope->what, input->data, bytes, &copy));
        bytes = strlen(copy ? copy : input->data) + 1;
    }
    snprintf(name, sizeof name, "input %zu", i);
    /* The linker only reads the data, although its prototype is not const. */
    union {
        const void *given;
        void *taken;
    } data = {.given = copy ? copy : input->data};
    CUresult result =
        CUSHIM_DRIVER(cuLinkAddData_v2)(state, (CUjitInputType)input->kind, data.taken, bytes,
                                        input->name ? input->name : name, 0, NULL, NULL);
    free(copy);
    return result == CUDA_SUCCESS ? CUSHIM_OK
                                  : cushim_jit_fail(scope, jit, "cuLinkAddData_v2", result);
}

/* The image belongs to the state. */
static enum cushim_status complete(struct cushim_scope *scope, struct cushim_jit *jit,
                                   CUlinkState state, const struct cushim_link_input *inputs,
                                   size_t n, void **image) {
    size_t bytes;
    for (size_t i = 0; i < n; i++)
        CUSHIM_TRY(add(scope, jit, state, &inputs[i], i));
    CUresult result = CUSHIM_DRIVER(cuLinkComplete)(state, image, &bytes);
    return result == CUDA_SUCCESS ? CUSHIM_OK
                                  : cushim_jit_fail(scope, jit, "cuLinkComplete", result);
}

static enum cushim_status link_all(struct cushim_scope *scope, struct cushim_jit *jit,
                                   const struct cushim_link_input *inputs, size_t n,
                                   struct cushim_module **m) {
    CUlinkState state;
    void *image = NULL;
    if (!CUSHIM_DRIVER(cuLinkAddData_v2) || !CUSHIM_DRIVER(cuLinkComplete) ||
        !CUSHIM_DRIVER(cuLinkDestroy))
        return cushim_fail_nosym(scope->what, "cuLinkAddData_v2");
    CUSHIM_TRY(CUSHIM_CALL(scope, cuLinkCreate_v2, jit->n, jit->names, jit->values, &state));
    enum cushim_status status = complete(scope, jit, state, inputs, n, &image);
    struct cushim_jit none = {.n = 0};
    if (status == CUSHIM_OK)
        status = cushim_jit_init(&none, scope->what, NULL);
    /* the load compiles nothing, so the log of the linker is kept */
    if (status == CUSHIM_OK)
        status = cushim_module_open(scope, image, &none, jit->infos, m);
    cushim_jit_finish(&none);
    CUSHIM_DRIVER(cuLinkDestroy)(state);
    return status;
}

enum cushim_status cushim_module_link(struct cushim_context *ctx,
                                      const struct cushim_link_input *inputs, size_t n,
                                      const struct cushim_module_options *opts,
                                      struct cushim_module **m) {
    CUSHIM_SCOPE scope = {0};
    struct cushim_jit jit;
    CUSHIM_OUT(m);
    CUSHIM_TRY(check(__func__, inputs, n));
    cushim_graph_resources_collect();
    CUSHIM_TRY(cushim_jit_init(&jit, __func__, opts));
    enum cushim_status status = cushim_call_begin_context(&scope, __func__, ctx);
    if (status == CUSHIM_OK)
        status = CUSHIM_RELAXED(link_all(&scope, &jit, inputs, n, m));
    cushim_jit_finish(&jit);
    return status;
}
