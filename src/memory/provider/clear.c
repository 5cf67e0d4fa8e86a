#include "memory/provider/clear.h"

#include <string.h>

#include "cuda/translate.h"
#include "cuda/table.h"
#include "memory/current_context.h"
#include "memory/provider/helper_stream.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { CACHED_BYTES = 2 << 20 }; /* up to this the caches are the faster way */

/* For an idle device to answer. */
static const uint64_t patience_ns = 2000000;

size_t cushim_mem_clear_due(struct cushim_mem_segment *segment, uint64_t address, size_t n_bytes,
                            size_t block_bytes) {
    size_t offset = address - segment->base;
    size_t used = atomic_load_explicit(&segment->used_bytes, memory_order_relaxed);
    size_t due = used > offset ? used - offset : 0;
    while (used < offset + block_bytes &&
           !atomic_compare_exchange_weak_explicit(&segment->used_bytes, &used, offset + block_bytes,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
    return due < n_bytes ? due : n_bytes;
}

void cushim_mem_clear_host(void *address, size_t n_bytes) {
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

/* The pool's context is current, the capture mode RELAXED. */
static enum cushim_status fill(struct cushim_mem_clear *clear, struct cushim_cuda *cuda,
                               uint64_t address, size_t n_bytes) {
    CUstream stream;
    CUevent event;
    CUresult answer = cushim_mem_helper_stream_find(&clear->stream, cuda, &stream);
    if (answer == CUDA_SUCCESS)
        answer = cuda->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    if (answer != CUDA_SUCCESS)
        return cushim_status_from_cu(answer);
    enum cushim_status status = CUSHIM_TIMEOUT;
    answer = cuda->cuMemsetD8Async(address, 0, n_bytes, stream);
    if (answer != CUDA_SUCCESS)
        status = cushim_status_from_cu(answer);
    else if (cuda->cuEventRecord(event, stream) == CUDA_SUCCESS &&
             cushim_mem_helper_stream_wait(cuda, event, patience_ns, n_bytes) == CUDA_SUCCESS)
        status = CUSHIM_OK;
    cuda->cuEventDestroy_v2(event);
    return status;
}

enum cushim_status cushim_mem_clear_device(struct cushim_mem_clear *clear, struct cushim_cuda *cuda,
                                           CUcontext context, uint64_t address, size_t n_bytes) {
    CUresult answer;
    if (!cuda->cuMemsetD8Async || !cuda->cuStreamCreate || !cuda->cuStreamDestroy_v2)
        return CUSHIM_NOTSUPPORTED;
    bool has_entered = cushim_mem_current_context_enter(cuda, context, &answer);
    if (answer != CUDA_SUCCESS)
        return cushim_status_from_cu(answer);
    CUstreamCaptureMode mode = cushim_mem_mode_relaxed(cuda);
    enum cushim_status status = fill(clear, cuda, address, n_bytes);
    cushim_mem_mode_back(cuda, mode);
    if (has_entered)
        cushim_mem_current_context_leave(cuda);
    return status;
}

void cushim_mem_clear_abandon(struct cushim_mem_clear *clear) {
    atomic_store(&clear->stream, NULL);
}
