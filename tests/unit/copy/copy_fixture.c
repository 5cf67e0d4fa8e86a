#include "copy_fixture.h"
#include "copy_kernel.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_TRANSFERS = 64 };

struct transfer {
    char *to;
    const char *from;
    size_t width_bytes, n_rows, to_row_bytes, from_row_bytes;
};

struct CUstream_st {
    struct transfer transfers[MAX_TRANSFERS];
    unsigned n_queued, n_done; /* transfers since it was created */
    bool is_dead;
    CUstream older;
};

struct CUevent_st {
    CUstream stream;
    unsigned needs;
    bool is_dead;
    CUevent older;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned n_out, fail_at;
static atomic_uint n_faults;
/* Dead handles are kept until the process ends, so that a later use is noticed. */
static CUstream youngest_stream;
static CUevent youngest_event;
static bool has_failed;
static char the_context;
static _Thread_local unsigned depth;

static bool fails(void) {
    if (!fail_at || --fail_at)
        return false;
    has_failed = true;
    return true;
}

#define ENTER                                                                                      \
    pthread_mutex_lock(&lock);                                                                     \
    if (fails()) {                                                                                 \
        pthread_mutex_unlock(&lock);                                                               \
        return CUDA_ERROR_UNKNOWN;                                                                 \
    }
#define LEAVE                                                                                      \
    pthread_mutex_unlock(&lock);                                                                   \
    return CUDA_SUCCESS;

static void run_until(CUstream stream, unsigned needs) {
    for (; stream->n_done < needs; stream->n_done++) {
        struct transfer *one = &stream->transfers[stream->n_done % MAX_TRANSFERS];
        for (size_t y = 0; y < one->n_rows; y++)
            memcpy(one->to + y * one->to_row_bytes, one->from + y * one->from_row_bytes,
                   one->width_bytes);
    }
}

static void queue(CUstream stream, struct transfer transfer) {
    n_faults += stream->is_dead;
    if (stream->n_queued - stream->n_done == MAX_TRANSFERS)
        run_until(stream, stream->n_done + 1);
    stream->transfers[stream->n_queued++ % MAX_TRANSFERS] = transfer;
}

static CUresult stream_create(CUstream *stream, unsigned flags) {
    ENTER
    n_faults += flags != CU_STREAM_NON_BLOCKING;
    *stream = calloc(1, sizeof **stream);
    (*stream)->older = youngest_stream;
    youngest_stream = *stream;
    n_out++;
    LEAVE
}

static CUresult stream_destroy(CUstream stream) {
    ENTER
    n_faults += stream->is_dead || stream->n_done != stream->n_queued;
    stream->is_dead = true;
    n_out--;
    LEAVE
}

static CUresult stream_synchronize(CUstream stream) {
    ENTER
    run_until(stream, stream->n_queued);
    LEAVE
}

static CUresult event_create(CUevent *event, unsigned flags) {
    (void)flags;
    ENTER
    *event = calloc(1, sizeof **event);
    (*event)->older = youngest_event;
    youngest_event = *event;
    n_out++;
    LEAVE
}

static CUresult event_destroy(CUevent event) {
    ENTER
    n_faults += event->is_dead;
    event->is_dead = true;
    n_out--;
    LEAVE
}

static CUresult event_record(CUevent event, CUstream stream) {
    ENTER
    event->stream = stream;
    event->needs = stream->n_queued;
    LEAVE
}

static CUresult event_synchronize(CUevent event) {
    ENTER
    n_faults += event->is_dead;
    run_until(event->stream, event->needs);
    LEAVE
}

static CUresult mem_host_alloc(void **memory, size_t n_bytes, unsigned flags) {
    (void)flags;
    ENTER
    *memory = malloc(n_bytes);
    n_out++;
    LEAVE
}

static CUresult mem_free_host(void *memory) {
    ENTER
    free(memory);
    n_out--;
    LEAVE
}

static CUresult copy_up(CUdeviceptr to, const void *from, size_t n, CUstream stream) {
    ENTER
    queue(stream, (struct transfer){(char *)(uintptr_t)to, from, n, 1, 0, 0});
    LEAVE
}

static CUresult copy_down(void *to, CUdeviceptr from, size_t n, CUstream stream) {
    ENTER
    queue(stream, (struct transfer){to, (char *)(uintptr_t)from, n, 1, 0, 0});
    LEAVE
}

static CUresult copy_rows(const CUDA_MEMCPY2D *rows, CUstream stream) {
    bool is_up = rows->dstMemoryType == CU_MEMORYTYPE_DEVICE;
    ENTER
    queue(stream,
          (struct transfer){is_up ? (char *)(uintptr_t)rows->dstDevice : rows->dstHost,
                            is_up ? rows->srcHost : (char *)(uintptr_t)rows->srcDevice,
                            rows->WidthInBytes, rows->Height, rows->dstPitch, rows->srcPitch});
    LEAVE
}

static CUresult get_current(CUcontext *context) {
    *context = depth ? copy_fixture_context() : NULL;
    return CUDA_SUCCESS;
}

static CUresult push_current(CUcontext context) {
    n_faults += context != copy_fixture_context();
    depth++;
    return CUDA_SUCCESS;
}

static CUresult pop_current(CUcontext *context) {
    n_faults += depth == 0;
    depth--;
    return get_current(context);
}

void copy_fixture_reset(struct cushim_cuda *cuda) {
    n_out = fail_at = 0;
    atomic_store(&n_faults, 0);
    has_failed = false;
    memset(cuda, 0, sizeof *cuda);
    cuda->cuStreamCreate = stream_create;
    cuda->cuStreamDestroy_v2 = stream_destroy;
    cuda->cuStreamSynchronize = stream_synchronize;
    cuda->cuEventCreate = event_create;
    cuda->cuEventDestroy_v2 = event_destroy;
    cuda->cuEventRecord = event_record;
    cuda->cuEventSynchronize = event_synchronize;
    cuda->cuMemHostAlloc = mem_host_alloc;
    cuda->cuMemFreeHost = mem_free_host;
    cuda->cuMemcpyHtoDAsync_v2 = copy_up;
    cuda->cuMemcpyDtoHAsync_v2 = copy_down;
    cuda->cuMemcpy2DAsync_v2 = copy_rows;
    cuda->cuCtxGetCurrent = get_current;
    cuda->cuCtxPushCurrent_v2 = push_current;
    cuda->cuCtxPopCurrent_v2 = pop_current;
}

CUcontext copy_fixture_context(void) {
    return (CUcontext)(void *)&the_context;
}

struct cushim_copy_box copy_fixture_line(void *host, void *device, size_t n_bytes,
                                         bool is_to_device) {
    return (struct cushim_copy_box){.host = {(uint64_t)(uintptr_t)host, n_bytes, n_bytes},
                                    .device = {(uint64_t)(uintptr_t)device, n_bytes, n_bytes},
                                    .width_bytes = n_bytes,
                                    .height = 1,
                                    .depth = 1,
                                    .is_to_device = is_to_device};
}

void copy_fixture_fail_at(unsigned n) {
    pthread_mutex_lock(&lock);
    fail_at = n;
    has_failed = false;
    pthread_mutex_unlock(&lock);
}

bool copy_fixture_has_failed(void) {
    return has_failed;
}

unsigned copy_fixture_n_out(void) {
    return n_out;
}

unsigned copy_fixture_n_faults(void) {
    return n_faults;
}
