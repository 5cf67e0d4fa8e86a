/* The book of an arena alone, without addresses and driver, also compared with a simple model. */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/suite.h"
#include "companion/arena/arena_region.h"

static struct cushim_arena_book book;

static void begin(uint64_t n_grains, unsigned n_regions, bool is_reusing) {
    ck_assert(cushim_arena_book_init(&book, n_grains, n_regions, is_reusing));
}

static uint64_t now(void) {
    return cushim_arena_book_epoch(&book);
}

static uint64_t take(uint64_t n_grains) {
    uint64_t at = UINT64_MAX;
    ck_assert_int_eq(cushim_arena_book_take(&book, n_grains, UINT64_MAX, &at),
                     CUSHIM_ARENA_FIT_TAKEN);
    return at;
}

static void end_epoch(void) {
    cushim_arena_book_close(&book);
    cushim_arena_book_next(&book);
}

TEST(a_block_that_fits_exactly_is_the_last) {
    uint64_t at;
    begin(4, 1, false);
    ck_assert(cushim_arena_book_bump(&book, 1, 4, &at));
    ck_assert(!cushim_arena_book_bump(&book, 1, 1, &at));
    ck_assert_uint_eq(cushim_arena_book_used(&book), 4);
    cushim_arena_book_finish(&book);
}

TEST(a_bump_of_another_epoch_takes_nothing) {
    uint64_t at;
    begin(4, 1, false);
    ck_assert(!cushim_arena_book_bump(&book, 2, 1, &at));
    end_epoch();
    ck_assert(!cushim_arena_book_bump(&book, 1, 1, &at));
    ck_assert(cushim_arena_book_bump(&book, 2, 1, &at));
    cushim_arena_book_finish(&book);
}

/* A thread takes a place and pauses before it writes the cell, while others continue. */
TEST(a_late_cell_write_keeps_the_cell_of_a_later_epoch) {
    uint64_t at, before = 0;
    begin(8, 1, false);
    ck_assert(cushim_arena_book_bump(&book, 1, 2, &at)); /* the thread saw `before` in the cell */
    end_epoch();
    ck_assert(cushim_arena_book_bump(&book, 2, 3, &at));
    cushim_arena_book_enter_late(&book, at, before, 1, 2);
    ck_assert_int_eq(cushim_arena_book_pin(&book, at), CUSHIM_OK);
    ck_assert_int_eq(cushim_arena_book_unpin(&book, at, 0), CUSHIM_OK);
    ck_assert_int_eq(cushim_arena_book_free(&book, at, 3, 2, 0), CUSHIM_OK);
    cushim_arena_book_finish(&book);
}

TEST(a_late_cell_write_replaces_the_cell_of_an_earlier_epoch) {
    uint64_t at, before = 0;
    begin(8, 1, false);
    ck_assert(cushim_arena_book_bump(&book, 1, 2, &at));
    end_epoch();
    cushim_arena_book_enter_late(&book, at, before, 2, 3); /* the thread saw an empty cell */
    ck_assert_int_eq(cushim_arena_book_free(&book, at, 3, 2, 0), CUSHIM_OK);
    cushim_arena_book_finish(&book);
}

TEST(a_closed_book_serves_nothing_and_reports_its_old_blocks) {
    uint64_t at;
    begin(8, 1, false);
    take(3);
    cushim_arena_book_close(&book);
    ck_assert(!cushim_arena_book_bump(&book, 1, 1, &at));
    ck_assert_uint_eq(cushim_arena_book_used(&book), 3);
    ck_assert_uint_eq(cushim_arena_book_hits(&book), 1);
    cushim_arena_book_reopen(&book);
    ck_assert_uint_eq(take(1), 3);
    ck_assert_uint_eq(cushim_arena_book_hits(&book), 2);
    cushim_arena_book_finish(&book);
}

TEST(a_drained_book_serves_nothing_even_after_a_reset) {
    uint64_t at;
    begin(8, 1, true);
    take(3);
    cushim_arena_book_close(&book);
    cushim_arena_book_drain(&book);
    for (unsigned i = 0; i < 2; i++) {
        ck_assert(!cushim_arena_book_bump(&book, now(), 1, &at));
        ck_assert_int_eq(cushim_arena_book_take(&book, 1, UINT64_MAX, &at), CUSHIM_ARENA_FIT_NONE);
        end_epoch();
    }
    ck_assert_uint_eq(now(), 4);
    ck_assert_uint_eq(cushim_arena_book_used(&book), 0);
    ck_assert_uint_eq(cushim_arena_book_hits(&book), 1);
    ck_assert_uint_eq(book.peak, 3);
    ck_assert_int_eq(cushim_arena_book_free(&book, 0, 0, 0, 1), CUSHIM_STALE);
    cushim_arena_book_finish(&book);
}

TEST(blocks_beyond_the_count_of_the_word_are_counted) {
    uint64_t n = 3 * CUSHIM_ARENA_COUNT_MASK + 5;
    begin(n, 1, false);
    for (uint64_t i = 0, at; i < n; i++) {
        if (cushim_arena_book_take(&book, 1, 0, &at) != CUSHIM_ARENA_FIT_TAKEN || at != i)
            ck_abort_msg("block %lu", (unsigned long)i);
    }
    ck_assert_uint_eq(cushim_arena_book_hits(&book), n);
    end_epoch();
    ck_assert_uint_eq(cushim_arena_book_hits(&book), n);
    ck_assert_uint_eq(book.peak, n);
    cushim_arena_book_finish(&book);
}

TEST(a_second_free_and_an_inner_address_are_distinguished) {
    begin(16, 1, false);
    uint64_t a = take(2), b = take(2);
    ck_assert_int_eq(cushim_arena_book_free(&book, a + 1, 0, 0, 1), CUSHIM_UNKNOWNPTR);
    ck_assert_int_eq(cushim_arena_book_free(&book, 9, 0, 0, 1), CUSHIM_UNKNOWNPTR);
    ck_assert_int_eq(cushim_arena_book_free(&book, a, 3, 0, 1), CUSHIM_INVALID);
    ck_assert_int_eq(cushim_arena_book_free(&book, a, 0, 2, 1), CUSHIM_INVALID);
    ck_assert_int_eq(cushim_arena_book_free(&book, a, 2, 1, 1), CUSHIM_OK);
    ck_assert_int_eq(cushim_arena_book_free(&book, a, 2, 1, 1), CUSHIM_DOUBLEFREE);
    ck_assert_int_eq(cushim_arena_book_free(&book, b, 0, 0, 1), CUSHIM_OK);
    ck_assert_uint_eq(book.n_refused, 5);
    ck_assert_uint_eq(book.n_frees, 2);
    cushim_arena_book_finish(&book);
}

TEST(an_old_block_is_stale_even_without_its_epoch) {
    begin(16, 1, true);
    take(1);
    uint64_t b = take(1);
    end_epoch();
    take(1);
    ck_assert_int_eq(cushim_arena_book_free(&book, b, 0, 0, 1), CUSHIM_STALE);
    ck_assert_int_eq(cushim_arena_book_free(&book, b, 0, 1, 1), CUSHIM_STALE);
    ck_assert_int_eq(cushim_arena_book_free(&book, 5, 0, 1, 1), CUSHIM_UNKNOWNPTR);
    ck_assert_uint_eq(book.n_stale, 2);
    ck_assert_uint_eq(book.spans.n, 0);
    cushim_arena_book_finish(&book);
}

TEST(a_block_under_the_floor_is_freed_after_a_reset) {
    begin(16, 1, true);
    uint64_t a = take(2);
    take(2);
    ck_assert_int_eq(cushim_arena_book_set_floor(&book, 2), CUSHIM_OK);
    end_epoch();
    ck_assert_uint_eq(cushim_arena_book_used(&book), 2);
    ck_assert_int_eq(cushim_arena_book_free(&book, a, 2, 1, 1), CUSHIM_STALE);
    ck_assert_int_eq(cushim_arena_book_free(&book, a, 2, 0, 1), CUSHIM_OK);
    ck_assert_uint_eq(take(2), a);
    cushim_arena_book_finish(&book);
}

TEST(an_old_start_inside_a_block_that_survived_is_no_block) {
    begin(16, 1, false);
    take(1);
    take(1);
    take(1);
    end_epoch();
    uint64_t big = take(3);
    ck_assert_int_eq(cushim_arena_book_pin(&book, big), CUSHIM_OK);
    end_epoch();
    ck_assert_int_eq(cushim_arena_book_pin(&book, 1), CUSHIM_UNKNOWNPTR);
    ck_assert_int_eq(cushim_arena_book_free(&book, 1, 0, 0, 1), CUSHIM_STALE);
    ck_assert_int_eq(cushim_arena_book_free(&book, big, 0, 0, 1), CUSHIM_OK);
    cushim_arena_book_finish(&book);
}

TEST(a_block_that_crosses_the_floor_does_not_survive) {
    begin(16, 1, false);
    uint64_t a = take(4);
    ck_assert_int_eq(cushim_arena_book_set_floor(&book, 2), CUSHIM_OK);
    end_epoch();
    ck_assert_int_eq(cushim_arena_book_free(&book, a, 0, 0, 1), CUSHIM_STALE);
    ck_assert_uint_eq(take(1), 2);
    cushim_arena_book_finish(&book);
}

TEST(a_freed_block_that_is_pinned_serves_after_its_last_unpin) {
    begin(16, 1, true);
    uint64_t a = take(2);
    ck_assert_int_eq(cushim_arena_book_pin(&book, a), CUSHIM_OK);
    ck_assert_int_eq(cushim_arena_book_pin(&book, a), CUSHIM_OK);
    ck_assert_int_eq(cushim_arena_book_free(&book, a, 0, 1, 1), CUSHIM_OK);
    ck_assert_int_eq(cushim_arena_book_free(&book, a, 0, 1, 1), CUSHIM_DOUBLEFREE);
    ck_assert_uint_eq(book.spans.n, 0);
    ck_assert_int_eq(cushim_arena_book_unpin(&book, a, 1), CUSHIM_OK);
    ck_assert_uint_eq(book.spans.n, 0);
    ck_assert_int_eq(cushim_arena_book_unpin(&book, a, 1), CUSHIM_OK);
    ck_assert_uint_eq(book.spans.n, 1);
    ck_assert_uint_eq(take(2), a);
    cushim_arena_book_finish(&book);
}

TEST(a_span_whose_fence_is_open_does_not_serve) {
    uint64_t at;
    begin(4, 1, true);
    uint64_t a = take(4);
    ck_assert_int_eq(cushim_arena_book_free(&book, a, 0, 1, 7), CUSHIM_OK);
    ck_assert(cushim_arena_spans_is_deferred(&book.spans, 4, 6));
    ck_assert(!cushim_arena_spans_is_deferred(&book.spans, 4, 7));
    ck_assert_int_eq(cushim_arena_book_take(&book, 2, 6, &at), CUSHIM_ARENA_FIT_DEFERRED);
    ck_assert_int_eq(cushim_arena_book_take(&book, 2, 7, &at), CUSHIM_ARENA_FIT_TAKEN);
    ck_assert_uint_eq(at, a);
    cushim_arena_book_finish(&book);
}

TEST(the_smallest_span_that_holds_a_request_serves_it) {
    uint64_t a[5], sizes[] = {6, 1, 3, 1, 4};
    begin(32, 1, true);
    for (unsigned i = 0; i < 5; i++)
        a[i] = take(sizes[i]);
    for (unsigned i = 0; i < 5; i += 2)
        ck_assert_int_eq(cushim_arena_book_free(&book, a[i], 0, 1, 1), CUSHIM_OK);
    ck_assert_uint_eq(take(3), a[2]);
    ck_assert_uint_eq(take(3), a[4]);
    ck_assert_uint_eq(take(5), a[0]);
    cushim_arena_book_finish(&book);
}

TEST(a_block_freed_between_two_spans_makes_them_one) {
    begin(6, 1, true);
    uint64_t a = take(2), b = take(2), c = take(2);
    ck_assert_int_eq(cushim_arena_book_free(&book, a, 0, 1, 1), CUSHIM_OK);
    ck_assert_int_eq(cushim_arena_book_free(&book, c, 0, 1, 1), CUSHIM_OK);
    ck_assert_int_eq(cushim_arena_book_free(&book, b, 0, 1, 1), CUSHIM_OK);
    ck_assert_uint_eq(book.spans.n, 1);
    ck_assert_uint_eq(take(6), a);
    cushim_arena_book_finish(&book);
}

TEST(a_freed_block_in_the_rest_of_a_span_still_counts_as_freed) {
    begin(8, 1, true);
    uint64_t a = take(2), b = take(2);
    ck_assert_int_eq(cushim_arena_book_free(&book, a, 0, 1, 1), CUSHIM_OK);
    ck_assert_int_eq(cushim_arena_book_free(&book, b, 0, 1, 1), CUSHIM_OK);
    ck_assert_uint_eq(take(2), a);
    ck_assert_int_eq(cushim_arena_book_free(&book, b, 0, 1, 1), CUSHIM_DOUBLEFREE);
    ck_assert_uint_eq(take(1), b);
    ck_assert_int_eq(cushim_arena_book_free(&book, b + 1, 0, 1, 1), CUSHIM_UNKNOWNPTR);
    cushim_arena_book_finish(&book);
}

TEST(regions_alternate_and_each_keeps_its_blocks) {
    begin(8, 3, false);
    uint64_t a = take(2);
    ck_assert_int_eq(cushim_arena_book_pin(&book, a), CUSHIM_OK);
    end_epoch();
    ck_assert_uint_eq(take(2), 8);
    end_epoch();
    ck_assert_uint_eq(take(2), 16);
    ck_assert_int_eq(cushim_arena_book_free(&book, a, 2, 0, 1), CUSHIM_OK);
    ck_assert_int_eq(cushim_arena_book_free(&book, 8, 2, 0, 1), CUSHIM_STALE);
    end_epoch();
    ck_assert_uint_eq(take(2), 2);
    cushim_arena_book_finish(&book);
}

TEST(a_hold_keeps_its_blocks_until_it_is_dropped) {
    struct cushim_arena_graph hold = {.is_listed = true};
    begin(16, 1, true);
    take(1);
    uint64_t a = take(2), b = take(2);
    take(1);
    book.pins.holds = &hold;
    ck_assert(cushim_arena_graph_reserve(&hold));
    cushim_arena_graph_add(&hold, a, 2);
    cushim_arena_graph_add(&hold, b, 2);
    ck_assert_uint_eq(hold.n, 1);
    ck_assert_int_eq(cushim_arena_book_free(&book, a, 0, 1, 1), CUSHIM_OK);
    ck_assert_uint_eq(book.spans.n, 0);
    end_epoch();
    ck_assert_uint_eq(cushim_arena_book_used(&book), 5);
    book.pins.holds = NULL;
    free(hold.ranges);
    end_epoch();
    ck_assert_uint_eq(cushim_arena_book_used(&book), 0);
    cushim_arena_book_finish(&book);
}

TEST(epochs_with_the_same_low_bits_name_no_old_block) {
    begin(8, 1, false);
    take(1);
    uint64_t kept = take(1), old = take(1);
    ck_assert_int_eq(cushim_arena_book_pin(&book, kept), CUSHIM_OK);
    /* 2^28 epochs later the cell of `old` would match the current epoch */
    atomic_store(&book.epoch, CUSHIM_ARENA_STAMP_MASK);
    end_epoch();
    end_epoch();
    ck_assert_uint_eq(now() & CUSHIM_ARENA_STAMP_MASK, 1);
    ck_assert_int_eq(cushim_arena_book_free(&book, old, 0, 0, 1), CUSHIM_UNKNOWNPTR);
    ck_assert_int_eq(cushim_arena_book_free(&book, kept, 0, 0, 1), CUSHIM_OK);
    cushim_arena_book_finish(&book);
}

/* ---- against a model: a list of all blocks ever, and a byte per grain ---- */

enum { MODEL_GRAINS = 96, MODEL_BLOCKS = 4096, MODEL_STEPS = 3000 };

struct model_block {
    uint64_t at, n_grains, epoch;
    bool is_freed, is_gone; /* reclaimed by a reset */
    unsigned n_pins;
};

static struct model_block blocks[MODEL_BLOCKS];
static unsigned n_blocks, n_regions;
static uint64_t floors[CUSHIM_ARENA_N_REGIONS];

/* The block that has these places now; NULL: none. */
static struct model_block *block_at(uint64_t at) {
    for (unsigned i = n_blocks; i-- > 0;) {
        if (!blocks[i].is_gone && blocks[i].at == at)
            return &blocks[i];
    }
    return NULL;
}

/* No other live or pinned block has a place in [at, at + n). */
static void model_take(uint64_t at, uint64_t n_grains) {
    for (unsigned i = 0; i < n_blocks; i++) {
        struct model_block *block = &blocks[i];
        bool is_apart = at >= block->at + block->n_grains || at + n_grains <= block->at;
        bool is_over = block->is_gone || (block->is_freed && !block->n_pins);
        if (!is_apart && !is_over) /* because each assertion writes to a pipe */
            ck_abort_msg("block of %lu at %lu", (unsigned long)n_grains, (unsigned long)at);
        if (!is_apart && block->at == at)
            block->is_gone = true; /* a new block has its address */
    }
    ck_assert_uint_lt(n_blocks, MODEL_BLOCKS);
    blocks[n_blocks++] = (struct model_block){.at = at, .n_grains = n_grains, .epoch = now()};
}

static void model_reset(void) {
    unsigned region = (unsigned)((now() - 1) % n_regions);
    uint64_t base = region * MODEL_GRAINS, kept = base + floors[region];
    for (unsigned i = 0; i < n_blocks; i++) {
        struct model_block *block = &blocks[i];
        if (block->n_pins && block->at >= base && block->at < base + MODEL_GRAINS &&
            block->at + block->n_grains > kept)
            kept = block->at + block->n_grains;
    }
    for (unsigned i = 0; i < n_blocks; i++) {
        struct model_block *block = &blocks[i];
        if (block->at >= base && block->at < base + MODEL_GRAINS &&
            block->at + block->n_grains > kept)
            block->is_gone = true;
    }
    end_epoch();
}

static void model_free(uint64_t *random, bool is_reusing) {
    if (!n_blocks)
        return;
    struct model_block *block = &blocks[suite_random(random) % n_blocks];
    uint64_t at = block->at, epoch = suite_random(random) % 2 ? block->epoch : 0;
    enum cushim_status status = cushim_arena_book_free(&book, at, 0, epoch, 1);
    if (epoch && epoch < now()) {
        ck_assert_int_eq(status, CUSHIM_STALE);
        return;
    }
    struct model_block *there = block_at(at);
    if (status == CUSHIM_OK) {
        ck_assert_ptr_nonnull(there);
        ck_assert(!there->is_freed);
        there->is_freed = true;
    } else if (status == CUSHIM_DOUBLEFREE) {
        ck_assert(there ? there->is_freed : is_reusing);
    } else {
        ck_assert_msg(!there || there->is_freed, "refused: %d", status);
    }
}

static void model_pin(uint64_t *random) {
    if (!n_blocks)
        return;
    struct model_block *block = &blocks[suite_random(random) % n_blocks];
    struct model_block *there = block_at(block->at);
    if (suite_random(random) % 2) {
        enum cushim_status status = cushim_arena_book_pin(&book, block->at);
        ck_assert_int_eq(status, there && !there->is_freed ? CUSHIM_OK : CUSHIM_UNKNOWNPTR);
        if (status == CUSHIM_OK)
            there->n_pins++;
    } else {
        enum cushim_status status = cushim_arena_book_unpin(&book, block->at, 1);
        bool is_pinned = there && there->n_pins;
        ck_assert_int_eq(status == CUSHIM_OK, is_pinned);
        if (is_pinned)
            there->n_pins--;
    }
}

static void model_step(uint64_t *random, bool is_reusing) {
    uint64_t at, n_grains = 1 + suite_random(random) % 9;
    switch (suite_random(random) % 16) {
    case 0:
        if (suite_random(random) % 4 == 0)
            model_reset();
        return;
    case 1:
        n_grains = suite_random(random) % 24;
        if (cushim_arena_book_set_floor(&book, n_grains) == CUSHIM_OK)
            floors[(now() - 1) % n_regions] = n_grains;
        return;
    case 2:
    case 3:
        model_pin(random);
        return;
    case 4:
    case 5:
    case 6:
    case 7:
    case 8:
        model_free(random, is_reusing);
        return;
    default:
        if (cushim_arena_book_take(&book, n_grains, UINT64_MAX, &at) == CUSHIM_ARENA_FIT_TAKEN) {
            ck_assert_uint_eq(at / MODEL_GRAINS, (now() - 1) % n_regions);
            model_take(at, n_grains);
        } else {
            model_reset();
        }
    }
}

TEST(random_calls_agree_with_a_model) {
    for (uint64_t seed = 1; seed <= suite_steps(60); seed++) {
        uint64_t random = seed * UINT64_C(0x9E3779B97F4A7C15);
        bool is_reusing = seed % 3 != 0;
        n_regions = 1 + (unsigned)(seed % CUSHIM_ARENA_N_REGIONS);
        n_blocks = 0;
        memset(floors, 0, sizeof floors);
        begin(MODEL_GRAINS, n_regions, is_reusing);
        for (unsigned step = 0; step < MODEL_STEPS && n_blocks < MODEL_BLOCKS; step++)
            model_step(&random, is_reusing);
        ck_assert_uint_eq(cushim_arena_book_hits(&book), n_blocks);
        cushim_arena_book_finish(&book);
    }
}

SUITE() {
    return tests_run("arena book");
}
