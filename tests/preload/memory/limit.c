/*
 * A device of 256 MiB, and one that CUSHIM_LIMIT makes look like that: answers and refusals are the
 * same (docs/internals/memory-engine.md, "When memory is out").
 */
#include "tests/preload/fixture/fixture.h"

enum { DEVICE_BYTES = 256 * MIB, PAGE = 2 * MIB, LARGE = 200 * MIB };

static size_t free_bytes(void) {
    size_t n_bytes, all_bytes;
    OK(cuMemGetInfo(&n_bytes, &all_bytes));
    ck_assert_uint_eq(all_bytes, DEVICE_BYTES);
    ck_assert_uint_le(n_bytes, DEVICE_BYTES);
    return n_bytes;
}

/* ---- ways to take 200 MiB, and to give them back ---- */

static CUdeviceptr taken;
static CUmemGenericAllocationHandle physical;

static CUresult take_plain(void) {
    return cuMemAlloc(&taken, LARGE);
}

static CUresult take_pitch(void) {
    size_t pitch;
    return cuMemAllocPitch(&taken, &pitch, 1 * MIB, 200, 4);
}

static CUresult take_async(void) {
    return cuMemAllocAsync(&taken, LARGE, NULL);
}

static CUresult take_from_pool(void) {
    CUmemoryPool pool;
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    return cuMemAllocFromPoolAsync(&taken, LARGE, pool, NULL);
}

static CUresult take_physical(void) {
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    return cuMemCreate(&physical, LARGE, &properties, 0);
}

static CUresult give_plain(void) {
    return cuMemFree(taken);
}

static CUresult give_async(void) {
    CUresult answer = cuMemFreeAsync(taken, NULL);
    OK(cuCtxSynchronize());
    return answer;
}

static CUresult give_physical(void) {
    return cuMemRelease(physical);
}

static const struct {
    CUresult (*take)(void);
    CUresult (*give)(void);
} ways[] = {{take_plain, give_plain},
            {take_pitch, give_plain},
            {take_async, give_async},
            {take_from_pool, give_async},
            {take_physical, give_physical}};
enum { N_WAYS = sizeof ways / sizeof *ways };

TEST(what_one_way_took_is_refused_to_all_others_and_had_when_it_is_back, .n = N_WAYS) {
    fixture_use_device(0);
    for (int i = 0; i < N_WAYS; i++) {
        OK(ways[_i].take());
        CUdeviceptr first = taken;
        CUmemGenericAllocationHandle first_handle = physical;
        ANSWERS(ways[i].take(), CUDA_ERROR_OUT_OF_MEMORY);
        ck_assert_uint_le(free_bytes(), DEVICE_BYTES - LARGE);
        taken = first;
        physical = first_handle;
        OK(ways[_i].give());
        OK(ways[i].take());
        OK(ways[i].give());
    }
}

TEST(what_is_told_to_be_free_is_had_page_by_page) {
    CUdeviceptr address;
    size_t n = 0;
    fixture_use_device(0);
    size_t n_pages = free_bytes() / PAGE;
    while (cuMemAlloc(&address, PAGE) == CUDA_SUCCESS)
        n++;
    ck_assert_uint_eq(n, n_pages);
    ck_assert_uint_eq(free_bytes(), 0);
    ANSWERS(cuMemAlloc(&address, PAGE), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST(a_request_beyond_the_device_is_refused_at_once) {
    CUdeviceptr address = 1;
    fixture_use_device(0);
    ANSWERS(cuMemAlloc(&address, DEVICE_BYTES + 1), CUDA_ERROR_OUT_OF_MEMORY);
    ANSWERS(cuMemAlloc(&address, (size_t)1 << 40), CUDA_ERROR_OUT_OF_MEMORY);
    ck_assert_uint_eq(free_bytes(), DEVICE_BYTES);
}

/* A pool serves it, or the driver. */
TEST(the_hosts_memory_is_no_part_of_it) {
    void *pinned;
    fixture_use_device(0);
    OK(take_plain()); /* the device is in use, and so is its limit */
    OK(give_plain());
    OK(cuMemHostAlloc(&pinned, LARGE, 0));
    ck_assert_uint_eq(free_bytes(), DEVICE_BYTES);
    OK(take_plain());
    OK(give_plain());
    OK(cuMemFreeHost(pinned));
    ck_assert_uint_eq(free_bytes(), DEVICE_BYTES);
}

TEST(contexts_of_a_device_share_it) {
    CUcontext other;
    CUcontext first = fixture_use_device(0);
    CUdeviceptr address = fixture_alloc(150 * MIB);
    OK(cuCtxCreate(&other, NULL, 0, 0));
    ANSWERS(cuMemAlloc(&taken, 150 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemAlloc(&taken, 50 * MIB));
    OK(cuCtxDestroy(other));
    OK(cuCtxSetCurrent(first));
    ck_assert_uint_eq(free_bytes(), DEVICE_BYTES - 150 * MIB);
    OK(cuMemFree(address));
    OK(cuMemAlloc(&taken, 250 * MIB));
}

/* Random sizes never exceed the device, and freed memory can be had again. */
TEST(churn_stays_within_the_device) {
    CUdeviceptr blocks[40] = {0};
    unsigned long draw = 1;
    fixture_use_device(0);
    for (int i = 0; i < 3000; i++) {
        draw = draw * 6364136223846793005u + 1442695040888963407u;
        CUdeviceptr *block = &blocks[(draw >> 33) % 40];
        if (*block) {
            OK(cuMemFree(*block));
            *block = 0;
        } else if (cuMemAlloc(block, 1 + (draw >> 40) % (16 * MIB)) != CUDA_SUCCESS) {
            *block = 0;
        }
        ck_assert_uint_le(sim_live_bytes(), DEVICE_BYTES);
    }
    for (int i = 0; i < 40; i++) {
        if (blocks[i])
            OK(cuMemFree(blocks[i]));
    }
    ck_assert_uint_eq(free_bytes(), DEVICE_BYTES);
    OK(cuMemAlloc(blocks, DEVICE_BYTES));
}

int main(void) {
    return fixture_run("limit");
}
