/* Mapped memory that is idle: it is free memory, makes room, and is no more than may be idle. */
#include "tests/preload/memory/mapped_fixture.h"

TEST(idle_memory_is_free_memory) {
    fixture_use_device(0);
    size_t before_bytes = free_bytes();
    parked(8 * PAGE);
    ck_assert_uint_eq(free_bytes(), before_bytes);
    if (!fixture_pools_mapped_memory())
        return;
    ck_assert_uint_eq(counted(CUSHIM_PRELOAD_MAPPED).idle_bytes, 8 * PAGE);
    ck_assert_uint_eq(counted(CUSHIM_PRELOAD_MAPPED).held_bytes, 8 * PAGE);
    size_t (*trim)(void);
    *(void **)&trim = dlsym(RTLD_DEFAULT, "cushim_preload_trim");
    ck_assert_uint_eq(trim(), 8 * PAGE);
    ck_assert_uint_eq(counted(CUSHIM_PRELOAD_MAPPED).held_bytes, 0);
}

/* A device of 1 GiB, or a limit of half of that. */
TEST(idle_memory_makes_room_for_any_request, .n = 3) {
    struct whole wholes[64];
    fixture_use_device(0);
    size_t most_bytes = free_bytes() / 8 / PAGE * PAGE;
    for (int turn = 0; turn < 6; turn++) { /* it has earned to stay */
        for (int i = 0; i < 6; i++)
            wholes[i] = take(most_bytes);
        for (int i = 0; i < 6; i++)
            give(&wholes[i]);
    }
    CUdeviceptr address;
    CUmemGenericAllocationHandle handle;
    size_t wanted_bytes = free_bytes() / PAGE * PAGE - PAGE;
    if (_i == 0)
        OK(cuMemAlloc(&address, wanted_bytes));
    else if (_i == 1)
        OK(cuMemCreate(&handle, wanted_bytes, &on_device, 0));
    else
        OK(cuMemAllocAsync(&address, wanted_bytes / 2, NULL));
    if (fixture_is_preloaded() && getenv("CUSHIM_LIMIT")) /* idle memory is charged */
        ck_assert_uint_le(sim_used_bytes(0), (size_t)513 * MIB);
}

TEST(what_sleeps_goes_back_beyond_what_may_be_idle) {
    fixture_use_device(0);
    size_t before_bytes = sim_used_bytes(0);
    struct whole whole = take(64 * PAGE);
    unmap(&whole);
    release(&whole);
    ck_assert_uint_eq(sim_used_bytes(0), before_bytes); /* 128 MiB are more than may stay */
    ask_handle(&whole);
    map(&whole);
    use(&whole, 0x12);
    give(&whole);
}

TEST(idle_memory_goes_before_its_context) {
    CUcontext context = fixture_use_device(0);
    size_t before_bytes = sim_used_bytes(0);
    struct whole whole = take(PAGE);
    give(&whole);
    OK(cuDevicePrimaryCtxReset(0));
    ck_assert_uint_le(sim_used_bytes(0), before_bytes);
    (void)context;
}

/* Live blocks of random sizes, each step the same ones, that are given back in random order. */
static void live_through_a_step(void) {
    enum { N = 120, MOST_LIVE = 12 };
    struct whole live[MOST_LIVE];
    unsigned long state = 2;
    unsigned n = 0;
    for (unsigned i = 0; i < N; i++) {
        while (n == MOST_LIVE || (n && draw(&state, 3) == 0)) {
            unsigned k = draw(&state, n);
            give(&live[k]);
            live[k] = live[--n];
        }
        live[n++] = take(PAGE * (1 + (size_t)draw(&state, 12)));
    }
    while (n)
        give(&live[--n]);
}

TEST_IF(fixture_pools_mapped_memory(), no_request_makes_more_held_than_may_be) {
    fixture_use_device(0);
    for (int step = 0; step < 5; step++)
        live_through_a_step();
    struct cushim_preload_stats stats = counted(CUSHIM_PRELOAD_MAPPED);
    uint64_t live_bytes = stats.peak_live_bytes, margin_bytes = live_bytes / 16 + 32 * MIB;
    ck_assert_uint_gt(stats.n_no_call, stats.n_requests / 2);
    if (margin_bytes < live_bytes / 16 * 5)
        margin_bytes = live_bytes / 16 * 5;
    ck_assert_uint_le(stats.peak_held_bytes, live_bytes + margin_bytes);
}

TEST_IF(fixture_pools_mapped_memory() && !getenv("CUSHIM_LIMIT"),
        idle_memory_of_both_kinds_shares_what_is_free) {
    const size_t n_bytes = 300 * MIB, slack_bytes = 32 * MIB;
    size_t left_bytes, total_bytes;
    __typeof__(&cuMemGetInfo) ask;
    fixture_use_device(0);
    fixture_alloc(slack_bytes + 8 * MIB);
    take(slack_bytes + 8 * MIB);
    for (int i = 0; i < 4; i++) {
        OK(cuMemFree(fixture_alloc(n_bytes)));
        struct whole whole = take(200 * (size_t)MIB);
        give(&whole);
    }
    *(void **)&ask = fixture_entry_of_driver("cuMemGetInfo_v2");
    OK(ask(&left_bytes, &total_bytes));
    size_t idle_bytes = free_bytes() - left_bytes;
    ck_assert_uint_gt(idle_bytes, slack_bytes);
    ck_assert_uint_le(idle_bytes, left_bytes / 2 + 2 * slack_bytes);
}

int main(void) {
    return fixture_run("mapped_idle");
}
