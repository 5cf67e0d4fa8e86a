/*
 * Checkpoints of processes, as the driver has them from 570 on.
 *
 * A process asks at another one's desk in the file that they share (share.h), and a thread of that
 * process answers: so a request is completed even if the process that asked is killed, and a
 * process that is stopped keeps it waiting.  A locked process makes no calls, except those without
 * work.  Device memory stays where it is when a checkpoint is made: it is host memory already, and
 * only its pages are free for other processes.
 *
 * All of it needs CUSHIM_SIM_SHARED.
 */
#pragma once

#include "tools/sim/driver/core/abi.h"

#include <stdbool.h>

/* Start the thread that answers, if other processes see this one; called once, by cuInit. */
CUresult sim_checkpoint_begin(void);

/* The process ends, or is a fork's child; the driver's lock is not held. */
void sim_checkpoint_end(void);
void sim_checkpoint_leave_child(void);

/* A call begins, and waits here while the process is locked, unless it is quiet; and ends. */
void sim_checkpoint_enter(bool is_quiet);
void sim_checkpoint_leave(void);
