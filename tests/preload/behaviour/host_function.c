/* Inside a host function native refuses to allocate and to free (HOOKS.md C11); so do we. */
#include "kit.h"

struct tried {
    CUdeviceptr block;
    CUresult allocated, freed, freed_async;
    atomic_int n_runs;
};

static void try_memory(void *data) {
    struct tried *tried = data;
    CUdeviceptr address;
    tried->allocated = cuMemAlloc(&address, 1000);
    tried->freed = cuMemFree(tried->block);
    tried->freed_async = cuMemFreeAsync(tried->block, NULL);
    atomic_fetch_add(&tried->n_runs, 1);
}

static void try_in_callback(CUstream stream, CUresult status, void *data) {
    (void)stream;
    OK(status);
    try_memory(data);
}

static void check_refused(struct tried *tried, int n_runs) {
    ck_assert_int_eq(atomic_load(&tried->n_runs), n_runs);
    ANSWERS(tried->allocated, CUDA_ERROR_NOT_PERMITTED);
    ANSWERS(tried->freed, CUDA_ERROR_NOT_PERMITTED);
    ANSWERS(tried->freed_async, CUDA_ERROR_NOT_PERMITTED);
    kit_fill(tried->block, 1, 1000); /* it lives, and can be freed */
    OK(cuMemFree(tried->block));
    OK(cuMemFree(kit_alloc(1000)));
}

static struct tried set_up(CUstream *stream) {
    kit_use_device(0);
    *stream = kit_stream();
    OK(cuMemFree(kit_alloc(1000))); /* a hit is ready */
    return (struct tried){.block = kit_alloc(1000)};
}

START_TEST(in_a_host_function_memory_calls_are_refused) {
    CUstream stream;
    struct tried tried = set_up(&stream);
    OK(cuLaunchHostFunc(stream, try_memory, &tried));
    OK(cuStreamSynchronize(stream));
    check_refused(&tried, 1);
}
END_TEST

START_TEST(in_a_stream_callback_memory_calls_are_refused) {
    CUstream stream;
    struct tried tried = set_up(&stream);
    OK(cuStreamAddCallback(stream, try_in_callback, &tried, 0));
    OK(cuStreamSynchronize(stream));
    check_refused(&tried, 1);
}
END_TEST

START_TEST(in_a_captured_host_function_too_at_every_launch) {
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    struct tried tried = set_up(&stream);
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuLaunchHostFunc(stream, try_memory, &tried));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 3; i++)
        OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    check_refused(&tried, 3);
}
END_TEST

START_TEST(a_host_function_that_is_refused_is_never_run) {
    CUstream stream;
    struct tried tried = set_up(&stream);
    ANSWERS(cuLaunchHostFunc(stream, NULL, &tried), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_ne(cuLaunchHostFunc((CUstream)&tried, try_memory, &tried), CUDA_SUCCESS);
    OK(cuCtxSynchronize());
    ck_assert_int_eq(atomic_load(&tried.n_runs), 0);
    OK(cuMemFree(tried.block));
}
END_TEST

int main(void) {
    return kit_run("host_function",
                   (const TTest *[]){in_a_host_function_memory_calls_are_refused,
                                     in_a_stream_callback_memory_calls_are_refused,
                                     in_a_captured_host_function_too_at_every_launch,
                                     a_host_function_that_is_refused_is_never_run, NULL});
}
