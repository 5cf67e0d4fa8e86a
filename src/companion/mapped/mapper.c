#include "companion/mapped/mapper.h"

#include <stdlib.h>

#include "companion/mapped/mapped.h"

enum {
    FLAGS =
        CUSHIM_MAPPER_FLAG_CURRENT | CUSHIM_MAPPER_FLAG_NON_COHERENT | CUSHIM_MAPPER_FLAG_COHERENT
};

static void finish(struct cushim_object *object) {
    struct cushim_mapper_object *mapper = (struct cushim_mapper_object *)object;
    cushim_slabs_end(mapper);
    cushim_card_release(mapper->card);
    pthread_mutex_destroy(&mapper->lock);
    free(mapper);
}

static enum cushim_status judge(const char *what, unsigned flags, struct cushim_mapper **out) {
    CUSHIM_TRY(cushim_check_out(what, "mapper", out, sizeof *out));
    CUSHIM_FAIL_IF(what, flags & ~(unsigned)FLAGS, CUSHIM_INVALID, "flags=%u", flags);
    return CUSHIM_OK;
}

/* ---- opening ---- */

/* The UUID, because CUDA and Vulkan have no other name for a device in common. */
static enum cushim_status read_uuid(const char *what, int device, CUuuid *uuid) {
    __typeof__(&cuDeviceGetUuid) ask = CUSHIM_DRIVER(cuDeviceGetUuid_v2)
                                           ? CUSHIM_DRIVER(cuDeviceGetUuid_v2)
                                           : CUSHIM_DRIVER(cuDeviceGetUuid);
    if (!ask)
        return cushim_fail_nosym(what, "cuDeviceGetUuid");
    return CUSHIM_ANSWER("cuDeviceGetUuid", ask(uuid, device), "device=%d", device);
}

static enum cushim_status create(const char *what, struct cushim_context_object *context,
                                 int device, unsigned flags, struct cushim_mapper **out) {
    struct cushim_mapper_object *mapper = calloc(1, sizeof *mapper);
    CUSHIM_FAIL_IF(what, !mapper, CUSHIM_NOMEM, "host=%zu", sizeof *mapper);
    cushim_object_init(&mapper->object, CUSHIM_KIND_MAPPER, context, finish);
    pthread_mutex_init(&mapper->lock, NULL);
    mapper->device = device;
    CUuuid uuid;
    enum cushim_status status = read_uuid(what, device, &uuid);
    if (status == CUSHIM_OK)
        status = cushim_card_obtain(what, (const unsigned char *)uuid.bytes, device, &mapper->card);
    if (status == CUSHIM_OK)
        status = cushim_card_choose(what, mapper->card, flags, &mapper->type);
    if (status == CUSHIM_OK)
        return cushim_object_open(&mapper->object, out);
    cushim_object_release(mapper);
    return status;
}

static enum cushim_status open_in(const char *what, struct cushim_context *ctx, unsigned flags,
                                  struct cushim_mapper **out) {
    CUSHIM_SCOPE scope = {0};
    if (flags & CUSHIM_MAPPER_FLAG_CURRENT) {
        CUdevice device; /* the driver's own error names the call and the reason */
        CUSHIM_TRY(cushim_driver_use(what));
        CUSHIM_TRY(CUSHIM_ASK(what, cuCtxGetDevice, (&device), "%s", ""));
        ctx = NULL;
    }
    CUSHIM_TRY(cushim_call_begin_context(&scope, what, ctx));
    return create(what, scope.context, scope.context->device, flags, out);
}

enum cushim_status cushim_mapper_open(struct cushim_context *ctx, unsigned flags,
                                      struct cushim_mapper **mapper) {
    CUSHIM_TRY(judge(__func__, flags, mapper));
    return open_in(__func__, ctx, flags, mapper);
}

enum cushim_status cushim_mapper_open_device(int dev, unsigned flags,
                                             struct cushim_mapper **mapper) {
    CUSHIM_TRY(judge(__func__, flags, mapper));
    if (flags & CUSHIM_MAPPER_FLAG_CURRENT)
        return open_in(__func__, NULL, flags, mapper);
    CUSHIM_TRY(cushim_driver_use(__func__));
    if (dev == -1)
        CUSHIM_TRY(cushim_context_ordinal(__func__, dev, &dev));
    return create(__func__, NULL, dev, flags, mapper);
}

/* ---- the rest ---- */

enum cushim_status cushim_mapper_close(struct cushim_mapper *mapper) {
    return cushim_call_destroy(__func__, CUSHIM_KIND_MAPPER, mapper);
}

enum cushim_status cushim_mapper_budget(struct cushim_mapper *handle, size_t *free_bytes,
                                        size_t *total_bytes) {
    CUSHIM_CLEAR(free_bytes);
    CUSHIM_CLEAR(total_bytes);
    if (!free_bytes || !total_bytes)
        return CUSHIM_FAIL(CUSHIM_INVALID, "%s=NULL", free_bytes ? "total_bytes" : "free_bytes");
    CUSHIM_ENTER(MAPPER, mapper, handle);
    cushim_card_budget(mapper->card, mapper->type.heap, free_bytes, total_bytes);
    return CUSHIM_OK;
}
