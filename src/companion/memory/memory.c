/*
 * Device memory: allocated from the driver and freed to it, and adopted memory of other code.
 */
#include "cushim/memory.h"

#include "companion/capture/known_captures.h"
#include "companion/memory/memory.h"
#include "companion/context/pressure.h"

/* ---- getting it ---- */

enum cushim_status cushim_memory_fail_full(struct cushim_scope *scope, const char *entry,
                                           CUresult result, size_t asked_bytes) {
    size_t free_bytes = 0, total_bytes = 0;
    CUSHIM_DRIVER(cuMemGetInfo_v2)
    (&free_bytes, &total_bytes); /* they stay 0 if it fails, and the text says so */
    struct cushim_pressure_held held = cushim_pressure_sum(scope->context);
    return cushim_scope_fail_cu(
        scope, entry, result,
        "device=%d asked=%zu free=%zu total=%zu pools_cached=%zu pools_live=%zu steps=idle",
        scope->context->device, asked_bytes, free_bytes, total_bytes, held.cached_bytes,
        held.live_bytes);
}

static enum cushim_status record(struct cushim_scope *scope, struct cushim_memory_request *request,
                                 CUdeviceptr address) {
    const struct cushim_address_map_row row = {.start = address,
                                               .bytes = request->bytes,
                                               .kind = request->kind,
                                               .flags = request->flags,
                                               .context = scope->context,
                                               .owner = request->owner,
                                               .is_shared = request->owner != NULL};
    enum cushim_status status = cushim_address_map_record(&row);
    if (status == CUSHIM_OK)
        return CUSHIM_OK;
    if (request->pool)
        CUSHIM_DRIVER(cuMemFreeAsync)(address, request->stream);
    else
        request->release(address);
    if (status == CUSHIM_NOMEM)
        return cushim_scope_fail(scope, status, "no host memory for the ledger, asked=%zu",
                                 request->bytes);
    return cushim_scope_fail(scope, status, "0x%llx is in the ledger already",
                             (unsigned long long)address);
}

enum cushim_status cushim_memory_obtain(struct cushim_scope *scope,
                                        struct cushim_memory_request *request, uint64_t *address) {
    CUdeviceptr got = 0;
    CUstreamCaptureMode mode = cushim_capture_relax();
    CUresult result = request->obtain(request, &got);
    bool is_relievable =
        request->kind != CUSHIM_MEMORY_PINNED; /* because idle blocks are device memory */
    if (result == CUDA_ERROR_OUT_OF_MEMORY && is_relievable &&
        cushim_pressure_ask(scope->context, request->bytes) > 0)
        result = request->obtain(request, &got);
    enum cushim_status status;
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        status = cushim_memory_fail_full(scope, request->entry, result, request->bytes);
    else
        status = cushim_scope_answer(scope, request->entry, result);
    if (status == CUSHIM_OK)
        status = record(scope, request, got);
    cushim_capture_back(mode);
    *address = status == CUSHIM_OK ? got : 0;
    return status;
}

static CUresult obtain_plain(struct cushim_memory_request *request, CUdeviceptr *address) {
    return CUSHIM_DRIVER(cuMemAlloc_v2)(address, request->bytes);
}

CUresult cushim_memory_release_device(uint64_t start) {
    return CUSHIM_DRIVER(cuMemFree_v2)(start);
}

void cushim_memory_plain(struct cushim_memory_request *request, size_t bytes) {
    *request = (struct cushim_memory_request){.entry = "cuMemAlloc_v2",
                                              .kind = CUSHIM_MEMORY_DEVICE,
                                              .bytes = bytes,
                                              .obtain = obtain_plain,
                                              .release = cushim_memory_release_device};
}

enum cushim_status cushim_memory_alloc(struct cushim_context *ctx, size_t bytes, cushim_devptr *p) {
    struct cushim_memory_request request;
    CUSHIM_OUT(p);
    CUSHIM_SOME_BYTES(__func__, bytes);
    CUSHIM_ENTER_CONTEXT(ctx);
    cushim_memory_plain(&request, bytes);
    return cushim_memory_obtain(&scope, &request, p);
}

/* The size for the ledger is known after the call, because the driver chooses the pitch. */
static CUresult obtain_rows(struct cushim_memory_request *request, CUdeviceptr *address) {
    CUresult result = CUSHIM_DRIVER(cuMemAllocPitch_v2)(
        address, &request->pitch_bytes, request->width_bytes, request->rows, request->elem_bytes);
    if (result == CUDA_SUCCESS)
        request->bytes = request->pitch_bytes * request->rows;
    return result;
}

enum cushim_status cushim_memory_alloc_pitch(struct cushim_context *ctx, size_t width_bytes,
                                             size_t rows, unsigned elem_bytes, cushim_devptr *p,
                                             size_t *pitch_bytes) {
    struct cushim_memory_request request;
    size_t bytes;
    CUSHIM_CLEAR(p);
    CUSHIM_CLEAR(pitch_bytes);
    if (!p || !pitch_bytes)
        return CUSHIM_FAIL(CUSHIM_INVALID, "%s=NULL", p ? "pitch_bytes" : "p");
    CUSHIM_TRY(cushim_driver_use(__func__));
    if (elem_bytes != 4 && elem_bytes != 8 && elem_bytes != 16)
        return CUSHIM_FAIL(CUSHIM_INVALID, "elem_bytes=%u", elem_bytes);
    if (__builtin_mul_overflow(width_bytes, rows, &bytes))
        bytes = SIZE_MAX;
    CUSHIM_TRY(cushim_memory_check_bytes(__func__, "width_bytes", width_bytes));
    CUSHIM_TRY(cushim_memory_check_bytes(__func__, "rows", rows));
    CUSHIM_TRY(cushim_memory_check_bytes(__func__, "width_bytes * rows", bytes));
    if (!bytes)
        return CUSHIM_OK;
    CUSHIM_ENTER_CONTEXT(ctx);
    CUSHIM_NEED_ENTRY(__func__, cuMemAllocPitch_v2);
    cushim_memory_plain(&request, bytes);
    request.entry = "cuMemAllocPitch_v2";
    request.obtain = obtain_rows;
    request.width_bytes = width_bytes;
    request.rows = rows;
    request.elem_bytes = elem_bytes;
    enum cushim_status status = cushim_memory_obtain(&scope, &request, p);
    *pitch_bytes = status == CUSHIM_OK ? request.pitch_bytes : 0;
    return status;
}

/* ---- giving it back ---- */

/* Memory that another function frees, or that belongs to other code. */
static bool is_elsewhere(const struct cushim_address_map_row *row) {
    return row->owner || row->kind == CUSHIM_MEMORY_GRAPH || row->kind == CUSHIM_MEMORY_ADOPTED ||
           row->kind == CUSHIM_MEMORY_IPC || row->kind == CUSHIM_MEMORY_GLOBAL ||
           row->kind == CUSHIM_MEMORY_MAPPED;
}

static enum cushim_status judge_return(const struct cushim_memory_return *how,
                                       const struct cushim_address_map_row *row) {
    unsigned long long start = row->start;
    static const char *const owners[] = {
        [CUSHIM_OWNER_POOL] = "pool",     [CUSHIM_OWNER_ARENA] = "arena",
        [CUSHIM_OWNER_GRAPH] = "graph",   [CUSHIM_OWNER_MODULE] = "module",
        [CUSHIM_OWNER_MAPPER] = "mapper",
    };
    if (row->owner)
        return cushim_fail(how->what, CUSHIM_STATE, "ptr=0x%llx bytes=%zu %s=%p", start, row->bytes,
                           owners[cushim_memory_owner_of(row)], row->owner->handle);
    if (how->kinds & 1u << row->kind)
        return CUSHIM_OK;
    return cushim_fail(how->what, is_elsewhere(row) ? CUSHIM_STATE : CUSHIM_INVALID,
                       "ptr=0x%llx bytes=%zu is %s memory", start, row->bytes,
                       cushim_memory_kind_name(row->kind));
}

/* No row begins there: a block of a pool or an arena, freed memory, or an unknown address. */
static enum cushim_status judge_absent(const struct cushim_memory_return *how, uint64_t start,
                                       enum cushim_status status) {
    struct cushim_address_map_row row;
    bool is_found = cushim_address_map_find(start, &row);
    bool is_plain = is_found && row.start == start && !row.owner; /* it outlived its pool */
    if (is_found && row.start != start)
        status = cushim_fail(how->what, CUSHIM_UNKNOWNPTR, "ptr=0x%llx is inside 0x%llx",
                             (unsigned long long)start, (unsigned long long)row.start);
    else if (is_found)
        status = judge_return(how, &row);
    if (is_found)
        cushim_address_map_drop(&row);
    if (is_found && (!is_plain || status != CUSHIM_OK))
        return status;
    enum cushim_status answer = CUSHIM_OK;
    if (cushim_pressure_release(how->what, start, how->is_host, &answer))
        return answer;
    return cushim_fail(how->what, status, "ptr=0x%llx", (unsigned long long)start);
}

enum cushim_status cushim_memory_take(const struct cushim_memory_return *how, uint64_t start,
                                      struct cushim_address_map_row *row) {
    enum cushim_status status = cushim_address_map_erase(start, row);
    if (status != CUSHIM_OK)
        return judge_absent(how, start, status);
    status = judge_return(how, row);
    if (status != CUSHIM_OK)
        cushim_address_map_restore(row);
    return status;
}

/* Free it in the driver, in the context of the row, which is not known to be dead. */
static enum cushim_status call_driver(const struct cushim_memory_return *how,
                                      const struct cushim_address_map_row *row) {
    CUSHIM_SCOPE scope = {0};
    CUSHIM_TRY(cushim_call_begin_known(&scope, how->what, row->context));
    if (!how->is_free)
        CUSHIM_TRY(cushim_capture_refuse(&scope));
    if (how->is_absent)
        return cushim_fail_nosym(how->what, how->entry);
    /* a capture forbids a thread to free only in the stricter modes */
    return cushim_scope_answer(&scope, how->entry, CUSHIM_RELAXED(how->release(row->start)));
}

enum cushim_status cushim_memory_give_back(const struct cushim_memory_return *how, uint64_t start) {
    struct cushim_address_map_row row;
    CUSHIM_TRY(cushim_driver_use_process(how->what));
    if (!start)
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_memory_take(how, start, &row));
    if (!row.context) /* it was a plain block, and is freed */
        return CUSHIM_OK;
    enum cushim_status status = CUSHIM_OK;
    if (how->release && !cushim_context_is_dead(row.context))
        status = call_driver(how, &row);
    if (status == CUSHIM_DEADCONTEXT) /* the memory is gone with its context */
        status = CUSHIM_OK;
    if (status == CUSHIM_OK)
        cushim_address_map_drop(&row);
    else
        cushim_address_map_restore(&row);
    return status;
}

enum cushim_status cushim_memory_free(cushim_devptr p) {
    const struct cushim_memory_return how = {.what = __func__,
                                             .entry = "cuMemFree_v2",
                                             .kinds = 1u << CUSHIM_MEMORY_DEVICE |
                                                      1u << CUSHIM_MEMORY_MANAGED |
                                                      1u << CUSHIM_MEMORY_ASYNC,
                                             .release = cushim_memory_release_device,
                                             .is_free = true};
    return cushim_memory_give_back(&how, p);
}

/* ---- memory of others ---- */

/* The range lies in one allocation of the driver, and that is of this context. */
static enum cushim_status judge_foreign(struct cushim_scope *scope, CUdeviceptr p, size_t bytes) {
    CUdeviceptr base = 0;
    size_t size = 0;
    CUcontext context = NULL;
    CUresult result = CUSHIM_DRIVER(cuMemGetAddressRange_v2)(&base, &size, p);
    if (result == CUDA_ERROR_NOT_FOUND || result == CUDA_ERROR_INVALID_VALUE ||
        (result == CUDA_SUCCESS && (p < base || p - base > size || bytes > size - (p - base))))
        return cushim_scope_fail(scope, CUSHIM_INVALID,
                                 "p=0x%llx bytes=%zu driver's base=0x%llx size=%zu",
                                 (unsigned long long)p, bytes, (unsigned long long)base, size);
    CUSHIM_TRY(cushim_scope_answer(scope, "cuMemGetAddressRange_v2", result));
    if (CUSHIM_DRIVER(cuPointerGetAttribute) &&
        CUSHIM_DRIVER(cuPointerGetAttribute)(&context, CU_POINTER_ATTRIBUTE_CONTEXT, p) ==
            CUDA_SUCCESS &&
        context && context != scope->context->handle)
        return cushim_scope_fail(scope, CUSHIM_BADDEVICE, "p=0x%llx context=%p, not %p",
                                 (unsigned long long)p, (void *)context,
                                 (void *)scope->context->handle);
    return CUSHIM_OK;
}

enum cushim_status cushim_memory_adopt(struct cushim_context *ctx, cushim_devptr p, size_t bytes) {
    CUSHIM_SOME_BYTES(__func__, bytes);
    if (!p)
        return CUSHIM_FAIL(CUSHIM_INVALID, "p=NULL");
    CUSHIM_ENTER_CONTEXT(ctx);
    CUSHIM_NEED_ENTRY(__func__, cuMemGetAddressRange_v2);
    CUSHIM_TRY(judge_foreign(&scope, p, bytes));
    const struct cushim_address_map_row row = {
        .start = p, .bytes = bytes, .kind = CUSHIM_MEMORY_ADOPTED, .context = scope.context};
    enum cushim_status status = cushim_address_map_record(&row);
    return status == CUSHIM_OK ? status
                               : cushim_scope_fail(&scope, status, "p=0x%llx bytes=%zu",
                                                   (unsigned long long)p, bytes);
}

enum cushim_status cushim_memory_disown(cushim_devptr p) {
    const struct cushim_memory_return how = {.what = __func__,
                                             .kinds = 1u << CUSHIM_MEMORY_ADOPTED};
    return cushim_memory_give_back(&how, p);
}
