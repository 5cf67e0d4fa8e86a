/* Free lists: which run serves, what is cut for it, and look-ups of a block that was taken. */
#include "memory/state/free_lists.h"

#include "memory/reclaim.h"
#include "memory/alloc.h"

#include "tests/unit/memory/heap_fixture.h"
#include "tests/unit/suite.h"

static struct fixture *fixture;

static struct cushim_mem_heap *heap(void) {
    return &fixture->heaps[0];
}

/* Take a block off the lists, as an allocation does. */
static struct cushim_mem_lookup lookup_of(const struct cushim_mem_blockref *ref, size_t n_bytes) {
    struct cushim_mem_lookup lookup;
    struct cushim_mem_block_meta *meta = &ref->extent->cells[ref->index];
    atomic_store(&meta->asked_bytes, n_bytes);
    atomic_store(&meta->state, CUSHIM_MEM_LIVE);
    pthread_mutex_unlock(&heap()->lock);
    ck_assert(cushim_mem_blocks_find(
        &fixture->blocks,
        cushim_mem_extent_address(ref->extent) + ref->index * ref->extent->block_bytes, &lookup));
    ck_assert_ptr_eq(lookup.meta, meta);
    return lookup;
}

static struct cushim_mem_lookup fetch(size_t n_bytes) {
    struct cushim_mem_blockref ref;
    ck_assert_int_eq(cushim_mem_heap_take(heap(), atomic_load(&heap()->generation), n_bytes, &ref),
                     CUSHIM_OK);
    return lookup_of(&ref, n_bytes);
}

static struct cushim_mem_lookup take(size_t n_bytes) {
    struct cushim_mem_blockref ref;
    pthread_mutex_lock(&heap()->lock);
    ck_assert(cushim_mem_free_lists_take(heap(), n_bytes, &ref));
    return lookup_of(&ref, n_bytes);
}

/* Take only a block that is already cut. */
static bool take_cut(size_t n_bytes, struct cushim_mem_blockref *ref) {
    pthread_mutex_lock(&heap()->lock);
    bool is_taken = cushim_mem_free_lists_take_cut(heap(), cushim_mem_sizeclass_of(n_bytes), ref);
    pthread_mutex_unlock(&heap()->lock);
    return is_taken;
}

static void give(const struct cushim_mem_blockref *ref) {
    pthread_mutex_lock(&heap()->lock);
    cushim_mem_free_lists_give(heap(), ref);
    pthread_mutex_unlock(&heap()->lock);
}

TEST(a_block_is_live_once_taken_and_free_once_given) {
    static const size_t sizes[] = {1000, 3000000, (size_t)300 << 20};
    fixture = fixture_create(NULL);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct cushim_mem_lookup lookup = fetch(sizes[i]);
        struct cushim_mem_blockref none;
        ck_assert_uint_eq(lookup.asked_bytes, sizes[i]);
        ck_assert_int_eq(lookup.state, CUSHIM_MEM_LIVE);
        fake_submit(0); /* unfinished work, which the host says does not matter */
        fake_forget_order();
        give(&lookup.ref);
        ck_assert_int_eq(fixture_state(fixture, lookup.base), CUSHIM_MEM_FREE);
        ck_assert_uint_eq(take(sizes[i]).base, lookup.base);
        ck_assert_str_eq(fake_order(), ""); /* no driver call */
        give(&lookup.ref);
        pthread_mutex_lock(&heap()->lock);
        ck_assert(!cushim_mem_free_lists_take(heap(), (size_t)1 << 30, &none));
        pthread_mutex_unlock(&heap()->lock);
    }
    fixture_check(fixture);
    fixture_destroy(fixture);
}

TEST(the_users_word_stays_in_the_cell_while_the_user_has_the_block) {
    fixture = fixture_create(NULL);
    struct cushim_mem_lookup first = fetch(1000), second = take(1000);
    first.meta->user = 77;
    second.meta->user = 78;
    give(&second.ref);
    second = take(1000);
    ck_assert_uint_eq(first.meta->user, 77);
    give(&first.ref);
    give(&second.ref);
    fixture_check(fixture);
    fixture_destroy(fixture);
}

TEST(a_trim_gives_all_free_memory_except_the_bytes_to_keep) {
    fixture = fixture_create(NULL);
    struct cushim_mem_lookup small = fetch(1000), large = fetch((size_t)300 << 20);
    ck_assert_uint_eq(cushim_mem_reclaim_trim(heap(), 0), 0);
    give(&small.ref);
    give(&large.ref);
    ck_assert_uint_eq(cushim_mem_reclaim_trim(heap(), (size_t)1 << 30), 0);
    ck_assert_uint_ge(cushim_mem_reclaim_trim(heap(), (size_t)300 << 20), 2 << 20);
    ck_assert_uint_gt(fake_n_allocations(), 0);
    cushim_mem_reclaim_trim(heap(), 0);
    ck_assert_uint_eq(fake_n_allocations(), 0);
    fixture_check(fixture);
    fixture_destroy(fixture);
}

TEST(if_no_page_may_be_cut_only_existing_cells_serve) {
    struct cushim_mem_blockref ref;
    fixture = fixture_create(NULL);
    struct cushim_mem_lookup first = fetch(1000), second = take(1000);
    ck_assert(!take_cut(2000, &ref));
    give(&second.ref);
    ck_assert(take_cut(1000, &ref));
    ck_assert_ptr_eq(ref.extent, second.ref.extent);
    ck_assert_uint_eq(ref.index, second.ref.index);
    give(&ref);
    give(&first.ref);
    fixture_check(fixture);
    fixture_destroy(fixture);
}

SUITE() {
    return tests_run("free lists");
}
