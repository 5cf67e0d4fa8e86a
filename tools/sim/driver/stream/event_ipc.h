/*
 * Events that other processes know.
 *
 * Such an event has a slot (ipc_slot.h) from its making on.  A record counts up what was asked for,
 * and is a step that says it is done; a wait for another process's record is a step that looks
 * until so many are done.  Who asked and ended is taken as done, as its work ended with it.
 */
#ifndef CUSHIM_SIM_EVENT_IPC_H
#define CUSHIM_SIM_EVENT_IPC_H

#include "event.h"

/* A slot for a new event of the flag; out of memory: there is none. */
CUresult sim_event_share(struct sim_event *event);

/* The event ends, here. */
void sim_event_unshare(struct sim_event *event);

/* The work of a record, which was asked for by this. */
struct sim_work sim_event_record_work(struct sim_event *event);

/* Whether the last record is another process's, and not done: then the work that waits for it. */
bool sim_event_waits_for_others(const struct sim_event *event, struct sim_work *work);

/* What a work of either kind holds. */
void sim_event_work_finish(struct sim_work *work);

/* One turn of either work; false: not yet. */
bool sim_event_turn(const struct sim_work *work);

#endif
