/*
 * Events as the rest of the library uses them.
 *
 * We note whether an event was recorded and in which capture.  So a query of a captured event, or a
 * wait that would mix captures, is refused before the driver sees it.  We know nothing of
 * events that other code records; the driver judges those.
 */
#pragma once

#include "cushim/event.h"
#include "companion/context/call.h"

struct cushim_event_object {
    struct cushim_object object;
    CUevent handle;
    bool is_wrapped; /* not ours to destroy */
    atomic_bool
        is_foreign; /* other code may record it: it is wrapped, or shared between processes */
    atomic_bool is_recorded;  /* by us, once */
    atomic_ullong capture_id; /* of the last record; 0: in no capture */
};

/* For a stream that is to wait for it: CAPTURE if that would invalidate a capture. */
enum cushim_status cushim_event_refuse_mix(struct cushim_scope *scope,
                                           const struct cushim_event_object *event,
                                           CUstream stream);

/**
 * An event without a handle, in the scope's context.
 * @param flags  of enum cushim_event_flag
 * @param out    one reference, the caller's: cushim_object_release, or cushim_handle_open
 * @return CUSHIM_OK | NOMEM | the driver's
 */
enum cushim_status cushim_event_make(struct cushim_scope *scope, unsigned flags,
                                     struct cushim_event_object **out);

/* Record, note the capture; scope and stream are of the event's context. */
enum cushim_status cushim_event_record_in(struct cushim_scope *scope,
                                          struct cushim_event_object *event, CUstream stream);

/* Wait; the scope is of the event's context. */
enum cushim_status cushim_event_wait_in(struct cushim_scope *scope,
                                        struct cushim_event_object *event);

/* Measure; the scope is of both events' context. */
enum cushim_status cushim_event_elapsed_in(struct cushim_scope *scope,
                                           struct cushim_event_object *start,
                                           struct cushim_event_object *end, float *ms);
