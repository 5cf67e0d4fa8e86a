/*
 * Writing a recording, inside a program that is not ours.
 *
 * A chunk is a piece of the file, mapped by the thread that writes it.  So an event takes no lock,
 * no system call and no thread, and is in the file however the process ends.  Space is reserved
 * before it is mapped, so that on a full disk the recording stops and no store fails.  The file is
 * opened again for each chunk and closed, so that the program finds no descriptor. In between only
 * root may open it for writing (base/file_mode.h).
 */
#pragma once

#include <limits.h>

#include "base/futex.h"
#include "trace/event.h"
#include "trace/python.h"

enum { CUSHIM_TRACE_STACKS = 4096 };

struct cushim_trace {
    struct cushim_trace_head *head; /* of the file, mapped; NULL: there is none */
    atomic_bool is_cut;             /* root cut the file, so that events are missing */
    atomic_bool is_on;
    atomic_uint_fast64_t end_bytes; /* of the file: the place of the next chunk */
    uint64_t max_bytes;
    uint64_t device, inode; /* of the file, because another one with its name is not written to */
    struct cushim_futex_lock opening;
    char path[PATH_MAX];
};

/* The state of one thread that writes; all zero at its start. */
struct cushim_trace_writer {
    struct cushim_trace_chunk *chunk;
    size_t chunk_bytes, used_bytes; /* kept here because the file may be cut (base/cut_file.h) */
    size_t next_bytes;              /* of the next chunk */
    uint64_t number, sequence;
    struct cushim_trace_base base;
    struct cushim_trace_event place; /* as it was last written */
    uint64_t n_stacks;
    struct cushim_trace_known_stack *stacks; /* CUSHIM_TRACE_STACKS of them; NULL: none yet */
    volatile bool is_busy;                   /* a signal handler interrupted a write */
};

/* Make the file, which must not exist, with the given text fields in its head.  0 or an errno; then
 * nothing is left.  Its head takes the place of that of a recording that was closed before. */
int cushim_trace_open(struct cushim_trace *trace, const char *path,
                      const struct cushim_trace_head *head, uint64_t max_bytes);

/* Close it; later events are lost, and not counted. */
void cushim_trace_close(struct cushim_trace *trace);

/* Forget the file that it wrote, which may be over; the caller is its thread, or it has none. */
void cushim_trace_writer_renew(struct cushim_trace_writer *writer);

/* In a forked child: leave the file to the parent.  The writer is the calling thread's; may be
 * NULL. */
void cushim_trace_leave_to_parent(struct cushim_trace *trace, struct cushim_trace_writer *writer);

/* Write an event at its time_ns.  It is counted as lost if the recording is over, or if this thread
 * is already writing one. */
void cushim_trace_put(struct cushim_trace *trace, struct cushim_trace_writer *writer,
                      const struct cushim_trace_event *event);

/* Set the device, kind, pool and thread of the following events. */
void cushim_trace_at(struct cushim_trace *trace, struct cushim_trace_writer *writer,
                     const struct cushim_trace_event *place);

/* The number of a stack for ALLOC; a new stack is written first, and its lines of Python, each as a
 * module of one byte whose place in the file is the line's number.  0: it has none. */
uint64_t cushim_trace_stack(struct cushim_trace *trace, struct cushim_trace_writer *writer,
                            const uint64_t *frames, unsigned n_frames, uint64_t time_ns);
