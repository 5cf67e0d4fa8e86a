/* Providers of pinned and managed memory, and heaps on them. */
#include "memory/provider/provider.h"

#include <string.h>

#include "cuda/table.h"
#include "memory/policy.h"
#include "memory/state/heap_state.h"
#include "memory/alloc.h"
#include "memory/heap.h"
#include "tests/unit/memory/heap_fixture.h"
#include "tests/unit/suite.h"

enum { MIB = 1 << 20 };

static struct fixture *fixture;
static struct cushim_mem_policy policy;
static struct cushim_mem_stats stats;
static unsigned n_asked, flags_asked;
static size_t bytes_asked;
static size_t skew_bytes; /* added to every address that the driver returns */

static CUresult host_alloc(void **address, size_t n_bytes, unsigned flags) {
    CUdeviceptr block = 0;
    CUresult answer = fixture->cuda->cuMemAlloc_v2(&block, n_bytes);
    *address = (void *)(uintptr_t)(block + skew_bytes);
    n_asked++;
    flags_asked = flags;
    bytes_asked = n_bytes;
    return answer;
}

static CUresult free_host(void *address) {
    return fixture->cuda->cuMemFree_v2((CUdeviceptr)(uintptr_t)address - skew_bytes);
}

static CUresult alloc_managed(CUdeviceptr *address, size_t n_bytes, unsigned flags) {
    void *block = NULL;
    CUresult answer = host_alloc(&block, n_bytes, flags);
    *address = (CUdeviceptr)(uintptr_t)block;
    return answer;
}

/* Heap 0 has device memory; heap 1 has the other kind, in the same context and with the same
 * fence. */
static struct cushim_mem_heap *set_up(enum cushim_mem_kind kind, unsigned flags) {
    fixture = fixture_create(NULL);
    fixture->cuda->cuMemHostAlloc = host_alloc;
    fixture->cuda->cuMemFreeHost = free_host;
    fixture->cuda->cuMemAllocManaged = alloc_managed;
    atomic_store(&policy.dedicated_bytes, kind == CUSHIM_MEM_MANAGED ? 1 : 64 * MIB);
    policy.is_sparing = kind == CUSHIM_MEM_PINNED;
    policy.least_idle_bytes = 0;
    cushim_mem_heap_open(&fixture->heaps[1],
                         &(struct cushim_mem_heap_setup){
                             .cuda = fixture->cuda,
                             .context = fake_context(0),
                             .blocks = &fixture->blocks,
                             .policy = &policy,
                             .stats = &stats,
                             .kind = kind,
                             .flags = flags,
                             .provider = kind == CUSHIM_MEM_PINNED ? &cushim_mem_provider_pinned
                                                                   : &cushim_mem_provider_managed,
                             .fence = fixture->heaps[0].fence});
    return &fixture->heaps[1];
}

static enum cushim_status try_take(size_t n_bytes, uint64_t *address) {
    struct cushim_mem_block block = {0};
    enum cushim_status status = cushim_mem_alloc(&fixture->heaps[1], n_bytes, &block);
    *address = block.address;
    return status;
}

static uint64_t take(size_t n_bytes) {
    uint64_t address;
    ck_assert_int_eq(try_take(n_bytes, &address), CUSHIM_OK);
    return address;
}

static struct cushim_mem_lookup find(uint64_t address) {
    struct cushim_mem_lookup lookup;
    ck_assert(cushim_mem_blocks_find(&fixture->blocks, address, &lookup));
    return lookup;
}

TEST(pinned_segments_are_allocated_with_the_flags_of_the_heap) {
    set_up(CUSHIM_MEM_PINNED, 5);
    uint64_t address = take(1000);
    ck_assert_uint_eq(flags_asked, 5);
    /* smaller segments share pages with other allocations */
    ck_assert_uint_eq(bytes_asked, 2 * MIB);
    ck_assert_int_eq(find(address).segment->heap->kind, CUSHIM_MEM_PINNED);
    for (int i = 0; i < 100; i++)
        take(1000);
    ck_assert_uint_eq(n_asked, 1);
}

TEST(host_memory_is_fetched_little_ahead_and_held_sparingly) {
    uint64_t addresses[100];
    struct cushim_mem_heap *heap = set_up(CUSHIM_MEM_PINNED, 0);
    for (unsigned i = 0; i < 100; i++) {
        addresses[i] = take(3 * MIB);
        ck_assert_uint_le(heap->held_bytes, (i + 1) * 4 * MIB);
    }
    for (unsigned i = 0; i < 100; i++)
        fixture_give(fixture, addresses[i]);
    heap->recent_since_ns = 1; /* the peak is long ago */
    fixture_give(fixture, take(512));
    heap->recent_since_ns = 1;
    fixture_give(fixture, take(512));
    ck_assert_uint_le(heap->held_bytes, 64 * MIB);
}

TEST(an_address_beyond_the_map_is_given_back_and_the_request_not_repeated) {
    uint64_t address;
    set_up(CUSHIM_MEM_PINNED, 0);
    skew_bytes = 4096;
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(try_take(1000, &address), CUSHIM_NOTSUPPORTED);
    ck_assert_uint_eq(n_asked, 1);
    ck_assert_uint_eq(fake_n_allocations(), 0);
    fixture_check(fixture);
}

TEST(each_managed_block_is_its_own_driver_allocation) {
    set_up(CUSHIM_MEM_MANAGED, CU_MEM_ATTACH_HOST);
    uint64_t small = take(100), large = take(5 * MIB);
    ck_assert_uint_eq(n_asked, 2);
    ck_assert_uint_eq(flags_asked, CU_MEM_ATTACH_HOST);
    ck_assert_uint_eq(find(small).segment->base, small);
    ck_assert_uint_eq(find(small).asked_bytes, 100);
    ck_assert_uint_eq(fixture_judge(fixture, small, 101), CUSHIM_MEM_OVERRUN);
    fixture_give(fixture, small);
    ck_assert_uint_eq(take(60000), small); /* any idle block whose page fits */
    fixture_give(fixture, large);
    ck_assert_uint_ne(take(MIB), large); /* but none that would be mostly wasted */
    ck_assert_uint_eq(take(5 * MIB), large);
}

TEST(a_small_managed_block_shares_its_pages_with_none) {
    set_up(CUSHIM_MEM_MANAGED, CU_MEM_ATTACH_GLOBAL);
    take(100);
    ck_assert_uint_gt(bytes_asked, MIB); /* up to this size the driver shares pages */
}

TEST(a_hinted_block_goes_back_to_the_driver) {
    struct cushim_mem_heap *heap = set_up(CUSHIM_MEM_MANAGED, CU_MEM_ATTACH_GLOBAL);
    uint64_t hinted = take(100), other = take(100);
    cushim_mem_heap_retire_segment(heap, find(hinted).segment);
    fixture_give(fixture, hinted);
    ck_assert_uint_eq(fake_n_allocations(), 1);
    ck_assert(!fake_is_allocated(hinted));
    fixture_give(fixture, other);
    ck_assert_uint_eq(fake_n_allocations(), 1);
    ck_assert_uint_eq(take(100), other);
    ck_assert_uint_eq(heap->held_bytes, find(other).segment->n_bytes);
}

TEST(thousands_of_small_managed_blocks_go_to_the_driver) {
    uint64_t address;
    unsigned n = 0;
    set_up(CUSHIM_MEM_MANAGED, CU_MEM_ATTACH_GLOBAL);
    while (n < 10000 && try_take(100, &address) == CUSHIM_OK)
        n++;
    ck_assert_uint_eq(n, 4096);
    ck_assert_int_eq(try_take(100, &address), CUSHIM_NOTSUPPORTED);
    take(5 * MIB);
}

TEST(a_free_waits_for_the_context_of_the_heap) {
    set_up(CUSHIM_MEM_PINNED, 0);
    uint64_t address = take(1000);
    fake_set_current(fake_context(1));
    fake_submit(0); /* work in context 0 */
    fake_submit(1); /* work in context 1 */
    fake_forget_order();
    fixture_give(fixture, address);
    ck_assert_uint_eq(fake_n_calls("cuCtxRecordEvent"), 1);
    ck_assert_ptr_nonnull(strstr(fake_order(), "cuCtxRecordEvent(0)"));
    ck_assert_ptr_nonnull(strstr(fake_order(), "cuEventSynchronize(0)"));
}

TEST(running_out_of_memory_leaves_the_heap_unchanged) {
    uint64_t address;
    set_up(CUSHIM_MEM_PINNED, 0);
    fake_limit(2 * MIB);
    uint64_t held = take(1000);
    ck_assert_int_eq(try_take(5 * MIB, &address), CUSHIM_NOMEM);
    fixture_give(fixture, held);
    fake_limit(8 * MIB);
    take(5 * MIB);
    ck_assert_uint_eq(fake_n_faults(), 0);
}

/* A heap that packs is full of blocks of 2 MiB, and every eighth stays. These must pin no memory
 * that a larger block needs, because the driver has no more. */
TEST(when_memory_is_out_small_blocks_pin_no_memory_that_a_larger_one_needs) {
    enum { MOST = 64, STEP = 8 };
    uint64_t addresses[MOST], large;
    unsigned n = 0;
    struct cushim_mem_heap *heap = set_up(CUSHIM_MEM_PINNED, 0);
    policy.least_idle_bytes = SIZE_MAX / 2;
    fake_limit((size_t)2 * MOST * MIB);
    while (n < MOST && try_take(2 * MIB, &addresses[n]) == CUSHIM_OK)
        n++;
    ck_assert_uint_gt(n, MOST / 2);
    for (unsigned i = 0; i < n; i++) {
        if (i % STEP)
            fixture_give(fixture, addresses[i]);
    }
    fake_limit(fake_used_bytes());
    ck_assert_int_eq(try_take(10 * MIB, &large), CUSHIM_OK);
    ck_assert_ptr_eq(find(large).segment->heap, heap);
    fixture_give(fixture, large);
    ck_assert_uint_eq(fake_n_faults(), 0);
}

SUITE() {
    return tests_run("managed");
}
