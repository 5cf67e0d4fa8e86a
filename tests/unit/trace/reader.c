/* Reading a recording: threads by time, and files that are cut or damaged. */
#include "trace/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recording.h"

static const uint64_t MUCH = (uint64_t)1 << 30;

static struct recording recording;

/* 0 or an errno; all events are gone through. */
static int read_through(const char *path, uint64_t *n_events, uint64_t *n_damaged) {
    struct cushim_trace_reader reader;
    struct cushim_trace_event event;
    uint64_t writer;
    *n_events = *n_damaged = 0;
    int error = cushim_trace_reader_open(&reader, path);
    if (error)
        return error;
    while (cushim_trace_reader_next(&reader, &event, &writer))
        ++*n_events;
    *n_damaged = reader.n_damaged;
    cushim_trace_reader_close(&reader);
    return 0;
}

/* Its writer bars that. */
static int open_to_change(const char *path, int access) {
    ck_assert_int_eq(chmod(path, 0600), 0);
    return open(path, access);
}

TEST(events_of_several_writers_come_by_time) {
    struct cushim_trace_writer writers[3] = {{.number = 0}, {.number = 1}, {.number = 2}};
    struct cushim_trace_reader reader;
    struct cushim_trace_event event;
    uint64_t writer, n = 0, last_ns = 0;
    recording_open(&recording, MUCH);
    for (int i = 0; i < 3; i++)
        cushim_trace_at(&recording.trace, &writers[i],
                        &(struct cushim_trace_event){.code = CUSHIM_TRACE_PLACE,
                                                     .device = (unsigned)i,
                                                     .thread = 100 + (uint64_t)i});
    uint64_t start_ns = writers[2].base.time_ns;
    for (uint64_t i = 1; i <= 30000; i++) {
        event = (struct cushim_trace_event){
            .code = CUSHIM_TRACE_FREE, .time_ns = start_ns + 16 * i, .address = i << 8};
        cushim_trace_put(&recording.trace, &writers[i * 7 % 3], &event);
    }
    ck_assert_int_eq(cushim_trace_reader_open(&reader, recording.path), 0);
    ck_assert_str_eq(reader.head.program, "train");
    while (cushim_trace_reader_next(&reader, &event, &writer)) {
        if (event.time_ns < last_ns || event.device != writer || event.thread != 100 + writer)
            ck_abort_msg("event %lu is out of its order or place", (unsigned long)n);
        last_ns = event.time_ns;
        n += event.code == CUSHIM_TRACE_FREE;
    }
    ck_assert_uint_eq(n, 30000);
    cushim_trace_reader_close(&reader);
    recording_close(&recording);
}

TEST(a_chunk_is_read_without_those_before_it) {
    static const char nothing[CUSHIM_TRACE_CHUNK_HEAD_BYTES];
    struct cushim_trace_reader reader;
    struct cushim_trace_event event;
    uint64_t writer, n = 0;
    recording_open(&recording, MUCH);
    cushim_trace_at(
        &recording.trace, &recording.writer,
        &(struct cushim_trace_event){.code = CUSHIM_TRACE_PLACE, .device = 3, .thread = 100});
    for (uint64_t i = 1; i <= 30000; i++)
        recording_alloc(&recording, i);
    int file = open_to_change(recording.path, O_WRONLY);
    ck_assert_int_eq(pwrite(file, nothing, sizeof nothing, CUSHIM_TRACE_HEAD_BYTES),
                     sizeof nothing);
    close(file);
    ck_assert_int_eq(cushim_trace_reader_open(&reader, recording.path), 0);
    while (cushim_trace_reader_next(&reader, &event, &writer)) {
        if (event.device != 3 || event.thread != 100)
            ck_abort_msg("event %lu has lost its place", (unsigned long)n);
        n++;
    }
    ck_assert_uint_gt(n, 1000);
    ck_assert_uint_lt(n, 30000);
    cushim_trace_reader_close(&reader);
    recording_close(&recording);
}

TEST(what_is_no_recording_is_refused) {
    uint64_t n, n_damaged;
    recording_open(&recording, MUCH);
    ck_assert_int_eq(read_through("/dev/null", &n, &n_damaged), ENOEXEC);
    ck_assert_int_eq(read_through(recording.folder, &n, &n_damaged), ENOEXEC);
    ck_assert_int_eq(read_through("/nowhere", &n, &n_damaged), ENOENT);
    recording.trace.head->version++;
    ck_assert_int_eq(read_through(recording.path, &n, &n_damaged), EPROTONOSUPPORT);
    recording_close(&recording);
}

TEST(a_cut_file_is_read_as_far_as_it_goes) {
    uint64_t n, n_damaged, last_n = UINT64_MAX;
    struct stat status;
    recording_open(&recording, MUCH);
    for (uint64_t i = 1; i <= 10000; i++)
        recording_alloc(&recording, i);
    ck_assert_int_eq(stat(recording.path, &status), 0);
    const off_t half_bytes = status.st_size / 2; /* of which the last chunk is, mostly empty */
    const off_t step_bytes = 64 * 1000 / suite_steps(1000);
    for (off_t at = status.st_size; at >= 0; at -= step_bytes) {
        ck_assert_int_eq(truncate(recording.path, at), 0);
        int error = read_through(recording.path, &n, &n_damaged);
        ck_assert(error == 0 || (error == ENOEXEC && at < CUSHIM_TRACE_HEAD_BYTES));
        ck_assert_uint_le(n, last_n);
        /* an event takes at most 8 bytes here, and a chunk ends in space for one */
        ck_assert_uint_ge(8 * n + CUSHIM_TRACE_HEAD_BYTES + 8 * CUSHIM_TRACE_EVENT_BYTES,
                          at < half_bytes ? (uint64_t)at : (uint64_t)half_bytes);
        last_n = n;
    }
    recording_close(&recording);
}

TEST(a_file_that_is_cut_between_chunks_is_told) {
    uint64_t n, n_damaged;
    off_t end = CUSHIM_TRACE_HEAD_BYTES + (16 << 10); /* of the first chunk */
    recording_open(&recording, MUCH);
    ck_assert_int_eq(read_through(recording.path, &n, &n_damaged), 0);
    ck_assert_uint_eq(n_damaged, 0); /* there is no chunk yet */
    for (uint64_t i = 1; i <= 30000; i++)
        recording_alloc(&recording, i);
    ck_assert_int_eq(read_through(recording.path, &n, &n_damaged), 0);
    ck_assert_uint_eq(n_damaged, 0);
    for (; end >= CUSHIM_TRACE_HEAD_BYTES; end -= 16 << 10) { /* with all its chunks gone at last */
        ck_assert_int_eq(truncate(recording.path, end), 0);
        ck_assert_int_eq(read_through(recording.path, &n, &n_damaged), 0);
        ck_assert_uint_eq(n_damaged, 1);
    }
    recording_close(&recording);
}

/* The file ends with the last event, but its chunk does not.  That is told, because there may have
 * been more chunks; bytes after the event belong to none. */
TEST(a_chunk_that_claims_more_than_there_is_ends_where_the_file_does) {
    struct cushim_trace_chunk chunk;
    uint64_t n, n_damaged;
    recording_open(&recording, MUCH);
    for (uint64_t i = 1; i <= 1000; i++)
        recording_alloc(&recording, i);
    int file = open_to_change(recording.path, O_RDWR);
    ck_assert_int_eq(pread(file, &chunk, sizeof chunk, CUSHIM_TRACE_HEAD_BYTES), sizeof chunk);
    uint64_t used_bytes = atomic_load(&chunk.used_bytes);
    ck_assert_int_eq(ftruncate(file, (off_t)(CUSHIM_TRACE_HEAD_BYTES +
                                             CUSHIM_TRACE_CHUNK_HEAD_BYTES + used_bytes)),
                     0);
    ck_assert_int_eq(read_through(recording.path, &n, &n_damaged), 0);
    ck_assert_uint_eq(n, 1000);
    ck_assert_uint_eq(n_damaged, 1);
    for (uint64_t more = 1; more <= 4096; more *= 8) {
        atomic_store(&chunk.used_bytes, used_bytes + more);
        ck_assert_int_eq(pwrite(file, &chunk, sizeof chunk, CUSHIM_TRACE_HEAD_BYTES), sizeof chunk);
        ck_assert_int_eq(read_through(recording.path, &n, &n_damaged), 0);
        ck_assert_uint_eq(n, 1000);
        ck_assert_uint_eq(n_damaged, 1);
    }
    close(file);
    recording_close(&recording);
}

/* A file that is long because of a hole, through which a reader would read for hours. */
TEST(holes_are_passed_over) {
    enum { CHUNK_BYTES = CUSHIM_TRACE_LEAST_CHUNK_BYTES };
    static uint8_t chunk[CHUNK_BYTES];
    off_t end = (off_t)1 << 43;
    uint64_t n, n_damaged;
    recording_open(&recording, MUCH);
    for (uint64_t i = 1; i <= 1000; i++)
        recording_alloc(&recording, i);
    int file = open_to_change(recording.path, O_RDWR);
    ck_assert_int_eq(pread(file, chunk, sizeof chunk, CUSHIM_TRACE_HEAD_BYTES), sizeof chunk);
    while (ftruncate(file, CUSHIM_TRACE_HEAD_BYTES + end) != 0)
        end /= 2; /* file systems differ in how long a file may be */
    ck_assert_int_eq(read_through(recording.path, &n, &n_damaged), 0);
    ck_assert_uint_eq(n, 1000);
    ck_assert_uint_eq(n_damaged, 0);
    ck_assert_int_eq(
        pwrite(file, chunk, sizeof chunk, CUSHIM_TRACE_HEAD_BYTES + end - (off_t)sizeof chunk),
        sizeof chunk);
    ck_assert_int_eq(read_through(recording.path, &n, &n_damaged), 0);
    ck_assert_uint_eq(n, 2000);
    ck_assert_uint_eq(n_damaged, 0);
    close(file);
    recording_close(&recording);
}

/* More than a process has, in an order that is none of theirs. */
TEST(events_of_very_many_writers_come_by_time) {
    const unsigned n_writers = suite_steps(30000);
    const uint64_t n_events = 50;
    static uint8_t bytes[64 + 50 * 32];
    struct cushim_trace_reader reader;
    struct cushim_trace_event event;
    uint64_t writer, n = 0, last_ns = 0, last_writer = 0;
    recording_open(&recording, MUCH);
    int file = open_to_change(recording.path, O_RDWR);
    for (uint64_t i = 0; i < n_writers; i++) {
        struct cushim_trace_base base = {0};
        struct cushim_trace_chunk chunk = {.n_bytes = CUSHIM_TRACE_LEAST_CHUNK_BYTES, .writer = i};
        size_t used_bytes = 0;
        memcpy(chunk.magic, CUSHIM_TRACE_CHUNK_MAGIC, sizeof chunk.magic);
        for (uint64_t step = 0; step < n_events; step++)
            used_bytes += cushim_trace_encode(
                bytes + CUSHIM_TRACE_CHUNK_HEAD_BYTES + used_bytes, &base,
                &(struct cushim_trace_event){.code = CUSHIM_TRACE_FREE,
                                             .time_ns = 1000 * step + i * 7919 % 1000,
                                             .address = i << 8});
        atomic_store(&chunk.used_bytes, used_bytes);
        memcpy(bytes, &chunk, sizeof chunk);
        ssize_t n_bytes = (ssize_t)(CUSHIM_TRACE_CHUNK_HEAD_BYTES + used_bytes);
        ck_assert_int_eq(
            pwrite(file, bytes, (size_t)n_bytes,
                   (off_t)(CUSHIM_TRACE_HEAD_BYTES + i * CUSHIM_TRACE_LEAST_CHUNK_BYTES)),
            n_bytes);
    }
    ck_assert_int_eq(ftruncate(file, (off_t)(CUSHIM_TRACE_HEAD_BYTES +
                                             n_writers * CUSHIM_TRACE_LEAST_CHUNK_BYTES)),
                     0); /* the last chunk is whole */
    close(file);
    ck_assert_int_eq(cushim_trace_reader_open(&reader, recording.path), 0);
    while (cushim_trace_reader_next(&reader, &event, &writer)) {
        bool is_next =
            event.time_ns > last_ns || (event.time_ns == last_ns && (!n || writer > last_writer));
        if (!is_next || event.address != writer << 8)
            ck_abort_msg("event %lu is out of its order", (unsigned long)n);
        last_ns = event.time_ns;
        last_writer = writer;
        n++;
    }
    ck_assert_uint_eq(n, n_writers * n_events);
    ck_assert_uint_eq(reader.n_damaged, 0);
    cushim_trace_reader_close(&reader);
    recording_close(&recording);
}

TEST(flipped_bits_are_survived) {
    static uint8_t bytes[1 << 17];
    uint64_t random = 7, n, n_damaged;
    recording_open(&recording, MUCH);
    for (uint64_t i = 1; i <= 8000; i++)
        recording_alloc(&recording, i);
    int file = open_to_change(recording.path, O_RDWR);
    ssize_t n_bytes = pread(file, bytes, sizeof bytes, 0);
    ck_assert_int_gt(n_bytes, CUSHIM_TRACE_HEAD_BYTES);
    for (unsigned i = suite_steps(1000); i > 0; i--) {
        /* every other one in a head, where it does most harm */
        uint64_t at = suite_random(&random) % (uint64_t)n_bytes;
        if (i % 2)
            at = CUSHIM_TRACE_HEAD_BYTES + at % CUSHIM_TRACE_CHUNK_HEAD_BYTES;
        uint8_t damaged = bytes[at] ^ (uint8_t)(1u << suite_random(&random) % 8);
        ck_assert_int_eq(pwrite(file, &damaged, 1, (off_t)at), 1);
        int error = read_through(recording.path, &n, &n_damaged);
        ck_assert(error == 0 || at < CUSHIM_TRACE_HEAD_BYTES);
        ck_assert_int_eq(pwrite(file, &bytes[at], 1, (off_t)at), 1);
    }
    ck_assert_int_eq(read_through(recording.path, &n, &n_damaged), 0);
    ck_assert_uint_eq(n, 8000);
    close(file);
    recording_close(&recording);
}

SUITE() {
    return tests_run("reader");
}
