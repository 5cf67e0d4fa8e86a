/*
 * Mapped memory as frameworks ask for it: the same calls in their orders, by JAX (its platform
 * allocator), PyTorch (expandable segments), vLLM (sleep), llama.cpp (its pool) and NCCL.  The
 * driver serves it, so that contents and answers are the driver's own; what is counted as live is
 * what the software device has given out, after each call.
 */
#include <stdlib.h>
#include <unistd.h>

#include "tests/preload/memory/mapped_calls.h"

enum { N_PAGES = 16 };

static size_t other_bytes; /* that the device had given out before anything was asked for here */

/* By the driver's own word; the call that is to fail may be this one. */
static size_t given_bytes(void) {
    size_t free_bytes, total_bytes;
    __typeof__(&cuMemGetInfo) ask;
    *(void **)&ask = fixture_entry_of_driver("cuMemGetInfo_v2");
    if (ask(&free_bytes, &total_bytes) != CUDA_SUCCESS)
        OK(ask(&free_bytes, &total_bytes));
    return total_bytes - free_bytes - other_bytes;
}

/* Memory that is idle is given out, too. */
static void check_account(size_t n_bytes) {
    if (!fixture_is_preloaded()) {
        ck_assert_uint_eq(given_bytes(), n_bytes);
        return;
    }
    struct cushim_preload_stats stats = counted(CUSHIM_PRELOAD_MAPPED);
    ck_assert_uint_eq(stats.live_bytes, n_bytes);
    ck_assert_uint_eq(stats.held_bytes, given_bytes());
    ck_assert_uint_eq(stats.held_bytes, stats.live_bytes + stats.idle_bytes);
    ck_assert_uint_ge(stats.peak_live_bytes, n_bytes);
}

static void begin(void) {
    fixture_use_device(0);
    other_bytes = given_bytes();
}

/* ---- calls, each of which may be refused ---- */

static CUdeviceptr reserve(size_t n_bytes) {
    CUdeviceptr address;
    OK(cuMemAddressReserve(&address, n_bytes, 0, 0, 0));
    return address;
}

static CUmemGenericAllocationHandle create(size_t n_bytes) {
    CUmemGenericAllocationHandle handle;
    OK(cuMemCreate(&handle, n_bytes, &on_device, 0));
    return handle;
}

static void map(CUdeviceptr address, size_t n_bytes, CUmemGenericAllocationHandle handle) {
    OK(cuMemMap(address, n_bytes, 0, handle, 0));
    OK(cuMemSetAccess(address, n_bytes, &for_all, 1));
}

static void use(CUdeviceptr address, size_t n_bytes) {
    fixture_fill(address, 0x5a, n_bytes);
    ck_assert(fixture_is_filled(address, 0x5a, n_bytes));
}

/* ---- the orders of frameworks ---- */

TEST(jax_reserves_creates_maps_and_gives_all_back) {
    const int n = getenv("TEST_FEWER_BLOCKS") ? 10 : 50;
    begin();
    for (int i = 0; i < n; i++) {
        size_t n_bytes = PAGE * (size_t)(1 + i % 5);
        CUdeviceptr address = reserve(n_bytes);
        CUmemGenericAllocationHandle handle = create(n_bytes);
        check_account(n_bytes);
        map(address, n_bytes, handle);
        use(address, n_bytes);
        OK(cuMemUnmap(address, n_bytes));
        check_account(n_bytes);
        OK(cuMemRelease(handle));
        check_account(0);
        OK(cuMemAddressFree(address, n_bytes));
    }
    if (fixture_is_preloaded()) {
        ck_assert_uint_eq(counted(CUSHIM_PRELOAD_MAPPED).n_requests, n);
        ck_assert_uint_eq(counted(CUSHIM_PRELOAD_MAPPED).n_frees, n);
        ck_assert_uint_eq(counted(CUSHIM_PRELOAD_MAPPED).peak_live_bytes, 5 * PAGE);
    }
}

TEST(pytorch_grows_a_segment_page_by_page_and_unmaps_pieces) {
    begin();
    CUdeviceptr address = reserve(N_PAGES * PAGE);
    for (size_t i = 0; i < N_PAGES; i++) {
        CUmemGenericAllocationHandle handle = create(PAGE);
        map(address + i * PAGE, PAGE, handle);
        OK(cuMemRelease(handle));
        check_account((i + 1) * PAGE);
    }
    use(address, N_PAGES * PAGE);
    OK(cuMemUnmap(address + 4 * PAGE, 3 * PAGE));
    check_account((N_PAGES - 3) * PAGE);
    ck_assert(fixture_is_filled(address, 0x5a, 4 * PAGE));
    ck_assert(fixture_is_filled(address + 7 * PAGE, 0x5a, (N_PAGES - 7) * PAGE));
    for (size_t i = 4; i < 7; i++) { /* the hole is filled again, from its end */
        CUmemGenericAllocationHandle handle = create(PAGE);
        map(address + (10 - i) * PAGE, PAGE, handle);
        OK(cuMemRelease(handle));
    }
    use(address, N_PAGES * PAGE);
    OK(cuMemUnmap(address, N_PAGES * PAGE));
    check_account(0);
    OK(cuMemAddressFree(address, N_PAGES * PAGE));
}

TEST(vllm_sleeps_and_wakes_at_the_same_address) {
    begin();
    CUdeviceptr address = reserve(4 * PAGE);
    CUmemGenericAllocationHandle handle = create(4 * PAGE);
    map(address, 4 * PAGE, handle);
    for (int i = 0; i < 3; i++) {
        use(address, 4 * PAGE);
        OK(cuMemUnmap(address, 4 * PAGE));
        OK(cuMemRelease(handle));
        check_account(0);
        handle = create(4 * PAGE);
        map(address, 4 * PAGE, handle);
        check_account(4 * PAGE);
    }
    use(address, 4 * PAGE);
    OK(cuMemUnmap(address, 4 * PAGE));
    OK(cuMemRelease(handle));
    check_account(0);
}

TEST(llama_releases_each_handle_once_it_is_mapped) {
    begin();
    CUdeviceptr address = reserve(N_PAGES * PAGE);
    size_t n_bytes = 0;
    for (size_t i = 1; i < 5; i++) { /* of several sizes */
        CUmemGenericAllocationHandle handle = create(i * PAGE);
        OK(cuMemMap(address + n_bytes, i * PAGE, 0, handle, 0));
        OK(cuMemRelease(handle));
        OK(cuMemSetAccess(address + n_bytes, i * PAGE, &for_all, 1));
        n_bytes += i * PAGE;
        check_account(n_bytes);
    }
    use(address, n_bytes);
    OK(cuMemUnmap(address, n_bytes));
    check_account(0);
}

TEST(nccl_looks_at_a_handle_and_passes_it_on) {
    int shared;
    CUmemGenericAllocationHandle again, imported;
    begin();
    CUdeviceptr address = reserve(2 * PAGE);
    CUmemGenericAllocationHandle handle = create(PAGE);
    map(address, PAGE, handle);
    OK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(address + PAGE / 2)));
    OK(cuMemRelease(again));
    check_account(PAGE);
    OK(cuMemExportToShareableHandle(&shared, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    OK(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)shared,
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    map(address + PAGE, PAGE, imported);
    use(address, PAGE);
    ck_assert(fixture_is_filled(address + PAGE, 0x5a, PAGE)); /* the same memory */
    check_account(PAGE);
    OK(cuMemUnmap(address + PAGE, PAGE));
    OK(cuMemRelease(imported));
    OK(cuMemRelease(handle)); /* that of the program, while a retained one is to come */
    OK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)address));
    OK(cuMemUnmap(address, PAGE));
    check_account(PAGE);
    OK(cuMemRelease(again));
    check_account(0);
    close(shared);
}

TEST(one_handle_is_mapped_twice) {
    begin();
    CUdeviceptr address = reserve(2 * PAGE);
    CUmemGenericAllocationHandle handle = create(PAGE);
    map(address, PAGE, handle);
    map(address + PAGE, PAGE, handle);
    OK(cuMemRelease(handle));
    use(address, PAGE);
    ck_assert(fixture_is_filled(address + PAGE, 0x5a, PAGE));
    OK(cuMemUnmap(address, PAGE));
    check_account(PAGE);
    OK(cuMemUnmap(address + PAGE, PAGE));
    check_account(0);
}

TEST(what_is_not_mapped_is_passed_over) {
    begin();
    CUdeviceptr address = reserve(8 * PAGE);
    CUmemGenericAllocationHandle handle = create(2 * PAGE);
    for (size_t i = 0; i < 3; i++)
        map(address + i * 3 * PAGE, 2 * PAGE, handle);
    OK(cuMemRelease(handle));
    ANSWERS(cuMemUnmap(address, 4 * PAGE), CUDA_ERROR_INVALID_VALUE); /* half of the second */
    OK(cuMemUnmap(address, 6 * PAGE));
    check_account(2 * PAGE);
    OK(cuMemUnmap(address, 6 * PAGE)); /* which has none */
    OK(cuMemUnmap(address, 8 * PAGE));
    check_account(0);
    OK(cuMemAddressFree(address, 8 * PAGE));
}

/* ---- what is refused ---- */

TEST(what_the_driver_refuses_changes_nothing) {
    begin();
    CUdeviceptr address = reserve(4 * PAGE);
    CUmemGenericAllocationHandle handle = create(2 * PAGE);
    map(address, 2 * PAGE, handle);
    ANSWERS(cuMemUnmap(address, PAGE), CUDA_ERROR_INVALID_VALUE); /* a part of it */
    ANSWERS(cuMemMap(address, 2 * PAGE, 0, handle, 0), CUDA_ERROR_ALREADY_MAPPED);
    ANSWERS(cuMemRelease(handle + 1), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_ne(cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)(address + 3 * PAGE)),
                     CUDA_SUCCESS);
    check_account(2 * PAGE);
    OK(cuMemUnmap(address, 2 * PAGE));
    OK(cuMemRelease(handle));
    ANSWERS(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
    check_account(0);
}

/* A program that goes on after a refusal; false: some call was refused. */
static bool go_through(CUdeviceptr address) {
    CUmemGenericAllocationHandle handle, again;
    bool is_well = false;
    if (cuMemCreate(&handle, PAGE, &on_device, 0) != CUDA_SUCCESS)
        return false;
    if (cuMemMap(address, PAGE, 0, handle, 0) == CUDA_SUCCESS) {
        is_well = cuMemSetAccess(address, PAGE, &for_all, 1) == CUDA_SUCCESS;
        if (cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)address) != CUDA_SUCCESS)
            is_well = false;
        else if (cuMemRelease(again) != CUDA_SUCCESS)
            is_well = cuMemRelease(again) != CUDA_SUCCESS;
        check_account(PAGE);
        if (cuMemUnmap(address, PAGE) != CUDA_SUCCESS) {
            is_well = false;
            OK(cuMemUnmap(address, PAGE));
        }
    }
    check_account(PAGE);
    if (cuMemRelease(handle) != CUDA_SUCCESS) {
        is_well = false;
        OK(cuMemRelease(handle));
    }
    return is_well;
}

TEST(each_call_fails_once) {
    begin();
    CUdeviceptr address = reserve(PAGE);
    unsigned n_refused = 0;
    ck_assert(go_through(address)); /* what is asked at the first time only was asked */
    for (unsigned call = 1;; call++) {
        sim_calls_reset();
        sim_fail_at(call, CUDA_ERROR_UNKNOWN);
        n_refused += !go_through(address);
        bool has_failed = sim_has_failed();
        sim_fail_at(0, CUDA_SUCCESS);
        check_account(0);
        if (!has_failed)
            break;
    }
    ck_assert_uint_eq(n_refused, fixture_pools_mapped_memory() ? 2 : 7);
    ck_assert(go_through(address));
}

TEST(a_create_that_found_no_memory_is_counted_as_refused) {
    CUmemGenericAllocationHandle handle;
    begin();
    ANSWERS(cuMemCreate(&handle, (size_t)1 << 40, &on_device, 0), CUDA_ERROR_OUT_OF_MEMORY);
    check_account(0);
    if (fixture_is_preloaded())
        ck_assert_uint_eq(counted(CUSHIM_PRELOAD_MAPPED).n_requests, 0);
}

/* ---- many threads ---- */

enum { N_THREADS = 8, N_TURNS = 300, N_SLOTS = 4 };

static CUdeviceptr shared_addresses;

/* Each has its own addresses, and all have one table of handles. */
static void take_turns(struct fixture_thread *thread) {
    struct {
        CUmemGenericAllocationHandle handle;
        bool is_mapped, is_held;
    } slots[N_SLOTS] = {{0}};
    unsigned long draw = (unsigned long)thread->other + 1;
    for (int i = 0; i < N_TURNS; i++) {
        draw = draw * 6364136223846793005u + 1442695040888963407u;
        size_t slot = (draw >> 33) % N_SLOTS;
        CUdeviceptr address = thread->address + slot * PAGE;
        if (!slots[slot].is_mapped && !slots[slot].is_held) {
            slots[slot].handle = create(PAGE);
            slots[slot].is_held = true;
        } else if (slots[slot].is_held && !slots[slot].is_mapped && draw >> 60 & 1) {
            map(address, PAGE, slots[slot].handle);
            slots[slot].is_mapped = true;
        } else if (slots[slot].is_held) {
            OK(cuMemRelease(slots[slot].handle));
            slots[slot].is_held = false;
        } else if (draw >> 61 & 1) {
            OK(cuMemRetainAllocationHandle(&slots[slot].handle, (void *)(uintptr_t)address));
            slots[slot].is_held = true;
        } else {
            OK(cuMemUnmap(address, PAGE));
            slots[slot].is_mapped = false;
        }
    }
    for (size_t slot = 0; slot < N_SLOTS; slot++) {
        if (slots[slot].is_mapped && (slot % 2 || !slots[slot].is_held))
            OK(cuMemUnmap(thread->address + slot * PAGE, PAGE));
        if (slots[slot].is_held && (slot % 2 || !slots[slot].is_mapped))
            OK(cuMemRelease(slots[slot].handle));
    }
}

TEST(threads_in_any_order_leave_what_the_driver_says) {
    struct fixture_thread threads[N_THREADS];
    begin();
    shared_addresses = reserve(N_THREADS * N_SLOTS * (size_t)PAGE);
    for (int i = 0; i < N_THREADS; i++) {
        threads[i] = (struct fixture_thread){.address = shared_addresses + i * N_SLOTS * PAGE,
                                             .other = (CUdeviceptr)i * 977};
        fixture_start(&threads[i], take_turns);
    }
    for (int i = 0; i < N_THREADS; i++)
        fixture_join(&threads[i]);
    check_account(given_bytes());
}

/* ---- arrays ---- */

static const CUDA_ARRAY3D_DESCRIPTOR shapes[] = {
    {.Width = 1 * MIB, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1},
    {.Width = 1024, .Height = 512, .Format = CU_AD_FORMAT_HALF, .NumChannels = 4},
    {.Width = 128,
     .Height = 128,
     .Depth = 64,
     .Format = CU_AD_FORMAT_UNSIGNED_INT8,
     .NumChannels = 4}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

TEST(arrays_are_counted_with_their_elements, .n = N_SHAPES) {
    CUarray array;
    CUmipmappedArray levels;
    begin();
    OK(cuArray3DCreate(&array, &shapes[_i]));
    if (fixture_is_preloaded())
        ck_assert_uint_eq(counted(CUSHIM_PRELOAD_ARRAY).live_bytes, 4 * MIB);
    OK(cuMipmappedArrayCreate(&levels, &shapes[_i], 1));
    if (fixture_is_preloaded())
        ck_assert_uint_eq(counted(CUSHIM_PRELOAD_ARRAY).live_bytes, 8 * MIB);
    OK(cuArrayDestroy(array));
    ck_assert_int_ne(cuArrayDestroy(array), CUDA_SUCCESS);
    OK(cuMipmappedArrayDestroy(levels));
    ck_assert_uint_eq(given_bytes(), 0);
    if (fixture_is_preloaded()) {
        ck_assert_uint_eq(counted(CUSHIM_PRELOAD_ARRAY).live_bytes, 0);
        ck_assert_uint_eq(counted(CUSHIM_PRELOAD_ARRAY).held_bytes, 0);
        ck_assert_uint_eq(counted(CUSHIM_PRELOAD_ARRAY).n_frees, 2);
    }
}

TEST_IF(fixture_is_preloaded(), levels_of_a_mipmap_are_halves) {
    CUmipmappedArray levels;
    const CUDA_ARRAY3D_DESCRIPTOR shape = {
        .Width = 1024, .Height = 1024, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    begin();
    OK(cuMipmappedArrayCreate(&levels, &shape, 3));
    ck_assert_uint_eq(counted(CUSHIM_PRELOAD_ARRAY).live_bytes, (4 * MIB / 16) * (16 + 4 + 1));
    OK(cuMipmappedArrayDestroy(levels));
    ck_assert_uint_eq(counted(CUSHIM_PRELOAD_ARRAY).live_bytes, 0);
}

TEST_IF(fixture_is_preloaded(), an_array_goes_with_its_context) {
    CUcontext other;
    CUarray array;
    begin();
    OK(cuCtxCreate(&other, NULL, 0, 0));
    OK(cuArray3DCreate(&array, &shapes[0]));
    ck_assert_uint_eq(counted(CUSHIM_PRELOAD_ARRAY).live_bytes, 4 * MIB);
    OK(cuCtxDestroy(other));
    ck_assert_uint_eq(counted(CUSHIM_PRELOAD_ARRAY).live_bytes, 0);
}

int main(void) {
    return fixture_run("mapped_memory");
}
