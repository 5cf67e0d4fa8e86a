#include "memory/layout/segment.h"

static size_t row_bytes(uint32_t n_rows) {
    return n_rows * sizeof(void *);
}

static size_t bits_bytes(uint32_t n_rows) {
    return (n_rows + 63) / 64 * sizeof(atomic_uint_fast64_t);
}

struct cushim_mem_segment *cushim_mem_segment_create(struct cushim_mem_meta *meta, uint64_t base,
                                                     size_t n_bytes, bool is_dedicated) {
    uint32_t n_pages = (uint32_t)cushim_mem_pages_of(n_bytes);
    uint32_t n_rows = is_dedicated ? 1 : n_pages;
    struct cushim_mem_segment *segment = cushim_mem_meta_obtain(meta, sizeof *segment);
    if (!segment)
        return NULL;
    segment->extent_at = cushim_mem_meta_obtain(meta, row_bytes(n_rows));
    if (!segment->extent_at)
        goto error_segment;
    segment->starts = cushim_mem_meta_obtain(meta, bits_bytes(n_rows));
    if (!segment->starts)
        goto error_row;
    segment->base = base;
    segment->n_bytes = n_bytes;
    segment->n_pages = n_pages;
    segment->n_rows = n_rows;
    segment->is_dedicated = is_dedicated;
    return segment;

error_row:
    cushim_mem_meta_release(meta, segment->extent_at, row_bytes(n_rows));
error_segment:
    cushim_mem_meta_release(meta, segment, sizeof *segment);
    return NULL;
}

void cushim_mem_segment_destroy(struct cushim_mem_meta *meta, struct cushim_mem_segment *segment) {
    cushim_mem_meta_release(meta, segment->starts, bits_bytes(segment->n_rows));
    cushim_mem_meta_release(meta, segment->extent_at, row_bytes(segment->n_rows));
    cushim_mem_meta_release(meta, segment, sizeof *segment);
}

void cushim_mem_segment_enter(struct cushim_mem_segment *segment, uint32_t first_page,
                              uint32_t n_pages, struct cushim_mem_extent *extent) {
    uint32_t end = segment->is_dedicated ? 1 : first_page + n_pages;
    for (uint32_t page = first_page; page < end; page = (page | 63) + 1) {
        uint64_t bit = (uint64_t)1 << (page % 64);
        atomic_store_explicit(&segment->extent_at[page], extent, memory_order_release);
        if (extent)
            atomic_fetch_or_explicit(&segment->starts[page / 64], bit, memory_order_release);
        else
            atomic_fetch_and_explicit(&segment->starts[page / 64], ~bit, memory_order_release);
    }
}
