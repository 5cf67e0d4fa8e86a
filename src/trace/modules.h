/*
 * Modules: which file's code is where, so that a tool can name a frame after the process is gone.
 *
 * Read from /proc/self/maps when a stack has a frame in no known module.  That takes no lock of the
 * loader's, which a thread that allocates may hold.
 */
#pragma once

#include "trace/writer.h"

/* Record all executable mappings, if one of the frames is in no known one. */
void cushim_trace_modules_tell(struct cushim_trace *trace, struct cushim_trace_writer *writer,
                               const uint64_t *frames, unsigned n_frames, uint64_t time_ns);

/* Forget them: for a new recording, or that of a forked child. */
void cushim_trace_modules_forget(void);
