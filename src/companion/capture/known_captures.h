/*
 * Known captures: those begun through this library, those announced (cushim_context_capture_enter),
 * and those that the preload sees, if it is loaded.  Others are invisible.
 *
 * Counters of the context object, atomic, no lock: an answer may be old a moment later.
 */
#pragma once

#include "companion/context/call.h"

/* A capture begins or ends through us, in this context.  Call begin before the driver's; it waits
 * for a running record over the whole context. */
void cushim_capture_begin(struct cushim_context_object *context);
void cushim_capture_end(struct cushim_context_object *context);

/* Whether the preload may know of captures: 0 until it was looked for, then -1 or 1. */
extern atomic_int cushim_capture_preload;

/* The same with the preload, or before it was looked for. */
int cushim_capture_count_all(struct cushim_context_object *context);

/* How many captures are known in the context. */
static inline int cushim_capture_count(struct cushim_context_object *context) {
    if (likely(load_acquire(&cushim_capture_preload) < 0))
        return atomic_load(&context->n_captures) + atomic_load(&context->n_announced);
    return cushim_capture_count_all(context);
}

/*
 * For a call that would synchronise the context, or that is illegal during a capture in it: CAPTURE
 * with its text if a capture is known, else OK.  Makes no driver call.
 */
enum cushim_status cushim_capture_refuse(struct cushim_scope *scope);

/* The same for the context of what a handle stands for; any other value is OK. */
enum cushim_status cushim_capture_refuse_handle(const char *what, enum cushim_kind kind,
                                                const void *handle);

/*
 * The capture state of a stream, from the driver; the question leaves captures valid.  It is NONE
 * for the legacy stream and if the driver cannot say.  It is NONE in a damaged context, too,
 * because the call that follows must report the damage.
 */
enum cushim_status cushim_capture_of_stream(struct cushim_scope *scope, CUstream stream,
                                            CUstreamCaptureStatus *out);

/* The value of an expression whose driver calls run in relaxed mode, which captures survive. */
#define CUSHIM_RELAXED(expr)                                                                       \
    __extension__({                                                                                \
        CUstreamCaptureMode mode_ = cushim_capture_relax();                                        \
        __typeof__(expr) value_ = (expr);                                                          \
        cushim_capture_back(mode_);                                                                \
        value_;                                                                                    \
    })

/* The same for a stream: CAPTURE with its text if it takes part in a capture, else OK. */
enum cushim_status cushim_capture_refuse_stream(struct cushim_scope *scope, CUstream stream);
