/* What a heap leaves for others: freed memory is available to them, and a request never waits. */
#include "memory/state/watermark.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "memory/reclaim.h"
#include "memory/state/heap_state.h"
#include "memory/alloc.h"
#include "memory/free.h"
#include "tests/unit/memory/heap_fixture.h"
#include "tests/unit/suite.h"

static const size_t mib = 1 << 20;
static const size_t device_bytes = (size_t)1024 << 20;
/* An eighth of the device, and as much as is not worth a wait. */
static const size_t idle_bytes = (size_t)(128 + 32) << 20;

static struct fixture *fixture;
static uint64_t addresses[1300];

static struct cushim_mem_heap *heap(void) {
    return &fixture->heaps[0];
}

static void setup_on(size_t n_bytes, bool is_relaxed) {
    fixture = fixture_create(NULL);
    fixture->policy.is_relaxed = is_relaxed;
    fake_limit(n_bytes);
    /* the first free waits for effects from before the fence */
    fixture_give(fixture, fixture_take(fixture, 512));
}

static void setup(bool is_relaxed) {
    setup_on(device_bytes, is_relaxed);
}

/* Take and give n_bytes in blocks; each free follows work. */
static void use_and_free(size_t n_bytes, size_t block_bytes) {
    unsigned n = 0;
    for (; (n + 1) * block_bytes <= n_bytes; n++)
        addresses[n] = fixture_take(fixture, block_bytes);
    while (n) {
        fake_submit(0);
        fixture_give(fixture, addresses[--n]);
    }
}

/* A request beside work that never ends: the driver's free memory serves it. */
static void take_beside_a_kernel(size_t n_bytes) {
    fake_finish(0);
    fake_submit(0);
    fake_forget_order();
    fixture_take(fixture, n_bytes);
    ck_assert_ptr_null(strstr(fake_order(), "cuMemFree_v2"));
}

static const size_t block_kib[] = {512, 3072, 8192, 20480, 40960, 614400};

TEST(freed_memory_is_back_in_the_driver_when_the_free_returns) {
    for (unsigned i = 0; i < sizeof block_kib / sizeof *block_kib; i++) {
        for (int way = 0; way < 4; way++) {
            setup(way & 1);
            if (way & 2)
                atomic_store(&fixture->policy.dedicated_bytes, 2 * mib);
            use_and_free(device_bytes / 10 * 6, block_kib[i] * 1024);
            ck_assert_msg(heap()->held_bytes <= idle_bytes, "%zu KiB, way %d: %zu held",
                          block_kib[i], way, (size_t)heap()->held_bytes);
            take_beside_a_kernel(device_bytes / 10 * 7);
            fixture_check(fixture);
            fixture_destroy(fixture);
        }
    }
}

/* The number of blocks since a free last gave memory back does not matter. */
TEST(the_memory_that_stays_after_the_last_free_does_not_depend_on_earlier_frees) {
    const size_t large_bytes = 128 * 1024 * mib, block_bytes = 1024 * mib;
    for (size_t n_blocks = 72; n_blocks < 80; n_blocks++) {
        setup_on(large_bytes, true);
        use_and_free(n_blocks * block_bytes, block_bytes);
        ck_assert_msg(heap()->held_bytes <= large_bytes / 8 + large_bytes / 64,
                      "%zu blocks: %zu held", n_blocks, (size_t)heap()->held_bytes);
        fixture_check(fixture);
        fixture_destroy(fixture);
    }
}

TEST(other_live_blocks_do_not_keep_freed_memory) {
    for (int is_relaxed = 0; is_relaxed < 2; is_relaxed++) {
        setup(is_relaxed);
        fixture_take(fixture, 8 * mib);
        use_and_free(device_bytes / 10 * 6, 20 * mib);
        ck_assert_uint_le(fake_used_bytes(), 8 * mib + idle_bytes);
        fixture_take(fixture, 200 * mib);
        use_and_free(device_bytes / 10 * 6, 20 * mib);
        size_t held_bytes = heap()->held_bytes - 208 * mib;
        ck_assert_uint_le(held_bytes, (device_bytes - fake_used_bytes()) / 2 + 48 * mib);
        fixture_check(fixture);
        fixture_destroy(fixture);
    }
}

TEST(a_loop_over_an_eighth_of_the_device_waits_in_two_turns_at_most) {
    setup(true);
    for (unsigned turn = 0; turn < 20; turn++) {
        uint64_t n_done = fake_n_done(0);
        unsigned n_frees = fake_n_calls("cuMemFree_v2");
        use_and_free(device_bytes / 8, 8 * mib);
        if (turn >= 2) { /* by now the loop has shown that it needs the memory */
            ck_assert_uint_eq(fake_n_done(0), n_done);
            ck_assert_uint_eq(fake_n_calls("cuMemFree_v2"), n_frees);
        }
        fake_finish(0);
    }
    fixture_check(fixture);
}

/* Seconds pass: no recent use counts, and caches may be inspected again. */
static void let_time_pass(void) {
    usleep(20000); /* a tick of the coarse clock */
    for (int i = 0; i < 3; i++) {
        uint64_t address = fixture_take(fixture, 2 * mib);
        atomic_store(&heap()->recent_since_ns, cushim_clock_coarse_ns() - 3000000000u);
        heap()->drained_ns = 0;
        fixture_give(fixture, address);
    }
}

TEST(a_relaxed_free_over_the_bound_leaves_a_busy_device_alone) {
    enum { N = 7 }; /* too little to be worth a wait */
    setup(true);
    /* a tick of the clock between two frees has the heap keep less in that turn */
    for (unsigned turn = 0; turn < 3 || (heap()->held_bytes <= 50 * mib && turn < 100); turn++) {
        for (unsigned i = 0; i < N; i++)
            addresses[i] = fixture_take(fixture, 8 * mib);
        /* the device is idle, so the frees complete at once */
        for (unsigned i = 0; i < N; i++)
            fixture_give(fixture, addresses[i]);
    }
    unsigned n_frees = fake_n_calls("cuMemFree_v2");
    fake_submit(0);
    let_time_pass();
    ck_assert_uint_gt(heap()->held_bytes, 50 * mib);
    ck_assert_uint_eq(fake_n_calls("cuMemFree_v2"), n_frees);
    fake_finish(0);
    let_time_pass();
    ck_assert_uint_gt(fake_n_calls("cuMemFree_v2"), n_frees);
    fixture_check(fixture);
}

/* One block in three stays live, so that no segment can go. */
TEST(a_free_does_not_wait_for_pinned_memory) {
    enum { N = 240 };
    setup(true);
    for (unsigned i = 0; i < N; i++)
        addresses[i] = fixture_take(fixture, 3 * mib);
    for (unsigned i = 0; i < N; i++) {
        fake_submit(0);
        if (i % 3)
            fixture_give(fixture, addresses[i]);
    }
    /* 480 MiB in steps of 32, and the first of them */
    ck_assert_uint_le(fake_n_calls("cuEventSynchronize"), 480 / 32 + 1);
    fixture_check(fixture);
}

TEST(if_the_program_decides_what_goes_back_frees_wait_for_nothing) {
    setup(true);
    fixture->policy.least_idle_bytes = SIZE_MAX / 2;
    use_and_free(device_bytes / 10 * 3, 20 * mib);
    ck_assert_uint_eq(fake_n_calls("cuEventSynchronize"), 0);
    ck_assert_uint_ge(heap()->held_bytes, device_bytes / 4);
    fixture_check(fixture);
}

TEST(heaps_of_a_device_share_the_free_memory) {
    for (int is_relaxed = 0; is_relaxed < 2; is_relaxed++) {
        struct cushim_mem_block block;
        struct cushim_mem_lookup lookup;
        CUresult answer;
        setup(is_relaxed);
        fixture->policy.reserve = (struct cushim_amount){100, true};
        fixture_open(fixture, 1);
        fake_set_current(fake_context(1));
        ck_assert_int_eq(cushim_mem_alloc(&fixture->heaps[1], 120 * mib, &block), CUSHIM_OK);
        ck_assert(cushim_mem_blocks_find(&fixture->blocks, block.address, &lookup));
        ck_assert_int_eq(cushim_mem_free(&fixture->heaps[1], &lookup, &answer), CUSHIM_OK);
        fake_set_current(fake_context(0));
        use_and_free(device_bytes / 10 * 6, 20 * mib);
        ck_assert_uint_ge(fixture->heaps[1].held_bytes, 120 * mib);
        ck_assert_uint_le(fake_used_bytes(), idle_bytes + 64 * mib);
        fixture_check(fixture);
        fixture_destroy(fixture);
    }
}

TEST(managed_memory_counts_and_a_limit_is_a_smaller_device) {
    static struct cushim_mem_limit budget;
    fixture = fixture_create(NULL);
    fake_limit(device_bytes);
    heap()->kind = CUSHIM_MEM_MANAGED; /* managed memory may be on the device */
    use_and_free(device_bytes / 10 * 6, 20 * mib);
    ck_assert_uint_le(fake_used_bytes(), idle_bytes);
    fixture_destroy(fixture);
    fixture = fixture_create(NULL);
    fixture->policy.budgets = &budget;
    fixture->policy.reserve = (struct cushim_amount){100, true};
    fake_limit(8 * device_bytes);
    atomic_store(&budget.limit_bytes, device_bytes);
    use_and_free(device_bytes / 10 * 6, 20 * mib);
    ck_assert_uint_le(fake_used_bytes(), idle_bytes);
    take_beside_a_kernel(device_bytes / 10 * 7);
    fixture_check(fixture);
}

static unsigned n_freed;

/* Another thread submits work once the first segment is back in the driver. */
static void submit_after_a_release(const char *name) {
    if (strcmp(name, "cuMemFree_v2") == 0)
        n_freed++;
    else if (n_freed == 1)
        fake_submit(0);
}

TEST(a_request_asks_before_each_segment_that_it_gives_back) {
    for (int is_out = 0; is_out < 2; is_out++) {
        enum cushim_status status;
        setup(false);
        fixture->policy.reserve = (struct cushim_amount){100, true};
        use_and_free(120 * mib, 30 * mib);
        fake_finish(0);
        size_t held_bytes = heap()->held_bytes;
        ck_assert_uint_ge(held_bytes, 120 * mib);
        n_freed = 0;
        fake_on_call(submit_after_a_release);
        uint64_t address = fixture_obtain(fixture, (is_out ? 1000 : 100) * mib, &status);
        fake_on_call(NULL);
        ck_assert_uint_eq(n_freed, 1);
        ck_assert_int_eq(address == 0, is_out);
        fixture_check(fixture);
        fixture_destroy(fixture);
    }
}

TEST(after_the_deadline_a_heap_is_asked_and_not_waited_for) {
    setup(false);
    fixture->policy.reserve = (struct cushim_amount){100, true};
    use_and_free(100 * mib, 20 * mib);
    fake_finish(0);
    fake_submit(0);
    unsigned n_looks = fake_n_calls("cuEventQuery");
    ck_assert_uint_eq(cushim_mem_reclaim_empty(heap(), 1), 0);
    ck_assert_uint_le(fake_n_calls("cuEventQuery") - n_looks, 10);
    fake_finish(0);
    ck_assert_uint_ge(cushim_mem_reclaim_empty(heap(), 1), 100 * mib);
    fixture_check(fixture);
    fixture_destroy(fixture);
    setup(true);            /* pending blocks are polled as well */
    use_and_free(mib, mib); /* so few bytes get no fence */
    fake_finish(0);
    ck_assert_uint_ge(cushim_mem_reclaim_empty(heap(), 1), 2 * mib);
    ck_assert_uint_eq(fake_used_bytes(), 0);
    fixture_check(fixture);
}

/* During a capture no request gives memory back, so a free has to leave room. */
TEST(while_a_capture_is_open_no_memory_is_kept_for_a_loop) {
    const size_t block_bytes = 20 * mib;
    enum { N = 16 };
    size_t held_bytes[2];
    for (int is_open = 0; is_open < 2; is_open++) {
        setup_on(16 * device_bytes, false);
        for (unsigned turn = 0; turn < 3; turn++) {
            for (unsigned i = 0; i < N; i++)
                addresses[i] = fixture_take(fixture, block_bytes);
            if (is_open && turn == 2)
                atomic_store(&fixture_pass, CUSHIM_MEM_PASS_RELAXED);
            for (unsigned i = 0; i < N; i++)
                fixture_give(fixture, addresses[i]);
        }
        held_bytes[is_open] = heap()->held_bytes;
        atomic_store(&fixture_pass, CUSHIM_MEM_PASS_RECORD);
        fixture_check(fixture);
        fixture_destroy(fixture);
    }
    ck_assert_uint_ge(held_bytes[false], N * block_bytes);
    ck_assert_uint_le(held_bytes[true], CUSHIM_MEM_HEAP_SLACK_BYTES);
}

SUITE() {
    return tests_run("watermark");
}
