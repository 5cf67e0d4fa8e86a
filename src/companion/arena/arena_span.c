#include "companion/arena/arena_span.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_CAP = 32 };

/* The first row that does not lie before `at`. */
static size_t place_of(const struct cushim_arena_spans *spans, uint64_t at) {
    size_t low = 0, high = spans->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (spans->rows[middle].at < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void remove_row(struct cushim_arena_spans *spans, size_t i) {
    spans->n--;
    memmove(&spans->rows[i], &spans->rows[i + 1], (spans->n - i) * sizeof *spans->rows);
}

static bool insert_row(struct cushim_arena_spans *spans, size_t i, struct cushim_arena_span row) {
    if (spans->n == spans->cap) {
        size_t cap = spans->cap ? 2 * spans->cap : FIRST_CAP;
        struct cushim_arena_span *rows = realloc(spans->rows, cap * sizeof *rows);
        if (!rows)
            return false;
        spans->rows = rows;
        spans->cap = cap;
    }
    memmove(&spans->rows[i + 1], &spans->rows[i], (spans->n - i) * sizeof *spans->rows);
    spans->rows[i] = row;
    spans->n++;
    return true;
}

static bool touches(const struct cushim_arena_span *low, const struct cushim_arena_span *high) {
    return low->at + low->n_grains == high->at;
}

static void merge(struct cushim_arena_span *into, const struct cushim_arena_span *from) {
    if (from->at < into->at)
        into->at = from->at;
    into->n_grains += from->n_grains;
    if (from->stamp > into->stamp)
        into->stamp = from->stamp;
}

bool cushim_arena_spans_give(struct cushim_arena_spans *spans, uint64_t at, uint64_t n_grains,
                             uint64_t stamp) {
    struct cushim_arena_span row = {at, n_grains, stamp};
    size_t i = place_of(spans, at);
    bool has_low = i > 0 && touches(&spans->rows[i - 1], &row);
    bool has_high = i < spans->n && touches(&row, &spans->rows[i]);
    if (!has_low && !has_high)
        return insert_row(spans, i, row);
    if (has_low)
        merge(&spans->rows[i - 1], &row);
    else
        merge(&spans->rows[i], &row);
    if (has_low && has_high) {
        merge(&spans->rows[i - 1], &spans->rows[i]);
        remove_row(spans, i);
    }
    return true;
}

enum cushim_arena_fit cushim_arena_spans_take(struct cushim_arena_spans *spans, uint64_t n_grains,
                                              uint64_t done, uint64_t *at,
                                              struct cushim_arena_span *rest) {
    size_t best = spans->n;
    bool is_deferred = false;
    for (size_t i = 0; i < spans->n; i++) {
        const struct cushim_arena_span *row = &spans->rows[i];
        if (row->n_grains < n_grains)
            continue;
        if (row->stamp > done) {
            is_deferred = true;
            continue;
        }
        if (best == spans->n || row->n_grains < spans->rows[best].n_grains)
            best = i;
        if (row->n_grains == n_grains)
            break;
    }
    if (best == spans->n)
        return is_deferred ? CUSHIM_ARENA_FIT_DEFERRED : CUSHIM_ARENA_FIT_NONE;
    struct cushim_arena_span *row = &spans->rows[best];
    *at = row->at;
    row->at += n_grains;
    row->n_grains -= n_grains;
    *rest = *row;
    if (!row->n_grains)
        remove_row(spans, best);
    return CUSHIM_ARENA_FIT_TAKEN;
}

void cushim_arena_spans_clear(struct cushim_arena_spans *spans) {
    spans->n = 0;
}

void cushim_arena_spans_finish(struct cushim_arena_spans *spans) {
    free(spans->rows);
    *spans = (struct cushim_arena_spans){0};
}
