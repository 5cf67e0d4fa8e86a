/*
 * Suspends and resumes processes by the driver's checkpoint calls: all of a process's GPU memory
 * goes to host memory, and its CUDA calls wait until it comes back.  The process may be any of this
 * user's, with or without cushim in it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* One line says what was done, or why nothing was: then the process is as it was before, and false
 * is returned. */
bool suspend_process(int64_t process);
bool resume_process(int64_t process);
