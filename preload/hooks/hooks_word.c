/*
 * Hooks of words that a stream writes or waits for.  Each is checked like a set, or a copy, of 4 or
 * 8 bytes (interposition.md C10), and a word in host memory is an effect (C9).
 */
#include "cuda/table.h"
#include "preload/entry/word.h"

static struct cushim_copy describe(CUdeviceptr to, size_t n_bytes, CUstream stream) {
    return (struct cushim_copy){CUSHIM_SET, .to = {to, n_bytes}, .n_bytes = n_bytes,
                                .stream = stream};
}

CUSHIM_EXPORT CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr to, cuuint32_t value,
                                            unsigned flags) {
    CUSHIM_ENTER(cuStreamWriteValue32)
    struct cushim_copy set = describe(to, 4, stream);
    CUSHIM_COPY(&set, cuda->cuStreamWriteValue32(stream, to, value, flags));
}

CUSHIM_EXPORT CUresult cuStreamWriteValue32_ptsz(CUstream stream, CUdeviceptr to, cuuint32_t value,
                                                 unsigned flags) {
    CUSHIM_ENTER(cuStreamWriteValue32_ptsz)
    struct cushim_copy set = describe(to, 4, cushim_per_thread(stream));
    CUSHIM_COPY(&set, cuda->cuStreamWriteValue32_ptsz(stream, to, value, flags));
}

CUSHIM_EXPORT CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr to, cuuint32_t value,
                                               unsigned flags) {
    CUSHIM_ENTER(cuStreamWriteValue32_v2)
    struct cushim_copy set = describe(to, 4, stream);
    CUSHIM_COPY(&set, cuda->cuStreamWriteValue32_v2(stream, to, value, flags));
}

CUSHIM_EXPORT CUresult cuStreamWriteValue32_v2_ptsz(CUstream stream, CUdeviceptr to,
                                                    cuuint32_t value, unsigned flags) {
    CUSHIM_ENTER(cuStreamWriteValue32_v2_ptsz)
    struct cushim_copy set = describe(to, 4, cushim_per_thread(stream));
    CUSHIM_COPY(&set, cuda->cuStreamWriteValue32_v2_ptsz(stream, to, value, flags));
}

CUSHIM_EXPORT CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr to, cuuint64_t value,
                                            unsigned flags) {
    CUSHIM_ENTER(cuStreamWriteValue64)
    struct cushim_copy set = describe(to, 8, stream);
    CUSHIM_COPY(&set, cuda->cuStreamWriteValue64(stream, to, value, flags));
}

CUSHIM_EXPORT CUresult cuStreamWriteValue64_ptsz(CUstream stream, CUdeviceptr to, cuuint64_t value,
                                                 unsigned flags) {
    CUSHIM_ENTER(cuStreamWriteValue64_ptsz)
    struct cushim_copy set = describe(to, 8, cushim_per_thread(stream));
    CUSHIM_COPY(&set, cuda->cuStreamWriteValue64_ptsz(stream, to, value, flags));
}

CUSHIM_EXPORT CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr to, cuuint64_t value,
                                               unsigned flags) {
    CUSHIM_ENTER(cuStreamWriteValue64_v2)
    struct cushim_copy set = describe(to, 8, stream);
    CUSHIM_COPY(&set, cuda->cuStreamWriteValue64_v2(stream, to, value, flags));
}

CUSHIM_EXPORT CUresult cuStreamWriteValue64_v2_ptsz(CUstream stream, CUdeviceptr to,
                                                    cuuint64_t value, unsigned flags) {
    CUSHIM_ENTER(cuStreamWriteValue64_v2_ptsz)
    struct cushim_copy set = describe(to, 8, cushim_per_thread(stream));
    CUSHIM_COPY(&set, cuda->cuStreamWriteValue64_v2_ptsz(stream, to, value, flags));
}

/* ---- waits ---- */

static struct cushim_copy describe_wait(CUdeviceptr from, size_t n_bytes, CUstream stream) {
    return (struct cushim_copy){CUSHIM_BY_ADDRESS, .from = {from, n_bytes}, .stream = stream};
}

static bool admits_wait(CUdeviceptr from, size_t n_bytes) {
    const struct cushim_copy wait = describe_wait(from, n_bytes, NULL);
    return cushim_copy_begin(&wait);
}

CUSHIM_EXPORT CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr from, cuuint32_t value,
                                           unsigned flags) {
    CUSHIM_ENTER(cuStreamWaitValue32)
    CUSHIM_REFUSE_UNLESS(admits_wait(from, 4))
    return cuda->cuStreamWaitValue32(stream, from, value, flags);
}

CUSHIM_EXPORT CUresult cuStreamWaitValue32_ptsz(CUstream stream, CUdeviceptr from, cuuint32_t value,
                                                unsigned flags) {
    CUSHIM_ENTER(cuStreamWaitValue32_ptsz)
    CUSHIM_REFUSE_UNLESS(admits_wait(from, 4))
    return cuda->cuStreamWaitValue32_ptsz(stream, from, value, flags);
}

CUSHIM_EXPORT CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr from, cuuint32_t value,
                                              unsigned flags) {
    CUSHIM_ENTER(cuStreamWaitValue32_v2)
    CUSHIM_REFUSE_UNLESS(admits_wait(from, 4))
    return cuda->cuStreamWaitValue32_v2(stream, from, value, flags);
}

CUSHIM_EXPORT CUresult cuStreamWaitValue32_v2_ptsz(CUstream stream, CUdeviceptr from,
                                                   cuuint32_t value, unsigned flags) {
    CUSHIM_ENTER(cuStreamWaitValue32_v2_ptsz)
    CUSHIM_REFUSE_UNLESS(admits_wait(from, 4))
    return cuda->cuStreamWaitValue32_v2_ptsz(stream, from, value, flags);
}

CUSHIM_EXPORT CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr from, cuuint64_t value,
                                           unsigned flags) {
    CUSHIM_ENTER(cuStreamWaitValue64)
    CUSHIM_REFUSE_UNLESS(admits_wait(from, 8))
    return cuda->cuStreamWaitValue64(stream, from, value, flags);
}

CUSHIM_EXPORT CUresult cuStreamWaitValue64_ptsz(CUstream stream, CUdeviceptr from, cuuint64_t value,
                                                unsigned flags) {
    CUSHIM_ENTER(cuStreamWaitValue64_ptsz)
    CUSHIM_REFUSE_UNLESS(admits_wait(from, 8))
    return cuda->cuStreamWaitValue64_ptsz(stream, from, value, flags);
}

CUSHIM_EXPORT CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr from, cuuint64_t value,
                                              unsigned flags) {
    CUSHIM_ENTER(cuStreamWaitValue64_v2)
    CUSHIM_REFUSE_UNLESS(admits_wait(from, 8))
    return cuda->cuStreamWaitValue64_v2(stream, from, value, flags);
}

CUSHIM_EXPORT CUresult cuStreamWaitValue64_v2_ptsz(CUstream stream, CUdeviceptr from,
                                                   cuuint64_t value, unsigned flags) {
    CUSHIM_ENTER(cuStreamWaitValue64_v2_ptsz)
    CUSHIM_REFUSE_UNLESS(admits_wait(from, 8))
    return cuda->cuStreamWaitValue64_v2_ptsz(stream, from, value, flags);
}

/* ---- many at once ---- */

bool cushim_word_describe(const CUstreamBatchMemOpParams *operation, CUstream stream,
                          struct cushim_copy *word) {
    switch (operation->operation) {
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        *word = describe(operation->writeValue.address, 4, stream);
        return true;
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        *word = describe(operation->writeValue.address, 8, stream);
        return true;
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        *word = describe_wait(operation->waitValue.address, 4, stream);
        return true;
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        *word = describe_wait(operation->waitValue.address, 8, stream);
        return true;
    default:
        return false;
    }
}

static CUresult run_batch(struct cushim_cuda *cuda, __typeof__(&cuStreamBatchMemOp_v2) real,
                          CUstream stream, CUstream key, unsigned n,
                          CUstreamBatchMemOpParams *operations, unsigned flags) {
    struct cushim_copy word;
    for (unsigned i = 0; operations && i < n; i++) {
        if (cushim_word_describe(&operations[i], key, &word) && !cushim_copy_begin(&word))
            return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult answer = real(stream, n, operations, flags);
    for (unsigned i = 0; operations && i < n; i++) {
        if (cushim_word_describe(&operations[i], key, &word) && word.direction == CUSHIM_SET)
            cushim_copy_end(cuda, &word, answer);
    }
    return answer;
}

CUSHIM_EXPORT CUresult cuStreamBatchMemOp(CUstream stream, unsigned n,
                                          CUstreamBatchMemOpParams *operations, unsigned flags) {
    CUSHIM_ENTER(cuStreamBatchMemOp)
    return run_batch(cuda, cuda->cuStreamBatchMemOp, stream, stream, n, operations, flags);
}

CUSHIM_EXPORT CUresult cuStreamBatchMemOp_ptsz(CUstream stream, unsigned n,
                                               CUstreamBatchMemOpParams *operations,
                                               unsigned flags) {
    CUSHIM_ENTER(cuStreamBatchMemOp_ptsz)
    return run_batch(cuda, cuda->cuStreamBatchMemOp_ptsz, stream, cushim_per_thread(stream), n,
                     operations, flags);
}

CUSHIM_EXPORT CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned n,
                                             CUstreamBatchMemOpParams *operations, unsigned flags) {
    CUSHIM_ENTER(cuStreamBatchMemOp_v2)
    return run_batch(cuda, cuda->cuStreamBatchMemOp_v2, stream, stream, n, operations, flags);
}

CUSHIM_EXPORT CUresult cuStreamBatchMemOp_v2_ptsz(CUstream stream, unsigned n,
                                                  CUstreamBatchMemOpParams *operations,
                                                  unsigned flags) {
    CUSHIM_ENTER(cuStreamBatchMemOp_v2_ptsz)
    return run_batch(cuda, cuda->cuStreamBatchMemOp_v2_ptsz, stream, cushim_per_thread(stream), n,
                     operations, flags);
}
