#include "memory/special/guard.h"

#include <string.h>

#include "cuda/translate.h"
#include "cuda/table.h"
#include "memory/current_context.h"
#include "memory/provider/helper_stream.h"
#include "memory/state/heap_state.h"

/* What is read at a time, on the caller's stack. */
enum { PIECE_BYTES = 16 << 10 };

/* A kernel that fills the device may run for ever. */
static const uint64_t patience_ns = 1000000000;

/* What is done on the stream: the fills, or reads of as many bytes each into `host`. */
struct work {
    const struct cushim_mem_fill *fills;
    unsigned n_fills;
    unsigned char *host;
    const uint64_t *addresses;
    unsigned n_reads;
    size_t n_bytes; /* of the fills in all, or of each read */
};

_Static_assert((int)CUSHIM_MEM_GUARD_READS *(int)CUSHIM_MEM_GUARD_BYTES <= (int)PIECE_BYTES,
               "the guards of a look fit into a piece");

static CUresult submit(struct cushim_cuda *cuda, const struct work *work, CUstream stream) {
    CUresult answer = CUDA_SUCCESS;
    for (unsigned i = 0; i < work->n_reads && answer == CUDA_SUCCESS; i++)
        answer = cuda->cuMemcpyDtoHAsync_v2(work->host + i * work->n_bytes, work->addresses[i],
                                            work->n_bytes, stream);
    for (unsigned i = 0; i < work->n_fills && answer == CUDA_SUCCESS; i++) {
        const struct cushim_mem_fill *fill = &work->fills[i];
        if (fill->n_bytes)
            answer = cuda->cuMemsetD8Async(fill->address, fill->value, fill->n_bytes, stream);
    }
    return answer;
}

static enum cushim_status status_of_wait(CUresult answer) {
    return answer == CUDA_ERROR_NOT_READY ? CUSHIM_TIMEOUT : cushim_status_from_cu(answer);
}

/* A read is waited for to its end: it goes to the caller's memory. */
static enum cushim_status submit_and_wait(struct cushim_cuda *cuda, const struct work *work,
                                          CUstream stream) {
    CUevent event;
    CUresult answer = cuda->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    if (answer != CUDA_SUCCESS)
        return cushim_status_from_cu(answer);
    answer = submit(cuda, work, stream);
    CUresult recorded = cuda->cuEventRecord(event, stream);
    enum cushim_status status = CUSHIM_TIMEOUT;
    if (recorded == CUDA_SUCCESS && work->host)
        status = cushim_status_from_cu(cuda->cuEventSynchronize(event));
    else if (recorded == CUDA_SUCCESS)
        status =
            status_of_wait(cushim_mem_helper_stream_wait(cuda, event, patience_ns, work->n_bytes));
    if (status == CUSHIM_OK)
        status = cushim_status_from_cu(answer);
    cuda->cuEventDestroy_v2(event);
    return status;
}

static enum cushim_status run(struct cushim_mem_heap *pool, const struct work *work) {
    struct cushim_cuda *cuda = pool->cuda;
    CUresult answer;
    CUstream stream;
    if (!cuda->cuMemsetD8Async || !cuda->cuMemcpyDtoHAsync_v2 || !cuda->cuStreamCreate ||
        !cuda->cuStreamDestroy_v2)
        return CUSHIM_NOTSUPPORTED;
    bool has_entered = cushim_mem_current_context_enter(cuda, pool->context, &answer);
    if (answer != CUDA_SUCCESS)
        return cushim_status_from_cu(answer);
    CUstreamCaptureMode mode = cushim_mem_mode_relaxed(cuda);
    answer = cushim_mem_helper_stream_find(&pool->guard.stream, cuda, &stream);
    enum cushim_status status = answer == CUDA_SUCCESS ? submit_and_wait(cuda, work, stream)
                                                       : cushim_status_from_cu(answer);
    cushim_mem_mode_back(cuda, mode);
    if (has_entered)
        cushim_mem_current_context_leave(cuda);
    return status;
}

enum cushim_status cushim_mem_guard_write(struct cushim_mem_heap *pool,
                                          const struct cushim_mem_fill *fills, unsigned n_fills) {
    struct work work = {.fills = fills, .n_fills = n_fills};
    for (unsigned i = 0; i < n_fills; i++)
        work.n_bytes += fills[i].n_bytes;
    return run(pool, &work);
}

static size_t first_other(const unsigned char *bytes, size_t n_bytes, unsigned char value) {
    size_t i = 0;
    while (i < n_bytes && bytes[i] == value)
        i++;
    return i;
}

enum cushim_status cushim_mem_guard_compare(struct cushim_mem_heap *pool, uint64_t address,
                                            size_t n_bytes, unsigned char value,
                                            struct cushim_mem_flaw *flaw) {
    unsigned char piece[PIECE_BYTES];
    enum cushim_status status = CUSHIM_OK;
    *flaw = (struct cushim_mem_flaw){.offset = n_bytes};
    for (size_t at = 0; at < n_bytes && status == CUSHIM_OK; at += PIECE_BYTES) {
        size_t n = n_bytes - at < PIECE_BYTES ? n_bytes - at : PIECE_BYTES;
        uint64_t from = address + at;
        struct work work = {.host = piece, .addresses = &from, .n_reads = 1, .n_bytes = n};
        status = run(pool, &work);
        size_t first = status == CUSHIM_OK ? first_other(piece, n, value) : n;
        if (first == n)
            continue;
        *flaw = (struct cushim_mem_flaw){at + first, piece[first]};
        break;
    }
    return status;
}

enum cushim_status cushim_mem_guard_look(struct cushim_mem_heap *pool, const uint64_t *addresses,
                                         unsigned n, struct cushim_mem_flaw *flaws) {
    enum { N = CUSHIM_MEM_GUARD_BYTES };
    unsigned char piece[PIECE_BYTES];
    struct work work = {.host = piece, .addresses = addresses, .n_reads = n, .n_bytes = N};
    enum cushim_status status = run(pool, &work);
    for (unsigned i = 0; i < n && status == CUSHIM_OK; i++) {
        const unsigned char *guard = piece + (size_t)i * N;
        size_t first = first_other(guard, N, CUSHIM_MEM_GUARD_FILL);
        flaws[i] = (struct cushim_mem_flaw){first, first < N ? guard[first] : 0};
    }
    return status;
}

void cushim_mem_guard_abandon(struct cushim_mem_guard *guard) {
    atomic_store(&guard->stream, NULL);
}
