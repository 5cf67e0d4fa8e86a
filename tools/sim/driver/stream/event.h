/*
 * Events: a reference to one step, or to a node of a capture.
 *
 * An event that was never recorded counts as done.  Streams can wait for one that was last recorded
 * in a capture, and then join the capture; the host cannot.
 */
#pragma once

#include "tools/sim/driver/core/abi.h"
#include "tools/sim/driver/graph/graph.h"
#include "step.h"

struct sim_event {
    unsigned flags;
    struct sim_step *record;       /* a reference; NULL: none, or captured */
    unsigned long long capture_id; /* 0: not captured */
    struct sim_nodes tips;         /* of that capture, valid while it is open */
    struct sim_event_slot *slot;   /* NULL: no other process knows it; event_ipc.h */
    uint64_t n_own;                /* which of its records is `record` */
};

CUresult sim_event_of_handle(CUevent handle, struct sim_event **out);

/* Forget the record. */
void sim_event_clear(struct sim_event *event);
