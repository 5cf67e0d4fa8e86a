#include "copy/channel.h"

#include <string.h>
#include <sys/mman.h>

#include "copy_fixture.h"
#include "tests/unit/suite.h"

enum { SPACE = 4096, BUFFER = 100 };

static struct cushim_cuda cuda;
static struct cushim_copy_channel channel;
static char buffers[2][BUFFER];
static unsigned char host[SPACE], device[SPACE];

static void begin(void) {
    copy_fixture_reset(&cuda);
    ck_assert(cushim_copy_channel_make(&cuda, &channel));
    channel.buffers[0] = buffers[0];
    channel.buffers[1] = buffers[1];
    for (int i = 0; i < SPACE; i++) {
        host[i] = (unsigned char)(i * 7 + 1);
        device[i] = (unsigned char)(i * 13 + 2);
    }
}

static void end(void) {
    cushim_copy_channel_unmake(&cuda, &channel);
    ck_assert_uint_eq(copy_fixture_n_out(), 0);
    ck_assert_uint_eq(copy_fixture_n_faults(), 0);
}

static struct cushim_copy_job job_of(size_t n_bytes, bool is_to_device) {
    struct cushim_copy_box box = copy_fixture_line(host, device, n_bytes, is_to_device);
    return (struct cushim_copy_job){.cut = cushim_copy_cut(&box, BUFFER)};
}

TEST(all_pieces_arrive_through_two_buffers) {
    for (size_t n_bytes = 1; n_bytes < 7 * BUFFER; n_bytes += 33) {
        for (int is_to_device = 0; is_to_device < 2; is_to_device++) {
            atomic_uint nobody = 0;
            begin();
            struct cushim_copy_job job = job_of(n_bytes, is_to_device);
            cushim_copy_channel_turn(&cuda, &channel, &job, &nobody);
            ck_assert_int_eq(job.outcome, CUSHIM_COPY_DONE);
            ck_assert(!cushim_copy_job_has_more(&job));
            ck_assert_int_eq(memcmp(host, device, n_bytes), 0);
            ck_assert_int_eq(host[0], is_to_device ? 1 : 2);
            ck_assert_int_ne(host[n_bytes], device[n_bytes]);
            end();
        }
    }
}

/* ---- one buffer is filled or emptied while the device works on the other ---- */

static CUresult (*await)(CUevent event);
static unsigned n_begun, n_awaited;

static CUresult begin_up(CUdeviceptr to, const void *from, size_t n, CUstream stream) {
    (void)to, (void)from, (void)n, (void)stream;
    n_begun++;
    return CUDA_SUCCESS;
}

static CUresult begin_down(void *to, CUdeviceptr from, size_t n, CUstream stream) {
    (void)to;
    return begin_up(from, NULL, n, stream);
}

static CUresult await_one(CUevent event) {
    ck_assert(n_begun == 5 || n_begun == n_awaited + 2); /* it, and the next one */
    n_awaited++;
    return await(event);
}

TEST(the_wait_for_a_transfer_begins_after_the_next_is_queued) {
    for (int is_to_device = 0; is_to_device < 2; is_to_device++) {
        atomic_uint nobody = 0;
        begin();
        struct cushim_cuda watched = cuda;
        struct cushim_copy_job job = job_of(5 * BUFFER, is_to_device);
        n_begun = n_awaited = 0;
        await = cuda.cuEventSynchronize;
        watched.cuEventSynchronize = await_one;
        watched.cuMemcpyHtoDAsync_v2 = begin_up;
        watched.cuMemcpyDtoHAsync_v2 = begin_down;
        cushim_copy_channel_turn(&watched, &channel, &job, &nobody);
        ck_assert_uint_eq(n_awaited, 5);
        end();
    }
}

TEST(a_waiting_thread_ends_the_turn_of_the_owner) {
    atomic_uint somebody = 1;
    begin();
    struct cushim_copy_job job = job_of(3 * BUFFER, true);
    cushim_copy_channel_turn(&cuda, &channel, &job, &somebody);
    ck_assert_uint_eq(job.next, 1);
    ck_assert_int_eq(memcmp(host, device, BUFFER), 0); /* and no transfer is queued */
    cushim_copy_channel_turn(&cuda, &channel, &job, &somebody);
    cushim_copy_channel_turn(&cuda, &channel, &job, &somebody);
    ck_assert_int_eq(memcmp(host, device, 3 * BUFFER), 0);
    end();
}

TEST(a_refused_call_ends_the_job_and_leaves_no_transfer_queued) {
    for (unsigned n = 1;; n++) {
        atomic_uint nobody = 0;
        begin();
        struct cushim_copy_job job = job_of(5 * BUFFER, true);
        copy_fixture_fail_at(n);
        cushim_copy_channel_turn(&cuda, &channel, &job, &nobody);
        bool has_failed = copy_fixture_has_failed();
        copy_fixture_fail_at(0);
        end(); /* which reports transfers on a destroyed stream */
        if (!has_failed) {
            ck_assert_int_eq(job.outcome, CUSHIM_COPY_DONE);
            break;
        }
        ck_assert_int_eq(job.outcome, CUSHIM_COPY_REFUSED);
        ck_assert(!cushim_copy_job_has_more(&job));
    }
}

static CUresult lose_event(CUevent event) {
    (void)event;
    return CUDA_ERROR_DEINITIALIZED;
}

static CUresult lose_stream(CUstream stream) {
    (void)stream;
    return CUDA_ERROR_DEINITIALIZED;
}

/* A process that exits during a copy gets here. */
TEST(buffers_without_a_successful_wait_are_not_touched) {
    atomic_uint nobody = 0;
    begin();
    struct cushim_cuda ended = cuda;
    ended.cuEventSynchronize = lose_event;
    ended.cuStreamSynchronize = lose_stream;
    struct cushim_copy_job first = job_of(5 * BUFFER, true), second = job_of(BUFFER, true);
    cushim_copy_channel_turn(&ended, &channel, &first, &nobody);
    ck_assert_int_eq(first.outcome, CUSHIM_COPY_REFUSED);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(memcmp(buffers[i], host + i * BUFFER, BUFFER), 0);
    cushim_copy_channel_turn(&cuda, &channel, &second, &nobody);
    ck_assert_int_eq(second.outcome, CUSHIM_COPY_REFUSED);
    ck_assert_int_eq(memcmp(buffers[0], host, BUFFER), 0);
    cuda.cuStreamSynchronize(channel.stream);
    end();
}

TEST(a_channel_is_created_completely_or_not_at_all) {
    for (unsigned n = 1; n <= 3; n++) {
        struct cushim_copy_channel none;
        copy_fixture_reset(&cuda);
        copy_fixture_fail_at(n);
        ck_assert(!cushim_copy_channel_make(&cuda, &none));
        ck_assert_uint_eq(copy_fixture_n_out(), 0);
    }
}

TEST(unmapped_host_memory_ends_the_job_before_any_copy) {
    atomic_uint nobody = 0;
    begin();
    struct cushim_copy_job job = job_of(2 * BUFFER, false);
    void *gone = mmap(NULL, SPACE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    job.cut.box.host.address = (uint64_t)(uintptr_t)gone;
    cushim_copy_channel_turn(&cuda, &channel, &job, &nobody);
    ck_assert_int_eq(job.outcome, CUSHIM_COPY_HOST_IS_NOT);
    end();
}

SUITE() {
    return tests_run("copy/channel");
}
