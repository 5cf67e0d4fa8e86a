/* Questions about an address and about the memory of a device. */

#include "companion/memory/memory.h"
#include "companion/context/pressure.h"

enum cushim_status cushim_memory_size(cushim_devptr p, size_t *n) {
    struct cushim_address_map_row row;
    CUSHIM_OUT(n);
    CUSHIM_TRY(cushim_driver_use_process(__func__));
    if (p && cushim_address_map_find(p, &row)) {
        *n = row.start == p ? row.bytes : 0;
        cushim_address_map_drop(&row);
    }
    return *n ? CUSHIM_OK : CUSHIM_FAIL(CUSHIM_UNKNOWNPTR, "p=0x%llx", (unsigned long long)p);
}

enum cushim_status cushim_memory_range(cushim_devptr p, cushim_devptr *base, size_t *n) {
    CUSHIM_MEMORY_CALL call = {.n_ranges = 1, .ranges = {{.name = "p", .address = p}}};
    cushim_devptr unwanted_base;
    CUdeviceptr start = 0;
    size_t bytes = 0, unwanted_n;
    CUSHIM_FAIL_IF(__func__, !base && !n, CUSHIM_INVALID, "base=NULL n=NULL");
    base = base ? base : &unwanted_base;
    n = n ? n : &unwanted_n;
    *base = *n = 0;
    CUSHIM_TRY(cushim_memory_enter(&call, __func__, CUSHIM_STREAM_LEGACY));
    CUSHIM_NEED_ENTRY(__func__, cuMemGetAddressRange_v2);
    CUresult result = CUSHIM_DRIVER(cuMemGetAddressRange_v2)(&start, &bytes, p);
    if (result == CUDA_ERROR_NOT_FOUND || result == CUDA_ERROR_INVALID_VALUE)
        return cushim_scope_fail(&call.scope, CUSHIM_UNKNOWNPTR, "p=0x%llx", (unsigned long long)p);
    CUSHIM_TRY(cushim_scope_answer(&call.scope, "cuMemGetAddressRange_v2", result));
    *base = start;
    *n = bytes;
    return CUSHIM_OK;
}

/* ---- all of it ---- */

enum cushim_memory_owner cushim_memory_owner_of(const struct cushim_address_map_row *row) {
    static const enum cushim_memory_owner owners[CUSHIM_N_KINDS] = {
        [CUSHIM_KIND_POOL] = CUSHIM_OWNER_POOL,     [CUSHIM_KIND_ARENA] = CUSHIM_OWNER_ARENA,
        [CUSHIM_KIND_GRAPH] = CUSHIM_OWNER_GRAPH,   [CUSHIM_KIND_GRAPHEXEC] = CUSHIM_OWNER_GRAPH,
        [CUSHIM_KIND_MODULE] = CUSHIM_OWNER_MODULE, [CUSHIM_KIND_MAPPED] = CUSHIM_OWNER_MAPPER,
    };
    if (row->owner)
        return owners[row->owner->kind];
    if (row->kind == CUSHIM_MEMORY_GRAPH)
        return CUSHIM_OWNER_GRAPH;
    return row->kind == CUSHIM_MEMORY_ADOPTED || row->kind == CUSHIM_MEMORY_REGISTERED
               ? CUSHIM_OWNER_NONE
               : CUSHIM_OWNER_CALLER;
}

static void tell_row(const struct cushim_address_map_row *row, struct cushim_memory_info *info) {
    info->start = row->start;
    info->bytes = row->bytes;
    info->kind = row->kind;
    info->device = row->context->device;
    info->owner = cushim_memory_owner_of(row);
    info->flags = row->flags;
    info->owner_handle = row->owner ? row->owner->handle : NULL;
    info->context_id = row->context->id;
}

/* Memory of other code: ask the driver. */
static enum cushim_status tell_foreign(const char *what, uint64_t p,
                                       struct cushim_memory_info *info) {
    CUSHIM_SCOPE scope = {0};
    CUdeviceptr start = 0;
    size_t bytes = 0;
    int device = -1;
    CUSHIM_TRY(cushim_call_begin_context(&scope, what, NULL));
    if (!CUSHIM_DRIVER(cuPointerGetAttribute) || !CUSHIM_DRIVER(cuMemGetAddressRange_v2))
        return cushim_fail_nosym(what, "cuPointerGetAttribute");
    CUresult result =
        CUSHIM_DRIVER(cuPointerGetAttribute)(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p);
    if (result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_NOT_FOUND)
        return cushim_scope_fail(&scope, CUSHIM_UNKNOWNPTR, "p=0x%llx", (unsigned long long)p);
    CUSHIM_TRY(cushim_scope_answer(&scope, "cuPointerGetAttribute", result));
    info->kind = CUSHIM_MEMORY_FOREIGN;
    info->owner = CUSHIM_OWNER_NONE;
    info->device = device;
    if (CUSHIM_DRIVER(cuMemGetAddressRange_v2)(&start, &bytes, p) == CUDA_SUCCESS) {
        info->start = start;
        info->bytes = bytes;
    }
    return CUSHIM_OK;
}

enum cushim_status cushim_memory_query(cushim_devptr p, struct cushim_memory_info *info) {
    struct cushim_memory_info ours = {.struct_size = sizeof ours, .device = -1};
    struct cushim_address_map_row row;
    CUSHIM_NEED(info);
    const struct cushim_memory_info none = {.struct_size = sizeof none};
    CUSHIM_TRY(cushim_struct_size_give(__func__, info, &none, sizeof none));
    CUSHIM_TRY(cushim_driver_use_process(__func__));
    CUSHIM_FAIL_IF(__func__, !p, CUSHIM_UNKNOWNPTR, "p=NULL");
    if (cushim_address_map_find(p, &row)) {
        tell_row(&row, &ours);
        cushim_address_map_drop(&row);
    } else {
        CUSHIM_TRY(tell_foreign(__func__, p, &ours));
    }
    return cushim_struct_size_give(__func__, info, &ours, sizeof ours);
}

/* ---- of a device ---- */

enum cushim_status cushim_memory_info(struct cushim_context *ctx, size_t *free_bytes,
                                      size_t *total_bytes) {
    size_t n_free = 0, n_total = 0, unwanted;
    if (!free_bytes && !total_bytes)
        return CUSHIM_FAIL(CUSHIM_INVALID, "free_bytes=NULL total_bytes=NULL");
    free_bytes = free_bytes ? free_bytes : &unwanted;
    total_bytes = total_bytes ? total_bytes : &unwanted;
    *free_bytes = *total_bytes = 0;
    CUSHIM_ENTER_CONTEXT(ctx);
    CUSHIM_TRY(CUSHIM_CALL(&scope, cuMemGetInfo_v2, &n_free, &n_total));
    *free_bytes = n_free;
    *total_bytes = n_total;
    return CUSHIM_OK;
}

enum cushim_status cushim_memory_info_pools(struct cushim_context *ctx, size_t *reusable_bytes) {
    CUSHIM_OUT(reusable_bytes);
    CUSHIM_ENTER_CONTEXT(ctx);
    *reusable_bytes = cushim_pressure_sum(scope.context).reusable_bytes;
    return CUSHIM_OK;
}
