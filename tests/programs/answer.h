/*
 * Calls under test: their results are printed by name, so that two runs can be compared byte by
 * byte, and are checked against the measured results of CUDA if these are known
 * (docs/results/driver.md).
 */
#pragma once

#include "program.h"

/* Print the result of a call. The thread's last error is reset to success. */
static inline cudaError_t answer(const char *what, cudaError_t error) {
    printf("%s: %s\n", what, cudaGetErrorName(error));
    cudaGetLastError();
    return error;
}

/* Print it, and fail if it differs from the measured result. */
static inline void answer_is(const char *what, cudaError_t error, cudaError_t measured) {
    if (answer(what, error) != measured)
        program_fail(cudaGetErrorName(measured), what, "expected", 0);
}

/* The name of the kind of a pointer; a query about any pointer succeeds. */
static inline const char *answer_type(const void *pointer) {
    static const char *const names[] = {"unregistered", "host", "device", "managed"};
    struct cudaPointerAttributes attributes;
    TRY(cudaPointerGetAttributes(&attributes, pointer));
    return names[attributes.type];
}
