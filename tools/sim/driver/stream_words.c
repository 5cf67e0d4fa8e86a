/* Words in memory that streams write and wait for. */
#include "abi.h"
#include "block.h"
#include "calls.h"
#include "context.h"
#include "stream.h"

struct word {
    CUdeviceptr address;
    uint64_t value;
    unsigned n_bytes, flags;
};

static CUresult enqueue(enum sim_work_kind kind, struct word word, CUstream handle,
                        CUstream usual) {
    struct sim_stream *stream;
    struct sim_block *block;
    SIM_TRY(sim_stream_of_handle(handle, usual, &stream));
    if (word.address % word.n_bytes != 0)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_block_judge(word.address, word.n_bytes, stream->context->device, &block));
    if (!block)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_work work = {
        .kind = kind,
        .as.value = {(char *)(uintptr_t)word.address, word.value, word.n_bytes, word.flags}};
    return sim_stream_enqueue(stream, &work, NULL);
}

static CUresult write_word(CUstream stream, CUstream usual, struct word word) {
    if (word.flags & ~(unsigned)CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER)
        return CUDA_ERROR_INVALID_VALUE;
    return enqueue(SIM_WORK_WRITE_VALUE, word, stream, usual);
}

static CUresult wait_word(CUstream stream, CUstream usual, struct word word) {
    if (word.flags & ~(unsigned)(CU_STREAM_WAIT_VALUE_NOR | CU_STREAM_WAIT_VALUE_FLUSH))
        return CUDA_ERROR_INVALID_VALUE;
    return enqueue(SIM_WORK_WAIT_VALUE, word, stream, usual);
}

CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr addr, cuuint32_t value,
                              unsigned int flags) {
    SIM_ENTER(cuStreamWriteValue32);
    return sim_leave(write_word(stream, CU_STREAM_LEGACY, (struct word){addr, value, 4, flags}));
}

CUresult cuStreamWriteValue32_ptsz(CUstream stream, CUdeviceptr addr, cuuint32_t value,
                                   unsigned int flags) {
    SIM_ENTER(cuStreamWriteValue32_ptsz);
    return sim_leave(
        write_word(stream, CU_STREAM_PER_THREAD, (struct word){addr, value, 4, flags}));
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value,
                                 unsigned int flags) {
    SIM_ENTER(cuStreamWriteValue32_v2);
    return sim_leave(write_word(stream, CU_STREAM_LEGACY, (struct word){addr, value, 4, flags}));
}

CUresult cuStreamWriteValue32_v2_ptsz(CUstream stream, CUdeviceptr addr, cuuint32_t value,
                                      unsigned int flags) {
    SIM_ENTER(cuStreamWriteValue32_v2_ptsz);
    return sim_leave(
        write_word(stream, CU_STREAM_PER_THREAD, (struct word){addr, value, 4, flags}));
}

CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr addr, cuuint64_t value,
                              unsigned int flags) {
    SIM_ENTER(cuStreamWriteValue64);
    return sim_leave(write_word(stream, CU_STREAM_LEGACY, (struct word){addr, value, 8, flags}));
}

CUresult cuStreamWriteValue64_ptsz(CUstream stream, CUdeviceptr addr, cuuint64_t value,
                                   unsigned int flags) {
    SIM_ENTER(cuStreamWriteValue64_ptsz);
    return sim_leave(
        write_word(stream, CU_STREAM_PER_THREAD, (struct word){addr, value, 8, flags}));
}

CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value,
                                 unsigned int flags) {
    SIM_ENTER(cuStreamWriteValue64_v2);
    return sim_leave(write_word(stream, CU_STREAM_LEGACY, (struct word){addr, value, 8, flags}));
}

CUresult cuStreamWriteValue64_v2_ptsz(CUstream stream, CUdeviceptr addr, cuuint64_t value,
                                      unsigned int flags) {
    SIM_ENTER(cuStreamWriteValue64_v2_ptsz);
    return sim_leave(
        write_word(stream, CU_STREAM_PER_THREAD, (struct word){addr, value, 8, flags}));
}

CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr addr, cuuint32_t value,
                             unsigned int flags) {
    SIM_ENTER(cuStreamWaitValue32);
    return sim_leave(wait_word(stream, CU_STREAM_LEGACY, (struct word){addr, value, 4, flags}));
}

CUresult cuStreamWaitValue32_ptsz(CUstream stream, CUdeviceptr addr, cuuint32_t value,
                                  unsigned int flags) {
    SIM_ENTER(cuStreamWaitValue32_ptsz);
    return sim_leave(wait_word(stream, CU_STREAM_PER_THREAD, (struct word){addr, value, 4, flags}));
}

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value,
                                unsigned int flags) {
    SIM_ENTER(cuStreamWaitValue32_v2);
    return sim_leave(wait_word(stream, CU_STREAM_LEGACY, (struct word){addr, value, 4, flags}));
}

CUresult cuStreamWaitValue32_v2_ptsz(CUstream stream, CUdeviceptr addr, cuuint32_t value,
                                     unsigned int flags) {
    SIM_ENTER(cuStreamWaitValue32_v2_ptsz);
    return sim_leave(wait_word(stream, CU_STREAM_PER_THREAD, (struct word){addr, value, 4, flags}));
}

CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr addr, cuuint64_t value,
                             unsigned int flags) {
    SIM_ENTER(cuStreamWaitValue64);
    return sim_leave(wait_word(stream, CU_STREAM_LEGACY, (struct word){addr, value, 8, flags}));
}

CUresult cuStreamWaitValue64_ptsz(CUstream stream, CUdeviceptr addr, cuuint64_t value,
                                  unsigned int flags) {
    SIM_ENTER(cuStreamWaitValue64_ptsz);
    return sim_leave(wait_word(stream, CU_STREAM_PER_THREAD, (struct word){addr, value, 8, flags}));
}

CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value,
                                unsigned int flags) {
    SIM_ENTER(cuStreamWaitValue64_v2);
    return sim_leave(wait_word(stream, CU_STREAM_LEGACY, (struct word){addr, value, 8, flags}));
}

CUresult cuStreamWaitValue64_v2_ptsz(CUstream stream, CUdeviceptr addr, cuuint64_t value,
                                     unsigned int flags) {
    SIM_ENTER(cuStreamWaitValue64_v2_ptsz);
    return sim_leave(wait_word(stream, CU_STREAM_PER_THREAD, (struct word){addr, value, 8, flags}));
}

/* ---- many at once ---- */

static CUresult run_one(CUstream stream, CUstream usual, const CUstreamBatchMemOpParams *params) {
    const struct CUstreamMemOpWriteValueParams_st *write = &params->writeValue;
    const struct CUstreamMemOpWaitValueParams_st *wait = &params->waitValue;
    switch (params->operation) {
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        return write_word(stream, usual,
                          (struct word){write->address, write->value, 4, write->flags});
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        return write_word(stream, usual,
                          (struct word){write->address, write->value64, 8, write->flags});
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        return wait_word(stream, usual, (struct word){wait->address, wait->value, 4, wait->flags});
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        return wait_word(stream, usual,
                         (struct word){wait->address, wait->value64, 8, wait->flags});
    case CU_STREAM_MEM_OP_BARRIER: /* there is nothing here that it would order */
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

/* What stands before a bad one is queued. */
static CUresult run_batch(CUstream stream, CUstream usual, unsigned n,
                          const CUstreamBatchMemOpParams *params, unsigned flags) {
    enum { MOST = 256 };
    if (!params || flags || n > MOST)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < n; i++)
        SIM_TRY(run_one(stream, usual, &params[i]));
    return CUDA_SUCCESS;
}

CUresult cuStreamBatchMemOp(CUstream stream, unsigned int count,
                            CUstreamBatchMemOpParams *paramArray, unsigned int flags) {
    SIM_ENTER(cuStreamBatchMemOp);
    return sim_leave(run_batch(stream, CU_STREAM_LEGACY, count, paramArray, flags));
}

CUresult cuStreamBatchMemOp_ptsz(CUstream stream, unsigned int count,
                                 CUstreamBatchMemOpParams *paramArray, unsigned int flags) {
    SIM_ENTER(cuStreamBatchMemOp_ptsz);
    return sim_leave(run_batch(stream, CU_STREAM_PER_THREAD, count, paramArray, flags));
}

CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned int count,
                               CUstreamBatchMemOpParams *paramArray, unsigned int flags) {
    SIM_ENTER(cuStreamBatchMemOp_v2);
    return sim_leave(run_batch(stream, CU_STREAM_LEGACY, count, paramArray, flags));
}

CUresult cuStreamBatchMemOp_v2_ptsz(CUstream stream, unsigned int count,
                                    CUstreamBatchMemOpParams *paramArray, unsigned int flags) {
    SIM_ENTER(cuStreamBatchMemOp_v2_ptsz);
    return sim_leave(run_batch(stream, CU_STREAM_PER_THREAD, count, paramArray, flags));
}
