/*
 * The calling thread's CUDA state, borrowed and put back: current context and capture mode.
 */
#pragma once

#include <stdbool.h>

#include "cuda/table.h"

/* Make `context` current unless it is; not NULL if cushim_current_context_leave must follow. */
static inline struct cushim_cuda *
cushim_current_context_enter(struct cushim_cuda *cuda, CUcontext context, CUresult *answer) {
    CUcontext now = NULL;
    *answer = cuda->cuCtxGetCurrent(&now);
    if (*answer != CUDA_SUCCESS || now == context)
        return NULL;
    *answer = cuda->cuCtxPushCurrent_v2(context);
    return *answer == CUDA_SUCCESS ? cuda : NULL;
}

static inline void cushim_current_context_leave(struct cushim_cuda *cuda) {
    CUcontext popped;
    cuda->cuCtxPopCurrent_v2(&popped);
}

static inline void cushim_current_context_end(struct cushim_cuda **entered) {
    if (*entered)
        cushim_current_context_leave(*entered);
}

/* CUSHIM_ENTERED entered = cushim_current_context_enter(...): until the end of the block. */
#define CUSHIM_ENTERED                                                                             \
    __attribute__((cleanup(cushim_current_context_end), unused)) struct cushim_cuda *

/*
 * Exchange the thread's capture mode for RELAXED, so that a driver call of ours neither fails
 * because another thread captures nor invalidates that capture.  Returns the mode for _strict.
 */
static inline CUstreamCaptureMode cushim_mode_relaxed(struct cushim_cuda *cuda) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (cuda->cuThreadExchangeStreamCaptureMode)
        cuda->cuThreadExchangeStreamCaptureMode(&mode);
    return mode;
}

static inline void cushim_mode_back(struct cushim_cuda *cuda, CUstreamCaptureMode mode) {
    if (cuda->cuThreadExchangeStreamCaptureMode)
        cuda->cuThreadExchangeStreamCaptureMode(&mode);
}

/* The value of an expression, made in that mode. */
#define CUSHIM_IN_RELAXED(cuda, expr)                                                              \
    __extension__({                                                                                \
        CUstreamCaptureMode mode_ = cushim_mode_relaxed(cuda);                                     \
        __typeof__(expr) value_ = (expr);                                                          \
        cushim_mode_back(cuda, mode_);                                                             \
        value_;                                                                                    \
    })
