/*
 * How much of the devices each process has taken.
 *
 * Each process has devices of its own, unless CUSHIM_SIM_SHARED names a file: then the processes
 * that name it share one set of devices, and memory runs out for all of them together.  The file
 * has a slot for each process, which owns it by a lock on its byte.  If a process is killed, the
 * kernel releases its lock, and a process that finds such a slot empties it.  In its slot a process
 * is also asked for checkpoints (checkpoint.h).
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Where a process is asked for a checkpoint, and answers. */
struct sim_share_desk {
    _Atomic uint32_t state;  /* a CUprocessState */
    _Atomic uint32_t thread; /* that answers; 0: none */
    _Atomic uint32_t n_asked, n_answered;
    _Atomic uint32_t call, timeout_ms, result; /* of the last request */
};

/* This process takes part from now on; called once, by cuInit.  False: it cannot, and a line has
 * the reason. */
bool sim_share_join(void);

/* In the child of a fork, which has no device. */
void sim_share_leave_child(void);

/* Take pages of a device that has n_all; false if there are not that many left. */
bool sim_share_charge(int device, size_t n_pages, size_t n_all);
void sim_share_refund(int device, size_t n_pages);

/* A context of this process begins (1) or ends (-1). */
void sim_share_context(int device, int change);

/* Pages that all processes have taken. */
size_t sim_share_used(int device);

struct sim_share {
    pid_t pid;
    size_t n_pages;
};

/* The processes with a context on a device; returns their number, and writes the first n. */
unsigned sim_share_processes(int device, struct sim_share *processes, unsigned n);

/* This process's own; NULL if no other process sees it. */
struct sim_share_desk *sim_share_desk(void);

/* That of a process; NULL: it takes no part. */
struct sim_share_desk *sim_share_desk_of(pid_t pid);

/* Does its process live?  No lock is needed. */
bool sim_share_desk_is_alive(const struct sim_share_desk *desk);

/* One process at a time asks (F_WRLCK), until F_UNLCK or its end. */
void sim_share_desk_lock(const struct sim_share_desk *desk, short type);

/* This process's pages are free for others, and still known as its own.  Take them again: false if
 * some device has too few left; then nothing is taken. */
void sim_share_lay_down(void);
bool sim_share_take_up(size_t n_all);
