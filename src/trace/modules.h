/*
 * Modules: which file's code lies where, so that a tool can name a frame after the process is gone.
 *
 * Read from /proc/self/maps when a stack has a frame that lies in none that was told: that takes no
 * lock of the loader's, in which a thread that allocates may be.
 */
#ifndef CUSHIM_TRACE_MODULES_H
#define CUSHIM_TRACE_MODULES_H

#include "trace/writer.h"

/* Tell of all that is executable, if one of the frames lies in nothing known. */
void cushim_trace_modules_tell(struct cushim_trace *trace, struct cushim_trace_writer *writer,
                               const uint64_t *frames, unsigned n_frames, uint64_t time_ns);

/* A new recording, or that of a forked child, knows none. */
void cushim_trace_modules_forget(void);

#endif
