#include "tests/unit/fake/fake_cuda.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/table.h"
#include "tests/unit/fake/fake_state.h"

struct fake_state fake = {.lock = PTHREAD_MUTEX_INITIALIZER};
_Thread_local struct fake_thread fake_thread;

/* ---- the start of every call ---- */

static void count(const char *name) {
    unsigned i = 0;
    while (fake.counts[i].name && strcmp(fake.counts[i].name, name) != 0)
        i++;
    fake.counts[i].name = name;
    fake.counts[i].n++;
    fake.n_all_calls++;
}

__attribute__((format(printf, 1, 2))) static void note(const char *format, ...) {
    va_list args;
    va_start(args, format);
    size_t room = sizeof fake.order - fake.order_bytes;
    if (fake.order_bytes && room > 1) {
        fake.order[fake.order_bytes++] = ' ';
        room--;
    }
    int n = vsnprintf(fake.order + fake.order_bytes, room, format, args);
    fake.order_bytes += (size_t)n < room ? (size_t)n : room - 1;
    va_end(args);
}

/* Takes the lock; true if the call has to fail with *result. */
static bool begin(const char *name, bool is_countable, CUresult *result) {
    void (*on_call)(const char *) = __atomic_load_n(&fake.on_call, __ATOMIC_ACQUIRE);
    if (on_call)
        on_call(name);
    pthread_mutex_lock(&fake.lock);
    count(name);
    *result = CUDA_SUCCESS;
    if (is_countable && fake.fail_at && --fake.fail_at == 0) {
        fake.has_failed = true;
        fake.failed_call = name;
        *result = fake.fail_result;
    } else if (fake.always_name && strcmp(fake.always_name, name) == 0) {
        *result = fake.always_result;
    }
    return *result != CUDA_SUCCESS;
}

static CUresult end(CUresult result) {
    pthread_mutex_unlock(&fake.lock);
    return result;
}

static CUcontext current(void) {
    return fake_thread.depth ? fake_thread.stack[fake_thread.depth - 1] : NULL;
}

static CUresult fault(CUresult result) {
    fake.n_faults++;
    return result;
}

/* A call that is forbidden while a capture is open, unless the thread is RELAXED. */
static bool breaks_capture(void) {
    bool breaks = false;
    for (unsigned i = 0; i < FAKE_CONTEXTS; i++) {
        if (fake.contexts[i].n_captures && fake_thread.mode != CU_STREAM_CAPTURE_MODE_RELAXED) {
            fake.n_invalidated++;
            breaks = true;
        }
    }
    return breaks;
}

static bool is_of(unsigned stream, const struct CUctx_st *context) {
    return stream % FAKE_CONTEXTS == context->number;
}

static void finish_context(const struct CUctx_st *context) {
    for (unsigned i = 0; i < FAKE_STREAMS; i++) {
        if (is_of(i, context))
            fake.streams[i].n_done = fake.streams[i].n_submitted;
    }
}

/* ---- memory ---- */

static CUresult fake_cuMemAlloc_v2(CUdeviceptr *address, size_t n_bytes) {
    const size_t step = n_bytes > 1 << 20 ? 2 << 20 : 512;
    CUresult result;
    if (begin("cuMemAlloc_v2", true, &result))
        return end(result);
    note("cuMemAlloc_v2(%zu)", n_bytes);
    if (!current())
        return end(CUDA_ERROR_INVALID_CONTEXT);
    if (breaks_capture())
        return end(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    if (n_bytes > (size_t)1 << 44)
        return end(CUDA_ERROR_OUT_OF_MEMORY);
    size_t span_bytes = (n_bytes + step - 1) / step * step;
    if (fake.used_bytes + span_bytes > fake.limit_bytes)
        return end(CUDA_ERROR_OUT_OF_MEMORY);
    struct fake_allocation *row = fake.freed_last;
    if (row && row->span_bytes == span_bytes) {
        fake.freed_last = NULL;
    } else {
        row = calloc(1, sizeof *row);
        row->address = fake.next_address;
        row->span_bytes = span_bytes;
        fake.next_address += (span_bytes + (2 << 20) - 1) & ~(uint64_t)((2 << 20) - 1);
        HASH_ADD(hh, fake.allocations, address, sizeof row->address, row);
    }
    row->n_bytes = n_bytes;
    row->is_live = true;
    fake.used_bytes += span_bytes;
    fake.n_live++;
    *address = row->address;
    return end(CUDA_SUCCESS);
}

static CUresult fake_cuMemFree_v2(CUdeviceptr address) {
    CUresult result;
    struct fake_allocation *row;
    uint64_t key = address;
    if (begin("cuMemFree_v2", true, &result))
        return end(result);
    HASH_FIND(hh, fake.allocations, &key, sizeof key, row);
    note("cuMemFree_v2(%zu)", row ? row->n_bytes : 0);
    if (!row || !row->is_live)
        return end(fault(CUDA_ERROR_INVALID_VALUE));
    if (!current())
        return end(CUDA_ERROR_INVALID_CONTEXT);
    if (breaks_capture())
        return end(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    finish_context(current());
    row->is_live = false;
    fake.used_bytes -= row->span_bytes;
    fake.n_live--;
    fake.freed_last = row;
    return end(CUDA_SUCCESS);
}

static CUresult fake_cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
    CUresult result;
    if (begin("cuMemGetInfo_v2", true, &result))
        return end(result);
    *free_bytes = fake.limit_bytes - fake.used_bytes;
    *total_bytes = fake.limit_bytes;
    return end(CUDA_SUCCESS);
}

/* ---- contexts and modes ---- */

static CUresult fake_cuCtxGetCurrent(CUcontext *context) {
    CUresult result;
    if (!begin("cuCtxGetCurrent", true, &result))
        *context = current();
    return end(result);
}

static CUresult fake_cuCtxPushCurrent_v2(CUcontext context) {
    CUresult result;
    if (begin("cuCtxPushCurrent_v2", true, &result))
        return end(result);
    if (fake_thread.depth == FAKE_MAX_DEPTH)
        return end(fault(CUDA_ERROR_INVALID_CONTEXT));
    fake_thread.stack[fake_thread.depth++] = context;
    return end(CUDA_SUCCESS);
}

static CUresult fake_cuCtxPopCurrent_v2(CUcontext *context) {
    CUresult result;
    begin("cuCtxPopCurrent_v2", false, &result);
    if (!fake_thread.depth)
        return end(fault(CUDA_ERROR_INVALID_CONTEXT));
    *context = fake_thread.stack[--fake_thread.depth];
    return end(CUDA_SUCCESS);
}

static CUresult fake_cuCtxGetFlags(unsigned *flags) {
    CUresult result;
    if (begin("cuCtxGetFlags", true, &result))
        return end(result);
    if (!current())
        return end(CUDA_ERROR_INVALID_CONTEXT);
    *flags = current()->flags;
    return end(CUDA_SUCCESS);
}

static CUresult fake_cuCtxGetDevice(CUdevice *device) {
    CUresult result;
    if (!begin("cuCtxGetDevice", true, &result))
        *device = 0;
    return end(result);
}

static CUresult fake_cuCtxSynchronize(void) {
    CUresult result;
    if (begin("cuCtxSynchronize", true, &result))
        return end(result);
    if (!current())
        return end(CUDA_ERROR_INVALID_CONTEXT);
    note("cuCtxSynchronize(%u)", current()->number);
    if (breaks_capture())
        return end(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    finish_context(current());
    return end(CUDA_SUCCESS);
}

static CUresult fake_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
    CUresult result;
    begin("cuThreadExchangeStreamCaptureMode", false, &result);
    CUstreamCaptureMode before = fake_thread.mode;
    fake_thread.mode = *mode;
    *mode = before;
    return end(CUDA_SUCCESS);
}

/* ---- events and streams ---- */

static CUresult fake_cuEventCreate(CUevent *event, unsigned flags) {
    CUresult result;
    if (begin("cuEventCreate", true, &result))
        return end(result);
    note("cuEventCreate(%u)", flags);
    if (!current())
        return end(CUDA_ERROR_INVALID_CONTEXT);
    CUevent fresh = calloc(1, sizeof *fresh);
    fresh->context = current();
    fresh->is_alive = true;
    fresh->next = fake.events;
    fake.events = fresh;
    fake.n_events++;
    *event = fresh;
    return end(CUDA_SUCCESS);
}

static CUresult fake_cuEventDestroy_v2(CUevent event) {
    CUresult result;
    begin("cuEventDestroy_v2", false, &result);
    note("cuEventDestroy_v2");
    if (!event->is_alive)
        return end(fault(CUDA_ERROR_INVALID_HANDLE));
    event->is_alive = false;
    fake.n_events--;
    return end(CUDA_SUCCESS);
}

static CUresult fake_cuCtxRecordEvent(CUcontext context, CUevent event) {
    CUresult result;
    if (begin("cuCtxRecordEvent", true, &result))
        return end(result);
    note("cuCtxRecordEvent(%u)", context->number);
    if (!event->is_alive || event->context != context)
        return end(fault(CUDA_ERROR_INVALID_HANDLE));
    if (context->n_captures) {
        fake.n_invalidated++;
        return end(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    for (unsigned i = 0; i < FAKE_STREAMS; i++)
        event->needs[i] = is_of(i, context) ? fake.streams[i].n_submitted : 0;
    return end(CUDA_SUCCESS);
}

static CUresult fake_cuEventRecord(CUevent event, CUstream stream) {
    CUresult result;
    if (begin("cuEventRecord", true, &result))
        return end(result);
    unsigned number = stream ? stream->number : current()->number;
    note("cuEventRecord(%u)", number);
    if (!event->is_alive || !is_of(number, event->context))
        return end(fault(CUDA_ERROR_INVALID_HANDLE));
    for (unsigned i = 0; i < FAKE_STREAMS; i++)
        event->needs[i] = i == number ? fake.streams[i].n_submitted : 0;
    return end(CUDA_SUCCESS);
}

static bool has_passed(const struct CUevent_st *event) {
    for (unsigned i = 0; i < FAKE_STREAMS; i++) {
        if (fake.streams[i].n_done < event->needs[i])
            return false;
    }
    return true;
}

static CUresult fake_cuEventQuery(CUevent event) {
    CUresult result;
    if (begin("cuEventQuery", true, &result))
        return end(result);
    note("cuEventQuery(%u)", event->context->number);
    if (!event->is_alive)
        return end(fault(CUDA_ERROR_INVALID_HANDLE));
    if (breaks_capture())
        return end(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return end(has_passed(event) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY);
}

static CUresult fake_cuEventSynchronize(CUevent event) {
    CUresult result;
    if (begin("cuEventSynchronize", true, &result))
        return end(result);
    note("cuEventSynchronize(%u)", event->context->number);
    if (!event->is_alive)
        return end(fault(CUDA_ERROR_INVALID_HANDLE));
    if (breaks_capture())
        return end(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    for (unsigned i = 0; i < FAKE_STREAMS; i++) {
        if (fake.streams[i].n_done < event->needs[i])
            fake.streams[i].n_done = event->needs[i];
    }
    return end(CUDA_SUCCESS);
}

static CUresult fake_cuStreamGetCtx(CUstream stream, CUcontext *context) {
    CUresult result;
    if (!begin("cuStreamGetCtx", true, &result))
        *context = &fake.contexts[stream->number % FAKE_CONTEXTS];
    return end(result);
}

/* ---- the table ---- */

static CUresult fake_cuInit(unsigned flags) {
    (void)flags;
    return CUDA_SUCCESS;
}

static CUresult fake_cuGetProcAddress(const char *name, void **function, int version,
                                      cuuint64_t flags) {
    (void)version;
    (void)flags;
    *function = fake_find(name, NULL);
    return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

void *fake_find(const char *name, void *cookie) {
    void *address = NULL;
    if (cookie && strcmp(name, cookie) == 0)
        return NULL;
        /* copies the bytes, because C has no cast from a function to void *; a wrong signature does
         * not compile */
#define FAKE(abi)                                                                                  \
    do {                                                                                           \
        __typeof__(&abi) function = fake_##abi;                                                    \
        if (strcmp(name, #abi) == 0)                                                               \
            memcpy(&address, &function, sizeof address);                                           \
    } while (0)
    FAKE(cuGetProcAddress);
    FAKE(cuInit);
    FAKE(cuMemAlloc_v2);
    FAKE(cuMemFree_v2);
    FAKE(cuMemGetInfo_v2);
    FAKE(cuCtxGetCurrent);
    FAKE(cuCtxPushCurrent_v2);
    FAKE(cuCtxPopCurrent_v2);
    FAKE(cuCtxGetFlags);
    FAKE(cuCtxGetDevice);
    FAKE(cuCtxSynchronize);
    FAKE(cuCtxRecordEvent);
    FAKE(cuThreadExchangeStreamCaptureMode);
    FAKE(cuEventCreate);
    FAKE(cuEventDestroy_v2);
    FAKE(cuEventRecord);
    FAKE(cuEventQuery);
    FAKE(cuEventSynchronize);
    FAKE(cuStreamGetCtx);
#undef FAKE
    return address;
}

void fake_load(struct cushim_cuda *cuda, const char *without) {
    memset(cuda, 0, sizeof *cuda);
    cushim_cuda_load(cuda, fake_find, (void *)without, NULL);
}
