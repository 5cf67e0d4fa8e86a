/*
 * Words that processes share: one slot for each thing that a process showed others by a handle.
 *
 * The slots of a process lie in one memfd of it, which others open as /proc/PID/fd/N; so only
 * processes of one user and one pid namespace see each other, as natively.  A slot that is dropped
 * gets a new life, so that a handle to what was there before fits no more.
 */
#ifndef CUSHIM_SIM_IPC_SLOT_H
#define CUSHIM_SIM_IPC_SLOT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct sim_ipc_slot {
    _Atomic uint64_t life; /* 0: nothing is here; written by its process alone */
    /* an event: how many records were asked for and how many are done, by all processes */
    _Atomic uint64_t n_asked, n_done;
    _Atomic int32_t asker; /* the process that asked last */
};

/* How another process finds a slot. */
struct sim_ipc_name {
    int32_t pid, fd;
    uint32_t index;
    uint64_t life;
};

/* One of this process, with nothing asked; NULL: none to be had. */
struct sim_ipc_slot *sim_ipc_slot_take(void);
void sim_ipc_slot_drop(struct sim_ipc_slot *slot);

/* False: its descriptor was closed, so nobody can open it. */
bool sim_ipc_slot_name(const struct sim_ipc_slot *slot, struct sim_ipc_name *name);

/* Another process's, mapped until it is closed; NULL: it is gone, or not ours to look into. */
struct sim_ipc_slot *sim_ipc_slot_open(const struct sim_ipc_name *name);
void sim_ipc_slot_close(struct sim_ipc_slot *slot);

/*
 * A descriptor by which this process holds another's slot, until it is closed; -1: it is gone, or
 * not ours to look into.  The kernel lets go for a process that is killed.
 */
int sim_ipc_slot_hold(const struct sim_ipc_name *name);

/* Ends the life of one of ours, which keeps its place; whether somebody holds it. */
bool sim_ipc_slot_end(struct sim_ipc_slot *slot);

/* Whether a process runs no more. */
bool sim_ipc_is_dead(pid_t pid);

#endif
