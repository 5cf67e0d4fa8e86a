#include "companion/arena/arena_region.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "companion/core/rows.h"

/* MOST_LOOKS: how many rows of a list a request looks at. */
enum { MOST_LOOKS = 16 };

bool cushim_arena_spans_init(struct cushim_arena_spans *spans, size_t n_places) {
    *spans = (struct cushim_arena_spans){.n_rows = 1, .n_places = n_places};
    if (!n_places)
        return true;
    /* it costs only the pages of places at which a span begins or ends */
    void *rows = mmap(NULL, n_places * sizeof *spans->row_at, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    spans->row_at = rows == MAP_FAILED ? NULL : rows;
    return spans->row_at;
}

/* ---- lists ---- */

/* The number of bits, and the three bits below the highest. */
static unsigned class_of(uint64_t n_grains) {
    unsigned n_low = CUSHIM_ARENA_LOG2_CLASSES, log2 = 63 - (unsigned)__builtin_clzll(n_grains);
    return log2 < n_low ? (unsigned)n_grains
                        : ((log2 - n_low) << n_low) + (unsigned)(n_grains >> (log2 - n_low));
}

static void set_there(struct cushim_arena_spans *spans, unsigned class) {
    uint64_t bit = UINT64_C(1) << class % 64;
    if (spans->first[class])
        spans->is_there[class / 64] |= bit;
    else
        spans->is_there[class / 64] &= ~bit;
}

/* Between two rows of its list; 0: it is the first, or the last. */
static void link_between(struct cushim_arena_spans *spans, uint32_t i, uint32_t previous,
                         uint32_t next) {
    unsigned class = class_of(spans->rows[i].n_grains);
    spans->rows[i].previous = previous;
    spans->rows[i].next = next;
    *(previous ? &spans->rows[previous].next : &spans->first[class]) = i;
    *(next ? &spans->rows[next].previous : &spans->last[class]) = i;
    set_there(spans, class);
}

static void unlink_row(struct cushim_arena_spans *spans, uint32_t i) {
    const struct cushim_arena_span *row = &spans->rows[i];
    unsigned class = class_of(row->n_grains);
    *(row->previous ? &spans->rows[row->previous].next : &spans->first[class]) = row->next;
    *(row->next ? &spans->rows[row->next].previous : &spans->last[class]) = row->previous;
    set_there(spans, class);
}

/* The first list with spans from a class on; N_CLASSES: none. */
static unsigned next_class(const struct cushim_arena_spans *spans, unsigned class) {
    for (unsigned word = class / 64; word < sizeof spans->is_there / sizeof *spans->is_there;
         word++) {
        uint64_t bits = spans->is_there[word];
        if (word == class / 64)
            bits &= ~UINT64_C(0) << class % 64;
        if (bits)
            return word * 64 + (unsigned)__builtin_ctzll(bits);
    }
    return CUSHIM_ARENA_N_CLASSES;
}

/* ---- rows ---- */

/* 0: host memory is out. */
static uint32_t obtain_row(struct cushim_arena_spans *spans) {
    uint32_t i = spans->spare;
    if (i)
        spans->spare = spans->rows[i].next;
    else if (spans->n_rows <= UINT32_MAX &&
             cushim_rows_reserve(&spans->rows, spans->n_rows, &spans->cap, sizeof *spans->rows))
        i = (uint32_t)spans->n_rows++;
    return i;
}

static void add(struct cushim_arena_spans *spans, uint32_t i, struct cushim_arena_span span) {
    spans->rows[i] = span;
    spans->row_at[span.at] = i;
    spans->row_at[span.at + span.n_grains - 1] = i;
    spans->n++;
}

static struct cushim_arena_span remove_row(struct cushim_arena_spans *spans, uint32_t i) {
    struct cushim_arena_span span = spans->rows[i];
    unlink_row(spans, i);
    spans->rows[i] = (struct cushim_arena_span){.next = spans->spare};
    spans->spare = i;
    spans->n--;
    return span;
}

/* The row of the span that ends before `at` or begins behind it, at a place beside; 0: none does.
 */
static uint32_t neighbour(const struct cushim_arena_spans *spans, uint64_t place, uint64_t at) {
    uint32_t i = place < spans->n_places ? spans->row_at[place] : 0;
    if (!i || i >= spans->n_rows || !spans->rows[i].n_grains)
        return 0;
    const struct cushim_arena_span *row = &spans->rows[i];
    return (place < at ? row->at + row->n_grains == at : row->at == place) ? i : 0;
}

/* ---- giving and taking ---- */

static void merge(struct cushim_arena_spans *spans, struct cushim_arena_span *into, uint32_t i) {
    if (!i)
        return;
    struct cushim_arena_span from = remove_row(spans, i);
    into->at = cushim_least(into->at, from.at);
    into->n_grains += from.n_grains;
    into->stamp = cushim_most(into->stamp, from.stamp);
}

bool cushim_arena_spans_give(struct cushim_arena_spans *spans, uint64_t at, uint64_t n_grains,
                             uint64_t stamp) {
    struct cushim_arena_span span = {.at = at, .n_grains = n_grains, .stamp = stamp};
    uint32_t low = neighbour(spans, at - 1, at), high = neighbour(spans, at + n_grains, at);
    merge(spans, &span, low);
    merge(spans, &span, high);
    uint32_t i = obtain_row(spans);
    if (!i)
        return false;
    add(spans, i, span);
    link_between(spans, i, spans->last[class_of(span.n_grains)], 0);
    return true;
}

/* The smallest fit among the first rows of a list; 0: none. */
static uint32_t find_in(const struct cushim_arena_spans *spans, unsigned class, uint64_t n_grains,
                        uint64_t done, bool *is_deferred) {
    uint32_t best = 0, i = spans->first[class];
    for (unsigned n = 0; i && n < MOST_LOOKS; n++, i = spans->rows[i].next) {
        const struct cushim_arena_span *row = &spans->rows[i];
        if (row->n_grains < n_grains)
            continue;
        *is_deferred |= row->stamp > done;
        if (row->stamp <= done && (!best || row->n_grains < spans->rows[best].n_grains))
            best = i;
    }
    return best;
}

static uint32_t find(const struct cushim_arena_spans *spans, uint64_t n_grains, uint64_t done,
                     bool *is_deferred) {
    uint32_t found = 0;
    unsigned class = class_of(n_grains);
    *is_deferred = false;
    while (!found && (class = next_class(spans, class)) < CUSHIM_ARENA_N_CLASSES)
        found = find_in(spans, class ++, n_grains, done, is_deferred);
    return found;
}

bool cushim_arena_spans_is_deferred(const struct cushim_arena_spans *spans, uint64_t n_grains,
                                    uint64_t done) {
    bool is_deferred;
    return !find(spans, n_grains, done, &is_deferred) && is_deferred;
}

enum cushim_arena_fit cushim_arena_spans_take(struct cushim_arena_spans *spans, uint64_t n_grains,
                                              uint64_t done, uint64_t *at,
                                              struct cushim_arena_span *rest) {
    bool is_deferred;
    uint32_t i = find(spans, n_grains, done, &is_deferred);
    if (!i)
        return is_deferred ? CUSHIM_ARENA_FIT_DEFERRED : CUSHIM_ARENA_FIT_NONE;
    *rest = remove_row(spans, i);
    *at = rest->at;
    rest->at += n_grains;
    rest->n_grains -= n_grains;
    if (rest->n_grains) { /* its row is the one that was just let go; of an early batch, it is first
                           */
        add(spans, i = obtain_row(spans), *rest);
        link_between(spans, i, 0, spans->first[class_of(rest->n_grains)]);
    }
    return CUSHIM_ARENA_FIT_TAKEN;
}

void cushim_arena_spans_clear(struct cushim_arena_spans *spans) {
    if (spans->n_rows == 1)
        return;
    spans->n = 0;
    spans->n_rows = 1;
    spans->spare = 0;
    memset(spans->first, 0, sizeof spans->first);
    memset(spans->last, 0, sizeof spans->last);
    memset(spans->is_there, 0, sizeof spans->is_there);
}

void cushim_arena_spans_finish(struct cushim_arena_spans *spans) {
    if (spans->row_at)
        munmap(spans->row_at, spans->n_places * sizeof *spans->row_at);
    free(spans->rows);
    *spans = (struct cushim_arena_spans){0};
}
