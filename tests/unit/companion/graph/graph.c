/* Captures always end, whatever happens in them. */
#include <pthread.h>
#include <stdbool.h>

#include "cushim/library.h"
#include "tests/unit/companion/graph/graph_fixture.h"

/* ---- captures ---- */

TEST(captured_work_runs_at_each_launch_and_not_before) {
    struct cushim_stream *stream = make_stream();
    cushim_devptr block = make_block();
    struct cushim_graphexec *exec;
    struct cushim_graphexec_info info = {.struct_size = sizeof info};
    struct cushim_graph *graph = capture_set(stream, block, 7);
    ck_assert_uint_eq(first_word(block), 0);
    ck_assert_int_eq(cushim_graph_instantiate(graph, 0, &exec), CUSHIM_OK);
    ck_assert_int_eq(cushim_graph_destroy(graph), CUSHIM_OK);
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_int_eq(cushim_memory_set32(block, 0, N_WORDS), CUSHIM_OK);
        ck_assert_int_eq(cushim_context_synchronize(NULL), CUSHIM_OK);
        run(exec, stream);
        ck_assert_uint_eq(first_word(block), 7);
    }
    ck_assert_int_eq(cushim_graphexec_info(exec, &info), CUSHIM_OK);
    ck_assert_uint_eq(info.launches, 3);
    ck_assert_int_eq(cushim_graphexec_destroy(exec), CUSHIM_OK);
    ck_assert_int_eq(cushim_graphexec_destroy(exec), CUSHIM_BADHANDLE);
    ck_assert_int_eq(cushim_graph_destroy(graph), CUSHIM_BADHANDLE);
    ck_assert_int_eq(cushim_graph_destroy(NULL), CUSHIM_OK);
    ck_assert_int_eq(cushim_graphexec_destroy(NULL), CUSHIM_OK);
}

TEST(a_capture_is_known_while_it_is_open) {
    struct cushim_stream *stream = make_stream();
    cushim_devptr block = make_block();
    struct cushim_graph *graph;
    ck_assert_int_eq(status_of(stream), 0);
    ck_assert_int_eq(status_of(NULL), 0);
    ck_assert_int_eq(cushim_graph_begin(stream, NULL), CUSHIM_OK);
    ck_assert_int_eq(status_of(stream), 1);
    ck_assert_int_eq(n_capturing(), 1);
    ck_assert_int_eq(cushim_context_synchronize(NULL), CUSHIM_CAPTURE);
    ck_assert_int_eq(cushim_graph_begin(stream, NULL), CUSHIM_CAPTURE);
    set(stream, block, 1);
    ck_assert_int_eq(status_of(stream), 1);
    ck_assert_int_eq(cushim_graph_end(stream, &graph), CUSHIM_OK);
    ck_assert_int_eq(status_of(stream), 0);
    ck_assert_int_eq(n_capturing(), 0);
    ck_assert_int_eq(cushim_context_synchronize(NULL), CUSHIM_OK);
    cushim_graph_destroy(graph);
}

TEST(an_empty_capture_is_refused_unless_allowed) {
    struct cushim_stream *stream = make_stream();
    struct cushim_graph_options options;
    struct cushim_graph *graph;
    cushim_graph_options_default(&options);
    ck_assert_int_eq(cushim_graph_begin(stream, &options), CUSHIM_OK);
    ck_assert_int_eq(cushim_graph_end(stream, &graph), CUSHIM_EMPTYGRAPH);
    ck_assert_ptr_null(graph);
    ck_assert_int_eq(n_capturing(), 0);
    options.allow_empty = 1;
    ck_assert_int_eq(cushim_graph_begin(stream, &options), CUSHIM_OK);
    ck_assert_int_eq(cushim_graph_end(stream, &graph), CUSHIM_OK);
    ck_assert_int_eq(cushim_graph_destroy(graph), CUSHIM_OK);
}

TEST(the_legacy_stream_is_not_captured_under_any_name) {
    CUstream handles[] = {NULL, CU_STREAM_LEGACY};
    struct cushim_stream *wrapped;
    struct cushim_graph *graph;
    ck_assert_int_eq(cushim_graph_begin(NULL, NULL), CUSHIM_INVALID);
    ck_assert_int_eq(cushim_graph_end(NULL, &graph), CUSHIM_STATE);
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_int_eq(cushim_stream_wrap(NULL, handles[i], &wrapped), CUSHIM_OK);
        ck_assert_int_eq(cushim_graph_begin(wrapped, NULL), CUSHIM_INVALID);
    }
    ck_assert_int_eq(n_capturing(), 0);
}

TEST(the_threads_own_stream_is_captured) {
    cushim_devptr block = make_block();
    struct cushim_graph *graph;
    ck_assert_int_eq(cushim_graph_begin(CUSHIM_STREAM_PER_THREAD, NULL), CUSHIM_OK);
    set(CUSHIM_STREAM_PER_THREAD, block, 3);
    ck_assert_int_eq(cushim_graph_end(CUSHIM_STREAM_PER_THREAD, &graph), CUSHIM_OK);
    cushim_graph_destroy(graph);
}

TEST(an_end_without_a_begin_is_refused) {
    struct cushim_stream *stream = make_stream();
    struct cushim_graph *graph;
    ck_assert_int_eq(cushim_graph_end(stream, &graph), CUSHIM_STATE);
    ck_assert_int_eq(cushim_graph_abort(stream), CUSHIM_STATE);
    ck_assert_int_eq(cushim_graph_end(stream, NULL), CUSHIM_INVALID);
    ck_assert_int_eq(cushim_graph_begin(stream, NULL), CUSHIM_OK);
    ck_assert_int_eq(cushim_graph_abort(stream), CUSHIM_OK);
    ck_assert_int_eq(cushim_graph_abort(stream), CUSHIM_STATE);
    ck_assert_int_eq(status_of(stream), 0);
}

/* Work that only the driver recognises as forbidden. */
static void invalidate(struct cushim_stream *stream) {
    struct CUstream_st *handle;
    ck_assert_int_eq(cushim_stream_handle(stream, &handle), CUSHIM_OK);
    ck_assert_int_ne(SIM(cuStreamSynchronize)(handle), CUDA_SUCCESS);
    ck_assert_int_eq(status_of(stream), 2);
}

TEST(an_invalidated_capture_ends_and_the_stream_works_again) {
    struct cushim_stream *stream = make_stream();
    struct cushim_graph *graph;
    ck_assert_int_eq(cushim_graph_begin(stream, NULL), CUSHIM_OK);
    invalidate(stream);
    ck_assert_int_eq(cushim_graph_end(stream, &graph), CUSHIM_CAPTURE);
    ck_assert_int_eq(status_of(stream), 0);
    ck_assert_int_eq(cushim_graph_begin(stream, NULL), CUSHIM_OK);
    invalidate(stream);
    ck_assert_int_eq(cushim_graph_abort(stream), CUSHIM_OK);
    ck_assert_int_eq(n_capturing(), 0);
    cushim_graph_destroy(capture_set(stream, make_block(), 1));
}

struct ending {
    struct cushim_stream *stream;
    enum cushim_status status;
    struct cushim_graph *graph;
};

static void *end_elsewhere(void *argument) {
    struct ending *ending = argument;
    ending->status = cushim_graph_end(ending->stream, &ending->graph);
    return NULL;
}

static enum cushim_status end_in_thread(struct cushim_stream *stream, struct cushim_graph **graph) {
    struct ending ending = {.stream = stream};
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, end_elsewhere, &ending), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    *graph = ending.graph;
    return ending.status;
}

TEST(any_thread_may_end_a_relaxed_capture_but_other_modes_need_the_owner) {
    struct cushim_stream *stream = make_stream();
    cushim_devptr block = make_block();
    struct cushim_graph_options options;
    struct cushim_graph *graph;
    ck_assert_int_eq(cushim_graph_begin(stream, NULL), CUSHIM_OK);
    set(stream, block, 1);
    ck_assert_int_eq(end_in_thread(stream, &graph), CUSHIM_OK);
    cushim_graph_destroy(graph);
    for (int mode = CUSHIM_GRAPH_MODE_THREAD_LOCAL; mode <= CUSHIM_GRAPH_MODE_GLOBAL; mode++) {
        cushim_graph_options_default(&options);
        options.mode = mode;
        ck_assert_int_eq(cushim_graph_begin(stream, &options), CUSHIM_OK);
        set(stream, block, 1);
        ck_assert_int_eq(end_in_thread(stream, &graph), CUSHIM_CAPTURE);
        ck_assert_int_eq(status_of(stream), 1);
        ck_assert_int_eq(cushim_graph_end(stream, &graph), CUSHIM_OK);
        cushim_graph_destroy(graph);
    }
}

TEST(options_out_of_range_are_refused) {
    struct cushim_stream *stream = make_stream();
    struct cushim_graph_options options, wrong;
    cushim_graph_options_default(&options);
    wrong = options, wrong.mode = 4;
    ck_assert_int_eq(cushim_graph_begin(stream, &wrong), CUSHIM_INVALID);
    wrong = options, wrong.memory = 3;
    ck_assert_int_eq(cushim_graph_begin(stream, &wrong), CUSHIM_INVALID);
    wrong = options, wrong.n_pools = 1;
    ck_assert_int_eq(cushim_graph_begin(stream, &wrong), CUSHIM_INVALID);
    wrong = options, wrong.n_arenas = 17;
    ck_assert_int_eq(cushim_graph_begin(stream, &wrong), CUSHIM_INVALID);
    wrong = options, wrong.struct_size = 4;
    ck_assert_int_eq(cushim_graph_begin(stream, &wrong), CUSHIM_ABI);
    ck_assert_int_eq(n_capturing(), 0);
}

TEST(captures_can_be_switched_off) {
    setenv("CUSHIM_GRAPH", "off", 1);
    struct cushim_stream *stream = make_stream();
    ck_assert_int_eq(cushim_graph_begin(stream, NULL), CUSHIM_NOTSUPPORTED);
    ck_assert_ptr_nonnull(strstr(cushim_last_error(), "CUSHIM_GRAPH=0"));
    ck_assert_int_eq(n_capturing(), 0);
}

/* ---- with a callback ---- */

struct task {
    cushim_devptr block;
    int answer;
    bool does_invalidate;
    unsigned n_calls;
};

static int do_task(struct cushim_stream *stream, void *cookie) {
    struct task *task = cookie;
    task->n_calls++;
    ck_assert_int_eq(status_of(stream), 1);
    if (task->block)
        set(stream, task->block, 9);
    if (task->does_invalidate)
        invalidate(stream);
    return task->answer;
}

TEST(the_callback_form_always_ends_and_names_the_first_failure) {
    struct cushim_stream *stream = make_stream();
    struct task task = {.block = make_block()};
    struct cushim_graph *graph;
    struct cushim_graphexec *exec;
    int answer = -1;
    ck_assert_int_eq(cushim_graph_capture(stream, NULL, do_task, &task, &answer, &graph, &exec),
                     CUSHIM_OK);
    ck_assert_int_eq(answer, 0);
    run(exec, stream);
    ck_assert_uint_eq(first_word(task.block), 9);
    cushim_graphexec_destroy(exec);
    cushim_graph_destroy(graph);

    task.answer = 7, task.does_invalidate = true;
    ck_assert_int_eq(cushim_graph_capture(stream, NULL, do_task, &task, &answer, &graph, &exec),
                     CUSHIM_CALLBACK);
    ck_assert_int_eq(answer, 7);
    ck_assert_ptr_nonnull(strstr(cushim_last_error(), "fn_result=7"));
    ck_assert_ptr_null(graph);
    ck_assert_ptr_null(exec);
    task.answer = 0;
    ck_assert_int_eq(cushim_graph_capture(stream, NULL, do_task, &task, &answer, &graph, &exec),
                     CUSHIM_CAPTURE);
    task = (struct task){.block = 0};
    ck_assert_int_eq(cushim_graph_capture(stream, NULL, do_task, &task, NULL, NULL, &exec),
                     CUSHIM_EMPTYGRAPH);
    ck_assert_int_eq(cushim_graph_capture(NULL, NULL, do_task, &task, NULL, &graph, NULL),
                     CUSHIM_INVALID);
    ck_assert_int_eq(cushim_graph_capture(stream, NULL, NULL, NULL, NULL, &graph, NULL),
                     CUSHIM_INVALID);
    ck_assert_int_eq(cushim_graph_capture(stream, NULL, do_task, &task, NULL, NULL, NULL),
                     CUSHIM_INVALID);
    ck_assert_uint_eq(task.n_calls, 1);
    ck_assert_int_eq(status_of(stream), 0);
    ck_assert_int_eq(n_capturing(), 0);
}

/* ---- the n-th driver call fails ---- */

static enum cushim_status whole_way(struct cushim_stream *stream, cushim_devptr block) {
    struct cushim_graph *graph = NULL;
    struct cushim_graphexec *exec = NULL;
    enum cushim_status status = cushim_graph_begin(stream, NULL);
    if (status != CUSHIM_OK)
        return status;
    status = cushim_memory_set32_async(block, 5, N_WORDS, stream);
    enum cushim_status ended = cushim_graph_end(stream, &graph);
    if (status == CUSHIM_OK)
        status = ended;
    if (status == CUSHIM_OK)
        status = cushim_graph_instantiate(graph, CUSHIM_GRAPH_FLAG_UPLOAD, &exec);
    if (status == CUSHIM_OK)
        status = cushim_graphexec_launch(exec, stream);
    if (status == CUSHIM_OK)
        status = cushim_stream_synchronize(stream);
    cushim_graphexec_destroy(exec);
    cushim_graph_destroy(graph);
    return status;
}

TEST(whatever_call_fails_the_capture_ends) {
    struct cushim_stream *stream = make_stream();
    cushim_devptr block = make_block();
    unsigned n_failures = 0;
    ck_assert_int_eq(whole_way(stream, block), CUSHIM_OK);
    for (unsigned n = 1;; n++) {
        ck_assert_uint_lt(n, 200);
        SIM(sim_fail_at)(n, CUDA_ERROR_OUT_OF_MEMORY);
        enum cushim_status status = whole_way(stream, block);
        int has_failed = SIM(sim_has_failed)();
        SIM(sim_fail_at)(0, CUDA_SUCCESS);
        ck_assert_int_eq(status_of(stream), 0);
        ck_assert_int_eq(n_capturing(), 0);
        n_failures += status != CUSHIM_OK;
        if (!has_failed) {
            ck_assert_int_eq(status, CUSHIM_OK);
            break;
        }
    }
    ck_assert_uint_ge(n_failures, 8);
    ck_assert_int_eq(whole_way(stream, block), CUSHIM_OK);
    ck_assert_uint_eq(first_word(block), 5);
}

SUITE() {
    return tests_run("graph");
}
