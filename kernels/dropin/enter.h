/*
 * What every function of libkernels.so does around the kernel to which it forwards: it makes sure
 * that there is a context, and turns the status into a cudaError_t.
 *
 * Callers move between threads, so a call may come on a thread without a current context.  A stream
 * knows its own.  For the NULL stream device 0's primary context is made current during the call,
 * as in the CUDA runtime.  That context is retained once and kept.
 */
#ifndef CUSHIM_DROPIN_ENTER_H
#define CUSHIM_DROPIN_ENTER_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "cushim/status.h"
#include "kernels/dropin/libkernels.h"

/* Our own results; all are numbers of cudaError_t. */
enum { DROPIN_OK = 0, DROPIN_INVALID = 1, DROPIN_NOT_SUPPORTED = 801 };

struct dropin_scope {
    bool is_pushed;
    int error; /* why there is no context; 0 if none is needed */
};

void cushim_dropin_enter(struct dropin_scope *scope, cudaStream_t stream);

/*
 * The same for a call that asks the driver more than a launch on the stream does: a stream's own
 * context is made current too, unless the thread has one.
 */
void cushim_dropin_enter_context(struct dropin_scope *scope, cudaStream_t stream);

/* The result for the caller. */
int cushim_dropin_leave(const struct dropin_scope *scope, enum cushim_status status);

/*
 * The whole body of most functions: `call` is a call of a function of cushim/kernels.h or a
 * variant.
 */
#define FORWARD(stream, call)                                                                      \
    do {                                                                                           \
        struct dropin_scope scope_;                                                                \
        cushim_dropin_enter(&scope_, (stream));                                                    \
        return cushim_dropin_leave(&scope_, (call));                                               \
    } while (0)

static inline float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline double double_of(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

#endif
