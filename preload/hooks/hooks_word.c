/*
 * Hooks of words that a stream writes or waits for.  Each is checked like a set, or a copy, of 4 or
 * 8 bytes (interposition.md C10), and a word in host memory is an effect (C9).
 */
#include "preload/entry/word.h"
#include "preload/hooks/hook.h"

static struct cushim_copy describe(CUdeviceptr to, size_t n_bytes, CUstream stream) {
    return (struct cushim_copy){CUSHIM_SET, .to = {to, n_bytes}, .n_bytes = n_bytes,
                                .stream = stream};
}

static struct cushim_copy describe_wait(CUdeviceptr from, size_t n_bytes, CUstream stream) {
    return (struct cushim_copy){CUSHIM_BY_ADDRESS, .from = {from, n_bytes}, .stream = stream};
}

static bool admits_wait(CUdeviceptr from, size_t n_bytes) {
    const struct cushim_copy wait = describe_wait(from, n_bytes, NULL);
    return cushim_copy_begin(&wait);
}

/* The hooks of words of one width. */
#define HOOKS(width, type)                                                                         \
    HOOKS_PTSZ(cuStreamWriteValue##width,                                                          \
               TAKES(CUstream stream, CUdeviceptr to, type value, unsigned flags),                 \
               struct cushim_copy set = describe(to, sizeof value, ORDER);                         \
               CUSHIM_COPY(&set, REAL(stream, to, value, flags)))                                  \
    HOOKS_PTSZ(cuStreamWaitValue##width,                                                           \
               TAKES(CUstream stream, CUdeviceptr from, type value, unsigned flags),               \
               REFUSE_UNLESS(admits_wait(from, sizeof value), REAL(stream, from, value, flags)))

HOOKS(32, cuuint32_t)
HOOKS(32_v2, cuuint32_t)
HOOKS(64, cuuint64_t)
HOOKS(64_v2, cuuint64_t)

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

HOOKS_PTSZ(cuStreamBatchMemOp,
           TAKES(CUstream stream, unsigned n, CUstreamBatchMemOpParams *operations, unsigned flags),
           return run_batch(cuda, REAL, stream, ORDER, n, operations, flags))
HOOKS_PTSZ(cuStreamBatchMemOp_v2,
           TAKES(CUstream stream, unsigned n, CUstreamBatchMemOpParams *operations, unsigned flags),
           return run_batch(cuda, REAL, stream, ORDER, n, operations, flags))
