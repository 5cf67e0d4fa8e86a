#include "memory/provider/helper_stream.h"

#include "base/clock.h"
#include "base/futex.h"
#include "cuda/table.h"

CUresult cushim_mem_helper_stream_find(_Atomic(CUstream) *own, struct cushim_cuda *cuda,
                                       CUstream *stream) {
    CUresult answer = CUDA_SUCCESS;
    CUstream made;
    *stream = atomic_load(own);
    if (*stream)
        return answer;
    answer = cuda->cuStreamCreate(&made, CU_STREAM_NON_BLOCKING);
    if (answer != CUDA_SUCCESS)
        return answer;
    if (atomic_compare_exchange_strong(own, stream, made))
        *stream = made;
    else
        cuda->cuStreamDestroy_v2(made); /* another thread was first */
    return answer;
}

CUresult cushim_mem_helper_stream_wait(struct cushim_cuda *cuda, CUevent event,
                                       uint64_t patience_ns, size_t n_bytes) {
    uint64_t end_ns = cushim_clock_ns() + patience_ns + n_bytes; /* no bus is as slow as 1 GB/s */
    CUresult answer;
    unsigned n_looks = 0;
    while ((answer = cuda->cuEventQuery(event)) == CUDA_ERROR_NOT_READY &&
           cushim_clock_ns() < end_ns)
        cushim_futex_back_off(&n_looks);
    return answer;
}
