/*
 * Inside a host function the driver refuses to allocate and to free (interposition.md C11), and so
 * do we.  Host nodes show and take the program's own functions.
 */
#include "tests/preload/fixture/fixture.h"

#include <malloc.h>

/* Of drivers of 13.1 and 13.4. */
extern CUresult cuLaunchHostFunc_v2(CUstream, CUhostFn, void *, unsigned) __attribute__((weak));
extern CUresult cuGraphAddNode_v3(CUgraphNode *, CUgraph, const CUgraphNode *,
                                  const CUgraphEdgeData *, size_t, CUgraphNodeParams *)
    __attribute__((weak));
extern CUresult cuGraphNodeSetParams_v2(CUgraphNode, CUgraphNodeParams *) __attribute__((weak));

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
    fixture_fill(tried->block, 1, 1000); /* it lives, and can be freed */
    OK(cuMemFree(tried->block));
    OK(cuMemFree(fixture_alloc(1000)));
}

static struct tried set_up(CUstream *stream) {
    fixture_use_device(0);
    *stream = fixture_stream();
    OK(cuMemFree(fixture_alloc(1000))); /* a hit is ready */
    return (struct tried){.block = fixture_alloc(1000)};
}

TEST(in_a_host_function_memory_calls_are_refused) {
    CUstream stream;
    struct tried tried = set_up(&stream);
    OK(cuLaunchHostFunc(stream, try_memory, &tried));
    OK(cuStreamSynchronize(stream));
    check_refused(&tried, 1);
}

/* A free is refused whichever device the block is on, also in relaxed mode, where a free of another
 * context's block goes through its heap.  Device 1's heap then has free segments. */
TEST(in_a_host_function_no_block_of_another_device_is_freed) {
    CUstream stream;
    fixture_use_device(1);
    CUdeviceptr block = fixture_alloc(1000);
    for (int i = 0; i < 2; i++)
        OK(cuMemFree(fixture_alloc(1000)));
    struct tried tried = set_up(&stream);
    OK(cuMemFree(tried.block));
    tried.block = block;
    OK(cuLaunchHostFunc(stream, try_memory, &tried));
    OK(cuStreamSynchronize(stream));
    fixture_use_device(1);
    check_refused(&tried, 1);
}

TEST(in_a_host_function_of_a_sync_mode_too) {
    CUstream stream;
    if (!cuLaunchHostFunc_v2)
        return;
    struct tried tried = set_up(&stream);
    OK(cuLaunchHostFunc_v2(stream, try_memory, &tried, 0));
    OK(cuStreamSynchronize(stream));
    check_refused(&tried, 1);
}

TEST(in_a_stream_callback_memory_calls_are_refused) {
    CUstream stream;
    struct tried tried = set_up(&stream);
    OK(cuStreamAddCallback(stream, try_in_callback, &tried, 0));
    OK(cuStreamSynchronize(stream));
    check_refused(&tried, 1);
}

TEST(in_a_captured_host_function_too_at_every_launch) {
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

TEST(a_host_function_that_is_refused_is_never_run) {
    CUstream stream;
    struct tried tried = set_up(&stream);
    ANSWERS(cuLaunchHostFunc(stream, NULL, &tried), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_ne(cuLaunchHostFunc((CUstream)&tried, try_memory, &tried), CUDA_SUCCESS);
    OK(cuCtxSynchronize());
    ck_assert_int_eq(atomic_load(&tried.n_runs), 0);
    OK(cuMemFree(tried.block));
}

/* ---- host nodes ---- */

static CUgraph capture_function(CUhostFn function, void *data) {
    CUgraph graph;
    CUstream stream = fixture_stream();
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuLaunchHostFunc(stream, function, data));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuStreamDestroy(stream));
    return graph;
}

static CUgraph add_function(CUhostFn function, void *data) {
    CUgraph graph;
    CUgraphNode node;
    CUDA_HOST_NODE_PARAMS params = {function, data};
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddHostNode(&node, graph, NULL, 0, &params));
    return graph;
}

static CUgraphNodeParams params_of(CUhostFn function, void *data) {
    return (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_HOST,
                               .host = {.fn = function, .userData = data}};
}

static CUgraph add_any_function(CUhostFn function, void *data) {
    CUgraph graph;
    CUgraphNode node;
    CUgraphNodeParams params = params_of(function, data);
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddNode(&node, graph, NULL, NULL, 0, &params));
    ck_assert(params.host.fn == function); /* the program's own are left as they are */
    return graph;
}

static CUgraph add_later_function(CUhostFn function, void *data) {
    CUgraph graph;
    CUgraphNode node;
    CUgraphNodeParams params = params_of(function, data);
    if (!cuGraphAddNode_v3)
        return add_any_function(function, data);
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddNode_v3(&node, graph, NULL, NULL, 0, &params));
    ck_assert(params.host.fn == function);
    return graph;
}

/* Each way to make a graph of one host node. */
static CUgraph (*const makers[])(CUhostFn, void *) = {capture_function, add_function,
                                                      add_any_function, add_later_function};
enum { N_MAKERS = sizeof makers / sizeof makers[0] };

static CUgraphNode node_of(CUgraph graph) {
    CUgraphNode node;
    size_t n = 1;
    OK(cuGraphGetNodes(graph, &node, &n));
    ck_assert_uint_eq(n, 1);
    return node;
}

static void check_shown(CUgraphNode node, CUhostFn function, void *data) {
    CUDA_HOST_NODE_PARAMS params = {NULL, NULL};
    OK(cuGraphHostNodeGetParams(node, &params));
    ck_assert(params.fn == function);
    ck_assert_ptr_eq(params.userData, data);
}

static CUgraphExec instantiate(CUgraph graph) {
    CUgraphExec exec;
    OK(cuGraphInstantiate(&exec, graph, 0));
    return exec;
}

static void launch(CUgraphExec exec) {
    OK(cuGraphLaunch(exec, NULL));
    OK(cuStreamSynchronize(NULL));
}

static void launch_graph(CUgraph graph) {
    CUgraphExec exec = instantiate(graph);
    launch(exec);
    OK(cuGraphExecDestroy(exec));
}

static void add_one(void *n) {
    ++*(int *)n;
}

static void add_ten(void *n) {
    *(int *)n += 10;
}

TEST(in_a_host_node_memory_calls_are_refused_at_every_launch, .n = N_MAKERS) {
    CUstream stream;
    struct tried tried = set_up(&stream);
    CUgraph graph = makers[_i](try_memory, &tried);
    for (int i = 0; i < 3; i++)
        launch_graph(graph);
    check_refused(&tried, 3);
}

TEST(a_host_node_shows_the_programs_own_function_and_data, .n = N_MAKERS) {
    int n = 0;
    CUgraph clone;
    fixture_use_device(0);
    CUgraph graph = makers[_i](add_one, &n);
    check_shown(node_of(graph), add_one, &n);
    OK(cuGraphClone(&clone, graph));
    OK(cuGraphDestroy(graph));
    check_shown(node_of(clone), add_one, &n);
    launch_graph(clone);
    ck_assert_int_eq(n, 1);
}

TEST(what_a_host_node_shows_may_be_set_again, .n = N_MAKERS) {
    CUstream stream;
    CUDA_HOST_NODE_PARAMS params;
    struct tried tried = set_up(&stream), other = tried;
    CUgraph graph = makers[_i](try_memory, &tried);
    CUgraphNode node = node_of(graph);
    for (int i = 0; i < 3; i++) {
        OK(cuGraphHostNodeGetParams(node, &params));
        OK(cuGraphHostNodeSetParams(node, &params));
        check_shown(node, try_memory, &tried);
        launch_graph(graph);
    }
    params.userData = &other;
    OK(cuGraphHostNodeSetParams(node, &params));
    check_shown(node, try_memory, &other);
    launch_graph(graph);
    ck_assert_int_eq(atomic_load(&other.n_runs), 1);
    ANSWERS(other.freed, CUDA_ERROR_NOT_PERMITTED);
    check_refused(&tried, 3);
}

TEST(a_host_node_takes_another_function, .n = N_MAKERS) {
    int n = 0;
    CUDA_HOST_NODE_PARAMS params = {add_ten, &n};
    fixture_use_device(0);
    CUgraph graph = makers[_i](add_one, &n);
    CUgraphExec before = instantiate(graph);
    OK(cuGraphHostNodeSetParams(node_of(graph), &params));
    check_shown(node_of(graph), add_ten, &n);
    launch(before);
    ck_assert_int_eq(n, 1);
    launch_graph(graph);
    ck_assert_int_eq(n, 11);
}

TEST(an_executable_takes_another_function, .n = N_MAKERS) {
    int n = 0;
    CUstream stream;
    struct tried tried = set_up(&stream);
    CUDA_HOST_NODE_PARAMS params = {try_memory, &tried};
    CUgraph graph = makers[_i](add_one, &n);
    CUgraphExec exec = instantiate(graph);
    OK(cuGraphExecHostNodeSetParams(exec, node_of(graph), &params));
    check_shown(node_of(graph), add_one, &n);
    launch(exec);
    ck_assert_int_eq(n, 0);
    check_refused(&tried, 1);
}

TEST(host_nodes_take_parameters_of_nodes_of_any_kind, .n = N_MAKERS) {
    int n = 0;
    CUstream stream;
    struct tried tried = set_up(&stream);
    CUgraphNodeParams ten = params_of(add_ten, &n), trying = params_of(try_memory, &tried);
    CUgraph graph = makers[_i](add_one, &n);
    CUgraphExec exec = instantiate(graph);
    OK(cuGraphNodeSetParams(node_of(graph), &ten));
    check_shown(node_of(graph), add_ten, &n);
    if (cuGraphNodeSetParams_v2)
        OK(cuGraphNodeSetParams_v2(node_of(graph), &ten));
    check_shown(node_of(graph), add_ten, &n);
    OK(cuGraphExecNodeSetParams(exec, node_of(graph), &trying));
    check_shown(node_of(graph), add_ten, &n);
    launch(exec);
    ck_assert_int_eq(n, 0);
    launch_graph(graph);
    ck_assert_int_eq(n, 10);
    check_refused(&tried, 1);
}

TEST(an_executable_is_updated_to_another_function, .n = N_MAKERS) {
    int n = 0;
    CUgraphExecUpdateResultInfo info;
    fixture_use_device(0);
    CUgraph graph = makers[_i](add_one, &n), other = makers[_i](add_ten, &n);
    CUgraphExec exec = instantiate(graph);
    OK(cuGraphExecUpdate(exec, other, &info));
    OK(cuGraphDestroy(other));
    launch(exec);
    ck_assert_int_eq(n, 10);
}

TEST(bad_parameters_of_host_nodes_are_the_drivers_to_refuse, .n = N_MAKERS) {
    int n = 0;
    CUDA_HOST_NODE_PARAMS none = {NULL, &n};
    CUgraphNode node;
    fixture_use_device(0);
    CUgraph graph = makers[_i](add_one, &n);
    ANSWERS(cuGraphAddHostNode(&node, graph, NULL, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuGraphAddHostNode(&node, graph, NULL, 0, &none), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuGraphHostNodeSetParams(node_of(graph), NULL), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuGraphHostNodeSetParams(node_of(graph), &none), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuGraphHostNodeGetParams(node_of(graph), NULL), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuGraphHostNodeGetParams(NULL, &none), CUDA_ERROR_INVALID_VALUE);
    ck_assert_ptr_eq(none.userData, &n);
    launch_graph(graph);
    ck_assert_int_eq(n, 1);
}

/* A capture takes no memory, not even a byte for each function in it. */
TEST(captured_host_functions_take_no_memory_that_stays, .n = N_MAKERS) {
    enum { N_CAPTURES = 1000 };
    int n = 0;
    size_t used_bytes = 0;
    fixture_use_device(0);
    for (int i = 0; i < 2 * N_CAPTURES; i++) {
        OK(cuGraphDestroy(makers[_i](add_one, &n)));
        if (i == N_CAPTURES - 1) /* the first captures may have taken memory */
            used_bytes = mallinfo2().uordblks;
    }
    ck_assert_uint_lt(mallinfo2().uordblks, used_bytes + N_CAPTURES);
}

/* A host function costs the driver's own call. */
TEST(a_host_function_costs_no_call_of_ours) {
    int n = 0;
    CUstream stream;
    struct tried tried = set_up(&stream);
    OK(cuLaunchHostFunc(stream, add_one, &n));
    OK(cuStreamSynchronize(stream));
    sim_calls_reset();
    OK(cuLaunchHostFunc(stream, add_one, &n));
    ck_assert_uint_eq(sim_calls_total(), 1);
    OK(cuStreamSynchronize(stream));
    ck_assert_int_eq(n, 2);
    OK(cuMemFree(tried.block));
}

/* More functions than there are thunks: each runs with its own data, and is shown. */
/* clang-format off */
#define SIXTEEN(DO, n)                                                      \
    DO(n##0) DO(n##1) DO(n##2) DO(n##3) DO(n##4) DO(n##5) DO(n##6) DO(n##7) \
    DO(n##8) DO(n##9) DO(n##a) DO(n##b) DO(n##c) DO(n##d) DO(n##e) DO(n##f)
#define ALL(DO)                                                                        \
    SIXTEEN(DO, 0x00) SIXTEEN(DO, 0x01) SIXTEEN(DO, 0x02) SIXTEEN(DO, 0x03) SIXTEEN(DO, 0x04) \
    SIXTEEN(DO, 0x05) SIXTEEN(DO, 0x06) SIXTEEN(DO, 0x07) SIXTEEN(DO, 0x08) SIXTEEN(DO, 0x09) \
    SIXTEEN(DO, 0x0a) SIXTEEN(DO, 0x0b) SIXTEEN(DO, 0x0c) SIXTEEN(DO, 0x0d) SIXTEEN(DO, 0x0e) \
    SIXTEEN(DO, 0x0f) SIXTEEN(DO, 0x10) SIXTEEN(DO, 0x11) SIXTEEN(DO, 0x12)
/* clang-format on */

static int runs_of[0x130];

#define FUNCTION(place)                                                                            \
    static void function_##place(void *n) {                                                        \
        runs_of[place] += *(int *)n;                                                               \
    }
#define ENTRY(place) function_##place,

ALL(FUNCTION)
static const CUhostFn functions[] = {ALL(ENTRY)};

TEST(many_functions_are_run_and_shown_as_the_programs_own, .n = N_MAKERS) {
    enum { N_FUNCTIONS = sizeof functions / sizeof functions[0] };
    static int data[N_FUNCTIONS];
    fixture_use_device(0);
    for (int i = 0; i < N_FUNCTIONS; i++) {
        data[i] = i + 1;
        CUgraph graph = makers[_i](functions[i], &data[i]);
        check_shown(node_of(graph), functions[i], &data[i]);
        launch_graph(graph);
        OK(cuGraphDestroy(graph));
    }
    for (int i = 0; i < N_FUNCTIONS; i++)
        ck_assert_int_eq(runs_of[i], i + 1);
}

int main(void) {
    return fixture_run("host_function");
}
