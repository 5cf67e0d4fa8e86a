#include "companion/arena/arena_region.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "companion/core/handle_pin.h"
#include "companion/core/rows.h"

/* ---- words and cells ---- */

static uint64_t offset_of(uint64_t word) {
    return word & CUSHIM_ARENA_OFFSET_MASK;
}

static uint64_t count_of(uint64_t word) {
    return word >> CUSHIM_ARENA_OFFSET_BITS & CUSHIM_ARENA_COUNT_MASK;
}

static uint64_t word_of(uint64_t offset, uint64_t epoch) {
    return offset | (epoch & CUSHIM_ARENA_TAG_MASK)
                        << (CUSHIM_ARENA_OFFSET_BITS + CUSHIM_ARENA_COUNT_BITS);
}

static uint64_t length_of(uint64_t cell) {
    return cell & ((UINT64_C(1) << CUSHIM_ARENA_LENGTH_BITS) - 1);
}

static unsigned state_of(uint64_t cell) {
    return cell >> CUSHIM_ARENA_LENGTH_BITS & ((1u << CUSHIM_ARENA_STATE_BITS) - 1);
}

static bool is_of_epoch(uint64_t cell, uint64_t epoch) {
    return cell >> (CUSHIM_ARENA_LENGTH_BITS + CUSHIM_ARENA_STATE_BITS) ==
           (epoch & CUSHIM_ARENA_STAMP_MASK);
}

static uint64_t cell_at(const struct cushim_arena_book *book, uint64_t at) {
    return load_acquire(&book->cells[at]);
}

static void set_cell(struct cushim_arena_book *book, uint64_t at, uint64_t cell) {
    store_release(&book->cells[at], cell);
}

/* The same cell in another state. */
static uint64_t with_state(uint64_t cell, enum cushim_arena_state state) {
    uint64_t mask = ((UINT64_C(1) << CUSHIM_ARENA_STATE_BITS) - 1) << CUSHIM_ARENA_LENGTH_BITS;
    return (cell & ~mask) | (uint64_t)state << CUSHIM_ARENA_LENGTH_BITS;
}

/* ---- life ---- */

bool cushim_arena_book_init(struct cushim_arena_book *book, uint64_t n_grains, unsigned n_regions,
                            bool is_reusing) {
    /* it costs only the pages of cells at which a block starts */
    void *cells = mmap(NULL, n_regions * n_grains * sizeof *book->cells, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (cells == MAP_FAILED)
        return false;
    *book = (struct cushim_arena_book){
        .n_grains = n_grains, .n_regions = n_regions, .cells = cells, .is_reusing = is_reusing};
    atomic_init(&book->epoch, 1);
    atomic_init(&book->word, word_of(0, 1));
    if (cushim_arena_spans_init(&book->spans, is_reusing ? n_regions * n_grains : 0))
        return true;
    munmap(cells, n_regions * n_grains * sizeof *book->cells);
    return false;
}

void cushim_arena_book_finish(struct cushim_arena_book *book) {
    cushim_arena_spans_finish(&book->spans);
    free(book->pins.rows);
    munmap(book->cells, book->n_regions * book->n_grains * sizeof *book->cells);
}

/* ---- pins ---- */

static struct cushim_arena_pin *find_pin(const struct cushim_arena_pins *pins, uint64_t at) {
    return cushim_rows_find(pins->rows, pins->n, sizeof *pins->rows, at);
}

static bool add_pin(struct cushim_arena_pins *pins, uint64_t at, uint64_t n_grains) {
    struct cushim_arena_pin *row = find_pin(pins, at);
    if (row) {
        row->n_pins++;
        return true;
    }
    const struct cushim_arena_pin pin = {at, n_grains, 1, false};
    if (!cushim_rows_insert(&pins->rows, &pins->n, &pins->cap, sizeof pin, &pin))
        return false;
    pins->n_grains += n_grains;
    return true;
}

static uint64_t end_of_pins(const struct cushim_arena_pins *pins, uint64_t low, uint64_t high) {
    uint64_t end = low;
    size_t i = cushim_rows_place(
        pins->rows, pins->n, sizeof *pins->rows,
        high); /* the last one before it ends highest, because blocks do not overlap */
    if (i > 0 && pins->rows[i - 1].at >= low)
        end = pins->rows[i - 1].at + pins->rows[i - 1].n_grains;
    for (const struct cushim_arena_graph *hold = pins->holds; hold; hold = hold->next) {
        for (size_t j = 0; j < hold->n; j++) {
            const struct cushim_arena_range *range = &hold->ranges[j];
            uint64_t range_end = range->at + range->n_grains; /* perhaps in the next region */
            if (range->at < high && range_end > end)
                end = range_end < high ? range_end : high;
        }
    }
    return end;
}

static bool is_held(const struct cushim_arena_pins *pins, uint64_t at) {
    for (const struct cushim_arena_graph *hold = pins->holds; hold; hold = hold->next) {
        for (size_t j = 0; j < hold->n; j++) {
            if (at >= hold->ranges[j].at && at - hold->ranges[j].at < hold->ranges[j].n_grains)
                return true;
        }
    }
    return false;
}

uint64_t cushim_arena_pins_grains(const struct cushim_arena_pins *pins) {
    uint64_t n_grains = pins->n_grains;
    for (const struct cushim_arena_graph *hold = pins->holds; hold; hold = hold->next)
        n_grains += hold->n_grains;
    return n_grains;
}

bool cushim_arena_graph_reserve(struct cushim_arena_graph *hold) {
    return cushim_rows_reserve(&hold->ranges, hold->n, &hold->cap, sizeof *hold->ranges);
}

void cushim_arena_graph_add(struct cushim_arena_graph *hold, uint64_t at, uint64_t n_grains) {
    hold->n_grains += n_grains;
    struct cushim_arena_range *last = hold->n ? &hold->ranges[hold->n - 1] : NULL;
    if (last && last->at + last->n_grains == at)
        last->n_grains += n_grains;
    else
        hold->ranges[hold->n++] = (struct cushim_arena_range){at, n_grains};
}

/* ---- its owner ---- */

/* End the ownership, so that only the calling thread changes the word while it holds the lock. */
static void end_ownership(struct cushim_arena_owner *owner) {
    struct cushim_thread *thread = load_relaxed(&owner->thread);
    if (!thread || thread == cushim_thread_mine)
        return;
    /* no thread may exchange the word until the owner has left its fast path */
    atomic_store(&owner->thread, CUSHIM_ARENA_OWNER_LEAVING);
    cushim_pin_wait_out(thread, load_relaxed(&owner->slot));
    store_release(&owner->thread, NULL);
    owner->n_in_a_row = 0;
    if (owner->log2_ended < CUSHIM_ARENA_OWNER_MOST_LOG2)
        owner->log2_ended++;
}

/* The calling thread resets the arena and may become its owner.  The word is closed. */
static void turn_owner(struct cushim_arena_owner *owner) {
    struct cushim_thread *thread = cushim_thread_mine;
    bool is_again = thread && owner->last == thread;
    owner->last = thread;
    owner->n_in_a_row = is_again ? owner->n_in_a_row + 1 : 0;
    if (is_again && owner->n_in_a_row >> owner->log2_ended && load_relaxed(&owner->slot) &&
        cushim_pin_has_fast_path())
        store_release(&owner->thread, thread);
}

/* ---- taking ---- */

static void note_spans(struct cushim_arena_book *book) {
    store_relaxed(&book->n_spans, book->spans.n);
}

/* A span was cut: write the cells of the block and of the rest. */
static void write_cut(struct cushim_arena_book *book, uint64_t at, uint64_t n_grains,
                      const struct cushim_arena_span *rest) {
    uint64_t epoch = cushim_arena_book_epoch(book);
    set_cell(book, at, cushim_arena_pack(n_grains, CUSHIM_ARENA_LIVE, epoch));
    if (!rest->n_grains)
        return;
    /* if a freed block began there, its cell must still say so */
    uint64_t old = cell_at(book, rest->at);
    bool was_freed = state_of(old) == CUSHIM_ARENA_FREED && is_of_epoch(old, epoch);
    set_cell(book, rest->at,
             cushim_arena_pack(rest->n_grains, was_freed ? CUSHIM_ARENA_FREED : CUSHIM_ARENA_REST,
                               epoch));
}

enum cushim_arena_fit cushim_arena_book_take(struct cushim_arena_book *book, uint64_t n_grains,
                                             uint64_t done, uint64_t *at) {
    struct cushim_arena_span rest;
    if (book->is_drained)
        return CUSHIM_ARENA_FIT_NONE;
    enum cushim_arena_fit fit = cushim_arena_spans_take(&book->spans, n_grains, done, at, &rest);
    if (fit == CUSHIM_ARENA_FIT_TAKEN) {
        write_cut(book, *at, n_grains, &rest);
        note_spans(book);
        book->n_hits++;
        book->n_reuses++;
        return fit;
    }
    end_ownership(&book->owner);
    /* a full count moves to the book; a word with one changes only under the lock */
    uint64_t word = load_relaxed(&book->word);
    if (count_of(word) == CUSHIM_ARENA_COUNT_MASK) {
        store_release(&book->word, word & ~(CUSHIM_ARENA_COUNT_MASK << CUSHIM_ARENA_OFFSET_BITS));
        book->n_hits += CUSHIM_ARENA_COUNT_MASK;
    }
    return cushim_arena_book_bump(book, cushim_arena_book_epoch(book), n_grains, at)
               ? CUSHIM_ARENA_FIT_TAKEN
               : fit;
}

/* ---- looking ---- */

/* Look in the kept part of its region.  Go from block to block, because cells inside are old. */
static bool is_kept_block(const struct cushim_arena_book *book, uint64_t at) {
    uint64_t base = at - at % book->n_grains, place = base,
             kept = book->regions[base / book->n_grains].kept;
    while (place < at) {
        uint64_t n_grains = length_of(cell_at(book, place));
        if (!n_grains)
            return false;
        place += n_grains;
    }
    return place == at && at + length_of(cell_at(book, at)) <= base + kept;
}

/* Whether a block that no reset has reclaimed starts at `at`. */
static bool is_block(const struct cushim_arena_book *book, uint64_t at) {
    uint64_t epoch = cushim_arena_book_epoch(book);
    if (at % book->n_grains < book->regions[at / book->n_grains].kept)
        return is_kept_block(book, at);
    return at - at % book->n_grains == cushim_arena_book_base(book) &&
           is_of_epoch(cell_at(book, at), epoch);
}

/* Whether a free is valid; nothing is changed. */
static enum cushim_status judge(const struct cushim_arena_book *book, uint64_t at,
                                uint64_t n_grains, uint64_t epoch) {
    uint64_t cell = cell_at(book, at), now = cushim_arena_book_epoch(book);
    if (!cell) /* no block ever started there */
        return CUSHIM_UNKNOWNPTR;
    if (epoch > now)
        return CUSHIM_INVALID;
    if (epoch && epoch < now)
        return CUSHIM_STALE;
    if (!is_block(book, at))
        return epoch || state_of(cell) == CUSHIM_ARENA_REST ? CUSHIM_UNKNOWNPTR : CUSHIM_STALE;
    if (state_of(cell) == CUSHIM_ARENA_REST)
        return CUSHIM_UNKNOWNPTR;
    if (state_of(cell) == CUSHIM_ARENA_CUT)
        return CUSHIM_STALE;
    if (state_of(cell) == CUSHIM_ARENA_FREED)
        return CUSHIM_DOUBLEFREE;
    return !n_grains || n_grains == length_of(cell) ? CUSHIM_OK : CUSHIM_INVALID;
}

/* ---- freeing and pinning ---- */

/* A FREED block that is not pinned becomes a span, if there are spans and it is in their region. */
static void reclaim(struct cushim_arena_book *book, uint64_t at, uint64_t n_grains,
                    uint64_t stamp) {
    uint64_t base = cushim_arena_book_base(book);
    if (!book->is_reusing || book->is_drained || at < base || at >= base + book->n_grains)
        return;
    cushim_arena_spans_give(&book->spans, at, n_grains, stamp);
    note_spans(book);
}

enum cushim_status cushim_arena_book_free(struct cushim_arena_book *book, uint64_t at,
                                          uint64_t n_grains, uint64_t epoch, uint64_t stamp) {
    enum cushim_status status = judge(book, at, n_grains, epoch);
    book->n_stale += status == CUSHIM_STALE;
    book->n_refused += status != CUSHIM_STALE && status != CUSHIM_OK;
    if (status != CUSHIM_OK)
        return status;
    uint64_t cell = cell_at(book, at);
    set_cell(book, at, with_state(cell, CUSHIM_ARENA_FREED));
    book->n_frees++;
    struct cushim_arena_pin *pin = find_pin(&book->pins, at);
    if (pin)
        pin->is_freed = true;
    else if (!is_held(&book->pins, at)) /* a graph's block goes with a later reset */
        reclaim(book, at, length_of(cell), stamp);
    return CUSHIM_OK;
}

enum cushim_status cushim_arena_book_pin(struct cushim_arena_book *book, uint64_t at) {
    uint64_t cell = cell_at(book, at);
    if (!cell || !is_block(book, at) || state_of(cell) != CUSHIM_ARENA_LIVE)
        return CUSHIM_UNKNOWNPTR;
    return add_pin(&book->pins, at, length_of(cell)) ? CUSHIM_OK : CUSHIM_NOMEM;
}

enum cushim_status cushim_arena_book_unpin(struct cushim_arena_book *book, uint64_t at,
                                           uint64_t stamp) {
    struct cushim_arena_pin *pin = find_pin(&book->pins, at), was;
    if (!pin) {
        uint64_t cell = cell_at(book, at);
        bool is_ours =
            cell && is_block(book, at) &&
            (state_of(cell) == CUSHIM_ARENA_LIVE || state_of(cell) == CUSHIM_ARENA_FREED);
        return is_ours ? CUSHIM_STATE : CUSHIM_UNKNOWNPTR;
    }
    pin->n_pins--;
    was = *pin;
    if (!was.n_pins) {
        book->pins.n_grains -= was.n_grains;
        cushim_rows_remove(book->pins.rows, &book->pins.n, sizeof was, pin);
    }
    if (!was.n_pins && was.is_freed && !is_held(&book->pins, at))
        reclaim(book, at, was.n_grains, stamp);
    return CUSHIM_OK;
}

/* ---- resets ---- */

void cushim_arena_book_close(struct cushim_arena_book *book) {
    if (book->is_drained) /* closed for good */
        return;
    end_ownership(&book->owner);
    book->closed_word = atomic_exchange_explicit(
        &book->word, word_of(CUSHIM_ARENA_CLOSED, cushim_arena_book_epoch(book)),
        memory_order_acq_rel);
    book->is_closed = true;
}

/* The word, or its value before the close. */
static uint64_t word_now(const struct cushim_arena_book *book) {
    return book->is_closed ? book->closed_word : load_relaxed(&book->word);
}

static void open_at(struct cushim_arena_book *book, uint64_t word) {
    book->is_closed = false;
    store_release(&book->word, word);
}

void cushim_arena_book_reopen(struct cushim_arena_book *book) {
    if (!book->is_drained)
        open_at(book, book->closed_word);
}

static struct cushim_arena_region *region_now(const struct cushim_arena_book *book) {
    return (struct cushim_arena_region *)&book
        ->regions[cushim_arena_book_base(book) / book->n_grains];
}

/* How much a reset keeps in the region: up to the floor or the end of the highest pin. */
static uint64_t kept_of(const struct cushim_arena_book *book) {
    uint64_t base = cushim_arena_book_base(book), floor = region_now(book)->floor;
    uint64_t end = end_of_pins(&book->pins, base, base + book->n_grains) - base;
    return cushim_most(end, floor);
}

void cushim_arena_book_reclaimed(const struct cushim_arena_book *book, uint64_t *at,
                                 uint64_t *n_grains) {
    uint64_t kept = kept_of(book);
    *at = cushim_arena_book_base(book) + kept;
    *n_grains = cushim_less(offset_of(book->closed_word), kept);
}

/* If a floor cuts a block, shorten its cell, so that the cells below the floor still adjoin. */
static void cut_at(struct cushim_arena_book *book, uint64_t base, uint64_t kept) {
    uint64_t place = base, end = base + kept, n_grains = 0;
    while (place < end && (n_grains = length_of(cell_at(book, place))) != 0 &&
           place + n_grains <= end)
        place += n_grains;
    if (place < end && n_grains)
        set_cell(book, place,
                 with_state(cell_at(book, place), CUSHIM_ARENA_CUT) - n_grains + (end - place));
}

/* The low bits of the epoch repeat, so clear the cells of epochs with the same bits. */
static void forget_old_cells(struct cushim_arena_book *book) {
    for (unsigned i = 0; i < book->n_regions; i++) {
        for (uint64_t j = book->regions[i].kept; j < book->n_grains; j++)
            set_cell(book, i * book->n_grains + j, 0);
    }
}

/* Its region is the next one in turn. */
static void begin_epoch(struct cushim_arena_book *book, uint64_t epoch) {
    store_relaxed(&book->base, (epoch - 1) % book->n_regions * book->n_grains);
    store_release(&book->epoch, epoch);
}

/* What the closed word counts goes to the book, and the spans end with the epoch. */
static void end_word(struct cushim_arena_book *book) {
    book->peak = cushim_most(book->peak, offset_of(book->closed_word));
    book->n_hits += count_of(book->closed_word);
    cushim_arena_spans_clear(&book->spans);
    note_spans(book);
}

void cushim_arena_book_next(struct cushim_arena_book *book) {
    if (book->is_drained) { /* an epoch of nothing */
        book->n_resets++;
        begin_epoch(book, cushim_arena_book_epoch(book) + 1);
        return;
    }
    uint64_t epoch = cushim_arena_book_epoch(book) + 1, kept = kept_of(book);
    struct cushim_arena_region *region = region_now(book);
    book->n_resets++;
    if (kept == region->floor && kept != region->kept)
        cut_at(book, cushim_arena_book_base(book), kept);
    region->kept = kept;
    end_word(book);
    if (!(epoch & CUSHIM_ARENA_STAMP_MASK))
        forget_old_cells(book);
    begin_epoch(book, epoch);
    turn_owner(&book->owner);
    open_at(book, word_of(region_now(book)->kept, epoch));
}

void cushim_arena_book_drain(struct cushim_arena_book *book) {
    end_word(book);
    for (unsigned i = 0; i < book->n_regions; i++)
        book->regions[i] = (struct cushim_arena_region){0};
    book->is_drained = true;
    begin_epoch(book, cushim_arena_book_epoch(book) + 1);
}

enum cushim_status cushim_arena_book_set_floor(struct cushim_arena_book *book, uint64_t n_grains) {
    if (n_grains > cushim_arena_book_used(book))
        return CUSHIM_INVALID;
    region_now(book)->floor = n_grains;
    return CUSHIM_OK;
}

uint64_t cushim_arena_book_floor(const struct cushim_arena_book *book) {
    return region_now(book)->floor;
}

uint64_t cushim_arena_book_used(const struct cushim_arena_book *book) {
    return book->is_drained ? 0 : offset_of(word_now(book));
}

uint64_t cushim_arena_book_hits(const struct cushim_arena_book *book) {
    return book->n_hits + (book->is_drained ? 0 : count_of(word_now(book)));
}
