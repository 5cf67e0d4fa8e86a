/* The memory behind an arena's regions: device or managed, one allocation, one row of the address
 * map. */
#include "companion/arena/arena_internal.h"

#include "companion/capture/known_captures.h"
#include "companion/memory/memory.h"

static enum cushim_status attribute(struct cushim_scope *scope, CUdevice_attribute what,
                                    bool *yes) {
    int value = 0;
    CUSHIM_TRY(CUSHIM_CALL(scope, cuDeviceGetAttribute, &value, what, scope->context->device));
    *yes = value != 0;
    return CUSHIM_OK;
}

/* Whether the device serves managed memory, and whether it shares the host's memory. */
static enum cushim_status ask_device(struct cushim_scope *scope, bool *has_managed,
                                     bool *is_shared) {
    bool is_concurrent, has_pages;
    CUSHIM_TRY(attribute(scope, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, has_managed));
    CUSHIM_TRY(attribute(scope, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, &is_concurrent));
    CUSHIM_TRY(attribute(scope, CU_DEVICE_ATTRIBUTE_INTEGRATED, is_shared));
    CUSHIM_TRY(attribute(scope, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
                         &has_pages));
    *has_managed &= is_concurrent;
    *is_shared |= has_pages;
    return CUSHIM_OK;
}

static CUresult obtain_managed(struct cushim_memory_request *request, CUdeviceptr *address) {
    return CUSHIM_DRIVER(cuMemAllocManaged)(address, request->bytes, CU_MEM_ATTACH_GLOBAL);
}

enum cushim_status cushim_arena_memory_obtain(struct cushim_scope *scope,
                                              struct cushim_arena_object *arena, int mode,
                                              size_t bytes) {
    bool has_managed = false, is_shared = false;
    if (mode != CUSHIM_ARENA_MANAGED_NEVER)
        CUSHIM_TRY(ask_device(scope, &has_managed, &is_shared));
    if (mode == CUSHIM_ARENA_MANAGED_ALWAYS && !has_managed)
        return cushim_scope_fail(scope, CUSHIM_NOTSUPPORTED, "managed memory, device=%d",
                                 scope->context->device);
    if (mode == CUSHIM_ARENA_MANAGED_ALWAYS && !CUSHIM_DRIVER(cuMemAllocManaged))
        return cushim_fail_nosym(scope->what, "cuMemAllocManaged");
    arena->is_managed = has_managed && CUSHIM_DRIVER(cuMemAllocManaged) &&
                        (mode == CUSHIM_ARENA_MANAGED_ALWAYS || is_shared);
    struct cushim_memory_request request;
    cushim_memory_plain(&request, bytes);
    request.owner = &arena->object;
    if (arena->is_managed) {
        request.entry = "cuMemAllocManaged";
        request.kind = CUSHIM_MEMORY_MANAGED;
        request.obtain = obtain_managed;
    }
    CUSHIM_TRY(cushim_memory_obtain(scope, &request, &arena->base));
    arena->has_memory = arena->has_row = true;
    return CUSHIM_OK;
}

void cushim_arena_memory_forget(struct cushim_arena_object *arena) {
    struct cushim_address_map_row row;
    if (arena->has_row && cushim_address_map_erase(arena->base, &row) == CUSHIM_OK)
        cushim_address_map_drop(&row);
    arena->has_row = false;
}

enum cushim_status cushim_arena_memory_release(struct cushim_scope *scope,
                                               struct cushim_arena_object *arena) {
    struct cushim_address_map_row row;
    if (!arena->has_memory)
        return CUSHIM_OK;
    bool has_row = arena->has_row && cushim_address_map_erase(arena->base, &row) == CUSHIM_OK;
    enum cushim_status status =
        CUSHIM_RELAXED(CUSHIM_CALL(scope, cuMemFree_v2, (CUdeviceptr)arena->base));
    arena->has_memory = status != CUSHIM_OK;
    if (has_row && status != CUSHIM_OK)
        cushim_address_map_restore(&row);
    else if (has_row)
        cushim_address_map_drop(&row);
    arena->has_row = has_row && status != CUSHIM_OK;
    return status;
}
