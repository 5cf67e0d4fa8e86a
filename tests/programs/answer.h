/*
 * Calls whose answer is the point: printed by name, so that two runs can be compared byte for byte,
 * and held to what CUDA was measured to answer where that is known (docs/results/driver.md).
 */
#ifndef CUSHIM_PROGRAMS_ANSWER_H
#define CUSHIM_PROGRAMS_ANSWER_H

#include "program.h"

/* Print what a call answered.  The thread's last error is put back to success. */
static inline cudaError_t answer(const char *what, cudaError_t error) {
    printf("%s: %s\n", what, cudaGetErrorName(error));
    cudaGetLastError();
    return error;
}

/* Print it, and fail unless it is what was measured. */
static inline void answer_is(const char *what, cudaError_t error, cudaError_t measured) {
    if (answer(what, error) != measured)
        program_fail(cudaGetErrorName(measured), what, "expected", 0);
}

/* The name of what a pointer is: a query about any pointer succeeds. */
static inline const char *answer_type(const void *pointer) {
    static const char *const names[] = {"unregistered", "host", "device", "managed"};
    struct cudaPointerAttributes attributes;
    TRY(cudaPointerGetAttributes(&attributes, pointer));
    return names[attributes.type];
}

#endif
