/*
 * The driver's interface as we implement it: every exported name is declared, with old revisions
 * and per-thread variants; none is an alias, and this library exports each.  A wrong signature is a
 * compile error.
 */
#pragma once

#pragma GCC visibility push(default)
#include "cuda/driver.h"
#pragma GCC visibility pop

/* Early return: a result that is not success goes to the caller at once. */
#define SIM_TRY(expr)                                                                              \
    do {                                                                                           \
        CUresult try_result_ = (expr);                                                             \
        if (try_result_ != CUDA_SUCCESS)                                                           \
            return try_result_;                                                                    \
    } while (0)
