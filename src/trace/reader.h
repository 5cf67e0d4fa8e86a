/*
 * Reading a recording: the events of all threads by time, with a few KiB of memory for each writer.
 *
 * The file is not trusted: it may be cut, damaged or made up, and its process may be writing it.
 * Bytes that are no event end a chunk; bytes that are no chunk are skipped.  Memory and time are
 * bounded by the data that is there, whatever the file claims.
 */
#pragma once

#include "trace/event.h"

struct cushim_trace_reader {
    struct cushim_trace_head head; /* texts end in a 0 */
    int file;
    uint64_t file_bytes;
    struct cushim_trace_place *chunks; /* by writer, then in their order */
    size_t n_chunks;
    struct cushim_trace_cursor *cursors;
    size_t n_cursors;
    struct cushim_trace_cursor **queue;
    size_t n_queued;
    bool is_begun;
    uint64_t n_damaged; /* chunks that ended in something that is no event, and the end of the file
                           if it is cut off */
};

/* 0, or an errno: ENOEXEC if it is no recording, EPROTONOSUPPORT if it is one of another version.
 */
int cushim_trace_reader_open(struct cushim_trace_reader *reader, const char *path);

/* The next event, valid until the next call.  Its place is that of its thread, and `writer` says
 * which stack numbers it uses.  False: there are no more. */
bool cushim_trace_reader_next(struct cushim_trace_reader *reader, struct cushim_trace_event *event,
                              uint64_t *writer);

void cushim_trace_reader_close(struct cushim_trace_reader *reader);
