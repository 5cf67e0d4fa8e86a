/*
 * What is taken of the devices, by process.
 *
 * Each process has devices of its own, until CUSHIM_SIM_SHARED names a file: then the processes
 * that name it have one set of devices, and memory runs out for all of them together.  The file has
 * a slot for each process, which owns it by a lock on its byte.  The kernel lets go of the lock of
 * a process that is killed, and whoever finds such a slot empties it.
 */
#ifndef CUSHIM_SIM_SHARE_H
#define CUSHIM_SIM_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* This process takes part from here on; once, by cuInit.  False, and a line says why: it cannot. */
bool sim_share_join(void);

/* In the child of a fork, which has no device. */
void sim_share_leave_child(void);

/* Pages of a device that has n_all; false when there are not that many left. */
bool sim_share_charge(int device, size_t n_pages, size_t n_all);
void sim_share_refund(int device, size_t n_pages);

/* A context of this process begins (1) or ends (-1). */
void sim_share_context(int device, int change);

/* Pages that are taken by all processes. */
size_t sim_share_used(int device);

struct sim_share {
    pid_t pid;
    size_t n_pages;
};

/* The processes with a context on a device: how many, of which the first n are written. */
unsigned sim_share_processes(int device, struct sim_share *processes, unsigned n);

#endif
