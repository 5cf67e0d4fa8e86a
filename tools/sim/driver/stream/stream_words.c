/* Words in memory that streams write and wait for. */
#include "tools/sim/driver/core/abi.h"
#include "tools/sim/driver/memory/block.h"
#include "tools/sim/driver/core/calls.h"
#include "tools/sim/driver/context/context.h"
#include "stream.h"
#include "stream_words.h"

#include <stdlib.h>

struct word {
    CUdeviceptr address;
    uint64_t value;
    unsigned n_bytes, flags;
};

/* Its work, which owns nothing; the device is the one that will do it, or NULL. */
static CUresult work_of(enum sim_work_kind kind, struct word word, const struct sim_device *device,
                        struct sim_work *work) {
    struct sim_block *block;
    unsigned known = CU_STREAM_WAIT_VALUE_NOR | CU_STREAM_WAIT_VALUE_FLUSH;
    if (kind == SIM_WORK_WRITE_VALUE)
        known = CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER;
    if (word.flags & ~known || word.address % word.n_bytes != 0)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_block_judge(word.address, word.n_bytes, device, &block));
    if (!block)
        return CUDA_ERROR_INVALID_VALUE;
    *work = (struct sim_work){
        .kind = kind,
        .as.value = {(char *)(uintptr_t)word.address, word.value, word.n_bytes, word.flags}};
    return CUDA_SUCCESS;
}

static CUresult enqueue(enum sim_work_kind kind, struct word word, CUstream handle,
                        CUstream default_stream) {
    struct sim_stream *stream;
    struct sim_work work;
    SIM_TRY(sim_stream_of_handle(handle, default_stream, &stream));
    SIM_TRY(work_of(kind, word, stream->context->device, &work));
    return sim_stream_enqueue(stream, &work, NULL);
}

/* The functions for words of one width. */
#define WORDS(width, type)                                                                         \
    SIM_BOTH(cuStreamWriteValue##width, _ptsz,                                                     \
             TAKES(CUstream stream, CUdeviceptr address, type value, unsigned flags),              \
             enqueue(SIM_WORK_WRITE_VALUE, (struct word){address, value, sizeof value, flags},     \
                     stream, default_stream))                                                      \
    SIM_BOTH(cuStreamWaitValue##width, _ptsz,                                                      \
             TAKES(CUstream stream, CUdeviceptr address, type value, unsigned flags),              \
             enqueue(SIM_WORK_WAIT_VALUE, (struct word){address, value, sizeof value, flags},      \
                     stream, default_stream))

WORDS(32, cuuint32_t)
WORDS(32_v2, cuuint32_t)
WORDS(64, cuuint64_t)
WORDS(64_v2, cuuint64_t)

/* ---- many at once ---- */

/* The work of one operation; it is empty for a barrier, because there is nothing here to order. */
static CUresult work_of_one(const CUstreamBatchMemOpParams *params, const struct sim_device *device,
                            struct sim_work *work) {
    const struct CUstreamMemOpWriteValueParams_st *write = &params->writeValue;
    const struct CUstreamMemOpWaitValueParams_st *wait = &params->waitValue;
    switch (params->operation) {
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        return work_of(SIM_WORK_WRITE_VALUE,
                       (struct word){write->address, write->value, 4, write->flags}, device, work);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        return work_of(SIM_WORK_WRITE_VALUE,
                       (struct word){write->address, write->value64, 8, write->flags}, device,
                       work);
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        return work_of(SIM_WORK_WAIT_VALUE,
                       (struct word){wait->address, wait->value, 4, wait->flags}, device, work);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        return work_of(SIM_WORK_WAIT_VALUE,
                       (struct word){wait->address, wait->value64, 8, wait->flags}, device, work);
    case CU_STREAM_MEM_OP_BARRIER:
        *work = (struct sim_work){.kind = SIM_WORK_EMPTY};
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

enum { MOST = 256 };

CUresult sim_words_work(const CUstreamBatchMemOpParams *params, unsigned n, unsigned flags,
                        const struct sim_device *device, struct sim_work *work) {
    CUresult result = CUDA_SUCCESS;
    if (!params || flags || n == 0 || n > MOST)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_work *list = calloc(n, sizeof *list);
    if (!list)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (unsigned i = 0; result == CUDA_SUCCESS && i < n; i++)
        result = work_of_one(&params[i], device, &list[i]);
    if (result == CUDA_SUCCESS)
        *work = (struct sim_work){.kind = SIM_WORK_WORDS, .as.words = {list, n, 0}};
    else
        free(list);
    return result;
}

/* Operations before a bad one are queued. */
static CUresult run_batch(CUstream handle, CUstream default_stream, unsigned n,
                          const CUstreamBatchMemOpParams *params, unsigned flags) {
    struct sim_stream *stream;
    struct sim_work work;
    if (!params || flags || n > MOST)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_stream_of_handle(handle, default_stream, &stream));
    for (unsigned i = 0; i < n; i++) {
        SIM_TRY(work_of_one(&params[i], stream->context->device, &work));
        SIM_TRY(sim_stream_enqueue(stream, &work, NULL));
    }
    return CUDA_SUCCESS;
}

SIM_BOTH(cuStreamBatchMemOp, _ptsz,
         TAKES(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *paramArray,
               unsigned int flags),
         run_batch(stream, default_stream, count, paramArray, flags))

SIM_BOTH(cuStreamBatchMemOp_v2, _ptsz,
         TAKES(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *paramArray,
               unsigned int flags),
         run_batch(stream, default_stream, count, paramArray, flags))
