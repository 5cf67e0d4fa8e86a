#include "memory/layout/chunk.h"

#include "base/atomics.h"
#include "base/bits.h"

static const uint64_t closed_top = (1 << 20) - 1;

static struct cushim_mem_chunk_level read_level(const struct cushim_mem_chunk *chunk) {
    return load_acquire(&chunk->level);
}

/* Change `now` into `then`; false if another thread was faster, and then `now` is read again. */
static bool change(struct cushim_mem_chunk *chunk, struct cushim_mem_chunk_level *now,
                   struct cushim_mem_chunk_level then) {
    return atomic_compare_exchange_weak_explicit(&chunk->level, now, then, memory_order_acq_rel,
                                                 memory_order_acquire);
}

static bool is_closed(struct cushim_mem_chunk_level level) {
    return level.top == closed_top;
}

/* May memory that was served before be served again? */
static bool may_rewind(const struct cushim_mem_chunk *chunk, uint64_t done) {
    return !load_relaxed(&chunk->is_shown) && cushim_mem_chunk_is_over(chunk, done);
}

static struct cushim_mem_chunk_level rewound(struct cushim_mem_chunk_level level, uint64_t top) {
    return (struct cushim_mem_chunk_level){
        .top = top, .n_blocks = level.n_blocks, .n_rewinds = level.n_rewinds + 1u};
}

/* ---- where blocks start ---- */

/*
 * Mark that a block starts at its first grain and at no other.  Only words that change are written,
 * so a pass that allocates like the one before it writes nothing.
 */
static void mark_start(struct cushim_mem_chunk *chunk, uint32_t index, uint32_t n_grains) {
    uint64_t start = (uint64_t)1 << index % 64;
    while (n_grains) {
        atomic_uint_fast64_t *word = &chunk->starts[index / 64];
        uint32_t n = (uint32_t)cushim_least(n_grains, 64 - index % 64);
        uint64_t mask = ~(uint64_t)0 >> (64 - n) << index % 64;
        uint64_t seen = load_relaxed(word) & mask;
        if (seen & ~start)
            atomic_fetch_and_explicit(word, ~(mask & ~start), memory_order_release);
        if (start & ~seen)
            atomic_fetch_or_explicit(word, start, memory_order_release);
        start = 0;
        index += n;
        n_grains -= n;
    }
}

/* The highest start at or below `grain`; false if there is none. */
static bool start_below(const struct cushim_mem_chunk *chunk, uint32_t grain, uint32_t *index) {
    uint32_t at = grain / 64;
    uint64_t bits = load_acquire(&chunk->starts[at]) & ~(uint64_t)0 >> (63 - grain % 64);
    while (!bits && at)
        bits = load_acquire(&chunk->starts[--at]);
    if (bits)
        *index = at * 64 + 63 - (uint32_t)__builtin_clzll(bits);
    return bits != 0;
}

static uint32_t end_of(const struct cushim_mem_chunk *chunk, uint32_t index) {
    return index + (uint32_t)cushim_mem_grains_of(load_relaxed(&chunk->cells[index].asked_bytes));
}

bool cushim_mem_chunk_find(const struct cushim_mem_chunk *chunk, uint32_t grain, uint32_t *index) {
    return grain < chunk->n_grains && start_below(chunk, grain, index) &&
           grain < end_of(chunk, *index);
}

/* ---- open and closed ---- */

bool cushim_mem_chunk_make(struct cushim_mem_chunk *chunk, struct cushim_mem_meta *meta,
                           uint32_t n_grains) {
    chunk->cells = cushim_mem_meta_obtain(meta, n_grains * sizeof *chunk->cells +
                                                    (n_grains + 63) / 64 * sizeof *chunk->starts);
    if (!chunk->cells)
        return false;
    chunk->starts = (void *)(chunk->cells + n_grains);
    chunk->n_grains = n_grains;
    atomic_store(&chunk->level, (struct cushim_mem_chunk_level){.top = closed_top});
    return true;
}

void cushim_mem_chunk_open(struct cushim_mem_chunk *chunk, struct cushim_mem_extent *extent) {
    chunk->extent = extent;
    extent->cells = chunk->cells;
    extent->chunk = chunk;
    extent->n_cells = chunk->n_grains;
    extent->block_bytes = CUSHIM_MEM_GRAIN_BYTES;
    store_release(&extent->kind, CUSHIM_MEM_EXTENT_ARENA);
    store_relaxed(&chunk->newest_tag, 0);
    store_relaxed(&chunk->is_passed, false);
    store_relaxed(&chunk->is_shown, false);
    store_release(&chunk->level, rewound(read_level(chunk), 0));
}

/* The extent becomes a run of pages again; late look-ups find nothing in it. */
static struct cushim_mem_extent *let_go(struct cushim_mem_chunk *chunk) {
    struct cushim_mem_extent *extent = chunk->extent;
    cushim_mem_extent_make_block(extent, extent->n_grains << CUSHIM_MEM_LOG2_GRAIN);
    extent->chunk = NULL;
    chunk->extent = NULL;
    return extent;
}

struct cushim_mem_extent *cushim_mem_chunk_close(struct cushim_mem_chunk *chunk, uint64_t done) {
    struct cushim_mem_chunk_level now = read_level(chunk);
    do {
        if (is_closed(now) || now.n_blocks || !cushim_mem_chunk_is_over(chunk, done))
            return NULL;
    } while (!change(chunk, &now, rewound(now, closed_top)));
    return let_go(chunk);
}

void cushim_mem_chunk_abandon(struct cushim_mem_chunk *chunk, struct cushim_mem_stats *stats) {
    struct cushim_mem_chunk_level level = rewound(read_level(chunk), closed_top);
    if (!chunk->extent)
        return;
    level.n_blocks = 0;
    store_release(&chunk->level, level);
    uint32_t index, below = chunk->n_grains;
    for (; below && start_below(chunk, below - 1, &index); below = index) {
        struct cushim_mem_block_meta *meta = &chunk->cells[index];
        uint32_t was =
            atomic_exchange_explicit(&meta->state, CUSHIM_MEM_FREE, memory_order_release);
        size_t asked_bytes = load_relaxed(&meta->asked_bytes);
        if (cushim_mem_state_of(was) != CUSHIM_MEM_LIVE) /* a free counted it already */
            continue;
        cushim_mem_stats_subtract(&stats->live_bytes, asked_bytes);
        cushim_mem_stats_subtract(&stats->block_bytes,
                                  cushim_rounded(asked_bytes, CUSHIM_MEM_GRAIN_BYTES));
    }
    let_go(chunk);
}

/* ---- blocks ---- */

bool cushim_mem_chunk_take(struct cushim_mem_chunk *chunk, size_t n_bytes, uint64_t done,
                           bool is_whole, struct cushim_mem_stats *stats,
                           struct cushim_mem_blockref *ref) {
    uint32_t index, n_grains = (uint32_t)cushim_mem_grains_of(n_bytes);
    struct cushim_mem_chunk_level now = read_level(chunk), then;
    bool rewinds;
    do {
        if (is_closed(now))
            return false;
        rewinds = !now.n_blocks && now.top && may_rewind(chunk, done);
        then = rewinds ? rewound(now, 0) : now;
        if ((is_whole && then.top) || n_grains > chunk->n_grains - then.top)
            return false;
        index = then.top;
        then.top += n_grains;
        then.n_blocks++;
    } while (!change(chunk, &now, then));
    if (rewinds)
        cushim_mem_stats_add(&stats->n_arena_rewinds, 1);
    mark_start(chunk, index, n_grains);
    *ref = (struct cushim_mem_blockref){chunk->extent, index};
    return true;
}

enum cushim_mem_chunk_end cushim_mem_chunk_give(struct cushim_mem_chunk *chunk, uint64_t tag,
                                                uint64_t done) {
    struct cushim_mem_chunk_level now = read_level(chunk), then;
    /* before the count falls, so that a thread that sees the lower count also sees the tag */
    cushim_raise_to(&chunk->newest_tag, tag);
    do {
        if (is_closed(now)) /* it was abandoned meanwhile */
            return CUSHIM_MEM_CHUNK_USED;
        then = now;
        then.n_blocks--;
        if (!then.n_blocks && may_rewind(chunk, done))
            then = rewound(then, 0);
    } while (!change(chunk, &now, then));
    if (then.n_blocks)
        return CUSHIM_MEM_CHUNK_USED;
    return then.top ? CUSHIM_MEM_CHUNK_DEFERRED : CUSHIM_MEM_CHUNK_REWOUND;
}

/*
 * The end of the highest block below `top` that is in use.  A block is counted before its state
 * shows that it is in use.  So if fewer are found than are counted, the answer is `top`.
 */
static uint32_t floor_of(const struct cushim_mem_chunk *chunk,
                         struct cushim_mem_chunk_level level) {
    uint32_t index, n_seen = 0, floor = level.top;
    for (uint32_t below = level.top; below && start_below(chunk, below - 1, &index);
         below = index) {
        if (load_acquire(&chunk->cells[index].state) == CUSHIM_MEM_FREE)
            continue;
        if (!n_seen)
            floor = end_of(chunk, index);
        if (++n_seen == level.n_blocks)
            return floor;
    }
    return level.n_blocks ? level.top : 0;
}

bool cushim_mem_chunk_lower(struct cushim_mem_chunk *chunk, uint64_t done) {
    struct cushim_mem_chunk_level now = read_level(chunk);
    uint32_t top;
    do {
        if (is_closed(now))
            return true;
        if (!may_rewind(chunk, done))
            return false;
        top = floor_of(chunk, now);
    } while (top != now.top && !change(chunk, &now, rewound(now, top)));
    return true;
}

bool cushim_mem_chunk_is_used(const struct cushim_mem_chunk *chunk) {
    return read_level(chunk).n_blocks != 0;
}
