#include "memory/provider/fill.h"

#include <string.h>

#include "base/bits.h"
#include "base/futex.h"
#include "cuda/current_context.h"
#include "cuda/translate.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { CACHED_BYTES = 2 << 20 }; /* up to this size stores through the caches are faster */

size_t cushim_mem_fill_due(struct cushim_mem_segment *segment, uint64_t address, size_t n_bytes,
                           size_t block_bytes) {
    size_t offset = address - segment->base;
    size_t used = load_relaxed(&segment->used_bytes);
    size_t due = cushim_less(used, offset);
    while (used < offset + block_bytes &&
           !atomic_compare_exchange_weak_explicit(&segment->used_bytes, &used, offset + block_bytes,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
    return cushim_least(due, n_bytes);
}

void cushim_mem_fill_host(void *address, size_t n_bytes) {
    size_t n_streamed = 0;
#ifdef __SSE2__
    if (n_bytes > CACHED_BYTES) {
        const __m128i zero = _mm_setzero_si128();
        char *at = address;
        n_streamed = n_bytes & ~(size_t)63;
        for (char *end = at + n_streamed; at < end; at += 64) {
            for (int i = 0; i < 4; i++)
                _mm_stream_si128((__m128i *)(void *)at + i, zero);
        }
        _mm_sfence();
    }
#endif
    memset((char *)address + n_streamed, 0, n_bytes - n_streamed);
}

/* ---- on the filler's stream ---- */

/* The stream, made if there is none; its context is current. */
static CUresult find_stream(struct cushim_mem_filler *filler, CUstream *stream) {
    CUresult answer = CUDA_SUCCESS;
    CUstream made;
    *stream = atomic_load(&filler->stream);
    if (*stream)
        return answer;
    answer = filler->cuda->cuStreamCreate(&made, CU_STREAM_NON_BLOCKING);
    if (answer != CUDA_SUCCESS)
        return answer;
    if (atomic_compare_exchange_strong(&filler->stream, stream, made))
        *stream = made;
    else
        filler->cuda->cuStreamDestroy_v2(made); /* another thread was first */
    return answer;
}

static CUresult submit(struct cushim_cuda *cuda, const struct cushim_mem_fill *fills,
                       unsigned n_fills, CUstream stream) {
    CUresult answer = CUDA_SUCCESS;
    for (unsigned i = 0; i < n_fills && answer == CUDA_SUCCESS; i++) {
        const struct cushim_mem_fill *fill = &fills[i];
        if (fill->host)
            answer = cuda->cuMemcpyDtoHAsync_v2(fill->host, fill->address, fill->n_bytes, stream);
        else if (fill->n_bytes)
            answer = cuda->cuMemsetD8Async(fill->address, fill->value, fill->n_bytes, stream);
    }
    return answer;
}

static CUresult wait(struct cushim_cuda *cuda, CUevent event, uint64_t patience_ns) {
    if (!patience_ns)
        return cuda->cuEventSynchronize(event);
    uint64_t end_ns = cushim_clock_ns() + patience_ns;
    CUresult answer;
    unsigned n_looks = 0;
    while ((answer = cuda->cuEventQuery(event)) == CUDA_ERROR_NOT_READY &&
           cushim_clock_ns() < end_ns)
        cushim_futex_back_off(&n_looks);
    return answer;
}

/* Is the submitted work over?  If it reads, synchronise after a failure, because it may still write
 * to the caller's memory.
 */
static bool is_over(struct cushim_cuda *cuda, CUevent event, CUstream stream, bool is_read,
                    uint64_t patience_ns) {
    if (cuda->cuEventRecord(event, stream) == CUDA_SUCCESS &&
        wait(cuda, event, patience_ns) == CUDA_SUCCESS)
        return true;
    return is_read && cuda->cuStreamSynchronize &&
           cuda->cuStreamSynchronize(stream) == CUDA_SUCCESS;
}

static enum cushim_status submit_and_wait(struct cushim_mem_filler *filler,
                                          const struct cushim_mem_fill *fills, unsigned n_fills,
                                          uint64_t patience_ns) {
    struct cushim_cuda *cuda = filler->cuda;
    CUstream stream;
    CUevent event;
    CUresult answer = find_stream(filler, &stream);
    if (answer == CUDA_SUCCESS)
        answer = cuda->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    if (answer != CUDA_SUCCESS)
        return cushim_status_from_cu(answer);
    answer = submit(cuda, fills, n_fills, stream);
    bool is_done = is_over(cuda, event, stream, fills->host != NULL, patience_ns);
    cuda->cuEventDestroy_v2(event);
    return is_done ? cushim_status_from_cu(answer) : CUSHIM_TIMEOUT;
}

enum cushim_status cushim_mem_fill_device(struct cushim_mem_filler *filler,
                                          const struct cushim_mem_fill *fills, unsigned n_fills,
                                          uint64_t patience_ns) {
    struct cushim_cuda *cuda = filler->cuda;
    CUresult answer;
    bool has_calls =
        fills->host ? cuda->cuMemcpyDtoHAsync_v2 != NULL : cuda->cuMemsetD8Async != NULL;
    if (!has_calls || !cuda->cuStreamCreate || !cuda->cuStreamDestroy_v2)
        return CUSHIM_NOTSUPPORTED;
    for (unsigned i = 0; i < n_fills && patience_ns; i++) /* no bus is as slow as 1 GB/s */
        patience_ns += fills[i].n_bytes;
    CUSHIM_ENTERED entered = cushim_current_context_enter(cuda, filler->context, &answer);
    if (answer != CUDA_SUCCESS)
        return cushim_status_from_cu(answer);
    return CUSHIM_IN_RELAXED(cuda, submit_and_wait(filler, fills, n_fills, patience_ns));
}
