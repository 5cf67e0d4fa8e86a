/*
 * Words that processes share: one slot for each thing that a process showed to others by a handle.
 *
 * The slots of a process are in one memfd of it, which others open as /proc/PID/fd/N, so only
 * processes of one user and one pid namespace see each other, as with the driver.  A slot that is
 * dropped gets a new life, so that old handles no longer fit.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct sim_ipc_slot {
    _Atomic uint64_t life; /* 0: free; written only by its process */
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

/* A new one of this process, with nothing asked for; NULL: none available. */
struct sim_ipc_slot *sim_ipc_slot_take(void);
void sim_ipc_slot_drop(struct sim_ipc_slot *slot);

/* False: its descriptor was closed, so no process can open it. */
bool sim_ipc_slot_name(const struct sim_ipc_slot *slot, struct sim_ipc_name *name);

/* Another process's, mapped until it is closed; NULL: it is gone, or we may not look into it. */
struct sim_ipc_slot *sim_ipc_slot_open(const struct sim_ipc_name *name);
void sim_ipc_slot_close(struct sim_ipc_slot *slot);

/*
 * A descriptor by which this process holds another's slot, until it is closed; -1: the slot is
 * gone, or we may not look into it.  If a process is killed, the kernel releases its hold.
 */
int sim_ipc_slot_hold(const struct sim_ipc_name *name);

/* End the life of one of ours, which keeps its place.  Does a process hold it? */
bool sim_ipc_slot_end(struct sim_ipc_slot *slot);

/* Has a process ended? */
bool sim_ipc_is_dead(pid_t pid);
