/*
 * The block table of an arena: which grains (256 bytes) of its regions belong to which block.  It
 * knows no address, no stream and no driver.
 *
 * A place is the number of a grain, counted through all regions.  One word has the top of the
 * current region, the number of blocks taken in the epoch, and the low bits of the epoch.  Taking a
 * block is a compare and exchange of the word, which fails if a reset came between, and one of the
 * block's cell; or two stores by the thread that owns the top (struct cushim_arena_owner).
 *
 * `cells` has an entry for each grain.  The first cell of a block has the block's length, its
 * state, and the low bits of its epoch, so a reset need not clear cells.  Invariant: from the start
 * of a region to its top the cells of blocks, freed or not, and of rests of spans adjoin.  Those
 * below `kept` survived resets.
 *
 * The chunk of the preload's arena (memory/layout/chunk.h) is simpler: it counts live blocks and
 * rewinds when there are none, has one run of pages of at most 2^20 grains, and no epochs.
 *
 * Lock: bump and push take none; all else is called under the arena's.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bits.h"
#include "cushim/status.h"
#include "companion/core/thread.h"

enum {
    CUSHIM_ARENA_N_REGIONS = 4,
    CUSHIM_ARENA_OFFSET_BITS = 34, /* the word: top of the region, .. */
    CUSHIM_ARENA_COUNT_BITS = 14,  /* .. blocks taken, .. */
    CUSHIM_ARENA_TAG_BITS = 16,    /* .. low bits of the epoch */
    CUSHIM_ARENA_LENGTH_BITS = 34, /* a cell: length, .. */
    CUSHIM_ARENA_STATE_BITS = 2,   /* .. enum cushim_arena_state, .. */
    CUSHIM_ARENA_STAMP_BITS = 28   /* .. low bits of the epoch */
};

#define CUSHIM_ARENA_OFFSET_MASK ((UINT64_C(1) << CUSHIM_ARENA_OFFSET_BITS) - 1)
#define CUSHIM_ARENA_COUNT_MASK  ((UINT64_C(1) << CUSHIM_ARENA_COUNT_BITS) - 1)
#define CUSHIM_ARENA_TAG_MASK    ((UINT64_C(1) << CUSHIM_ARENA_TAG_BITS) - 1)
#define CUSHIM_ARENA_STAMP_MASK  ((UINT64_C(1) << CUSHIM_ARENA_STAMP_BITS) - 1)
/* The top of a region that serves nothing. */
#define CUSHIM_ARENA_CLOSED CUSHIM_ARENA_OFFSET_MASK
/* Most grains of a region. */
#define CUSHIM_ARENA_MOST_GRAINS (CUSHIM_ARENA_CLOSED - 1)

enum cushim_arena_state {
    CUSHIM_ARENA_CUT = 0, /* a reset reclaimed its end, so it is not a block */
    CUSHIM_ARENA_LIVE = 1,
    CUSHIM_ARENA_FREED = 2,
    CUSHIM_ARENA_REST = 3 /* the rest of a cut span, which never was a block */
};

/*
 * Free spans of an arena: what was freed since the last reset, for flag REUSE.
 *
 * Neighbours are merged.  There is a list for each size class, eight classes for each doubling.  A
 * request looks at the first rows of its own class and then of the larger ones, so its cost does
 * not grow with the number of spans.  It takes the start of the smallest fit that it saw.
 *
 * A stamp is the batch of frees that the span belongs to, for merged spans the youngest: the span
 * may serve once that batch is done.  Spans are listed behind those of earlier batches, so the
 * first rows are done first.
 *
 * Lock: the arena's.
 */
enum { CUSHIM_ARENA_LOG2_CLASSES = 3, CUSHIM_ARENA_N_CLASSES = 264 };

struct cushim_arena_span {
    uint64_t at, n_grains; /* 0 grains: an unused row */
    uint64_t stamp;
    uint32_t next, previous; /* of its list; 0: none */
};

struct cushim_arena_spans {
    size_t n;      /* spans */
    size_t n_rows; /* used since the last clear; row 0 is never used */
    size_t cap;
    struct cushim_arena_span *rows;
    uint32_t spare; /* unused rows, linked by next */
    /* The row of the span that begins or ends at a place; valid only if the row agrees. */
    uint32_t *row_at;
    size_t n_places;
    uint32_t first[CUSHIM_ARENA_N_CLASSES], last[CUSHIM_ARENA_N_CLASSES];
    uint64_t is_there[(CUSHIM_ARENA_N_CLASSES + 63) / 64]; /* a bit for each list with spans */
};

/* What a request finds. */
enum cushim_arena_fit {
    CUSHIM_ARENA_FIT_NONE,
    CUSHIM_ARENA_FIT_DEFERRED, /* one would do, but its batch is not done */
    CUSHIM_ARENA_FIT_TAKEN
};

/* No spans, all later ones below `n_places`, which may be 0; false if host memory is out. */
bool cushim_arena_spans_init(struct cushim_arena_spans *spans, size_t n_places);

/* Add a span; false if host memory is out, and then it is lost until the next reset. */
bool cushim_arena_spans_give(struct cushim_arena_spans *spans, uint64_t at, uint64_t n_grains,
                             uint64_t stamp);

/**
 * Take n_grains of a span that is done and holds them.
 * @param done  stamps up to it may be served
 * @param rest  what is left of the span, behind what was taken; n_grains 0: nothing
 */
enum cushim_arena_fit cushim_arena_spans_take(struct cushim_arena_spans *spans, uint64_t n_grains,
                                              uint64_t done, uint64_t *at,
                                              struct cushim_arena_span *rest);

/* Whether that would be DEFERRED. */
bool cushim_arena_spans_is_deferred(const struct cushim_arena_spans *spans, uint64_t n_grains,
                                    uint64_t done);

/* Forget all, keeping the memory; finish gives that back too. */
void cushim_arena_spans_clear(struct cushim_arena_spans *spans);
void cushim_arena_spans_finish(struct cushim_arena_spans *spans);

struct cushim_arena_region {
    uint64_t kept;  /* grains that survived; the region serves from here on */
    uint64_t floor; /* grains, as set */
};

/*
 * The owner of an arena's top: a thread that has made several resets in a row, and that alone takes
 * blocks from the top.
 *
 * Without an owner every thread takes blocks by compare and exchange.  An owner takes them by plain
 * stores.  The other threads take the arena's lock, and end the ownership under it.
 *
 * Ownership begins while the word is closed, so a thread that read an open word and then saw no
 * owner fails to exchange that word.  The owner pins the arena around each take.  The thread that
 * ends the ownership issues a process-wide fence and waits until the pin is gone.  Each end doubles
 * the number of resets in a row that the next ownership needs, because ends are expensive if many
 * threads use the arena.
 */
enum { CUSHIM_ARENA_OWNER_MOST_LOG2 = 16 };

/* No thread: the ownership ends, and we wait for the former owner. */
#define CUSHIM_ARENA_OWNER_LEAVING ((struct cushim_thread *)1)

/* All zero: no owner. */
struct cushim_arena_owner {
    _Atomic(struct cushim_thread *)
        thread;                         /* NULL: no owner; all fields are written under the lock */
    _Atomic(struct cushim_slot *) slot; /* of the arena; NULL: not known, so there is no owner */
    const struct cushim_thread *last;   /* to reset it */
    uint32_t n_in_a_row;                /* by `last` */
    uint32_t log2_ended;                /* how often it ended, at most 16 */
};

/* Whether the calling thread may change the word.  Ask after the word was read. */
static inline bool cushim_arena_owner_allows(const struct cushim_arena_owner *owner) {
    const struct cushim_thread *thread = load_acquire(&owner->thread);
    return !thread || thread == cushim_thread_mine;
}

/* In a fast path, with its pin. */
static inline bool cushim_arena_owner_is(const struct cushim_arena_owner *owner,
                                         const struct cushim_thread *thread) {
    return load_acquire(&owner->thread) == thread;
}

/*
 * Pins of an arena: a count for each block that a reset must not reach, and the blocks of a
 * capture, which are pinned together.  Pins are sorted by place.  A block freed while pinned
 * becomes free when its last pin goes.
 */

struct cushim_arena_pin {
    uint64_t at, n_grains;
    uint64_t n_pins; /* at least 1 */
    bool is_freed;   /* by the user, meanwhile */
};

struct cushim_arena_range {
    uint64_t at, n_grains;
};

/* The blocks of one capture; neighbours taken in a row are one range. */
struct cushim_arena_graph {
    struct cushim_arena_object *arena; /* kept by the hold */
    struct cushim_arena_graph *next;   /* in the arena's list, from start to drop */
    uint64_t capture_id;
    pthread_t thread; /* which began the capture */
    bool is_listed, is_collecting;
    struct cushim_arena_range *ranges;
    size_t n, cap;
    uint64_t n_grains; /* of all ranges */
};

/* All zero is empty. */
struct cushim_arena_pins {
    struct cushim_arena_pin *rows;
    size_t n, cap;
    uint64_t n_grains; /* of all rows */
    struct cushim_arena_graph *holds;
};

/* All grains pinned or held; a block that is both counts twice. */
uint64_t cushim_arena_pins_grains(const struct cushim_arena_pins *pins);

/* Make room in a hold for one more block, so that adding it cannot fail; false: host memory is out.
 */
bool cushim_arena_graph_reserve(struct cushim_arena_graph *hold);
void cushim_arena_graph_add(struct cushim_arena_graph *hold, uint64_t at, uint64_t n_grains);

struct cushim_arena_book {
    _Alignas(64) atomic_uint_fast64_t word;
    struct cushim_arena_owner owner; /* of the word */
    _Alignas(64) uint64_t n_grains;  /* of a region; this and the next two are constant */
    unsigned n_regions;
    atomic_uint_fast64_t *cells; /* [n_regions * n_grains] */
    atomic_uint_fast64_t epoch;  /* from 1; written under the lock */
    atomic_uint_fast64_t base;   /* the first place of its region; written under the lock */
    atomic_size_t n_spans;       /* of `spans`; written under the lock */
    bool is_reusing;             /* freed blocks become spans */
    bool is_drained;             /* for good; is_closed too */
    bool is_closed;              /* between close and next or reopen */
    uint64_t closed_word;        /* what the word was at the close */
    struct cushim_arena_region regions[CUSHIM_ARENA_N_REGIONS];
    struct cushim_arena_spans spans; /* of the current region */
    struct cushim_arena_pins pins;
    uint64_t n_hits, n_frees, n_refused, n_stale, n_reuses, n_resets; /* hits but those in word */
    uint64_t peak; /* grains, of epochs that ended */
};

/* Epoch 1, nothing taken.  False if host memory is out. */
bool cushim_arena_book_init(struct cushim_arena_book *book, uint64_t n_grains, unsigned n_regions,
                            bool is_reusing);
void cushim_arena_book_finish(struct cushim_arena_book *book);

static inline uint64_t cushim_arena_pack(uint64_t n_grains, enum cushim_arena_state state,
                                         uint64_t epoch) {
    return n_grains | (uint64_t)state << CUSHIM_ARENA_LENGTH_BITS |
           (epoch & CUSHIM_ARENA_STAMP_MASK)
               << (CUSHIM_ARENA_LENGTH_BITS + CUSHIM_ARENA_STATE_BITS);
}

/* The first place of the region that serves now; under the lock. */
static inline uint64_t cushim_arena_book_base(const struct cushim_arena_book *book) {
    return load_relaxed(&book->base);
}

static inline uint64_t cushim_arena_book_epoch(const struct cushim_arena_book *book) {
    return load_acquire(&book->epoch);
}

/* The word after a block more; false: it does not fit, the epoch is over, or the count is full. */
ALWAYS_INLINE bool cushim_arena_book_advance(const struct cushim_arena_book *book, uint64_t word,
                                             uint64_t epoch, uint64_t n_grains, uint64_t *next) {
    uint64_t tag = (epoch & CUSHIM_ARENA_TAG_MASK) << CUSHIM_ARENA_COUNT_BITS;
    *next = word + n_grains + (UINT64_C(1) << CUSHIM_ARENA_OFFSET_BITS);
    /* A closed top is above all regions.  The word minus the tag is the count, or above all counts
     * if the word is of another epoch. */
    return (word & CUSHIM_ARENA_OFFSET_MASK) + n_grains <= book->n_grains &&
           (word >> CUSHIM_ARENA_OFFSET_BITS) - tag < CUSHIM_ARENA_COUNT_MASK;
}

/* Whether a cell is of a later epoch.  Epochs that threads still write are less than 2^27 apart. */
static inline bool cushim_arena_is_later(uint64_t cell, uint64_t epoch) {
    uint64_t ahead = (cell >> (CUSHIM_ARENA_LENGTH_BITS + CUSHIM_ARENA_STATE_BITS)) - epoch;
    ahead &= CUSHIM_ARENA_STAMP_MASK;
    return ahead && ahead <= CUSHIM_ARENA_STAMP_MASK / 2;
}

/*
 * The cell of a block that took the word on, by one thread of several.  It may stand still between
 * its exchange of the word and this, while resets come and another thread takes the place and
 * writes the cell: that one stays.
 * @param before  what the cell was ahead of the exchange of the word
 */
ALWAYS_INLINE void cushim_arena_book_enter_late(struct cushim_arena_book *book, uint64_t at,
                                                uint64_t before, uint64_t epoch,
                                                uint64_t n_grains) {
    uint64_t cell = cushim_arena_pack(n_grains, CUSHIM_ARENA_LIVE, epoch);
    while (!atomic_compare_exchange_strong_explicit(&book->cells[at], &before, cell,
                                                    memory_order_release, memory_order_relaxed) &&
           !cushim_arena_is_later(before, epoch)) {
    }
}

/**
 * Take a block from the top, without a lock.
 * @param epoch     in which the caller may take it
 * @param n_grains  at least 1
 * @return false: it does not fit, the epoch is over, the word's count is full, or another thread
 *         owns the top
 * Threads  any, any number at once
 */
ALWAYS_INLINE bool cushim_arena_book_bump(struct cushim_arena_book *book, uint64_t epoch,
                                          uint64_t n_grains, uint64_t *at) {
    uint64_t base, next, before, word = load_acquire(&book->word);
    do {
        /* the epoch's: written before its word is open, and not again before that is closed */
        base = load_relaxed(&book->base);
        if (!cushim_arena_book_advance(book, word, epoch, n_grains, &next) ||
            !cushim_arena_owner_allows(&book->owner))
            return false;
        *at = base + (word & CUSHIM_ARENA_OFFSET_MASK);
        before = load_relaxed(&book->cells[*at]);
    } while (!atomic_compare_exchange_weak_explicit(&book->word, &word, next, memory_order_acq_rel,
                                                    memory_order_acquire));
    /* after the exchange: until then the place is not ours */
    cushim_arena_book_enter_late(book, *at, before, epoch, n_grains);
    return true;
}

/* The same by the owner (book->owner), in a fast path. */
ALWAYS_INLINE bool cushim_arena_book_push(struct cushim_arena_book *book, uint64_t epoch,
                                          uint64_t n_grains, uint64_t *at) {
    uint64_t next, word = load_relaxed(&book->word);
    if (!cushim_arena_book_advance(book, word, epoch, n_grains, &next))
        return false;
    store_release(&book->word, next);
    *at = cushim_arena_book_base(book) + (word & CUSHIM_ARENA_OFFSET_MASK);
    /* the thread owns the top, so no reset comes between */
    store_release(&book->cells[*at], cushim_arena_pack(n_grains, CUSHIM_ARENA_LIVE, epoch));
    return true;
}

/**
 * Take a block: of a span that is done, else from the top.
 * @param done  the batch of frees up to which spans may be served; 0: none
 * @return TAKEN | DEFERRED (only a span that is not done would fit) | NONE
 */
enum cushim_arena_fit cushim_arena_book_take(struct cushim_arena_book *book, uint64_t n_grains,
                                             uint64_t done, uint64_t *at);

/**
 * Free the block that starts at `at`.
 * @param n_grains  as the block has; 0: not checked
 * @param epoch     as it was handed out in; 0: unknown
 * @param stamp     the batch of this free
 * @return CUSHIM_OK | STALE (counted) | UNKNOWNPTR | DOUBLEFREE | INVALID (n_grains, or an epoch
 *         that is to come); all but the first two count as refused; no error text
 */
enum cushim_status cushim_arena_book_free(struct cushim_arena_book *book, uint64_t at,
                                          uint64_t n_grains, uint64_t epoch, uint64_t stamp);

/* Pin a block: CUSHIM_OK | UNKNOWNPTR (no live block starts there) | NOMEM; no error text. */
enum cushim_status cushim_arena_book_pin(struct cushim_arena_book *book, uint64_t at);

/* Unpin: CUSHIM_OK | UNKNOWNPTR | STATE (it has no pin); no error text. */
enum cushim_status cushim_arena_book_unpin(struct cushim_arena_book *book, uint64_t at,
                                           uint64_t stamp);

/* ---- resets: close, then next, drain or reopen ---- */

/* Stop serving; blocks and counters stay as they are. */
void cushim_arena_book_close(struct cushim_arena_book *book);
void cushim_arena_book_reopen(struct cushim_arena_book *book);

/* What a reset reclaims of the closed region: *n_grains places from *at on. */
void cushim_arena_book_reclaimed(const struct cushim_arena_book *book, uint64_t *at,
                                 uint64_t *n_grains);

/* Begin the next epoch, in the next region, behind what is kept there. */
void cushim_arena_book_next(struct cushim_arena_book *book);

/* Begin the last epoch, in which nothing is served or kept. */
void cushim_arena_book_drain(struct cushim_arena_book *book);

/* CUSHIM_OK | INVALID: above what is used.  Of the current region. */
enum cushim_status cushim_arena_book_set_floor(struct cushim_arena_book *book, uint64_t n_grains);
uint64_t cushim_arena_book_floor(const struct cushim_arena_book *book);

/* Grains between the start of the current region and its top. */
uint64_t cushim_arena_book_used(const struct cushim_arena_book *book);
uint64_t cushim_arena_book_hits(const struct cushim_arena_book *book);
