/* The reduce family: its kernels, and what sums and argmax share. */
#include "kernels/reduce/reduce.h"

#include "companion/shared.h"
#include "kernels/launch/arguments.h"
#include "kernels/reduce/reduce_argmax.h"
#include "kernels/reduce/reduce_plan.h"

enum {
    ROW_BYTES = 64 * 4,
    QUAD_BYTES = 16,
    N_SUMS = REDUCE_MOST_THREADS + REDUCE_MOST_CLUSTER_BLOCKS * REDUCE_MOST_TILE_COLUMNS
};

/* One kernel for each way of reading units: one float, four at once, four of any address. */
#define SUM(kernel, word, bytes_1, bytes_4, wide)                                                  \
    [(kernel) + REDUCE_UNIT_1] = {.name = "reduce_sum_" word "_1",                                 \
                                  .shared_bytes = (bytes_1),                                       \
                                  .is_wide = (wide)},                                              \
                [(kernel) + REDUCE_UNIT_4] = {.name = "reduce_sum_" word "_4",                     \
                                              .shared_bytes = (bytes_4),                           \
                                              .is_wide = (wide)},                                  \
                [(kernel) + REDUCE_UNIT_4_ANY] = {.name = "reduce_sum_" word "_4_any",             \
                                                  .shared_bytes = (bytes_4),                       \
                                                  .is_wide = (wide)}

static const struct cushim_kernel kernels[] = {
    SUM(REDUCE_SUM_LANES, "lanes", 0, 0, false),
    SUM(REDUCE_SUM_ROW, "row", 0, 0, false),
    SUM(REDUCE_SUM_ROW_CLUSTER, "row_cluster", ROW_BYTES, ROW_BYTES, true),
    SUM(REDUCE_SUM_EACH, "each", 0, 0, false),
    SUM(REDUCE_SUM_TILE, "tile", 0, 0, false),
    SUM(REDUCE_SUM_TILE_CLUSTER, "tile_cluster", N_SUMS * sizeof(float), N_SUMS *QUAD_BYTES, true),
    [REDUCE_ARGMAX_BLOCK] = {.name = "reduce_argmax_block"},
    [REDUCE_ARGMAX_CLUSTER] = {.name = "reduce_argmax_cluster",
                               .shared_bytes = REDUCE_ARGMAX_PLACE_BYTES,
                               .is_wide = true},
    [REDUCE_ARGMAX_PARTS] = {.name = "reduce_argmax_parts"},
    [REDUCE_ARGMAX_LAST] = {.name = "reduce_argmax_last"},
    [REDUCE_SUM_BF16_ROWS] = {.name = "reduce_sum_bf16_rows"},
    [REDUCE_SUM_BF16_ROWS_WIDE] = {.name = "reduce_sum_bf16_rows_wide"},
    [REDUCE_SUM_BF16_COLUMNS] = {.name = "reduce_sum_bf16_columns"},
    [REDUCE_SELECTIVE_SCAN] = {.name = "reduce_selective_scan_f32"},
};
CUSHIM_KERNEL_FAMILY(reduce, kernels);

/* ---- clusters ---- */

/* Not every partition of a device has 16 multiprocessors side by side, or 8. */
enum cushim_status reduce_find_cluster(const struct cushim_kernel_call *call, unsigned kernel,
                                       unsigned *n_blocks) {
    bool has = false;
    *n_blocks = 1;
    for (unsigned n = REDUCE_MOST_CLUSTER_BLOCKS;
         call->has_clusters && !has && n >= CUSHIM_PORTABLE_CLUSTER; n /= 2) {
        struct cushim_kernel_shape shape = {.grid = {n},
                                            .block = {REDUCE_MOST_THREADS},
                                            .shared_bytes = kernels[kernel].shared_bytes,
                                            .cluster = n};
        CUSHIM_TRY(cushim_kernel_call_has_clusters(call, kernel, &shape, &has));
        if (has)
            *n_blocks = n;
    }
    return CUSHIM_OK;
}

/* ---- scratch ---- */

enum cushim_status reduce_check_scratch(const char *what, const void *scratch, size_t scratch_bytes,
                                        size_t wanted_bytes, bool *is_enough) {
    *is_enough = wanted_bytes > 0 && scratch_bytes >= wanted_bytes;
    return scratch || scratch_bytes ? cushim_check_pointer(what, "scratch", scratch, 4) : CUSHIM_OK;
}
