#include "memory/layout/extent.h"

#include "base/bits.h"

/* Where an extent of n_pages is listed: by its leading bit and the three bits behind it. */
struct place {
    unsigned doubling, step;
};

static struct place place_of(uint32_t n_pages) {
    unsigned doubling = cushim_log2_floor(n_pages);
    if (doubling >= CUSHIM_MEM_EXTENT_DOUBLINGS) /* segments of their own: all in the last list */
        return (struct place){CUSHIM_MEM_EXTENT_DOUBLINGS - 1, CUSHIM_MEM_EXTENT_STEPS - 1};
    unsigned step =
        doubling >= 3 ? (n_pages >> (doubling - 3)) & 7 : (n_pages << (3 - doubling)) & 7;
    return (struct place){doubling, step};
}

void cushim_mem_extents_list(struct cushim_mem_extents *extents, struct cushim_mem_extent *extent) {
    struct place at = place_of(extent->n_pages);
    struct cushim_mem_extent **head = &extents->lists[at.doubling][at.step];
    extent->previous = NULL;
    extent->next = *head;
    if (*head)
        (*head)->previous = extent;
    *head = extent;
    extents->steps[at.doubling] |= (uint8_t)(1u << at.step);
    extents->doublings |= 1u << at.doubling;
}

void cushim_mem_extents_unlist(struct cushim_mem_extents *extents,
                               struct cushim_mem_extent *extent) {
    struct place at = place_of(extent->n_pages);
    struct cushim_mem_extent **head = &extents->lists[at.doubling][at.step];
    if (extent->previous)
        extent->previous->next = extent->next;
    else
        *head = extent->next;
    if (extent->next)
        extent->next->previous = extent->previous;
    if (!*head) {
        extents->steps[at.doubling] &= (uint8_t) ~(1u << at.step);
        if (!extents->steps[at.doubling])
            extents->doublings &= ~(1u << at.doubling);
    }
    extent->previous = extent->next = NULL;
}

static void set_kind(struct cushim_mem_extent *extent, enum cushim_mem_extent_kind kind) {
    atomic_store_explicit(&extent->kind, (int)kind, memory_order_release);
}

struct cushim_mem_extent *cushim_mem_extent_create(struct cushim_mem_meta *meta,
                                                   struct cushim_mem_segment *segment) {
    struct cushim_mem_extent *extent = cushim_mem_meta_obtain(meta, sizeof *extent);
    if (!extent)
        return NULL;
    extent->segment = segment;
    extent->n_pages = segment->n_pages;
    cushim_mem_segment_enter(segment, 0, extent->n_pages, extent);
    return extent;
}

void cushim_mem_extent_destroy(struct cushim_mem_meta *meta, struct cushim_mem_extent *extent) {
    cushim_mem_segment_enter(extent->segment, extent->first_page, extent->n_pages, NULL);
    cushim_mem_meta_release(meta, extent, sizeof *extent);
}

/* How far a list is searched. */
enum { DEPTH = 16 };

/* In one list sizes differ by less than an eighth: look for the smallest that fits, a few steps
 * deep. */
static struct cushim_mem_extent *fit_in(struct cushim_mem_extent *head, uint32_t n_pages) {
    struct cushim_mem_extent *best = NULL;
    for (int depth = 0; head && depth < DEPTH; head = head->next, depth++) {
        if (head->n_pages >= n_pages && (!best || head->n_pages < best->n_pages))
            best = head;
    }
    return best;
}

static struct cushim_mem_extent *find(struct cushim_mem_extents *extents, uint32_t n_pages) {
    struct place at = place_of(n_pages);
    struct cushim_mem_extent *fit = fit_in(extents->lists[at.doubling][at.step], n_pages);
    if (fit)
        return fit;
    /* every extent of a later list is large enough */
    uint8_t later = (uint8_t)(extents->steps[at.doubling] & (0xffu << (at.step + 1)));
    if (later)
        return fit_in(extents->lists[at.doubling][__builtin_ctz(later)], n_pages);
    uint32_t doublings = extents->doublings & ~((2u << at.doubling) - 1);
    if (!doublings)
        return NULL;
    unsigned doubling = (unsigned)__builtin_ctz(doublings);
    return fit_in(extents->lists[doubling][__builtin_ctz(extents->steps[doubling])], n_pages);
}

struct cushim_mem_extent *cushim_mem_extents_take(struct cushim_mem_extents *extents,
                                                  struct cushim_mem_meta *meta, uint32_t n_pages) {
    struct cushim_mem_extent *extent = find(extents, n_pages);
    if (!extent)
        return NULL;
    if (extent->n_pages == n_pages) {
        cushim_mem_extents_unlist(extents, extent);
        return extent;
    }
    struct cushim_mem_extent *rest = cushim_mem_meta_obtain(meta, sizeof *rest);
    if (!rest)
        return NULL;
    cushim_mem_extents_unlist(extents, extent);
    rest->segment = extent->segment;
    rest->first_page = extent->first_page + n_pages;
    rest->n_pages = extent->n_pages - n_pages;
    rest->before = extent;
    rest->after = extent->after;
    if (rest->after)
        rest->after->before = rest;
    extent->after = rest;
    extent->n_pages = n_pages;
    cushim_mem_segment_enter(rest->segment, rest->first_page, rest->n_pages, rest);
    cushim_mem_extents_list(extents, rest);
    return extent;
}

static struct cushim_mem_extent *fit_bytes(struct cushim_mem_extent *head, size_t n_bytes,
                                           size_t most_bytes) {
    struct cushim_mem_extent *best = NULL;
    for (int depth = 0; head && depth < DEPTH; head = head->next, depth++) {
        if (head->block_bytes >= n_bytes && head->block_bytes <= most_bytes &&
            (!best || head->block_bytes < best->block_bytes))
            best = head;
    }
    return best;
}

struct cushim_mem_extent *cushim_mem_extents_fit(const struct cushim_mem_extents *extents,
                                                 size_t n_bytes, size_t most_bytes) {
    struct place at = place_of((uint32_t)cushim_mem_pages_of(n_bytes));
    struct place last = place_of((uint32_t)cushim_mem_pages_of(most_bytes));
    for (unsigned list = at.doubling * CUSHIM_MEM_EXTENT_STEPS + at.step;
         list <= last.doubling * CUSHIM_MEM_EXTENT_STEPS + last.step; list++) {
        struct cushim_mem_extent *fit = fit_bytes(
            extents->lists[list / CUSHIM_MEM_EXTENT_STEPS][list % CUSHIM_MEM_EXTENT_STEPS], n_bytes,
            most_bytes);
        if (fit)
            return fit;
    }
    return NULL;
}

/* `right` is taken into `left`; neither is on a list. */
static void join(struct cushim_mem_meta *meta, struct cushim_mem_extent *left,
                 struct cushim_mem_extent *right) {
    left->n_pages += right->n_pages;
    left->after = right->after;
    if (left->after)
        left->after->before = left;
    cushim_mem_extent_destroy(meta, right);
    cushim_mem_segment_enter(left->segment, left->first_page, left->n_pages, left);
}

void cushim_mem_extent_join_rest(struct cushim_mem_meta *meta, struct cushim_mem_extent *extent) {
    while (extent->after)
        join(meta, extent, extent->after);
}

static bool is_free(const struct cushim_mem_extent *extent) {
    return extent &&
           atomic_load_explicit(&extent->kind, memory_order_relaxed) == CUSHIM_MEM_EXTENT_FREE;
}

struct cushim_mem_extent *cushim_mem_extents_give(struct cushim_mem_extents *extents,
                                                  struct cushim_mem_meta *meta,
                                                  struct cushim_mem_extent *extent) {
    set_kind(extent, CUSHIM_MEM_EXTENT_FREE);
    if (is_free(extent->after)) {
        cushim_mem_extents_unlist(extents, extent->after);
        join(meta, extent, extent->after);
    }
    if (is_free(extent->before)) {
        struct cushim_mem_extent *left = extent->before;
        cushim_mem_extents_unlist(extents, left);
        join(meta, left, extent);
        extent = left;
    }
    cushim_mem_extents_list(extents, extent);
    return extent;
}
