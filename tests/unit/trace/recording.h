/* A recording in its own folder. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/unit/suite.h"
#include "trace/reader.h"
#include "trace/writer.h"

struct recording {
    char folder[64], path[96];
    struct cushim_trace trace;
    struct cushim_trace_writer writer;
};

static inline void recording_open(struct recording *recording, uint64_t max_bytes) {
    struct cushim_trace_head head = {.process = 42, .program = "train"};
    *recording = (struct recording){.folder = P_tmpdir "/cushim-trace-XXXXXX"};
    ck_assert_ptr_nonnull(mkdtemp(recording->folder));
    snprintf(recording->path, sizeof recording->path, "%s/42.trace", recording->folder);
    ck_assert_int_eq(cushim_trace_open(&recording->trace, recording->path, &head, max_bytes), 0);
}

static inline void recording_alloc(struct recording *recording, uint64_t n) {
    cushim_trace_put(&recording->trace, &recording->writer,
                     &(struct cushim_trace_event){.code = CUSHIM_TRACE_ALLOC,
                                                  .time_ns = recording->writer.base.time_ns + 100,
                                                  .address = n << 12,
                                                  .n_bytes = n});
}

/* How many of the events there are, from the first, each as recording_alloc wrote it. */
static inline uint64_t recording_count(const char *path) {
    struct cushim_trace_reader reader;
    struct cushim_trace_event event;
    uint64_t n = 0, writer;
    ck_assert_int_eq(cushim_trace_reader_open(&reader, path), 0);
    while (cushim_trace_reader_next(&reader, &event, &writer)) {
        if (event.code != CUSHIM_TRACE_ALLOC)
            continue;
        n++;
        /* an assertion that holds costs a line in a file */
        if (event.n_bytes != n || event.address != n << 12)
            ck_abort_msg("event %lu is another one", (unsigned long)n);
    }
    ck_assert_uint_eq(reader.n_damaged, 0);
    cushim_trace_reader_close(&reader);
    return n;
}

static inline void recording_close(struct recording *recording) {
    unlink(recording->path);
    rmdir(recording->folder);
}
