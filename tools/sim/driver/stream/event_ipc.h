/*
 * Events that other processes know.
 *
 * Such an event has a slot (ipc_slot.h) from its start.  A record counts up the requests, and is a
 * step that marks it done; a wait for another process's record is a step that polls until so many
 * are done.  If the process that asked has ended, its record counts as done, because its work ended
 * with it.
 */
#pragma once

#include "event.h"

/* A slot for a new event with the flag; out of memory: there is none. */
CUresult sim_event_share(struct sim_event *event);

/* The event ends in this process. */
void sim_event_unshare(struct sim_event *event);

/* The work of a record, which this call requests. */
struct sim_work sim_event_record_work(struct sim_event *event);

/* Is the last record another process's, and not done?  Then `work` waits for it. */
bool sim_event_waits_for_others(const struct sim_event *event, struct sim_work *work);

/* Release what a work of either kind holds. */
void sim_event_work_finish(struct sim_work *work);

/* One turn of either work; false: not yet. */
bool sim_event_turn(const struct sim_work *work);
