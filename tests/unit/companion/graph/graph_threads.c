/* Captures and launches while other threads fence, launch and destroy. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "cushim/device.h"
#include "cuda/table.h"
#include "companion/stream/stream_host.h"
#include "tests/unit/companion/graph/graph_fixture.h"

enum { N_CAPTURES = 300, N_LAUNCHES = 2000, N_THREADS = 3 };

static atomic_bool is_over;
static CUresult(CUDAAPI *record)(CUcontext context, CUevent event);

/* A pause between the check for captures and the record. */
static CUresult CUDAAPI record_late(CUcontext context, CUevent event) {
    usleep(200);
    return record(context, event);
}

static void *fence(void *argument) {
    struct cushim_scope scope;
    struct cushim_mem_stream_fence mark;
    atomic_uint *n_fences = argument;
    while (!atomic_load(&is_over)) {
        ck_assert_int_eq(cushim_call_begin_context(&scope, "fence", NULL), CUSHIM_OK);
        enum cushim_status status =
            cushim_mem_stream_fence_record(&scope.context->fence, scope.what, NULL, &mark);
        ck_assert(status == CUSHIM_OK || status == CUSHIM_CAPTURE);
        atomic_fetch_add(n_fences, status == CUSHIM_OK);
        cushim_mem_stream_fence_release(&mark);
        cushim_call_end(&scope, CUSHIM_OK);
    }
    return NULL;
}

TEST(fences_of_the_context_leave_captures_valid) {
    struct cushim_stream *stream = make_stream();
    cushim_devptr block = make_block();
    atomic_uint n_fences = 0;
    pthread_t thread;
    record = CUSHIM_DRIVER(cuCtxRecordEvent);
    cushim_driver_cuda.cuCtxRecordEvent = record_late;
    ck_assert_int_eq(pthread_create(&thread, NULL, fence, &n_fences), 0);
    for (unsigned i = 0; i < N_CAPTURES || !atomic_load(&n_fences); i++)
        ck_assert_int_eq(cushim_graph_destroy(capture_set(stream, block, i)), CUSHIM_OK);
    atomic_store(&is_over, true);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

static struct cushim_graphexec *shared;

static void *launch_until_gone(void *argument) {
    struct cushim_stream *stream = make_stream();
    enum cushim_status status = CUSHIM_OK;
    (void)argument;
    while (status == CUSHIM_OK)
        status = cushim_graphexec_launch(shared, stream);
    ck_assert_int_eq(status, CUSHIM_BADHANDLE);
    ck_assert_int_eq(cushim_stream_synchronize(stream), CUSHIM_OK);
    return NULL;
}

TEST(a_destroy_among_launches_ends_them_cleanly) {
    struct cushim_stream *stream = make_stream();
    cushim_devptr block = make_block();
    struct cushim_graphexec_info info = {.struct_size = sizeof info};
    pthread_t threads[N_THREADS];
    struct cushim_graph *graph = capture_set(stream, block, 4);
    ck_assert_int_eq(cushim_graph_instantiate(graph, 0, &shared), CUSHIM_OK);
    for (unsigned i = 0; i < N_THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, launch_until_gone, NULL), 0);
    do {
        ck_assert_int_eq(cushim_graphexec_info(shared, &info), CUSHIM_OK);
    } while (info.launches < N_LAUNCHES);
    ck_assert_int_eq(cushim_graphexec_destroy(shared), CUSHIM_OK);
    for (unsigned i = 0; i < N_THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_int_eq(cushim_graph_destroy(graph), CUSHIM_OK);
    ck_assert_uint_eq(first_word(block), 4);
}

SUITE() {
    return tests_run("graph_threads");
}
