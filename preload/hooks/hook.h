/*
 * Hooks as rows: a call, what it takes, and what its hook does.
 *
 *     HOOK(cuMemPoolDestroy, TAKES(CUmemoryPool pool), return cushim_async_destroy(cuda, pool))
 *
 * A hook of several steps is a function with a body.  Hooks that do one thing, and those that
 * differ from each other in the call alone, are rows.  What a row does ends with a return; `cuda`
 * is the driver's table there, and REAL the driver's own function.  A debugger shows each hook
 * under its name, with its parameters.
 */
#pragma once

#include "cuda/table.h"
#include "preload/state/process.h"

#define TAKES(...) (__VA_ARGS__)

/* REAL is read from the table at each call, so that no register holds it meanwhile. */
#define HOOK(abi, parameters, ...)                                                                 \
    CUSHIM_EXPORT CUresult abi parameters {                                                        \
        CUSHIM_ENTER(abi)                                                                          \
        __attribute__((unused)) __typeof__(cuda->abi) *slot = &cuda->abi;                          \
        __VA_ARGS__;                                                                               \
    }
#define REAL (*slot)

/* A call with a `stream`, and its variant for per-thread default streams.  ORDER is the stream that
 * is meant. */
#define HOOKS_PTSZ(abi, parameters, ...)                                                           \
    HOOK(abi, parameters, __attribute__((unused)) const CUstream none = NULL; __VA_ARGS__)         \
    HOOK(abi##_ptsz, parameters,                                                                   \
         __attribute__((unused)) const CUstream none = CU_STREAM_PER_THREAD;                       \
         __VA_ARGS__)
#define ORDER (stream ? stream : none)

/* The same of a call that takes no stream. */
#define HOOKS_PTDS(abi, parameters, ...)                                                           \
    HOOK(abi, parameters, const CUstream none = NULL, stream = NULL; __VA_ARGS__)                  \
    HOOK(abi##_ptds, parameters, const CUstream none = CU_STREAM_PER_THREAD, stream = NULL;        \
         __VA_ARGS__)

/* What a hook does that notes what the driver has done. */
#define ON_SUCCESS(call, ...)                                                                      \
    CUresult answer = call;                                                                        \
    if (answer == CUDA_SUCCESS) {                                                                  \
        __VA_ARGS__;                                                                               \
    }                                                                                              \
    return answer

/* What a hook does whose call is refused if the driver would refuse what it names. */
#define REFUSE_UNLESS(is_admitted, call) return is_admitted ? call : CUDA_ERROR_INVALID_VALUE
