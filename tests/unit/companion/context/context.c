/* Contexts: cases C1, C2 and C4 of the specification, except what needs other objects. */
#include "cushim/context.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cushim/device.h"
#include "cushim/event.h"
#include "cushim/graph.h"
#include "cushim/library.h"
#include "cushim/memory.h"
#include "cushim/stream.h"
#include "tests/unit/companion/core/sim_fixture.h"
#include "tests/unit/suite.h"

static struct cushim_context *create(void) {
    struct cushim_context *context;
    ck_assert_int_eq(cushim_context_create(0, 0, &context), CUSHIM_OK);
    return context;
}

static CUcontext handle_of(struct cushim_context *context) {
    CUcontext handle;
    ck_assert_int_eq(cushim_context_handle(context, &handle), CUSHIM_OK);
    return handle;
}

TEST(creation_changes_nothing_unless_asked_to_push) {
    struct cushim_context *a = create(), *b, *popped;
    ck_assert_ptr_null(sim_current());
    ck_assert_int_eq(cushim_context_create(0, CUSHIM_CONTEXT_FLAG_PUSH, &b), CUSHIM_OK);
    ck_assert_ptr_eq(sim_current(), handle_of(b));
    ck_assert_int_eq(cushim_context_push(a), CUSHIM_OK);
    ck_assert_ptr_eq(sim_current(), handle_of(a));
    ck_assert_int_eq(cushim_context_pop(&popped), CUSHIM_OK);
    ck_assert_ptr_eq(popped, a);
    ck_assert_ptr_eq(sim_current(), handle_of(b));
    ck_assert_int_eq(cushim_context_pop(NULL), CUSHIM_OK);
    ck_assert_ptr_null(sim_current());
    ck_assert_int_eq(cushim_context_pop(NULL), CUSHIM_NOCONTEXT);
    ck_assert_int_eq(cushim_context_create(0, 1 | 2, &b), CUSHIM_INVALID);
    ck_assert_int_eq(cushim_context_create(0, 32, &b), CUSHIM_INVALID);
    ck_assert_int_eq(cushim_context_create(7, 0, &b), CUSHIM_BADDEVICE);
    ck_assert_ptr_null(b);
}

TEST(a_failed_creation_keeps_the_stack_and_the_current_context) {
    void (*fail_at)(unsigned long, CUresult);
    int (*has_failed)(void);
    sim_find("sim_fail_at", &fail_at);
    sim_find("sim_has_failed", &has_failed);
    struct cushim_context *first = create(), *made;
    ck_assert_int_eq(cushim_context_push(first), CUSHIM_OK);
    CUcontext current = sim_current();
    for (unsigned n = 1; n < 50; n++) {
        fail_at(n, CUDA_ERROR_OUT_OF_MEMORY);
        enum cushim_status status = cushim_context_create(0, CUSHIM_CONTEXT_FLAG_PUSH, &made);
        int failed = has_failed();
        fail_at(0, CUDA_SUCCESS);
        if (status == CUSHIM_OK)
            ck_assert_int_eq(cushim_context_destroy(made), CUSHIM_OK);
        else
            ck_assert_ptr_null(made);
        ck_assert_ptr_eq(sim_current(), current);
        if (!failed)
            return;
    }
    ck_abort_msg("it never came through");
}

static void *leave_two(void *context) {
    ck_assert_int_eq(cushim_context_pop(NULL), CUSHIM_NOCONTEXT);
    ck_assert_int_eq(cushim_context_push(context), CUSHIM_OK);
    ck_assert_int_eq(cushim_context_push(context), CUSHIM_OK);
    return NULL;
}

TEST(threads_and_processes_may_end_with_contexts_on_their_stacks) {
    int state, pipes[2];
    char byte;
    ck_assert_int_eq(pipe(pipes), 0);
    pid_t child = fork();
    if (!child) {
        pthread_t thread;
        dup2(pipes[1], 1);
        dup2(pipes[1], 2);
        struct cushim_context *context = create();
        pthread_create(&thread, NULL, leave_two, context);
        pthread_join(thread, NULL);
        cushim_context_push(context);
        exit(0);
    }
    close(pipes[1]);
    ck_assert_int_eq(waitpid(child, &state, 0), child);
    ck_assert_int_eq(state, 0);
    ck_assert_int_eq(read(pipes[0], &byte, 1), 0);
}

TEST(a_thread_that_ends_drops_its_references) {
    pthread_t thread;
    struct cushim_context *primary;
    unsigned flags;
    int is_active;
    ck_assert_int_eq(cushim_context_primary(0, &primary), CUSHIM_OK);
    pthread_create(&thread, NULL, leave_two, primary);
    pthread_join(thread, NULL);
    ck_assert_int_eq(cushim_context_destroy(primary), CUSHIM_OK);
    SIM(cuDevicePrimaryCtxGetState)(0, &flags, &is_active);
    ck_assert_int_eq(is_active, 0);
}

TEST(destroying_the_top_makes_the_next_live_one_current) {
    struct cushim_context *a = create(), *b = create(), *c = create(), *current;
    CUcontext handle = handle_of(a);
    cushim_context_push(a);
    cushim_context_push(b);
    cushim_context_push(c);
    ck_assert_int_eq(cushim_context_destroy(b), CUSHIM_OK);
    ck_assert_ptr_eq(sim_current(), handle_of(c));
    ck_assert_int_eq(cushim_context_destroy(c), CUSHIM_OK);
    ck_assert_ptr_eq(sim_current(), handle);
    ck_assert_int_eq(cushim_context_current(&current), CUSHIM_OK);
    ck_assert_ptr_eq(current, a);
    ck_assert_int_eq(cushim_context_destroy(a), CUSHIM_OK);
    ck_assert_ptr_null(sim_current());
    ck_assert_int_eq(cushim_context_pop(NULL), CUSHIM_NOCONTEXT);
    ck_assert_int_eq(cushim_context_current(&current), CUSHIM_OK);
    ck_assert_ptr_null(current);
}

TEST(a_primary_context_has_one_handle_and_is_never_reset) {
    struct cushim_context *a, *b, *c;
    CUcontext others;
    uint64_t first, second;
    unsigned flags;
    int is_active;
    ck_assert_int_eq(SIM(cuInit)(0), CUDA_SUCCESS);
    ck_assert_int_eq(SIM(cuDevicePrimaryCtxRetain)(&others, 0), CUDA_SUCCESS);
    ck_assert_int_eq(cushim_context_primary(0, &a), CUSHIM_OK);
    ck_assert_int_eq(cushim_context_primary(-1, &b), CUSHIM_OK);
    ck_assert_ptr_eq(a, b);
    ck_assert_ptr_eq(handle_of(a), others);
    ck_assert_int_eq(cushim_context_destroy(a), CUSHIM_OK);
    ck_assert_int_eq(cushim_context_destroy(b), CUSHIM_BADHANDLE);
    SIM(cuDevicePrimaryCtxGetState)(0, &flags, &is_active);
    ck_assert_int_eq(is_active, 1);
    ck_assert_int_eq(cushim_context_primary(0, &b), CUSHIM_OK);
    ck_assert_int_eq(cushim_context_id(b, &first), CUSHIM_OK);
    ck_assert_int_eq(SIM(cuDevicePrimaryCtxReset_v2)(0), CUDA_SUCCESS);
    ck_assert_int_eq(cushim_context_primary(0, &c), CUSHIM_OK);
    ck_assert_ptr_ne(b, c);
    ck_assert_int_eq(cushim_context_synchronize(b), CUSHIM_DEADCONTEXT);
    ck_assert_int_eq(cushim_context_id(c, &second), CUSHIM_OK);
    ck_assert_int_eq(cushim_context_synchronize(c), CUSHIM_OK);
    ck_assert_int_eq(cushim_context_destroy(b), CUSHIM_OK);
    ck_assert_int_eq(cushim_context_destroy(c), CUSHIM_OK);
    SIM(cuDevicePrimaryCtxGetState)(0, &flags, &is_active);
    ck_assert_int_eq(is_active, 0);
}

TEST(calls_keep_the_current_context_and_the_depth_of_the_stack) {
    struct cushim_context *a = create(), *b = create();
    CUcontext popped, raw_a = handle_of(a);
    size_t value;
    ck_assert_int_eq(SIM(cuCtxPushCurrent_v2)(raw_a), CUDA_SUCCESS);
    ck_assert_int_eq(cushim_context_synchronize(b), CUSHIM_OK);
    ck_assert_int_eq(cushim_context_limit_get(b, 0, &value), CUSHIM_OK);
    ck_assert_ptr_eq(sim_current(), raw_a);
    ck_assert_int_eq(cushim_context_push(b), CUSHIM_OK);
    ck_assert_int_eq(cushim_context_synchronize(a), CUSHIM_OK);
    ck_assert_ptr_eq(sim_current(), handle_of(b));
    ck_assert_int_eq(cushim_context_pop(NULL), CUSHIM_OK);
    ck_assert_int_eq(SIM(cuCtxPopCurrent_v2)(&popped), CUDA_SUCCESS);
    ck_assert_ptr_eq(popped, raw_a);
    ck_assert_ptr_null(sim_current());
}

TEST(a_context_that_others_created_is_used_and_not_destroyed) {
    struct cushim_context *seen, *wrapped;
    CUcontext raw;
    int dev;
    ck_assert_int_eq(cushim_available(), 1);
    ck_assert_int_eq(SIM(cuCtxCreate_v2)(&raw, 0, 1), CUDA_SUCCESS);
    ck_assert_int_eq(cushim_context_device(NULL, &dev), CUSHIM_OK);
    ck_assert_int_eq(dev, 1);
    ck_assert_int_eq(cushim_context_current(&seen), CUSHIM_OK);
    ck_assert_int_eq(cushim_context_wrap(raw, &wrapped), CUSHIM_OK);
    ck_assert_ptr_eq(seen, wrapped);
    ck_assert_int_eq(cushim_context_destroy(wrapped), CUSHIM_OK);
    ck_assert_int_eq(SIM(cuCtxSynchronize)(), CUDA_SUCCESS);
    ck_assert_int_eq(cushim_context_wrap(raw, &wrapped), CUSHIM_OK);
    ck_assert_int_eq(SIM(cuCtxDestroy_v2)(raw), CUDA_SUCCESS);
    ck_assert_int_eq(cushim_context_synchronize(wrapped), CUSHIM_DEADCONTEXT);
    ck_assert_int_eq(cushim_context_destroy(wrapped), CUSHIM_OK);
}

TEST(the_first_fault_is_named_until_the_context_is_gone) {
    void (*fault)(CUresult);
    struct cushim_context *context = create();
    sim_find("sim_fault", &fault);
    ck_assert_int_eq(cushim_context_check(context), CUSHIM_OK);
    cushim_context_push(context);
    fault(CUDA_ERROR_ILLEGAL_ADDRESS);
    ck_assert_int_eq(cushim_context_synchronize(context), CUSHIM_FAULT);
    ck_assert_int_eq(cushim_context_check(context), CUSHIM_FAULT);
    ck_assert_ptr_nonnull(strstr(cushim_last_error(), "cuCtxSynchronize failed: "
                                                      "CUDA_ERROR_ILLEGAL_ADDRESS"));
    ck_assert_int_eq(cushim_last_cuda_code(), 700);
}

/* Checks the status, the entry point at the start of the text, and which work caused the error. */
#define ck_late(expr, entry)                                                                       \
    do {                                                                                           \
        ck_assert_int_eq((expr), CUSHIM_FAULT);                                                    \
        ck_assert_msg(strstr(cushim_last_error(), entry " failed: CUDA_ERROR_ILLEGAL_ADDRESS") ==  \
                          cushim_last_error(),                                                     \
                      "%s", cushim_last_error());                                                  \
        ck_assert_ptr_nonnull(strstr(cushim_last_error(), "of earlier work)"));                    \
    } while (0)

TEST(an_error_of_earlier_work_says_so_and_names_the_call_that_reported_it) {
    void (*fault)(CUresult);
    struct cushim_context *context = create();
    struct cushim_stream *stream;
    struct cushim_event *event;
    cushim_devptr block;
    char byte = 0;
    int value;
    sim_find("sim_fault", &fault);
    cushim_context_push(context);
    ck_assert_int_eq(cushim_stream_create(NULL, 1, 0, &stream), CUSHIM_OK);
    ck_assert_int_eq(cushim_event_create(NULL, 0, &event), CUSHIM_OK);
    ck_assert_int_eq(cushim_event_record(event, stream), CUSHIM_OK);
    ck_assert_int_eq(cushim_memory_alloc_async(stream, 256, &block), CUSHIM_OK);
    ck_assert_int_eq(cushim_memory_alloc(NULL, 256, &block), CUSHIM_OK);
    fault(CUDA_ERROR_ILLEGAL_ADDRESS);
    ck_late(cushim_stream_synchronize(stream), "cuStreamSynchronize");
    ck_late(cushim_stream_query(stream, &value), "cuStreamQuery");
    ck_late(cushim_event_record(event, stream), "cuEventRecord");
    ck_late(cushim_event_synchronize(event), "cuEventSynchronize");
    ck_late(cushim_event_query(event, &value), "cuEventQuery");
    ck_late(cushim_memory_h2d(block, &byte, 1), "cuMemcpyHtoD");
    ck_late(cushim_memory_h2d_async(block, &byte, 1, stream), "cuMemcpyHtoDAsync");
    ck_late(cushim_memory_set8_async(block, 0, 1, stream), "cuMemsetD8Async");
    ck_late(cushim_memory_alloc_async(stream, 256, &block), "cuMemAllocFromPoolAsync");
    ck_late(cushim_graph_begin(stream, NULL), "cuStreamBeginCapture");
    ck_late(cushim_graph_status(stream, &value), "cuStreamIsCapturing");
    ck_late(cushim_context_synchronize(NULL), "cuCtxSynchronize");
    ck_late(cushim_context_check(NULL), "cuStreamSynchronize");
}

TEST(an_announced_capture_forbids_synchronising_without_a_driver_call) {
    unsigned long (*calls)(const char *);
    struct cushim_context *context = create();
    sim_find("sim_calls", &calls);
    ck_assert_int_eq(cushim_context_capture_leave(context), CUSHIM_STATE);
    ck_assert_int_eq(cushim_context_capture_enter(context), CUSHIM_OK);
    ck_assert_int_eq(cushim_context_capture_enter(context), CUSHIM_OK);
    ck_assert_int_eq(cushim_context_capture_leave(context), CUSHIM_OK);
    ck_assert_int_eq(cushim_context_synchronize(context), CUSHIM_CAPTURE);
    ck_assert_uint_eq(calls("cuCtxSynchronize"), 0);
    ck_assert_int_eq(cushim_context_capture_leave(context), CUSHIM_OK);
    ck_assert_int_eq(cushim_context_synchronize(context), CUSHIM_OK);
}

TEST(limits_and_preferences_are_those_of_the_driver) {
    struct cushim_context *context = create();
    size_t value;
    int cache;
    ck_assert_int_eq(cushim_context_limit_set(context, 0, 4096), CUSHIM_OK);
    ck_assert_int_eq(cushim_context_limit_get(context, 0, &value), CUSHIM_OK);
    ck_assert_uint_eq(value, 4096);
    ck_assert_int_eq(cushim_context_limit_get(context, 1000, &value), CUSHIM_INVALID);
    ck_assert_int_eq(cushim_context_cache_set(context, 1), CUSHIM_OK);
    ck_assert_int_eq(cushim_context_cache_get(context, &cache), CUSHIM_OK);
    ck_assert_int_eq(cushim_context_cache_set(context, 99), CUSHIM_INVALID);
}

SUITE() {
    return tests_run("context");
}
