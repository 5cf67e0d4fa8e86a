/*
 * Work that the host could see makes a free wait in both modes (interposition.md C9).  Other work
 * makes it wait only without cushim and in `exact` mode.
 */
#include "tests/preload/fixture/fixture.h"

enum { N_BYTES = 1000 };

/* Things to submit: a block, host memory for copies, and a stream. */
struct scene {
    CUdeviceptr block, other;
    unsigned char *host;
    CUgraphExec graph;
    CUstream stream;
};

static bool is_relaxed(void) {
    const char *value = getenv("CUSHIM_FREE");
    return fixture_is_preloaded() && value && strcmp(value, "relaxed") == 0;
}

static void to_host(struct scene *scene) {
    OK(cuMemcpyDtoHAsync(scene->host, scene->block, N_BYTES, scene->stream));
}

static void from_host(struct scene *scene) {
    OK(cuMemcpyHtoDAsync(scene->block, scene->host, N_BYTES, scene->stream));
}

static void by_address(struct scene *scene) {
    OK(cuMemcpyAsync((CUdeviceptr)(uintptr_t)scene->host, scene->block, N_BYTES, scene->stream));
}

static void rows_to_host(struct scene *scene) {
    CUDA_MEMCPY2D shape = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = scene->block,
                           .dstMemoryType = CU_MEMORYTYPE_HOST,
                           .dstHost = scene->host,
                           .WidthInBytes = N_BYTES,
                           .Height = 1};
    OK(cuMemcpy2DAsync(&shape, scene->stream));
}

static void set_host(struct scene *scene) {
    OK(cuMemsetD8Async((CUdeviceptr)(uintptr_t)scene->host, 1, N_BYTES, scene->stream));
}

static void do_nothing(void *unused) {
    (void)unused;
}

static void host_function(struct scene *scene) {
    OK(cuLaunchHostFunc(scene->stream, do_nothing, NULL));
}

static void do_nothing_back(CUstream stream, CUresult status, void *unused) {
    (void)stream;
    (void)status;
    (void)unused;
}

static void callback(struct scene *scene) {
    OK(cuStreamAddCallback(scene->stream, do_nothing_back, NULL, 0));
}

static void graph(struct scene *scene) {
    OK(cuGraphLaunch(scene->graph, scene->stream));
}

static CUdeviceptr word_of(struct scene *scene) {
    return (CUdeviceptr)(uintptr_t)scene->host;
}

static void write_word(struct scene *scene) {
    OK(cuStreamWriteValue32(scene->stream, word_of(scene), 1, 0));
}

static void write_long_word(struct scene *scene) {
    OK(cuStreamWriteValue64(scene->stream, word_of(scene), 1, 0));
}

static CUstreamBatchMemOpParams word_at(CUdeviceptr address, CUstreamBatchMemOpType operation) {
    CUstreamBatchMemOpParams params = {.writeValue = {.address = address, .value64 = 1}};
    params.operation = operation;
    return params;
}

static void write_words(struct scene *scene) {
    CUstreamBatchMemOpParams words[] = {
        word_at(scene->block, CU_STREAM_MEM_OP_WRITE_VALUE_64),
        word_at(word_of(scene), CU_STREAM_MEM_OP_WRITE_VALUE_32),
    };
    OK(cuStreamBatchMemOp(scene->stream, 2, words, 0));
}

static void (*const effects[])(struct scene *) = {
    to_host,  from_host, by_address, rows_to_host,    set_host,   host_function,
    callback, graph,     write_word, write_long_word, write_words};
enum { N_EFFECTS = sizeof effects / sizeof effects[0] };

static struct scene set_up(void) {
    struct scene scene = {0};
    void *host;
    scene.block = fixture_alloc(N_BYTES);
    scene.other = fixture_alloc(N_BYTES);
    scene.stream = fixture_stream();
    OK(cuMemHostAlloc(&host, N_BYTES, 0));
    scene.host = host;
    scene.graph = fixture_graph(scene.block, 1);
    OK(cuMemFree(fixture_alloc(N_BYTES))); /* a pool's first free waits in any case */
    return scene;
}

static void expect_a_wait(CUdeviceptr address) {
    struct fixture_thread thread = {.address = address};
    unsigned long n_waits = sim_calls(fixture_wait_of_free());
    OK(cuCtxGetCurrent(&thread.context));
    fixture_start(&thread, fixture_free_it);
    ck_assert(fixture_is_asleep(&thread, fixture_wait_of_free(), n_waits));
    sim_release_hold();
    fixture_join(&thread);
    OK(thread.answer);
}

/* Free while work of the block's context is pending, none of which the host can see. */
static void free_unseen(CUdeviceptr address) {
    if (!is_relaxed()) {
        expect_a_wait(address);
        return;
    }
    OK(cuMemFree(address)); /* it would hang if it waited */
    ck_assert_uint_gt(sim_pending(), 0);
    sim_release_hold();
}

TEST(a_free_waits_for_what_the_host_could_see, .n = N_EFFECTS) {
    fixture_use_device(0);
    struct scene scene = set_up();
    sim_hold();
    effects[_i](&scene);
    expect_a_wait(scene.other);
}

TEST(a_synchronise_leaves_nothing_to_wait_for, .n = N_EFFECTS) {
    fixture_use_device(0);
    struct scene scene = set_up();
    effects[_i](&scene);
    OK(cuCtxSynchronize());
    sim_hold();
    fixture_launch_write(scene.block, 1, scene.stream);
    free_unseen(scene.other);
}

/* A record would say the same, and cost more than the synchronise of an idle device. */
TEST(a_synchronise_needs_no_record_of_ours) {
    fixture_use_device(0);
    struct scene scene = set_up();
    to_host(&scene);
    sim_calls_reset();
    OK(cuCtxSynchronize());
    if (is_relaxed())
        OK(cuMemFree(scene.other));
    ck_assert_uint_eq(sim_calls("cuCtxRecordEvent"), 0);
    ck_assert_uint_eq(sim_calls("cuEventQuery"), 0);
}

TEST(a_relaxed_free_waits_for_nothing_else) {
    fixture_use_device(0);
    struct scene scene = set_up();
    CUdeviceptr more = fixture_alloc(N_BYTES);
    fixture_fill(more, 1, N_BYTES);
    OK(cuMemcpyHtoD(more, scene.host, N_BYTES)); /* over when it returns */
    sim_hold();
    fixture_launch_write(scene.block, 1, scene.stream);
    OK(cuMemsetD8Async(more, 2, N_BYTES, scene.stream));
    OK(cuMemcpyDtoDAsync(more, scene.block, N_BYTES, scene.stream));
    OK(cuStreamWriteValue32(scene.stream, more, 1, 0));
    CUstreamBatchMemOpParams word = word_at(more, CU_STREAM_MEM_OP_WRITE_VALUE_32);
    OK(cuStreamBatchMemOp(scene.stream, 1, &word, 0));
    free_unseen(scene.other);
}

TEST(an_effect_before_the_first_allocation_is_waited_for) {
    fixture_use_device(0);
    CUstream stream = fixture_stream();
    sim_hold();
    OK(cuLaunchHostFunc(stream, do_nothing, NULL));
    expect_a_wait(fixture_alloc(N_BYTES));
}

TEST(effects_are_their_contexts_own_but_those_of_graphs) {
    CUcontext first = fixture_use_device(0);
    struct scene scene = set_up();
    fixture_use_device(1);
    struct scene second = set_up();
    sim_hold();
    to_host(&second);
    OK(cuCtxSetCurrent(first));
    fixture_launch_write(scene.block, 1, scene.stream);
    free_unseen(scene.other);
    OK(cuCtxSynchronize());
    sim_hold();
    fixture_launch_write(scene.block, 1, scene.stream);
    graph(&second);
    expect_a_wait(fixture_alloc(N_BYTES));
}

/* A copy on a stream of the second device, to the host from `from`. */
static void copy_elsewhere(CUcontext first, void *host, CUdeviceptr from) {
    fixture_use_device(1);
    CUstream stream = fixture_stream();
    sim_hold();
    OK(cuMemcpyDtoHAsync(host, from, N_BYTES, stream));
    OK(cuCtxSetCurrent(first));
}

TEST(an_effect_is_its_device_ends_as_well_as_its_streams) {
    CUcontext first = fixture_use_device(0);
    struct scene scene = set_up();
    copy_elsewhere(first, scene.host, scene.block);
    expect_a_wait(scene.other);
}

static void *host_of_copy;

static void copy_from_it_elsewhere(struct fixture_thread *thread) {
    copy_elsewhere(thread->context, host_of_copy, thread->address);
    thread->answer = CUDA_SUCCESS;
}

TEST(it_is_so_where_the_thread_knows_neither_contexts_pool) {
    CUcontext first = fixture_use_device(0);
    struct scene scene = set_up();
    struct fixture_thread thread = {.context = first, .address = scene.block};
    host_of_copy = scene.host;
    fixture_start(&thread, copy_from_it_elsewhere);
    fixture_join(&thread);
    expect_a_wait(scene.other);
}

TEST(an_effect_is_not_that_of_pinned_memorys_context) {
    CUcontext first = fixture_use_device(0);
    struct scene scene = set_up();
    fixture_use_device(1);
    CUdeviceptr block = fixture_alloc(N_BYTES);
    copy_elsewhere(first, scene.host, block);
    if (is_relaxed())
        fixture_launch_write(scene.block, 1, scene.stream);
    OK(cuMemFree(scene.other)); /* without cushim nothing of its context runs; the free would hang
                                 * if it waited */
    sim_release_hold();
}

TEST(an_effect_is_of_its_streams_context_whichever_is_current) {
    CUcontext first = fixture_use_device(0);
    struct scene scene = set_up();
    fixture_use_device(1);
    OK(cuMemFree(fixture_alloc(N_BYTES)));
    sim_hold();
    host_function(&scene);
    OK(cuCtxSetCurrent(first));
    expect_a_wait(scene.other);
}

TEST(a_synchronise_that_is_refused_proves_nothing) {
    CUgraph graph;
    fixture_use_device(0);
    struct scene scene = set_up();
    sim_hold();
    fixture_launch_write(scene.other, 1, scene.stream);
    if (is_relaxed())
        OK(cuMemFree(scene.other));
    CUstream capturing = fixture_stream();
    OK(cuStreamBeginCapture(capturing, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ck_assert_int_ne(cuCtxSynchronize(), CUDA_SUCCESS);
    cuStreamEndCapture(capturing, &graph);
    ck_assert_uint_ne(fixture_alloc(N_BYTES), scene.other);
    sim_release_hold();
}

int main(void) {
    return fixture_run("effects");
}
