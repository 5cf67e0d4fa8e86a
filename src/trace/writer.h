/*
 * Writing a recording, from inside a program that is not ours.
 *
 * A chunk is a piece of the file, mapped by the thread that writes it: no lock, no system call and
 * no thread for an event, and what was written is in the file whatever ends the process.  Space is
 * reserved before it is mapped, so that a full disk stops the recording, and no store fails.  The
 * file is opened for each chunk anew and closed again, so that the program finds no descriptor.
 * In between nobody but root may open it for writing (base/file_mode.h).
 */
#ifndef CUSHIM_TRACE_WRITER_H
#define CUSHIM_TRACE_WRITER_H

#include <limits.h>

#include "base/futex.h"
#include "trace/event.h"
#include "trace/python.h"

enum { CUSHIM_TRACE_STACKS = 4096 };

struct cushim_trace {
    struct cushim_trace_head *head; /* of the file, mapped; NULL: there is none */
    atomic_bool is_on;
    atomic_uint_fast64_t end_bytes; /* of the file: where the next chunk goes */
    uint64_t max_bytes;
    uint64_t device, inode; /* of the file: another one of its name is not written to */
    struct cushim_futex_lock opening;
    char path[PATH_MAX];
};

/* What one thread writes with; all zero is one that wrote nothing. */
struct cushim_trace_writer {
    struct cushim_trace_chunk *chunk;
    size_t next_bytes; /* of the chunk to come */
    uint64_t number, sequence;
    struct cushim_trace_base base;
    struct cushim_trace_event place; /* as it was written last */
    uint64_t n_stacks;
    struct cushim_trace_known_stack *stacks; /* CUSHIM_TRACE_STACKS of them; NULL: none yet */
    volatile bool is_busy;                   /* a signal's handler came in between */
};

/* Make the file, which must not be there, with the head's text fields as given.  0 or an errno;
 * then nothing is left. */
int cushim_trace_open(struct cushim_trace *trace, const char *path,
                      const struct cushim_trace_head *head, uint64_t max_bytes);

/* The last word; what is written later is lost, and not counted. */
void cushim_trace_close(struct cushim_trace *trace);

/* In a forked child: the file is the parent's.  The writer is the calling thread's; may be NULL. */
void cushim_trace_leave_to_parent(struct cushim_trace *trace, struct cushim_trace_writer *writer);

/* Write an event at its time_ns.  Where the recording is over, or this thread writes one already,
 * it is counted as lost. */
void cushim_trace_put(struct cushim_trace *trace, struct cushim_trace_writer *writer,
                      const struct cushim_trace_event *event);

/* The same events are of this device, kind, pool and thread from here on. */
void cushim_trace_at(struct cushim_trace *trace, struct cushim_trace_writer *writer,
                     const struct cushim_trace_event *place);

/* Tell the lines of Python that were not told, each as a module of one byte whose place in the file
 * is the line's number. */
void cushim_trace_lines(struct cushim_trace *trace, struct cushim_trace_writer *writer,
                        const struct cushim_python_line *lines, unsigned n_lines, uint64_t time_ns);

/* The number of a stack for ALLOC; one that was not seen is written first.  0: it is not known. */
uint64_t cushim_trace_stack(struct cushim_trace *trace, struct cushim_trace_writer *writer,
                            const uint64_t *frames, unsigned n_frames, uint64_t time_ns);

#endif
