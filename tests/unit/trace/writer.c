/* Writing a recording: it is complete after any end, and stops when there is no space. */
#include "trace/writer.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "recording.h"
#include "tests/unit/base/sigbus.h"

static const uint64_t MUCH = (uint64_t)1 << 30;

static struct recording recording;

TEST(events_of_many_chunks_are_read_in_order) {
    enum { N = 200000 };
    recording_open(&recording, MUCH);
    for (uint64_t n = 1; n <= N; n++)
        recording_alloc(&recording, n);
    cushim_trace_close(&recording.trace);
    ck_assert_uint_eq(recording_count(recording.path), N);
    ck_assert_uint_gt(recording.writer.sequence, 4);
    ck_assert_uint_eq(atomic_load(&recording.trace.head->n_lost), 0);
    ck_assert_uint_eq(atomic_load(&recording.trace.head->state), CUSHIM_TRACE_ENDED);
    recording_close(&recording);
}

/* A child writes, and counts its events in shared memory, until it is killed. */
TEST(a_killed_writer_loses_at_most_the_event_that_it_writes) {
    atomic_ulong *n_written =
        mmap(NULL, sizeof *n_written, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (unsigned i = suite_steps(60); i > 0; i--) {
        atomic_store(n_written, 0);
        recording_open(&recording, MUCH);
        pid_t child = fork();
        if (child == 0) {
            for (uint64_t n = 1;; n++) {
                recording_alloc(&recording, n);
                atomic_store(n_written, n);
            }
        }
        while (atomic_load(n_written) < 37 * i) {
        }
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        uint64_t n = recording_count(recording.path), n_told = atomic_load(n_written);
        ck_assert_uint_ge(n, n_told);
        ck_assert_uint_le(n, n_told + 1);
        recording_close(&recording);
    }
}

TEST(a_recording_ends_where_it_is_as_large_as_it_may_be) {
    recording_open(&recording, 40000);
    for (uint64_t n = 1; n <= 20000; n++)
        recording_alloc(&recording, n);
    struct stat status;
    uint64_t n_read = recording_count(recording.path);
    ck_assert_int_eq(stat(recording.path, &status), 0);
    ck_assert_int_le(status.st_size, 40000);
    ck_assert_uint_eq(atomic_load(&recording.trace.head->state), CUSHIM_TRACE_FULL);
    ck_assert_uint_eq(n_read + atomic_load(&recording.trace.head->n_lost), 20000);
    ck_assert_uint_gt(n_read, 1000);
    recording_close(&recording);
}

TEST(a_file_that_may_not_grow_stops_it_without_a_signal) {
    struct rlimit limit, low;
    recording_open(&recording, MUCH);
    getrlimit(RLIMIT_FSIZE, &limit);
    low = (struct rlimit){30000, limit.rlim_max};
    setrlimit(RLIMIT_FSIZE, &low);
    errno = EDOM;
    for (uint64_t n = 1; n <= 20000; n++)
        recording_alloc(&recording, n);
    int left_errno = errno;
    setrlimit(RLIMIT_FSIZE, &limit);
    ck_assert_int_eq(left_errno, EDOM);
    ck_assert_uint_eq(atomic_load(&recording.trace.head->state), CUSHIM_TRACE_FAILED);
    ck_assert_uint_eq(atomic_load(&recording.trace.head->error), EFBIG);
    ck_assert_uint_eq(recording_count(recording.path) + atomic_load(&recording.trace.head->n_lost),
                      20000);
    recording_close(&recording);
}

TEST(another_file_of_its_name_is_left_alone) {
    recording_open(&recording, MUCH);
    recording_alloc(&recording, 1);
    unlink(recording.path);
    FILE *other = fopen(recording.path, "w");
    fputs("mine", other);
    fclose(other);
    for (uint64_t n = 2; n <= 20000; n++)
        recording_alloc(&recording, n);
    ck_assert_uint_eq(atomic_load(&recording.trace.head->error), ESTALE);
    ck_assert_int_eq(truncate(recording.path, 4), 0);
    other = fopen(recording.path, "r");
    char text[8];
    ck_assert_str_eq(fgets(text, sizeof text, other), "mine");
    fclose(other);
    recording_close(&recording);
}

/* Cut, and long again by another thread's chunk: zeros, without a fault. */
TEST(a_chunk_whose_head_is_gone_ends_where_it_did) {
    recording_open(&recording, MUCH);
    recording_alloc(&recording, 1);
    size_t chunk_bytes = recording.writer.chunk_bytes;
    struct stat status;
    ck_assert_int_eq(stat(recording.path, &status), 0);
    ck_assert_int_eq(chmod(recording.path, 0600), 0);
    ck_assert_int_eq(truncate(recording.path, CUSHIM_TRACE_HEAD_BYTES), 0);
    ck_assert_int_eq(truncate(recording.path, status.st_size), 0);
    for (uint64_t n = 2; recording.writer.sequence == 1; n++) {
        recording_alloc(&recording, n);
        ck_assert_uint_le(recording.writer.used_bytes, chunk_bytes);
    }
    recording_close(&recording);
}

TEST_IF(may_survive_a_cut(), a_file_that_is_cut_ends_the_recording) {
    recording_open(&recording, MUCH);
    recording_alloc(&recording, 1);
    ck_assert_int_eq(truncate(recording.path, CUSHIM_TRACE_HEAD_BYTES), 0);
    for (uint64_t n = 2; n <= 20000; n++)
        recording_alloc(&recording, n);
    ck_assert_uint_eq(atomic_load(&recording.trace.head->state), CUSHIM_TRACE_FAILED);
    ck_assert_uint_eq(atomic_load(&recording.trace.head->error), EIO);
    ck_assert_uint_gt(atomic_load(&recording.trace.head->n_lost), 0);
    ck_assert_int_eq(truncate(recording.path, 0), 0);
    cushim_trace_close(&recording.trace);
    recording_close(&recording);
}

TEST_IF(may_survive_a_cut(), a_cut_that_no_chunk_followed_is_told_at_the_end) {
    recording_open(&recording, MUCH);
    recording_alloc(&recording, 1);
    ck_assert_int_eq(truncate(recording.path, CUSHIM_TRACE_HEAD_BYTES), 0);
    recording_alloc(&recording, 2);
    cushim_trace_close(&recording.trace);
    ck_assert_uint_eq(atomic_load(&recording.trace.head->state), CUSHIM_TRACE_FAILED);
    recording_close(&recording);
}

TEST(a_file_that_is_there_is_not_written_over) {
    struct cushim_trace_head head = {0};
    struct cushim_trace second = {0};
    recording_open(&recording, MUCH);
    ck_assert_int_eq(cushim_trace_open(&second, recording.path, &head, MUCH), EEXIST);
    recording_close(&recording);
}

TEST(a_thread_that_is_interrupted_loses_the_event_of_the_handler) {
    recording_open(&recording, MUCH);
    recording_alloc(&recording, 1);
    recording.writer.is_busy = true;
    recording_alloc(&recording, 2);
    recording.writer.is_busy = false;
    ck_assert_uint_eq(atomic_load(&recording.trace.head->n_lost), 1);
    ck_assert_uint_eq(recording_count(recording.path), 1);
    recording_close(&recording);
}

TEST(a_stack_is_told_once) {
    const uint64_t frames[] = {1, 2, 3};
    recording_open(&recording, MUCH);
    uint64_t first = cushim_trace_stack(&recording.trace, &recording.writer, frames, 3, 0);
    size_t used_bytes = atomic_load(&recording.writer.chunk->used_bytes);
    ck_assert_uint_eq(first, 1);
    ck_assert_uint_eq(cushim_trace_stack(&recording.trace, &recording.writer, frames, 3, 0), 1);
    ck_assert_uint_eq(atomic_load(&recording.writer.chunk->used_bytes), used_bytes);
    ck_assert_uint_eq(cushim_trace_stack(&recording.trace, &recording.writer, frames, 2, 0), 2);
    recording_close(&recording);
}

/* A thread that the child does not have held the lock. */
TEST(a_forked_child_opens_its_own_file_at_once) {
    struct cushim_trace_head head = {0};
    recording_open(&recording, MUCH);
    cushim_futex_lock_enter(&recording.trace.opening);
    cushim_trace_leave_to_parent(&recording.trace, &recording.writer);
    unlink(recording.path);
    ck_assert_int_eq(cushim_trace_open(&recording.trace, recording.path, &head, MUCH), 0);
    ck_assert_uint_eq(atomic_load(&recording.trace.opening.word), 0);
    recording_alloc(&recording, 1);
    cushim_trace_close(&recording.trace);
    ck_assert_uint_eq(recording_count(recording.path), 1);
    recording_close(&recording);
}

TEST(a_forked_child_leaves_the_file_to_its_parent) {
    int status;
    recording_open(&recording, MUCH);
    recording_alloc(&recording, 1);
    pid_t child = fork();
    if (!child) {
        cushim_trace_leave_to_parent(&recording.trace, &recording.writer);
        recording_alloc(&recording, 2);
        _exit(0);
    }
    waitpid(child, &status, 0);
    ck_assert_int_eq(status, 0);
    ck_assert_uint_eq(recording_count(recording.path), 1);
    recording_close(&recording);
}

SUITE() {
    return tests_run("writer");
}
