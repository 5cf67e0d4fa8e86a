/*
 * Addresses of memory whose context went: copies and sets there are refused, whatever the driver
 * uses the addresses for since (preload/entry/stale_address.h).  The software device is told to
 * keep internal memory where segments were.  Without cushim these blocks lie in small pages, where
 * it keeps none.
 */
#include "tests/preload/fixture/fixture.h"

#include <stdio.h>
#include <sys/mman.h>

enum { N_BLOCKS = 8, BLOCK_BYTES = 700000, N = 4096, LARGE_BYTES = 3 * MIB };

static unsigned char host[N];
static CUcontext context;
static CUdeviceptr blocks[N_BLOCKS]; /* of the context that is gone */
static CUdeviceptr gone;             /* one of them */
static CUdeviceptr elsewhere;        /* memory that is live */

static void alloc_blocks(void) {
    for (int i = 0; i < N_BLOCKS; i++)
        blocks[i] = fixture_alloc(BLOCK_BYTES);
    gone = blocks[N_BLOCKS / 2];
}

/* ---- the ends of a context, each with the begin of another ---- */

static void by_reset(void) {
    context = fixture_use_device(0);
    alloc_blocks();
    OK(cuDevicePrimaryCtxReset(0));
    context = fixture_use_device(0);
}

static void by_release(void) {
    context = fixture_use_device(0);
    alloc_blocks();
    OK(cuDevicePrimaryCtxRelease(0));
    context = fixture_use_device(0);
}

static void by_destruction(void) {
    OK(cuInit(0));
    OK(cuCtxCreate(&context, NULL, 0, 0));
    alloc_blocks();
    OK(cuCtxDestroy(context));
    OK(cuCtxCreate(&context, NULL, 0, 0));
}

static void (*const ends[])(void) = {by_reset, by_release, by_destruction};
enum { N_ENDS = sizeof ends / sizeof ends[0] };

/* Set how much memory the driver keeps for itself in the next context. */
static void keep(const char *amount) {
    setenv("CUSHIM_SIM_INTERNAL", amount, 1);
}

/* Are copies judged at all?  If not, the driver accepts what it would accept without us. */
static bool is_judged(void) {
    const char *copy = getenv("CUSHIM_COPY");
    return !copy || strcmp(copy, "0") != 0;
}

static unsigned long n_asked(void) {
    return sim_calls("cuPointerGetAttributes");
}

/* ---- calls that write or read N bytes at `gone` ---- */

struct call {
    const char *name;
    CUresult (*run)(void);
};

static CUresult set_8(void) {
    return cuMemsetD8(gone, 1, N);
}

static CUresult set_16(void) {
    return cuMemsetD16Async(gone, 1, N / 2, NULL);
}

static CUresult set_32(void) {
    return cuMemsetD32(gone, 1, N / 4);
}

static CUresult set_rows_8(void) {
    return cuMemsetD2D8Async(gone, N / 2, 1, N / 4, 2, NULL);
}

static CUresult set_rows_32(void) {
    return cuMemsetD2D32(gone, N / 2, 1, N / 16, 2);
}

static CUresult write_line(void) {
    return cuMemcpyHtoD(gone, host, N);
}

static CUresult write_line_async(void) {
    return cuMemcpyHtoDAsync(gone, host, N, NULL);
}

static CUresult read_line(void) {
    return cuMemcpyDtoH(host, gone, N);
}

static CUresult read_line_async(void) {
    return cuMemcpyDtoHAsync(host, gone, N, NULL);
}

static CUresult copy_to(void) {
    return cuMemcpyDtoD(gone, elsewhere, N);
}

static CUresult copy_from(void) {
    return cuMemcpyDtoDAsync(elsewhere, gone, N, NULL);
}

static CUresult copy_any_to(void) {
    return cuMemcpy(gone, (CUdeviceptr)host, N);
}

static CUresult copy_any_from(void) {
    return cuMemcpyAsync((CUdeviceptr)host, gone, N, NULL);
}

static CUresult copy_peer(void) {
    return cuMemcpyPeerAsync(gone, context, elsewhere, context, N, NULL);
}

static CUDA_MEMCPY2D two_rows(void) {
    return (CUDA_MEMCPY2D){
        .srcPitch = N / 2, .dstPitch = N / 2, .WidthInBytes = N / 4, .Height = 2};
}

static CUresult write_rows(void) {
    CUDA_MEMCPY2D shape = two_rows();
    shape.srcMemoryType = CU_MEMORYTYPE_HOST;
    shape.srcHost = host;
    shape.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    shape.dstDevice = gone;
    return cuMemcpy2D(&shape);
}

static CUresult read_rows(void) {
    CUDA_MEMCPY2D shape = two_rows();
    shape.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    shape.srcDevice = gone;
    shape.dstMemoryType = CU_MEMORYTYPE_HOST;
    shape.dstHost = host;
    return cuMemcpy2DAsync(&shape, NULL);
}

static CUresult copy_batch(void) {
    return fixture_copy_batch(elsewhere, gone, N);
}

static const struct call calls[] = {
    {"D8", set_8},
    {"D16Async", set_16},
    {"D32", set_32},
    {"D2D8Async", set_rows_8},
    {"D2D32", set_rows_32},
    {"HtoD", write_line},
    {"HtoDAsync", write_line_async},
    {"DtoH", read_line},
    {"DtoHAsync", read_line_async},
    {"DtoD to", copy_to},
    {"DtoDAsync from", copy_from},
    {"by address to", copy_any_to},
    {"by address, async, from", copy_any_from},
    {"peer", copy_peer},
    {"2D to", write_rows},
    {"2DAsync from", read_rows},
    {"batch", copy_batch},
};

static void check_call(const struct call *call) {
    bool is_taken = fixture_is_preloaded() && !is_judged();
    CUresult answer = call->run(), expected = is_taken ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    ck_assert_msg(answer == expected, "%s gave %d", call->name, answer);
}

TEST(what_the_driver_would_take_there_is_refused, .n = N_ENDS) {
    keep("64M");
    ends[_i]();
    check_call(&calls[0]); /* before the new context has any memory */
    elsewhere = fixture_alloc(2 * N);
    fixture_fill(elsewhere, 3, 2 * N);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        check_call(&calls[i]);
    OK(cuMemsetD8(gone, 1, 0)); /* zero bytes are no use of the address */
    ck_assert(fixture_is_filled(elsewhere, 3, 2 * N));
    OK(cuMemFree(elsewhere));
}

TEST(frees_and_questions_are_answered_as_natively, .n = N_ENDS) {
    unsigned type = 99;
    void *data = &type;
    CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    keep("64M");
    ends[_i]();
    ANSWERS(cuMemFree(gone), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuMemFreeAsync(gone, NULL), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuPointerGetAttribute(&type, attribute, gone), CUDA_ERROR_INVALID_VALUE);
    OK(cuPointerGetAttributes(1, &attribute, &data, gone));
    ck_assert_uint_eq(type, 0);
}

/* ---- memory that is there by now ---- */

/* Was a block at this address? */
static bool was_there(CUdeviceptr address) {
    bool is_found = false;
    for (int i = 0; i < N_BLOCKS; i++)
        is_found = is_found || address / (2 * MIB) == blocks[i] / (2 * MIB);
    return is_found;
}

/* Set and copy memory that the driver gave at an address where a block was. */
static void use(CUdeviceptr address, size_t n) {
    ck_assert(was_there(address));
    fixture_fill(address, 7, n);
    OK(cuMemcpyHtoD(address, host, n < N ? n : N));
    OK(cuMemcpyDtoD(address + 16, address, 16));
    fixture_fill(address, 9, n);
    ck_assert(fixture_is_filled(address, 9, n));
}

/* The same, if the first answer shows that whole pages are in use. */
static void use_large(CUdeviceptr address) {
    unsigned long n = n_asked();
    use(address, LARGE_BYTES);
    if (fixture_is_preloaded() && is_judged())
        ck_assert_uint_eq(n_asked(), n + 1);
}

static void check_refused(CUdeviceptr address) {
    ANSWERS(cuMemsetD8(address, 1, 16), CUDA_ERROR_INVALID_VALUE);
}

TEST(rows_of_the_driver_are_used_as_ever) {
    CUdeviceptr rows;
    size_t pitch;
    by_reset();
    OK(cuMemAllocPitch(&rows, &pitch, 1000, 3, 16)); /* it is less than one page of the map */
    use(rows, 3 * pitch);
    OK(cuMemFree(rows));
    check_refused(rows);
    OK(cuMemAllocPitch(&rows, &pitch, 1024, LARGE_BYTES / 1024, 16));
    use_large(rows);
    OK(cuMemFree(rows));
    check_refused(rows);
}

TEST(stream_ordered_memory_is_used_as_ever) {
    CUdeviceptr address;
    by_reset();
    OK(cuMemAllocAsync(&address, LARGE_BYTES, NULL));
    use_large(address);
    OK(cuMemFreeAsync(address, NULL));
    OK(cuCtxSynchronize());
}

TEST(mapped_memory_is_used_as_ever) {
    enum { MAPPED_BYTES = 4 * MIB };
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemAccessDesc access = {.location = prop.location,
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr address;
    by_reset();
    OK(cuMemAddressReserve(&address, MAPPED_BYTES, 0, 0, 0));
    check_refused(address);
    OK(cuMemCreate(&handle, MAPPED_BYTES, &prop, 0));
    OK(cuMemMap(address, MAPPED_BYTES, 0, handle, 0));
    OK(cuMemSetAccess(address, MAPPED_BYTES, &access, 1));
    use_large(address);
    OK(cuMemUnmap(address, MAPPED_BYTES));
    if (is_judged()) /* it is kept */
        check_refused(address);
}

TEST(variables_of_a_module_are_used_as_ever) {
    CUmodule module;
    CUdeviceptr address;
    size_t n;
    by_reset();
    OK(cuModuleLoadData(&module, SIM_MODULE_IMAGE "\n.global table 4096\n"));
    OK(cuModuleGetGlobal(&address, &n, module, "table"));
    use(address, n);
    OK(cuModuleUnload(module));
    check_refused(address);
}

TEST(a_segment_of_ours_is_not_asked_about) {
    by_reset();
    unsigned long n = n_asked();
    CUdeviceptr block = fixture_alloc(BLOCK_BYTES);
    ck_assert(was_there(block));
    fixture_fill(block, 1, BLOCK_BYTES);
    OK(cuMemcpyDtoH(host, block, N));
    ck_assert_uint_eq(n_asked(), n);
    OK(cuMemFree(block));
    if (is_judged())
        check_refused(block);
}

/* ---- what the driver need not know ---- */

static void *map_over(int rights) {
    void *page = (void *)(uintptr_t)(gone & ~(CUdeviceptr)(2 * MIB - 1));
    void *mapped =
        mmap(page, 2 * MIB, rights, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    ck_assert_ptr_eq(mapped, page);
    return mapped;
}

/* The driver may have given addresses back to the system, and the program may have got them. */
TEST(host_memory_of_the_program_is_left_to_the_driver) {
    elsewhere = 0;
    by_reset();
    elsewhere = fixture_alloc(N); /* it is at a lower address */
    CUdeviceptr mapped = (CUdeviceptr)map_over(PROT_NONE);
    ck_assert(elsewhere < mapped);
    sim_calls_reset();
    cuMemcpy(elsewhere, mapped, N);
    if (fixture_is_preloaded())
        ck_assert_uint_eq(sim_calls("cuMemcpy"), !is_judged());
    map_over(PROT_READ | PROT_WRITE);
    sim_calls_reset();
    for (int i = 0; i < 3; i++)
        cuMemcpy(elsewhere, mapped, N);
    ck_assert_uint_eq(sim_calls("cuMemcpy"), 3);
    if (fixture_is_preloaded() && is_judged())
        ck_assert_uint_eq(n_asked(), 1); /* and it is not looked for again */
}

TEST(host_memory_that_went_with_its_context_is_not_asked_about) {
    void *pinned;
    CUdeviceptr managed;
    context = fixture_use_device(0);
    OK(cuMemHostAlloc(&pinned, 100000, 0));
    OK(cuMemAllocManaged(&managed, 100000, CU_MEM_ATTACH_GLOBAL));
    OK(cuDevicePrimaryCtxReset(0));
    context = fixture_use_device(0);
    elsewhere = fixture_alloc(N);
    sim_calls_reset();
    cuMemcpyHtoD(elsewhere, pinned, N);
    cuMemsetD8(managed, 1, N);
    ck_assert_uint_eq(sim_calls("cuMemcpyHtoD_v2"), 1);
    ck_assert_uint_eq(sim_calls("cuMemsetD8_v2"), 1);
    ck_assert_uint_eq(n_asked(), 0);
}

/* ---- when the driver may be asked ---- */

TEST(without_a_context_that_lives_the_driver_says_so) {
    keep("64M");
    context = fixture_use_device(0);
    alloc_blocks();
    OK(cuDevicePrimaryCtxReset(0));
    ANSWERS(cuMemsetD8(gone, 1, N), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    OK(cuCtxSetCurrent(NULL));
    ANSWERS(cuMemsetD8(gone, 1, N), CUDA_ERROR_INVALID_CONTEXT);
}

TEST(a_damaged_context_says_so) {
    by_reset();
    sim_fault(CUDA_ERROR_ILLEGAL_ADDRESS);
    ANSWERS(cuMemsetD8(gone, 1, N), CUDA_ERROR_ILLEGAL_ADDRESS);
    sim_fault(CUDA_SUCCESS);
}

/* Memory of the graph has its address before anything is there. */
TEST(while_a_capture_is_open_nobody_asks) {
    CUgraph graph;
    CUdeviceptr address;
    by_reset();
    CUstream stream = fixture_stream();
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    sim_calls_reset();
    OK(cuMemAllocAsync(&address, LARGE_BYTES, stream));
    ck_assert(was_there(address));
    OK(cuMemsetD8Async(address, 1, N, stream));
    OK(cuMemFreeAsync(address, stream));
    ck_assert_uint_eq(n_asked(), 0);
    OK(cuStreamEndCapture(stream, &graph));
}

/* ---- threads ---- */

enum { N_ROUNDS = 30 };

static void copy_on(struct fixture_thread *thread) {
    OK(cuCtxSetCurrent(thread->context));
    CUdeviceptr block = thread->address;
    unsigned char here[64] = {5};
    while (!atomic_load(&thread->is_done)) {
        OK(cuMemcpyHtoD(block, here, sizeof here));
        OK(cuMemcpyDtoH(here, block, sizeof here));
        ck_assert_uint_eq(here[0], 5);
        sched_yield();
    }
}

static void *copy_until_told(void *thread) {
    copy_on(thread);
    return NULL;
}

TEST(others_copy_on_while_contexts_go) {
    struct fixture_thread threads[3] = {{.context = NULL}};
    keep("8M");
    CUcontext base = fixture_use_device(0);
    for (int i = 0; i < 3; i++) {
        threads[i].context = base;
        threads[i].address = fixture_alloc(N); /* before any address is free to come back */
        ck_assert_int_eq(pthread_create(&threads[i].thread, NULL, copy_until_told, &threads[i]), 0);
    }
    for (int round = 0; round < N_ROUNDS; round++) {
        by_destruction();
        for (int i = 0; i < N_BLOCKS; i++) {
            CUresult answer = cuMemsetD8(blocks[i], 1, N);
            ck_assert(answer == CUDA_ERROR_INVALID_VALUE || !is_judged());
        }
        OK(cuCtxDestroy(context));
    }
    for (int i = 0; i < 3; i++) {
        atomic_store(&threads[i].is_done, 1);
        ck_assert_int_eq(pthread_join(threads[i].thread, NULL), 0);
    }
}

/* The driver gives this thread what it took back from a context that another thread ends. */
static void *make_contexts(void *argument) {
    struct fixture_thread *thread = argument;
    while (!atomic_load(&thread->is_done)) {
        CUcontext its;
        OK(cuCtxCreate(&its, NULL, 0, 0));
        fixture_alloc(BLOCK_BYTES);
        OK(cuCtxDestroy(its));
    }
    return NULL;
}

TEST(what_others_get_where_contexts_went_is_theirs) {
    struct fixture_thread thread = {.context = NULL};
    fixture_use_device(0);
    CUstream stream = fixture_stream();
    ck_assert_int_eq(pthread_create(&thread.thread, NULL, make_contexts, &thread), 0);
    for (int round = 0; round < 10 * N_ROUNDS; round++) {
        CUdeviceptr address, base;
        size_t n_bytes;
        OK(cuMemAllocAsync(&address, LARGE_BYTES, stream));
        if (round % 2) {
            OK(cuMemsetD8Async(address, 1, N, stream));
        } else {
            OK(cuMemGetAddressRange(&base, &n_bytes, address));
            ck_assert_uint_eq(base, address);
            ck_assert_uint_eq(n_bytes, LARGE_BYTES);
        }
        OK(cuMemFreeAsync(address, stream));
        OK(cuStreamSynchronize(stream));
    }
    atomic_store(&thread.is_done, 1);
    ck_assert_int_eq(pthread_join(thread.thread, NULL), 0);
}

int main(void) {
    return fixture_run("stale");
}
