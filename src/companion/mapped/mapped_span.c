/* Spans: Vulkan allocates and maps, CUDA imports the same bytes by a descriptor. */
#include <unistd.h>

#include "companion/capture/known_captures.h"
#include "companion/mapped/mapped.h"

/* CUDA owns the descriptor after an import; if the import fails, we close it. */
static enum cushim_status import(struct cushim_scope *scope, int fd, struct cushim_span *span) {
    const CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = {.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
                                                   .handle.fd = fd,
                                                   .size = span->memory.bytes};
    const CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer = {.size = span->memory.bytes};
    enum cushim_status status = CUSHIM_CALL(scope, cuImportExternalMemory, &span->external, &desc);
    if (status != CUSHIM_OK) {
        close(fd);
        return status;
    }
    status =
        CUSHIM_CALL(scope, cuExternalMemoryGetMappedBuffer, &span->device, span->external, &buffer);
    if (status != CUSHIM_OK && CUSHIM_DRIVER(cuDestroyExternalMemory))
        CUSHIM_DRIVER(cuDestroyExternalMemory)(span->external);
    return status;
}

enum cushim_status cushim_span_obtain(struct cushim_scope *scope,
                                      struct cushim_mapper_object *mapper, size_t bytes,
                                      struct cushim_span *span) {
    *span = (struct cushim_span){0};
    CUSHIM_TRY(cushim_card_alloc(mapper->card, &mapper->type, bytes, &span->memory));
    int fd = -1;
    enum cushim_status status =
        cushim_card_export(scope->what, mapper->card, &span->memory, CUSHIM_CARD_OPAQUE, &fd);
    if (status == CUSHIM_OK)
        status = CUSHIM_RELAXED(import(scope, fd, span));

    if (status != CUSHIM_OK) {
        cushim_card_free(mapper->card, &span->memory);
        *span = (struct cushim_span){0};
    }
    return status;
}

void cushim_span_release(struct cushim_mapper_object *mapper, struct cushim_context_object *context,
                         struct cushim_span *span) {
    CUSHIM_SCOPE scope = {0};
    if (cushim_call_begin_quietly(&scope, context)) {
        (void)CUSHIM_RELAXED(CUSHIM_DRIVER(cuMemFree_v2)(span->device));
        if (CUSHIM_DRIVER(cuDestroyExternalMemory))
            (void)CUSHIM_RELAXED(CUSHIM_DRIVER(cuDestroyExternalMemory)(span->external));
    }
    cushim_card_free(mapper->card, &span->memory);
}
