/*
 * The runtime's entry points (interposition.md C8): the program is linked to the shared runtime,
 * whose last error and current device stay as without cushim.  It runs with the entry points
 * answered, forwarded (CUSHIM_RUNTIME=0), and without cushim.
 */
#include "tests/preload/fixture/fixture.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#define RT_ANSWERS(call, code) ck_assert_int_eq((call), (code))
#define RT_OK(call)            RT_ANSWERS(call, cudaSuccess)

/* A refusal is the call's answer and the thread's last error. */
static void check_refused(cudaError_t answer, cudaError_t code) {
    RT_ANSWERS(answer, code);
    RT_ANSWERS(cudaPeekAtLastError(), code);
    RT_ANSWERS(cudaGetLastError(), code);
    RT_ANSWERS(cudaGetLastError(), cudaSuccess);
}

static void *rt_alloc(size_t n_bytes) {
    void *block = NULL;
    RT_OK(cudaMalloc(&block, n_bytes));
    ck_assert_ptr_nonnull(block);
    return block;
}

TEST(the_first_call_makes_the_context) {
    void *block = rt_alloc(1000);
    RT_OK(cudaMemset(block, 1, 1000));
    RT_OK(cudaFree(block));
    ck_assert_ptr_eq(rt_alloc(1000), block);
}

TEST(odd_arguments_are_answered_as_natively) {
    void *block = (void *)1;
    RT_OK(cudaMalloc(&block, 0));
    ck_assert_ptr_null(block);
    RT_OK(cudaFree(NULL));
    check_refused(cudaMalloc(NULL, 10), cudaErrorInvalidValue);
    check_refused(cudaFree((void *)0x1234000), cudaErrorInvalidValue);
    block = rt_alloc(1000);
    check_refused(cudaFree((char *)block + 512), cudaErrorInvalidValue);
    RT_OK(cudaFree(block));
    check_refused(cudaFree(block), cudaErrorInvalidValue);
    check_refused(cudaMemset(block, 0, 10), cudaErrorInvalidValue);
}

TEST(out_of_memory_becomes_the_last_error) {
    void *block = NULL;
    size_t free_bytes, total_bytes;
    RT_OK(cudaMemGetInfo(&free_bytes, &total_bytes));
    check_refused(cudaMalloc(&block, 2 * total_bytes), cudaErrorMemoryAllocation);
    RT_OK(cudaFree(rt_alloc(1000)));
    check_refused(cudaMalloc(&block, SIZE_MAX), cudaErrorMemoryAllocation);
    RT_OK(cudaMalloc(&block, 1000));
}

TEST(an_earlier_error_outlives_good_calls) {
    RT_ANSWERS(cudaFree((void *)0x1234000), cudaErrorInvalidValue);
    for (int i = 0; i < 3; i++)
        RT_OK(cudaFree(rt_alloc(1000)));
    RT_ANSWERS(cudaGetLastError(), cudaErrorInvalidValue);
}

TEST(a_hit_takes_no_driver_call_but_the_question_for_the_context) {
    void *block = rt_alloc(1000);
    RT_OK(cudaFree(block));
    sim_calls_reset();
    ck_assert_ptr_eq(rt_alloc(1000), block);
    if (fixture_is_preloaded())
        ck_assert_uint_eq(sim_calls_total() - sim_calls("cuCtxGetCurrent"), 0);
}

/* In relaxed mode, while a kernel runs: the block just freed would serve if its work were over. */
static unsigned long questions_of_miss(bool is_by_runtime) {
    enum { N_BYTES = 3 * MIB };
    cudaStream_t stream;
    CUdeviceptr address;
    RT_OK(cudaDeviceReset());
    RT_OK(cudaFree(rt_alloc(1000))); /* the first free of a context waits */
    void *block = rt_alloc(N_BYTES);
    RT_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    sim_hold();
    RT_OK(cudaMemsetAsync(block, 1, N_BYTES, stream));
    RT_OK(cudaFree(block));
    sim_calls_reset();
    if (is_by_runtime)
        ck_assert_ptr_ne(rt_alloc(N_BYTES), block);
    else
        ck_assert_int_eq(cuMemAlloc(&address, N_BYTES), CUDA_SUCCESS);
    unsigned long n = sim_calls("cuEventQuery") + sim_calls("cuCtxRecordEvent");
    sim_release_hold();
    RT_OK(cudaDeviceSynchronize());
    return n;
}

/* The miss goes through the entry points of runtime and driver, and only one of them asks what is
 * over. */
TEST(a_miss_asks_the_driver_once) {
    const char *mode = getenv("CUSHIM_FREE");
    if (!mode || strcmp(mode, "relaxed") != 0)
        return;
    unsigned long n = questions_of_miss(false);
    ck_assert_uint_ne(n, 0);
    ck_assert_uint_eq(questions_of_miss(true), n);
}

TEST(memory_is_of_the_device_that_was_set) {
    struct cudaPointerAttributes attributes;
    for (int round = 0; round < 3; round++) {
        void *blocks[2];
        for (int device = 0; device < 2; device++) {
            RT_OK(cudaSetDevice(device));
            blocks[device] = rt_alloc(1000);
            RT_OK(cudaPointerGetAttributes(&attributes, blocks[device]));
            ck_assert_int_eq(attributes.device, device);
        }
        for (int device = 0; device < 2; device++) /* with the other one current */
            RT_OK((cudaSetDevice(1 - device), cudaFree(blocks[device])));
    }
}

static void *free_in_new_thread(void *block) {
    RT_OK(cudaFree(block));
    return NULL;
}

TEST(a_thread_that_never_used_cuda_may_free) {
    pthread_t thread;
    void *block = rt_alloc(1000);
    ck_assert_int_eq(pthread_create(&thread, NULL, free_in_new_thread, block), 0);
    pthread_join(thread, NULL);
    check_refused(cudaFree(block), cudaErrorInvalidValue);
}

TEST(after_a_reset_old_pointers_are_unknown_and_new_memory_works) {
    for (int round = 0; round < 3; round++) {
        void *block = rt_alloc(1000), *large = rt_alloc(5 * MIB);
        RT_OK(cudaDeviceReset());
        ck_assert_uint_eq(sim_live_bytes(), 0);
        check_refused(cudaFree(block), cudaErrorInvalidValue);
        check_refused(cudaFree(large), cudaErrorInvalidValue);
        block = rt_alloc(1000);
        RT_OK(cudaMemset(block, 1, 1000));
        RT_OK(cudaFree(block));
    }
}

TEST(a_freed_pointer_is_unregistered) {
    struct cudaPointerAttributes attributes;
    void *block = rt_alloc(1000);
    RT_OK(cudaPointerGetAttributes(&attributes, block));
    ck_assert_int_eq(attributes.type, cudaMemoryTypeDevice);
    RT_OK(cudaFree(block));
    RT_OK(cudaPointerGetAttributes(&attributes, block));
    ck_assert_int_eq(attributes.type, cudaMemoryTypeUnregistered);
}

TEST(a_free_with_work_in_flight_is_a_barrier) {
    void *block = rt_alloc(4096);
    cudaStream_t stream;
    RT_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int i = 0; i < 10; i++)
        RT_OK(cudaMemsetAsync(block, i, 4096, stream));
    RT_OK(cudaFree(rt_alloc(100)));
    ck_assert_uint_eq(sim_pending(), 0);
    RT_OK(cudaStreamQuery(stream));
}

/* Each way to ask for pinned and managed memory, by number. */
enum { N_WAYS = 11 };

static void *host_alloc(int way, size_t n_bytes) {
    void *block = NULL;
    if (way < 8)
        RT_OK(cudaHostAlloc(&block, n_bytes, (unsigned)way));
    else if (way == 8)
        RT_OK(cudaMallocHost(&block, n_bytes));
    else
        RT_OK(
            cudaMallocManaged(&block, n_bytes, way == 9 ? cudaMemAttachGlobal : cudaMemAttachHost));
    return block;
}

static void host_free(int way, void *block) {
    RT_OK(way < 9 ? cudaFreeHost(block) : cudaFree(block));
}

static bool is_relaxed(void) {
    const char *mode = getenv("CUSHIM_FREE");
    return mode && !strcmp(mode, "relaxed");
}

TEST(host_memory_comes_back_and_reads_as_zero) {
    for (int way = 0; way < N_WAYS; way++) {
        for (int round = 0; round < 3; round++) {
            unsigned char *block = host_alloc(way, 5000);
            /* in relaxed mode only CUSHIM_ZERO clears */
            ck_assert(is_relaxed() || (block[0] == 0 && memcmp(block, block + 1, 4999) == 0));
            memset(block, 0xff, 5000);
            host_free(way, block);
        }
    }
}

TEST(a_hit_of_pinned_memory_takes_no_driver_call_either) {
    for (int way = 0; way < 9; way++) {
        void *block = host_alloc(way, 5000);
        host_free(way, block);
        sim_calls_reset();
        void *again = host_alloc(way, 5000);
        if (!is_relaxed()) /* in relaxed mode a few blocks rotate before one comes back */
            ck_assert_ptr_eq(again, block);
        if (fixture_is_preloaded() && !is_relaxed())
            ck_assert_uint_eq(sim_calls_total() - sim_calls("cuCtxGetCurrent"), 0);
        host_free(way, again);
    }
}

TEST(flags_are_kept_apart) {
    for (int round = 0; round < 2; round++) {
        void *blocks[8];
        for (unsigned flags = 0; flags < 8; flags++) {
            unsigned told;
            blocks[flags] = host_alloc((int)flags, 5000);
            RT_OK(cudaHostGetFlags(&told, blocks[flags]));
            ck_assert_uint_eq(told & cudaHostAllocWriteCombined,
                              flags & cudaHostAllocWriteCombined);
        }
        for (int flags = 0; flags < 8; flags++)
            host_free(flags, blocks[7 - flags]);
    }
}

TEST(each_free_takes_its_own_kind_alone) {
    void *device = rt_alloc(1000), *pinned = host_alloc(8, 1000), *managed = host_alloc(9, 1000);
    check_refused(cudaFree(pinned), cudaErrorInvalidValue);
    check_refused(cudaFreeHost(device), cudaErrorInvalidValue);
    check_refused(cudaFreeHost(managed), cudaErrorInvalidValue);
    check_refused(cudaHostAlloc(&device, 1000, 8), cudaErrorInvalidValue);
    check_refused(cudaMallocManaged(&managed, 1000, 4), cudaErrorInvalidValue);
    RT_OK(cudaFreeHost(NULL));
    RT_OK(cudaFree(device));
    RT_OK(cudaFree(managed));
    RT_OK(cudaFreeHost(pinned));
    check_refused(cudaFreeHost(pinned), cudaErrorInvalidValue);
}

static bool is_serving(void) {
    const char *value = getenv("CUSHIM_CAPTURE");
    return fixture_is_preloaded() && value && strcmp(value, "serve") == 0;
}

/* The call is refused and sets the runtime's last error, or is served (CUSHIM_CAPTURE). */
TEST(ones_own_capture_is_answered_as_was_asked_for) {
    cudaStream_t stream;
    cudaGraph_t graph = NULL;
    void *pinned, *block = NULL;
    RT_OK(cudaFree(rt_alloc(3 * MIB))); /* a hit */
    RT_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    RT_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    if (!is_serving()) {
        check_refused(cudaMalloc(&block, 3 * MIB), cudaErrorStreamCaptureUnsupported);
        check_refused(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
        return;
    }
    block = rt_alloc(3 * MIB);
    RT_OK(cudaMallocHost(&pinned, 1000));
    sim_calls_reset();
    RT_OK(cudaFree(block));
    RT_OK(cudaFreeHost(pinned));
    ck_assert_uint_eq(sim_calls("cuMemFree_v2"), 0);
    ck_assert_uint_eq(sim_calls("cuMemFreeHost"), 0);
    RT_OK(cudaStreamEndCapture(stream, &graph));
    for (int i = 0; i < 20; i++)
        ck_assert_ptr_ne(rt_alloc(3 * MIB), block);
}

/* ---- names that hand over to one call of the driver ---- */

static void count_end(void *data) {
    atomic_fetch_add((atomic_int *)data, 1);
}

TEST(a_graph_keeps_a_user_object_until_it_goes) {
    atomic_int n_ended = 0;
    cudaUserObject_t object;
    cudaGraph_t graph;
    RT_OK(cudaGraphCreate(&graph, 0));
    RT_OK(cudaUserObjectCreate(&object, &n_ended, count_end, 2, cudaUserObjectNoDestructorSync));
    RT_OK(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
    RT_OK(cudaUserObjectRelease(object, 1));
    ck_assert_int_eq(atomic_load(&n_ended), 0);
    RT_OK(cudaGraphDestroy(graph));
    RT_OK(cudaDeviceSynchronize());
    ck_assert_int_eq(atomic_load(&n_ended), 1);
    check_refused(cudaUserObjectCreate(NULL, NULL, NULL, 0, 0), cudaErrorInvalidValue);
}

TEST(a_batch_moves_what_it_says) {
    static char host[200], back[200];
    char *device = rt_alloc(200);
    void *to[] = {device, device + 100};
    const void *from[] = {host, host + 100};
    size_t sizes[] = {100, 100}, first = 0;
    struct cudaMemcpyAttributes ordered = {.srcAccessOrder = cudaMemcpySrcAccessOrderStream};
    cudaStream_t stream;
    memset(host, 4, sizeof host);
    RT_OK(cudaStreamCreate(&stream));
    RT_OK(cudaMemcpyBatchAsync(to, from, sizes, 2, &ordered, &first, 1, stream));
    RT_OK(cudaStreamSynchronize(stream));
    RT_OK(cudaMemcpy(back, device, sizeof back, cudaMemcpyDeviceToHost));
    ck_assert_mem_eq(host, back, sizeof host);
    RT_OK(cudaStreamDestroy(stream));
    check_refused(cudaMemcpyBatchAsync(to, from, sizes, 2, &ordered, &first, 1, cudaStreamLegacy),
                  cudaErrorInvalidValue);
}

TEST(a_device_says_where_it_is_and_a_pool_who_may_use_it) {
    char id[16], same[16];
    cudaMemPool_t pool;
    struct cudaMemAccessDesc access = {{.type = cudaMemLocationTypeDevice},
                                       cudaMemAccessFlagsProtReadWrite};
    uint64_t n_bytes = 7;
    RT_OK(cudaDeviceGetPCIBusId(id, sizeof id, 0));
    OK(cuDeviceGetPCIBusId(same, sizeof same, 0));
    ck_assert_str_eq(id, same);
    RT_OK(cudaDeviceGetDefaultMemPool(&pool, 0));
    RT_OK(cudaMemPoolSetAccess(pool, &access, 1));
    RT_OK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &n_bytes));
    ck_assert_uint_eq(n_bytes, 0);
}

TEST(a_capture_goes_on_behind_nodes_that_are_named) {
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphNode_t nodes[2];
    size_t n = 2, n_found = 2;
    char *device = rt_alloc(100);
    RT_OK(cudaStreamCreate(&stream));
    RT_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    RT_OK(cudaMemsetAsync(device, 1, 100, stream));
    RT_OK(cudaStreamUpdateCaptureDependencies(stream, NULL, NULL, 0,
                                              cudaStreamSetCaptureDependencies));
    RT_OK(cudaMemsetAsync(device, 2, 100, stream));
    RT_OK(cudaStreamEndCapture(stream, &graph));
    RT_OK(cudaGraphGetNodes(graph, nodes, &n));
    ck_assert_uint_eq(n, 2);
    for (int i = 0; i < 2; i++) { /* in both orders */
        RT_OK(cudaGraphNodeGetDependencies(nodes[i], NULL, NULL, &n_found));
        ck_assert_uint_eq(n_found, 0);
    }
    RT_OK(cudaGraphDestroy(graph));
    RT_OK(cudaStreamDestroy(stream));
}

int main(void) {
    return fixture_run("runtime");
}
