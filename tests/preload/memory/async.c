/*
 * Stream-ordered memory is passed through, and its pool's threshold is raised if the option asks
 * for that.  Either free takes either kind of pointer, from any thread, context and kind of stream
 * (interposition.md C).
 */
#include "cushim/preload.h"
#include "tests/preload/fixture/fixture.h"

#include <dlfcn.h>
#include <unistd.h>

static uint64_t threshold_of(CUdevice device) {
    CUmemoryPool pool;
    cuuint64_t n_bytes = 1;
    OK(cuDeviceGetDefaultMemPool(&pool, device));
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &n_bytes));
    return n_bytes;
}

static void set_threshold(CUdevice device, cuuint64_t n_bytes) {
    CUmemoryPool pool;
    OK(cuDeviceGetDefaultMemPool(&pool, device));
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &n_bytes));
}

/* CUSHIM_ASYNC_KEEP in MiB; 0 if it is not set, or no preload reads it. */
static uint64_t kept_bytes(void) {
    const char *value = getenv("CUSHIM_ASYNC_KEEP");
    return value && fixture_is_preloaded() ? strtoull(value, NULL, 10) * MIB : 0;
}

static void use_async(CUstream stream) {
    CUdeviceptr address;
    OK(cuMemAllocAsync(&address, 1000, stream));
    OK(cuMemFreeAsync(address, stream));
    OK(cuStreamSynchronize(stream));
}

TEST(the_threshold_is_raised_on_the_devices_that_are_used) {
    CUmemoryPool pool;
    CUdeviceptr address;
    CUcontext second = fixture_use_device(1);
    CUstream stream_of_second = fixture_stream();
    fixture_use_device(0);
    ck_assert_uint_eq(threshold_of(0), 0);
    use_async(fixture_stream());
    ck_assert_uint_eq(threshold_of(0), kept_bytes());
    ck_assert_uint_eq(threshold_of(1), 0);
    OK(cuDeviceGetDefaultMemPool(&pool, 1));
    OK(cuMemAllocFromPoolAsync(&address, 1000, pool, stream_of_second)); /* of no current context */
    OK(cuMemFreeAsync(address, stream_of_second));
    ck_assert_uint_eq(threshold_of(1), kept_bytes());
    CUcontext current;
    OK(cuCtxGetCurrent(&current));
    ck_assert_ptr_ne(current, second);
}

TEST(what_the_program_sets_is_never_lowered_and_wins_afterwards) {
    const uint64_t more = (uint64_t)1 << 40;
    fixture_use_device(0);
    set_threshold(0, more);
    use_async(NULL);
    ck_assert_uint_eq(threshold_of(0), more);
    set_threshold(0, 4096);
    use_async(NULL);
    ck_assert_uint_eq(threshold_of(0), 4096);
    fixture_use_device(1);
    use_async(CU_STREAM_PER_THREAD);
    set_threshold(1, 0);
    use_async(CU_STREAM_PER_THREAD);
    ck_assert_uint_eq(threshold_of(1), 0);
}

/* ---- what pools keep ---- */

/* CUSHIM_ASYNC_KEEP=auto */
static bool keeps_idle_memory(void) {
    return fixture_is_preloaded() && !getenv("CUSHIM_ASYNC_KEEP");
}

static uint64_t reserved_bytes(CUmemoryPool pool) {
    cuuint64_t n_bytes = 0;
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &n_bytes));
    return n_bytes;
}

static void use_pool(CUmemoryPool pool, size_t n_bytes) {
    CUdeviceptr address;
    OK(cuMemAllocFromPoolAsync(&address, n_bytes, pool, NULL));
    OK(cuMemFreeAsync(address, NULL));
    OK(cuStreamSynchronize(NULL));
}

static CUmemoryPool pool_of(int kind) {
    CUmemoryPool pool;
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    if (kind == 0)
        OK(cuDeviceGetDefaultMemPool(&pool, 0));
    else
        OK(cuMemPoolCreate(&pool, &properties));
    return pool;
}

TEST(a_pool_keeps_what_is_freed_and_its_program_sees_none_of_that, .n = 2) {
    size_t free_bytes, now_bytes, total_bytes;
    cuuint64_t threshold = 1;
    fixture_use_device(0);
    CUmemoryPool pool = pool_of(_i);
    OK(cuMemGetInfo(&free_bytes, &total_bytes));
    use_pool(pool, 20 * MIB);
    if (keeps_idle_memory() || !getenv("CUSHIM_ASYNC_KEEP"))
        ck_assert_int_eq(reserved_bytes(pool) >= 20 * MIB, keeps_idle_memory());
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    ck_assert_uint_eq(threshold, _i ? 0 : kept_bytes());
    OK(cuMemGetInfo(&now_bytes, &total_bytes));
    if (!kept_bytes())
        ck_assert_uint_eq(now_bytes, free_bytes);
    if (_i)
        OK(cuMemPoolDestroy(pool));
    OK(cuCtxSynchronize());
}

/* The default pool, one that the program made, and both with a threshold of the program's. */
TEST_IF(fixture_is_preloaded(), what_a_pool_keeps_is_held_and_idle, .n = 4) {
    struct cushim_preload_stats stats = {.struct_size = sizeof stats};
    cuuint64_t all = UINT64_MAX;
    int (*ask)(int, int, struct cushim_preload_stats *);
    *(void **)&ask = dlsym(RTLD_DEFAULT, "cushim_preload_stats");
    if (_i < 2 && !keeps_idle_memory())
        return;
    fixture_use_device(0);
    CUmemoryPool pool = pool_of(_i % 2);
    if (_i >= 2)
        OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
    /* it is counted at looks that are a tenth of a second apart, and goes after a second */
    for (int i = 0; i < 50 && !stats.idle_bytes; i++) {
        use_pool(pool, 20 * MIB);
        usleep(120000);
        use_pool(pool, 1000);
        ck_assert_int_eq(ask(0, CUSHIM_PRELOAD_ASYNC, &stats), 0);
    }
    ck_assert_uint_ge(stats.idle_bytes, 18 * MIB);
    ck_assert_uint_eq(stats.held_bytes, stats.live_bytes + stats.idle_bytes);
    if (_i % 2)
        OK(cuMemPoolDestroy(pool));
    else
        OK(cuDevicePrimaryCtxReset(0));
    ck_assert_int_eq(ask(0, CUSHIM_PRELOAD_ASYNC, &stats), 0);
    ck_assert_uint_eq(stats.held_bytes, 0);
}

TEST(a_pool_outlives_the_reset_of_its_device) {
    fixture_use_device(0);
    use_pool(pool_of(0), 20 * MIB);
    OK(cuDevicePrimaryCtxReset(0));
    fixture_use_device(0);
    ck_assert_uint_eq(threshold_of(0), kept_bytes());
    use_pool(pool_of(0), 20 * MIB);
    if (!kept_bytes())
        ck_assert_int_eq(reserved_bytes(pool_of(0)) >= 20 * MIB, keeps_idle_memory());
}

TEST(a_pool_whose_program_sets_its_threshold_is_left_to_it, .n = 2) {
    cuuint64_t none = 0;
    fixture_use_device(0);
    CUmemoryPool pool = pool_of(_i);
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &none));
    use_pool(pool, 20 * MIB);
    if (!kept_bytes())
        ck_assert_uint_eq(reserved_bytes(pool), 0);
    use_pool(pool_of(1 - _i), 20 * MIB); /* which is another matter */
    OK(cuMemPoolSetAttribute(pool_of(1), CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &none));
}

TEST(idle_memory_of_pools_goes_where_memory_is_out_and_after_a_second, .n = 2) {
    size_t free_bytes, total_bytes;
    CUdeviceptr address;
    fixture_use_device(0);
    CUmemoryPool pool = pool_of(1), other = pool_of(0);
    OK(cuMemGetInfo(&free_bytes, &total_bytes));
    use_pool(pool, 64 * MIB);
    if (_i == 0) {
        OK(cuMemAlloc(&address, free_bytes - 8 * MIB));
        OK(cuMemFree(address));
        OK(cuMemAllocFromPoolAsync(&address, free_bytes - 8 * MIB, other, NULL));
        OK(cuMemFreeAsync(address, NULL));
    } else {
        usleep(1100000);
        OK(cuCtxSynchronize());
    }
    if (!kept_bytes())
        ck_assert_uint_eq(reserved_bytes(pool), 0);
}

/* ---- either kind of pointer to either free ---- */

typedef CUresult free_async_fn(CUdeviceptr, CUstream);

/* The per-thread variant, which a program built for per-thread default streams calls. */
static free_async_fn *free_async_ptsz(void) {
    free_async_fn *function;
    void *address = dlsym(RTLD_DEFAULT, "cuMemFreeAsync_ptsz");
    ck_assert_ptr_nonnull(address);
    memcpy(&function, &address, sizeof function);
    return function;
}

enum { SIZE = 5000, MANY = 300 };

/* Is the block handed out again? */
static bool comes_back(CUdeviceptr block) {
    for (int i = 0; i < MANY; i++) {
        CUdeviceptr others[MANY];
        int n = 0;
        bool is_back = false;
        while (n < MANY && !is_back)
            is_back = (others[n++] = fixture_alloc(SIZE)) == block;
        while (n)
            OK(cuMemFree(others[--n]));
        if (is_back)
            return true;
    }
    return false;
}

static bool stays_away(CUdeviceptr block) {
    for (int i = 0; i < MANY; i++) {
        if (fixture_alloc(SIZE) == block)
            return false;
    }
    return true;
}

TEST(a_block_freed_on_a_default_stream_waits_for_that_stream, .n = 4) {
    CUstream streams[] = {NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, NULL};
    free_async_fn *frees[] = {cuMemFreeAsync, cuMemFreeAsync, cuMemFreeAsync, free_async_ptsz()};
    fixture_use_device(0);
    CUstream works_on = _i == 3 ? CU_STREAM_PER_THREAD : streams[_i];
    CUdeviceptr block = fixture_alloc(SIZE);
    sim_hold();
    fixture_launch_write(block, 5, works_on);
    OK(frees[_i](block, streams[_i]));
    ANSWERS(cuMemFree(block), CUDA_ERROR_INVALID_VALUE);
    ck_assert(stays_away(block));
    sim_release_hold();
    OK(cuStreamSynchronize(works_on));
    ck_assert(comes_back(block) || !fixture_is_preloaded());
}

static void free_async_here(struct fixture_thread *thread) {
    thread->answer = cuMemFreeAsync(thread->address, thread->stream);
}

TEST(a_block_may_be_freed_on_a_stream_by_another_thread, .n = 4) {
    CUcontext context = fixture_use_device(0);
    struct fixture_thread thread = {
        .context = context, .stream = fixture_stream(), .address = fixture_alloc(SIZE)};
    if (_i % 2)
        thread.context = NULL; /* a thread without a context */
    sim_hold();
    fixture_launch_write(thread.address, 5, thread.stream);
    fixture_start(&thread, free_async_here);
    fixture_join(&thread);
    OK(thread.answer);
    ck_assert(stays_away(thread.address));
    sim_release_hold();
    OK(cuStreamSynchronize(thread.stream));
    ck_assert(comes_back(thread.address) || !fixture_is_preloaded());
}

TEST(a_block_may_be_freed_on_a_stream_of_another_context) {
    CUcontext first = fixture_use_device(0);
    CUdeviceptr block = fixture_alloc(SIZE);
    fixture_use_device(1);
    CUstream stream = fixture_stream();
    CUdeviceptr busy = fixture_alloc(SIZE);
    OK(cuCtxSetCurrent(first));
    sim_hold();
    fixture_launch_write(busy, 5, stream);
    CUresult answer = cuMemFreeAsync(block, stream);
    if (answer == CUDA_SUCCESS)
        ck_assert(stays_away(block));
    sim_release_hold();
    OK(cuStreamSynchronize(stream));
    if (answer == CUDA_SUCCESS)
        ck_assert(comes_back(block) || !fixture_is_preloaded());
}

TEST(a_block_of_a_destroyed_stream_comes_back) {
    fixture_use_device(0);
    for (int round = 0; round < 5; round++) {
        CUstream stream = fixture_stream();
        CUdeviceptr block = fixture_alloc(SIZE);
        sim_hold();
        fixture_launch_write(block, 5, stream);
        OK(cuMemFreeAsync(block, stream));
        OK(cuStreamDestroy(stream)); /* its work goes on */
        ck_assert(stays_away(block));
        sim_release_hold();
        while (sim_pending())
            OK(cuMemFree(fixture_alloc(100)));
        ck_assert(comes_back(block) || !fixture_is_preloaded());
    }
}

static void free_here(struct fixture_thread *thread) {
    thread->answer = cuMemFree(thread->address);
}

TEST(stream_ordered_memory_may_be_freed_at_once_from_anywhere) {
    CUcontext first = fixture_use_device(0), second = fixture_use_device(1);
    CUstream stream;
    CUdeviceptr address;
    OK(cuCtxSetCurrent(first));
    stream = fixture_stream();
    CUcontext contexts[] = {first, second};
    for (int i = 0; i < 2; i++) {
        OK(cuMemAllocAsync(&address, SIZE, stream));
        fixture_launch_write(address, 5, stream);
        struct fixture_thread thread = {.context = contexts[i], .address = address};
        fixture_start(&thread, free_here);
        fixture_join(&thread);
        OK(thread.answer);
        ck_assert_uint_eq(sim_pending(), 0); /* it is a barrier, as for any memory */
        ANSWERS(cuMemFree(address), CUDA_ERROR_INVALID_VALUE);
    }
    OK(cuMemAllocAsync(&address, SIZE, CU_STREAM_PER_THREAD));
    OK(cuMemFree(address));
    OK(cuMemAllocAsync(&address, SIZE, CU_STREAM_PER_THREAD));
    OK(free_async_ptsz()(address, NULL));
}

SIM_KERNEL(spin, atomic_int *) {
    launch->turn->again = !atomic_load(SIM_ARG(atomic_int *, 0));
}

TEST(a_slow_stream_does_not_keep_the_blocks_of_others) {
    enum { SLOW = 30, TRIES = 150 };
    atomic_int flag = 0, *flag_address = &flag;
    void *args[] = {&flag_address};
    CUfunction function;
    fixture_use_device(0);
    CUstream slow = fixture_stream(), fast = fixture_stream();
    CUdeviceptr blocks[SLOW];
    CUdeviceptr block = fixture_alloc(3 * MIB);
    for (int i = 0; i < SLOW; i++)
        blocks[i] = fixture_alloc(2 * MIB);
    OK(sim_function_by_name(&function, "spin"));
    OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, slow, args, NULL));
    for (int i = 0; i < SLOW; i++)
        OK(cuMemFreeAsync(blocks[i], slow));
    fixture_launch_write(block, 5, fast);
    OK(cuMemFreeAsync(block, fast));
    OK(cuStreamSynchronize(fast));
    bool is_back = !fixture_is_preloaded();
    for (int i = 0; i < TRIES && !is_back; i++)
        is_back = fixture_alloc(3 * MIB) == block;
    ck_assert(is_back);
    atomic_store(&flag, 1);
    OK(cuStreamSynchronize(slow));
}

/* Another stream may get its handle. */
TEST(once_a_stream_went_streams_are_looked_up_anew) {
    CUstream other;
    fixture_use_device(0);
    CUstream stream = fixture_stream();
    use_async(stream);
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    sim_calls_reset();
    use_async(stream);
    ck_assert_uint_eq(sim_calls("cuStreamGetCtx"), 0);
    OK(cuStreamDestroy(other));
    use_async(stream);
    ck_assert_uint_eq(sim_calls("cuStreamGetCtx"), fixture_is_preloaded());
}

static unsigned long n_calls_of_pairs(CUstream stream) {
    enum { PAIRS = 100 };
    CUdeviceptr address;
    OK(cuMemAllocAsync(&address, 1000, stream)); /* after this the question was asked once */
    OK(cuMemFreeAsync(address, stream));
    sim_calls_reset();
    for (int i = 0; i < PAIRS; i++) {
        OK(cuMemAllocAsync(&address, 1000, stream));
        OK(cuMemFreeAsync(address, stream));
    }
    return sim_calls_total() / PAIRS;
}

TEST(what_is_passed_through_makes_the_calls_that_it_makes_natively) {
    fixture_use_device(0);
    CUstream stream = fixture_stream();
    ck_assert_uint_eq(n_calls_of_pairs(stream), 2);
    OK(cuStreamDestroy(stream)); /* a new stream may get the handle */
    ck_assert_uint_eq(n_calls_of_pairs(fixture_stream()), 2);
}

int main(void) {
    return fixture_run("async");
}
