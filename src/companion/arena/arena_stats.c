/* The numbers of an arena, and its floor. */
#include "companion/arena/arena_internal.h"

#include "base/lock.h"

static size_t bytes_of(uint64_t n_grains) {
    return (size_t)n_grains * CUSHIM_ARENA_GRAIN_BYTES;
}

/* All facts at one moment; each public function returns one of them. */
struct facts {
    struct cushim_arena_stats stats;
    size_t floor_bytes, capacity_bytes;
    uint64_t epoch;
    int is_managed;
};

static void read_stats(const struct cushim_arena_object *arena, struct cushim_arena_stats *stats) {
    const struct cushim_arena_book *book = &arena->book;
    uint64_t used = cushim_arena_book_used(book);
    *stats = (struct cushim_arena_stats){
        .struct_size = sizeof *stats,
        .hits = cushim_arena_book_hits(book),
        .misses = arena->n_misses,
        .frees = book->n_frees,
        .refused = book->n_refused,
        .stale = book->n_stale,
        .resets = book->n_resets,
        .reuses = book->n_reuses,
        .used_bytes = bytes_of(used),
        .peak_bytes = bytes_of(used > book->peak ? used : book->peak),
        .pinned_bytes = bytes_of(cushim_arena_pins_grains(&book->pins)),
        .spans = book->spans.n,
        .fallback_blocks = arena->fallback.n,
        .fallback_bytes = arena->fallback.bytes,
    };
}

/* @param out  what the public function fills: not NULL */
static enum cushim_status read_facts(const char *what, struct cushim_arena *handle, const void *out,
                                     struct facts *facts) {
    CUSHIM_TRY(cushim_check_given(what, "out", out));
    CUSHIM_LOOK_AT_ARENA(what, handle);
    CUSHIM_LOCKED(&arena->lock);
    read_stats(arena, &facts->stats);
    facts->floor_bytes = bytes_of(cushim_arena_book_floor(&arena->book));
    facts->capacity_bytes = arena->book.is_drained ? 0 : bytes_of(arena->book.n_grains);
    facts->epoch = cushim_arena_book_epoch(&arena->book);
    facts->is_managed = arena->is_managed;
    return CUSHIM_OK;
}

/* One function for each fact; *out is 0 after a failure. */
#define FACT(name, type, fact)                                                                     \
    enum cushim_status cushim_arena_##name(struct cushim_arena *arena, type *out) {                \
        struct facts facts = {0};                                                                  \
        enum cushim_status status = read_facts(__func__, arena, out, &facts);                      \
        if (out)                                                                                   \
            *out = facts.fact;                                                                     \
        return status;                                                                             \
    }

FACT(floor, size_t, floor_bytes)
FACT(used, size_t, stats.used_bytes)
FACT(capacity, size_t, capacity_bytes)
FACT(managed, int, is_managed)
FACT(epoch, uint64_t, epoch)
FACT(pinned, size_t, stats.pinned_bytes)

enum cushim_status cushim_arena_stats(struct cushim_arena *arena,
                                      struct cushim_arena_stats *stats) {
    struct facts facts = {0};
    CUSHIM_TRY(read_facts(__func__, arena, stats, &facts));
    return cushim_struct_size_give(__func__, stats, &facts.stats, sizeof facts.stats);
}

enum cushim_status cushim_arena_set_floor(struct cushim_arena *handle, size_t bytes) {
    CUSHIM_FAIL_IF(__func__, bytes > PTRDIFF_MAX, CUSHIM_INVALID, "bytes=%zu", bytes);
    CUSHIM_LOOK_AT_ARENA(__func__, handle);
    CUSHIM_LOCKED(&arena->lock);
    enum cushim_status status =
        cushim_arena_book_set_floor(&arena->book, cushim_arena_grains(bytes));
    return status == CUSHIM_OK ? status
                               : CUSHIM_FAIL(status, "bytes=%zu used=%zu", bytes,
                                             bytes_of(cushim_arena_book_used(&arena->book)));
}
