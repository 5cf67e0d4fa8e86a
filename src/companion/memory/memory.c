/*
 * Device memory: allocated from the driver and freed to it, and adopted memory of other code.
 */
#include "cushim/memory.h"

#include "companion/capture/known_captures.h"
#include "companion/memory/memory.h"
#include "companion/context/pressure.h"

/* ---- getting it ---- */

/* Call what gives memory of this kind back to the driver. */
static enum cushim_status release(struct cushim_scope *scope, enum cushim_memory_kind kind,
                                  uint64_t start) {
    switch (kind) {
    case CUSHIM_MEMORY_PINNED:
        return CUSHIM_CALL(scope, cuMemFreeHost, (void *)(uintptr_t)start);
    case CUSHIM_MEMORY_REGISTERED:
        return CUSHIM_CALL(scope, cuMemHostUnregister, (void *)(uintptr_t)start);
    case CUSHIM_MEMORY_IPC:
        return CUSHIM_CALL(scope, cuIpcCloseMemHandle, start);
    default:
        return CUSHIM_CALL(scope, cuMemFree_v2, start);
    }
}

static enum cushim_status record(struct cushim_scope *scope, struct cushim_memory_request *request,
                                 CUdeviceptr address) {
    struct cushim_address_map_row row = cushim_address_map_row_of(
        request->kind, address, request->bytes, scope->context, request->owner);
    row.flags = request->flags;
    row.is_shared = request->owner != NULL;
    enum cushim_status status = cushim_address_map_record(&row);
    if (status == CUSHIM_OK)
        return CUSHIM_OK;
    if (request->pool)
        CUSHIM_DRIVER(cuMemFreeAsync)(address, request->stream);
    else
        release(scope, request->kind, address);
    CUSHIM_FAIL_IF(scope->what, status == CUSHIM_NOMEM, status,
                   "no host memory for the ledger, asked=%zu", request->bytes);
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
    enum cushim_status status =
        result == CUDA_ERROR_OUT_OF_MEMORY
            ? cushim_pressure_fail(scope, request->entry, request->bytes, "idle")
            : cushim_scope_answer(scope, request->entry, result);
    if (status == CUSHIM_OK)
        status = record(scope, request, got);
    cushim_capture_back(mode);
    *address = status == CUSHIM_OK ? got : 0;
    return status;
}

static CUresult obtain_plain(struct cushim_memory_request *request, CUdeviceptr *address) {
    return CUSHIM_DRIVER(cuMemAlloc_v2)(address, request->bytes);
}

void cushim_memory_plain(struct cushim_memory_request *request, size_t bytes) {
    *request = (struct cushim_memory_request){
        .entry = "cuMemAlloc_v2", .bytes = bytes, .obtain = obtain_plain};
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

static enum cushim_status judge_return(const char *what, unsigned kinds,
                                       const struct cushim_address_map_row *row) {
    unsigned long long start = row->start;
    static const char *const owners[] = {
        [CUSHIM_OWNER_POOL] = "pool",     [CUSHIM_OWNER_ARENA] = "arena",
        [CUSHIM_OWNER_GRAPH] = "graph",   [CUSHIM_OWNER_MODULE] = "module",
        [CUSHIM_OWNER_MAPPER] = "mapper",
    };
    CUSHIM_FAIL_IF(what, row->owner, CUSHIM_STATE, "ptr=0x%llx bytes=%zu %s=%p", start, row->bytes,
                   owners[cushim_memory_owner_of(row)], row->owner->handle);
    if (kinds & 1u << row->kind)
        return CUSHIM_OK;
    const unsigned elsewhere = CUSHIM_MEMORY_KIND(GRAPH) | CUSHIM_MEMORY_KIND(ADOPTED) |
                               CUSHIM_MEMORY_KIND(IPC) | CUSHIM_MEMORY_KIND(GLOBAL) |
                               CUSHIM_MEMORY_KIND(MAPPED);
    return cushim_fail(what, elsewhere & 1u << row->kind ? CUSHIM_STATE : CUSHIM_INVALID,
                       "ptr=0x%llx bytes=%zu is %s memory", start, row->bytes,
                       cushim_memory_kind_name(row->kind));
}

/* No row begins there: a block of a pool or an arena, freed memory, or an unknown address. */
static enum cushim_status judge_absent(const char *what, unsigned kinds, uint64_t start,
                                       enum cushim_status status) {
    struct cushim_address_map_row row;
    if (cushim_address_map_find(start, &row)) {
        bool is_plain = row.start == start && !row.owner; /* it outlived its pool */
        status = row.start == start
                     ? judge_return(what, kinds, &row)
                     : cushim_fail(what, CUSHIM_UNKNOWNPTR, "ptr=0x%llx is inside 0x%llx",
                                   (unsigned long long)start, (unsigned long long)row.start);
        cushim_address_map_drop(&row);
        if (!is_plain || status != CUSHIM_OK)
            return status;
    }
    enum cushim_status answer = CUSHIM_OK;
    bool is_host = kinds & (CUSHIM_MEMORY_KIND(PINNED) | CUSHIM_MEMORY_KIND(REGISTERED));
    if (cushim_pressure_release(what, start, is_host, &answer))
        return answer;
    return cushim_fail(what, status, "ptr=0x%llx", (unsigned long long)start);
}

enum cushim_status cushim_memory_take(const char *what, unsigned kinds, uint64_t start,
                                      struct cushim_address_map_row *row) {
    enum cushim_status status = cushim_address_map_erase(start, row);
    if (status != CUSHIM_OK)
        return judge_absent(what, kinds, start, status);
    status = judge_return(what, kinds, row);
    if (status != CUSHIM_OK)
        cushim_address_map_restore(row);
    return status;
}

/* Free it in the driver, in the context of the row, which is not known to be dead. */
static enum cushim_status call_driver(const char *what, const struct cushim_address_map_row *row) {
    CUSHIM_SCOPE scope = {0};
    CUSHIM_TRY(cushim_call_begin_known(&scope, what, row->context));
    /* the driver allows the others during a capture, which stays valid */
    if (row->kind == CUSHIM_MEMORY_REGISTERED || row->kind == CUSHIM_MEMORY_IPC)
        CUSHIM_TRY(cushim_capture_refuse(&scope));
    /* a capture forbids a thread to free only in the stricter modes */
    return CUSHIM_RELAXED(release(&scope, row->kind, row->start));
}

enum cushim_status cushim_memory_give_back(const char *what, unsigned kinds, uint64_t start) {
    struct cushim_address_map_row row;
    CUSHIM_TRY(cushim_driver_use_process(what));
    if (!start)
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_memory_take(what, kinds, start, &row));
    if (!row.context) /* it was a plain block, and is freed */
        return CUSHIM_OK;
    enum cushim_status status = CUSHIM_OK;
    if (row.kind != CUSHIM_MEMORY_ADOPTED && !cushim_context_is_dead(row.context))
        status = call_driver(what, &row);
    if (status == CUSHIM_DEADCONTEXT) /* the memory is gone with its context */
        status = CUSHIM_OK;
    if (status == CUSHIM_OK)
        cushim_address_map_drop(&row);
    else
        cushim_address_map_restore(&row);
    return status;
}

enum cushim_status cushim_memory_free(cushim_devptr p) {
    return cushim_memory_give_back(
        __func__,
        CUSHIM_MEMORY_KIND(DEVICE) | CUSHIM_MEMORY_KIND(MANAGED) | CUSHIM_MEMORY_KIND(ASYNC), p);
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
    CUSHIM_FAIL_IF(__func__, !p, CUSHIM_INVALID, "p=NULL");
    CUSHIM_ENTER_CONTEXT(ctx);
    CUSHIM_NEED_ENTRY(__func__, cuMemGetAddressRange_v2);
    CUSHIM_TRY(judge_foreign(&scope, p, bytes));
    const struct cushim_address_map_row row =
        cushim_address_map_row_of(CUSHIM_MEMORY_ADOPTED, p, bytes, scope.context, NULL);
    enum cushim_status status = cushim_address_map_record(&row);
    return status == CUSHIM_OK ? status
                               : cushim_scope_fail(&scope, status, "p=0x%llx bytes=%zu",
                                                   (unsigned long long)p, bytes);
}

enum cushim_status cushim_memory_disown(cushim_devptr p) {
    return cushim_memory_give_back(__func__, CUSHIM_MEMORY_KIND(ADOPTED), p);
}
