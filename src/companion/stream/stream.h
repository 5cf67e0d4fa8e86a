/*
 * Streams as the rest of the library uses them: from a handle or a special value to a CUstream.
 *
 * A stream used by a call is pinned until the call lets go, so a destroy in another thread waits
 * with its CUstream until then.  The handle of an owned stream ends in finish; that of a wrapped
 * one is never touched.
 */
#pragma once

#include "cushim/stream.h"
#include "companion/context/call.h"
#include "companion/core/handle_pin.h"

struct cushim_stream_object {
    struct cushim_object object;
    CUstream handle; /* NULL, CU_STREAM_LEGACY and CU_STREAM_PER_THREAD too, if wrapped */
    bool is_wrapped;
};

/* Whether a handle means a stream of the current context. */
static inline bool cushim_stream_follows_current(CUstream handle) {
    return !handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD;
}

/* A stream argument in use. */
struct cushim_stream_use {
    struct cushim_pin pin;
    CUstream handle;
    struct cushim_stream_object *object; /* NULL: a special stream */
};

/* A special value that names a stream of the driver: NULL and PER_THREAD. */
static inline bool cushim_stream_is_special(const struct cushim_stream *s) {
    return s == CUSHIM_STREAM_LEGACY || s == CUSHIM_STREAM_PER_THREAD;
}

/**
 * Take a stream argument inside the scope of another object.
 * @param s    a handle, NULL or CUSHIM_STREAM_PER_THREAD
 * @param use  filled; let go of it before cushim_call_end
 * @return CUSHIM_OK | BADHANDLE | BADDEVICE (not of the scope's context) | DEADCONTEXT; the error
 *         text is set and nothing is held after a failure
 */
enum cushim_status cushim_stream_use_in(struct cushim_scope *scope, struct cushim_stream *s,
                                        struct cushim_stream_use *use);

/* The same for a stream of any context: cushim_stream_wait_event, copies between contexts. */
enum cushim_status cushim_stream_use_any(struct cushim_scope *scope, struct cushim_stream *s,
                                         struct cushim_stream_use *use);

/* cushim_stream_use_in in line, for launches: the scope has found its context alive. */
static inline enum cushim_status cushim_stream_use_here(struct cushim_scope *scope,
                                                        struct cushim_stream *s,
                                                        struct cushim_stream_use *use) {
    if (likely(!cushim_stream_is_special(s))) {
        use->object = cushim_pin(&use->pin, CUSHIM_KIND_STREAM, s);
        if (likely(use->object && use->object->object.context == scope->context)) {
            use->handle = use->object->handle;
            return CUSHIM_OK;
        }
        cushim_unpin(&use->pin);
    }
    return cushim_stream_use_in(scope, s, use);
}

/* Let go. */
static inline void cushim_stream_let_go(struct cushim_stream_use *use) {
    cushim_handle_unpin(&use->pin);
}

/* A use that is let go at the end of its block: CUSHIM_STREAM_USE use = {0}; */
#define CUSHIM_STREAM_USE __attribute__((cleanup(cushim_stream_let_go))) struct cushim_stream_use

/**
 * Begin a call on a stream: the scope is in the stream's context, for a special stream in the
 * current context, else the primary one.
 * @param use  filled; cushim_call_end ends both
 * @return CUSHIM_OK | BADHANDLE | DEADCONTEXT | NOCUDA | the driver's
 */
enum cushim_status cushim_stream_enter(struct cushim_scope *scope, const char *what,
                                       struct cushim_stream *s, struct cushim_stream_use *use);

/* The same for a public call that ends with its block (CUSHIM_ENTER). */
#define CUSHIM_ENTER_STREAM(use, s)                                                                \
    CUSHIM_SCOPE scope = {0};                                                                      \
    struct cushim_stream_use use;                                                                  \
    CUSHIM_TRY(cushim_stream_enter(&scope, __func__, (s), &use))

/*
 * For a wait or query by the host: CAPTURE with its text if the stream takes part in a capture,
 * or if it is the legacy stream and a capture is known in its context.
 */
enum cushim_status cushim_stream_refuse_captured(struct cushim_scope *scope, CUstream stream);

/* Wait for all its work, leave captures valid, and note that the work is over. */
enum cushim_status cushim_stream_wait(struct cushim_scope *scope, CUstream stream);

/* The number of the capture that it takes part in, 0: none (or the driver cannot say). */
unsigned long long cushim_stream_capture_id(CUstream stream);
