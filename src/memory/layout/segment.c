#include "memory/layout/segment.h"

static size_t starts_bytes(const struct cushim_mem_segment *segment) {
    size_t n = segment->is_dedicated ? 1 : (segment->n_grains + 63) / 64;
    return n * sizeof *segment->starts;
}

static size_t rows_bytes(const struct cushim_mem_segment *segment) {
    size_t n = segment->is_dedicated
                   ? 1
                   : (segment->n_grains + CUSHIM_MEM_LEAST_GRAINS - 1) / CUSHIM_MEM_LEAST_GRAINS;
    return n * sizeof *segment->extent_at;
}

struct cushim_mem_segment *cushim_mem_segment_create(struct cushim_mem_meta *meta, uint64_t base,
                                                     size_t n_bytes, bool is_dedicated) {
    struct cushim_mem_segment *segment = cushim_mem_meta_obtain(meta, sizeof *segment);
    if (!segment)
        return NULL;
    segment->base = base;
    segment->n_bytes = n_bytes;
    segment->n_grains = cushim_mem_grains_of(n_bytes);
    segment->is_dedicated = is_dedicated;
    segment->extent_at = cushim_mem_meta_obtain(meta, rows_bytes(segment));
    if (!segment->extent_at)
        goto error_segment;
    segment->starts = cushim_mem_meta_obtain(meta, starts_bytes(segment));
    if (!segment->starts)
        goto error_rows;
    return segment;

error_rows:
    cushim_mem_meta_release(meta, segment->extent_at, rows_bytes(segment));
error_segment:
    cushim_mem_meta_release(meta, segment, sizeof *segment);
    return NULL;
}

void cushim_mem_segment_destroy(struct cushim_mem_meta *meta, struct cushim_mem_segment *segment) {
    cushim_mem_meta_release(meta, segment->starts, starts_bytes(segment));
    cushim_mem_meta_release(meta, segment->extent_at, rows_bytes(segment));
    cushim_mem_meta_release(meta, segment, sizeof *segment);
}

void cushim_mem_segment_enter(struct cushim_mem_segment *segment, uint32_t first_grain,
                              size_t n_grains, struct cushim_mem_extent *extent) {
    struct cushim_mem_starts *starts = &segment->starts[first_grain / 64];
    uint64_t bit = (uint64_t)1 << first_grain % 64;
    atomic_store_explicit(&segment->extent_at[first_grain / CUSHIM_MEM_LEAST_GRAINS], extent,
                          memory_order_release);
    if (extent)
        atomic_fetch_or_explicit(&starts->bits, bit, memory_order_release);
    else
        atomic_fetch_and_explicit(&starts->bits, ~bit, memory_order_release);
    size_t end = segment->is_dedicated ? 0 : first_grain + n_grains;
    for (size_t grain = (first_grain | 63) + (size_t)1; grain < end; grain += 64)
        atomic_store_explicit(&segment->starts[grain / 64].inside, extent, memory_order_release);
}
