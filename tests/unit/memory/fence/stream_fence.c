#include "memory/fence/stream_fence.h"

#include <string.h>

#include "cuda/table.h"
#include "tests/unit/fake/fake_cuda.h"
#include "tests/unit/memory/stream_host.h"
#include "tests/unit/suite.h"

static struct cushim_cuda cuda;
static struct cushim_mem_fence fence;

static void begin(const char *without) {
    memset(&fence, 0, sizeof fence);
    memset(&cuda, 0, sizeof cuda);
    memset(&host_seen, 0, sizeof host_seen);
    fake_reset();
    fake_load(&cuda, without);
    fake_set_current(fake_context(0));
    fence.host = &stream_host;
    cushim_mem_fence_init(&fence, &cuda, fake_context(0), NULL);
    fake_forget_order();
}

static void finish(void) {
    ck_assert_int_eq(host_seen.n_inside, 0);
    ck_assert_uint_eq(fake_n_faults(), 0);
    ck_assert_uint_eq(fake_n_invalidated(), 0);
    ck_assert_ptr_eq(fake_current(), fake_context(0));
    ck_assert_uint_eq(fake_depth(), 1);
}

static struct cushim_mem_stream_fence record(const CUstream *stream) {
    struct cushim_mem_stream_fence stream_fence;
    ck_assert_int_eq(cushim_mem_stream_fence_record(&fence, "test", stream, &stream_fence),
                     CUSHIM_OK);
    ck_assert(cushim_mem_stream_fence_is_some(&stream_fence));
    return stream_fence;
}

static bool is_complete(struct cushim_mem_stream_fence *stream_fence) {
    return cushim_mem_stream_fence_is_complete(stream_fence);
}

TEST(a_fence_is_complete_once_the_work_of_its_stream_is_over) {
    CUstream stream = fake_stream(0);
    begin(NULL);
    fake_submit(0);
    fake_submit(4);
    struct cushim_mem_stream_fence stream_fence = record(&stream);
    ck_assert(!is_complete(&stream_fence));
    fake_submit(0); /* submitted after the fence */
    fake_step(0);
    ck_assert(is_complete(&stream_fence));
    fake_forget_order();
    ck_assert(is_complete(&stream_fence));
    ck_assert_str_eq(fake_order(), ""); /* its completion was seen */
    cushim_mem_stream_fence_release(&stream_fence);
    ck_assert(!cushim_mem_stream_fence_is_some(&stream_fence));
    ck_assert_uint_eq(fence.n_spares, 1);
    finish();
}

TEST(a_fence_of_the_context_waits_for_all_of_its_streams) {
    begin(NULL);
    fake_submit(0);
    fake_submit(4);
    struct cushim_mem_stream_fence stream_fence = record(NULL);
    fake_finish(0);
    ck_assert(!is_complete(&stream_fence));
    fake_finish(4);
    ck_assert(is_complete(&stream_fence));
    cushim_mem_stream_fence_release(&stream_fence);
    finish();
}

TEST(a_later_wait_completes_a_fence_without_a_query) {
    CUstream stream = fake_stream(0);
    begin(NULL);
    fake_submit(0);
    struct cushim_mem_stream_fence before = record(&stream);
    uint64_t epoch = cushim_mem_fence_close(&fence);
    struct cushim_mem_stream_fence behind = record(&stream);
    fake_forget_order();
    cushim_mem_fence_complete(&fence, epoch);
    ck_assert(is_complete(&before));
    ck_assert_str_eq(fake_order(), "");
    ck_assert(!is_complete(&behind));
    ck_assert_int_eq(cushim_mem_stream_fence_wait(&behind, "test"), CUSHIM_OK);
    ck_assert(is_complete(&behind));
    cushim_mem_stream_fence_release(&before);
    cushim_mem_stream_fence_release(&behind);
    finish();
}

TEST(a_capture_forbids_the_record_and_the_driver_gets_no_call) {
    CUstream stream = fake_stream(0);
    struct cushim_mem_stream_fence stream_fence;
    begin(NULL);
    host_seen.is_captured = true;
    ck_assert_int_eq(cushim_mem_stream_fence_record(&fence, NULL, &stream, &stream_fence),
                     CUSHIM_CAPTURE);
    ck_assert(!cushim_mem_stream_fence_is_some(&stream_fence));
    ck_assert_int_eq(cushim_mem_stream_fence_record(&fence, NULL, NULL, &stream_fence),
                     CUSHIM_CAPTURE);
    ck_assert(!cushim_mem_stream_fence_is_some(&stream_fence));
    ck_assert_str_eq(fake_order(), "");
    finish();
}

TEST(a_refused_record_makes_no_fence) {
    CUstream stream = fake_stream(0);
    struct cushim_mem_stream_fence stream_fence;
    begin(NULL);
    fake_fail_always("cuEventRecord", CUDA_ERROR_OUT_OF_MEMORY);
    ck_assert_int_eq(cushim_mem_stream_fence_record(&fence, NULL, &stream, &stream_fence),
                     CUSHIM_NOMEM);
    ck_assert(!cushim_mem_stream_fence_is_some(&stream_fence));
    ck_assert_int_eq(host_seen.answer, CUDA_ERROR_OUT_OF_MEMORY);
    fake_fail_always(NULL, CUDA_SUCCESS);
    finish();
}

/* Before driver 12.5 there are no context events. */
TEST(without_an_event_a_fence_completes_by_a_wait_for_the_context) {
    begin("cuCtxRecordEvent");
    fake_submit(0);
    struct cushim_mem_stream_fence one = record(NULL), other = record(NULL);
    ck_assert(!is_complete(&one));
    host_seen.is_captured = true;
    ck_assert_int_eq(cushim_mem_stream_fence_wait(&one, NULL), CUSHIM_CAPTURE);
    host_seen.is_captured = false;
    ck_assert_int_eq(cushim_mem_stream_fence_wait(&one, NULL), CUSHIM_OK);
    ck_assert(is_complete(&one));
    ck_assert(is_complete(&other));
    cushim_mem_stream_fence_release(&one);
    cushim_mem_stream_fence_release(&other);
    finish();
}

TEST(once_the_context_is_gone_a_fence_is_complete_without_a_driver_call) {
    CUstream stream = fake_stream(0);
    begin(NULL);
    fake_submit(0);
    struct cushim_mem_stream_fence stream_fence = record(&stream);
    fake_lose_events(0);
    cushim_mem_fence_abandon(&fence);
    fake_forget_order();
    ck_assert(is_complete(&stream_fence));
    ck_assert_int_eq(cushim_mem_stream_fence_wait(&stream_fence, "test"), CUSHIM_OK);
    cushim_mem_stream_fence_release(&stream_fence);
    struct cushim_cuda *entered = NULL;
    ck_assert_int_eq(cushim_mem_stream_fence_enter(&fence, &entered), CUSHIM_DEADCONTEXT);
    ck_assert_str_eq(fake_order(), "");
    finish();
}

TEST(in_a_damaged_context_every_fence_is_complete) {
    CUstream stream = fake_stream(0);
    begin(NULL);
    fake_submit(0);
    struct cushim_mem_stream_fence stream_fence = record(&stream);
    fake_fail_always("cuEventQuery", CUDA_ERROR_ILLEGAL_ADDRESS);
    ck_assert(is_complete(&stream_fence));
    ck_assert_int_eq(host_seen.answer, CUDA_ERROR_ILLEGAL_ADDRESS);
    fake_fail_always(NULL, CUDA_SUCCESS);
    cushim_mem_stream_fence_release(&stream_fence);
    finish();
}

TEST(a_stream_is_ordered_behind_a_fence_unless_it_is_complete) {
    CUstream stream = fake_stream(0), other = fake_stream(4);
    begin(NULL);
    fake_submit(0);
    struct cushim_mem_stream_fence stream_fence = record(&stream);
    host_seen.is_captured = true;
    ck_assert_int_eq(cushim_mem_stream_fence_order(&stream_fence, &fence, NULL, other),
                     CUSHIM_CAPTURE);
    ck_assert_int_eq(host_seen.n_orders, 0);
    host_seen.is_captured = false;
    ck_assert_int_eq(cushim_mem_stream_fence_order(&stream_fence, &fence, NULL, other), CUSHIM_OK);
    ck_assert_int_eq(host_seen.n_orders, 1);
    fake_finish(0);
    ck_assert_int_eq(cushim_mem_stream_fence_order(&stream_fence, &fence, NULL, other), CUSHIM_OK);
    ck_assert_int_eq(host_seen.n_orders, 1);
    cushim_mem_stream_fence_release(&stream_fence);
    finish();
}

TEST(its_context_is_pushed_and_popped_if_another_is_current) {
    struct cushim_cuda *entered = NULL;
    begin(NULL);
    fake_set_current(fake_context(1));
    ck_assert_int_eq(cushim_mem_stream_fence_enter(&fence, &entered), CUSHIM_OK);
    ck_assert_ptr_eq(fake_current(), fake_context(0));
    cushim_current_context_end(&entered);
    ck_assert_ptr_eq(fake_current(), fake_context(1));
    fake_set_current(fake_context(0));
}

SUITE() {
    return tests_run("stream fence");
}
