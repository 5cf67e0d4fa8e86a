/* How much freed memory a pool keeps, and when it gives it back. */
#include "fixture.h"
#include "tests/unit/suite.h"

#include <stdint.h>
#include <unistd.h>

#define PAGE ((size_t)2 << 20)

static CUmemoryPool pool;
static CUstream stream;

static void begin(uint64_t threshold) {
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    fixture_context();
    ck_cuda(cuMemPoolCreate(&pool, &props));
    ck_cuda(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    stream = fixture_stream(CU_STREAM_NON_BLOCKING);
}

static CUdeviceptr take(size_t n_bytes) {
    CUdeviceptr block;
    ck_cuda(cuMemAllocFromPoolAsync(&block, n_bytes, pool, stream));
    return block;
}

static uint64_t number(CUmemPool_attribute attribute) {
    uint64_t value = 0;
    ck_cuda(cuMemPoolGetAttribute(pool, attribute, &value));
    return value;
}

#define RESERVED number(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)
#define USED     number(CU_MEMPOOL_ATTR_USED_MEM_CURRENT)

/* Make freed memory idle without a wait of the host, because a wait would give it back. */
static void become_idle(CUdeviceptr block) {
    ck_cuda(cuMemFreeAsync(block, stream));
    while (cuStreamQuery(stream) == CUDA_ERROR_NOT_READY)
        usleep(1000);
}

static size_t left(void) {
    size_t n_free, n_total;
    ck_cuda(cuMemGetInfo(&n_free, &n_total));
    return n_free;
}

static CUresult wait_for_event(void) {
    CUevent event;
    ck_cuda(cuEventCreate(&event, 0));
    return cuEventSynchronize(event);
}

static CUresult wait_for_stream(void) {
    return cuStreamSynchronize(stream);
}

static CUresult wait_for_copy(void) {
    char byte;
    return cuMemcpyDtoH(&byte, fixture_alloc(1), 1);
}

TEST(freed_memory_stays_reserved_until_the_host_waits) {
    CUresult (*const waits[])(void) = {cuCtxSynchronize, wait_for_stream, wait_for_event,
                                       wait_for_copy};
    begin(0);
    for (size_t i = 0; i < 4; i++) {
        size_t before = left();
        become_idle(take(5 * MIB));
        ck_assert_uint_eq(USED, 0);
        ck_assert_uint_eq(RESERVED, 3 * PAGE);
        ck_assert_uint_eq(left(), before - 3 * PAGE);
        ck_cuda(waits[i]());
        ck_assert_uint_eq(RESERVED, 0);
    }
}

TEST(a_wait_keeps_the_bytes_of_the_threshold) {
    begin(3 * MIB);
    size_t before = left();
    CUdeviceptr kept = take(100);
    become_idle(take(9 * MIB));
    ck_assert_uint_eq(RESERVED, 6 * PAGE);
    ck_cuda(cuCtxSynchronize());
    ck_assert_uint_eq(RESERVED, 2 * PAGE);
    ck_assert_uint_eq(USED, 100);
    become_idle(kept);
    ck_cuda(cuCtxSynchronize());
    ck_assert_uint_eq(RESERVED, 2 * PAGE);
    ck_assert_uint_eq(left(), before - 2 * PAGE);
    uint64_t nothing = 0;
    ck_cuda(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &nothing));
    ck_assert_uint_eq(RESERVED, 2 * PAGE);
    ck_cuda(cuCtxSynchronize());
    ck_assert_uint_eq(RESERVED, 0);
}

TEST(an_allocation_takes_idle_memory_of_its_pool) {
    begin(UINT64_MAX);
    become_idle(take(8 * MIB));
    size_t before = left();
    CUdeviceptr block = take(6 * MIB);
    CUdeviceptr small = take(100);
    ck_assert_uint_eq(left(), before);
    ck_assert_uint_eq(RESERVED, 4 * PAGE);
    ck_assert_uint_eq(USED, 6 * MIB + 100);
    become_idle(small);
    become_idle(block);
    ck_cuda(cuCtxSynchronize());
    ck_assert_uint_eq(RESERVED, 4 * PAGE);
}

TEST(a_trim_keeps_the_requested_bytes_and_memory_in_use) {
    begin(UINT64_MAX);
    CUdeviceptr block = take(2 * PAGE);
    become_idle(take(4 * PAGE));
    ck_cuda(cuMemPoolTrimTo(pool, 5 * PAGE - 1));
    ck_assert_uint_eq(RESERVED, 5 * PAGE);
    ck_cuda(cuMemPoolTrimTo(pool, UINT64_MAX));
    ck_assert_uint_eq(RESERVED, 5 * PAGE);
    ck_cuda(cuMemPoolTrimTo(pool, 0));
    ck_assert_uint_eq(RESERVED, 2 * PAGE);
    ck_assert_uint_eq(USED, 2 * PAGE);
    become_idle(block);
}

TEST(writing_0_resets_the_high_marks) {
    uint64_t value = 0;
    begin(UINT64_MAX);
    become_idle(take(3 * MIB));
    ck_assert_uint_eq(number(CU_MEMPOOL_ATTR_USED_MEM_HIGH), 3 * MIB);
    ck_assert_uint_eq(number(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 2 * PAGE);
    ck_cuda(cuMemPoolTrimTo(pool, PAGE));
    ck_cuda(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value));
    ck_cuda(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &value));
    ck_assert_uint_eq(number(CU_MEMPOOL_ATTR_USED_MEM_HIGH), 0);
    ck_assert_uint_eq(number(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), PAGE);
    ck_cuda_is(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value),
               CUDA_ERROR_INVALID_VALUE);
    value = 1;
    ck_cuda_is(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value),
               CUDA_ERROR_INVALID_VALUE);
}

/* Memory of every kind: from the context, physical memory, another pool, and this pool. */
TEST(an_allocation_that_finds_no_memory_takes_idle_memory_of_pools) {
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr block;
    begin(UINT64_MAX);
    size_t all = left();
    become_idle(take(all));
    ck_assert_uint_eq(left(), 0);
    ck_cuda(cuMemAlloc(&block, PAGE));
    ck_assert_uint_eq(RESERVED, 0);
    ck_cuda(cuMemFree(block));
    become_idle(take(all));
    ck_cuda(cuMemCreate(&handle, PAGE, &prop, 0));
    ck_cuda(cuMemRelease(handle));
    become_idle(take(all - PAGE));
    ck_cuda(cuMemAllocAsync(&block, all, stream));
    become_idle(block);
    ck_cuda(cuCtxSynchronize());
    become_idle(take(all - PAGE));
    become_idle(take(all));
    ck_assert_uint_eq(RESERVED, all);
    ck_cuda_is(cuMemAlloc(&block, all + PAGE), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST(a_pool_that_is_destroyed_and_a_context_that_ends_keep_nothing) {
    CUmemoryPool of_device;
    uint64_t everything = UINT64_MAX;
    begin(UINT64_MAX);
    size_t all = left();
    CUdeviceptr block = take(PAGE);
    become_idle(take(PAGE));
    ck_cuda(cuMemPoolDestroy(pool));
    ck_assert_uint_eq(left(), all - PAGE);
    become_idle(block);
    ck_assert_uint_eq(left(), all);
    ck_cuda(cuDeviceGetDefaultMemPool(&of_device, 0));
    ck_cuda(cuMemPoolSetAttribute(of_device, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &everything));
    ck_cuda(cuMemAllocAsync(&block, PAGE, stream));
    become_idle(block);
    ck_cuda(cuMemAllocAsync(&block, 100, stream));
    ck_assert_uint_eq(sim_used_bytes(0), PAGE);
    ck_cuda(cuDevicePrimaryCtxReset(0));
    ck_assert_uint_eq(sim_used_bytes(0), 0);
}

SUITE() {
    return tests_run("sim pool_idle");
}
