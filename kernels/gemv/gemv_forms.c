/*
 * The forms of products with quantised matrices.
 *
 * Weights are the limit with one column and almost with two, so they go through blocks that stay
 * (from 9.0 on, if there are rows enough), or one of them through rows, if the format has these.
 * Up to eight columns go through slices of k (from 9.0 on), more through the matrix units, and from
 * nine on through warpgroups on devices of exactly 9.0, unless a matrix of few rows goes through
 * slices.  A format has the forms for which it has a kernel; every format has tiles of plain
 * products.
 */
#include "kernels/gemv/gemv_forms.h"

#include <string.h>

#include "cushim/kernels/gemv.h"
#include "companion/shared.h"
#include "kernels/gemv/gemv_direct.h"
#include "kernels/launch/arguments.h"

enum { BLOCK_VALUES = 32, BLOCK_THREADS = 256, BLOCK_WARPS = 8, BLOCKS_PER_SM = 4 };

/* A launch in the making; params point into it and into the product. */
struct launch {
    const void *scales, *values; /* the matrix for kernels by blocks */
    int64_t row_bytes;
    bool is_wide; /* rows start and end at multiples of 16 bytes; of q6k only the matrix does */
    enum gemv_path path;
    struct cushim_kernel_shape shape; /* shared_bytes of 0 means those of the kernel */
    void *params[9];                  /* scales, values, b, c, m, k, n unless a form changes them */
    int warps, wide, most_tiles, early_bytes;
    struct gemv_slices slices;
    uint8_t *terms; /* made by a kernel ahead; NULL means there is none */
};

struct form {
    const char *name;
    int64_t least, most; /* columns */
    /* the path and what its launch needs; false if the form does not fit */
    bool (*shape)(const struct cushim_kernel_call *call, struct gemv_product *product,
                  struct launch *launch);
    bool takes_parts; /* also those that do not lie in blocks, as libkernels.so has them */
};

static bool has(const struct cushim_kernel_call *call, const struct gemv_product *product,
                enum gemv_path path) {
    return call->family->kernels[GEMV_OF(product->format, path)].name != NULL;
}

/* ---- one or two columns, blocks that stay ---- */

/* Formats whose words lie at odd places go through stages.  For one column of bytes, rows are
 * faster than two blocks that share k. */
static bool shape_direct(const struct cushim_kernel_call *call, struct gemv_product *product,
                         struct launch *launch) {
    enum { MANY_TILES = 32, STEP_BLOCKS = GEMV_DIRECT_STEP / BLOCK_VALUES };
    const struct quant_layout layout = cushim_quant_layout(product->format);
    bool is_super = layout.values > BLOCK_VALUES, is_q4_0 = product->format == QUANT_Q4_0;
    struct gemv_direct direct;
    struct gemv_direct_sizes sizes = {
        .n_tiles = (product->m - 1) / GEMV_DIRECT_ROWS + 1,
        .n_steps = (product->k + GEMV_DIRECT_STEP - 1) / GEMV_DIRECT_STEP,
        .least_tiles = call->n_sms,
        .n_cols = (unsigned)product->n,
        .tile_bytes = GEMV_DIRECT_ROWS * launch->row_bytes,
        .column_bytes =
            is_super || product->n > 1 ? GEMV_DIRECT_DIGITS_OF_SUPER : GEMV_DIRECT_DIGITS,
        .early_bytes = GEMV_DIRECT_EARLY_OF_Q4_0,
        .is_alone = !is_q4_0,
        .may_share =
            product->n > 1 || (product->format != QUANT_Q8_0 && product->format != QUANT_Q8F)};
    if (is_q4_0)
        sizes.tile_bytes += GEMV_DIRECT_ROWS * (product->k / BLOCK_VALUES) * 2; /* of scales */
    else
        sizes.early_bytes = sizes.n_tiles > MANY_TILES * (int64_t)call->n_sms
                                ? GEMV_DIRECT_EARLY_BYTES
                                : GEMV_DIRECT_EARLY_OF_MORE;
    bool is_staged = !is_q4_0 && (product->n > 1 ||
                                  (product->format != QUANT_Q4K && product->format != QUANT_Q5K));
    if (is_staged)
        sizes.bytes_of_warp = GEMV_DIRECT_STAGED(layout.bytes * (is_super ? 1 : STEP_BLOCKS));
    if (!launch->is_wide || product->k % (is_staged ? GEMV_DIRECT_STEP : 2 * BLOCK_VALUES) ||
        (uintptr_t)launch->scales % 4 || !cushim_is_aligned(16, product->b, NULL, NULL, NULL) ||
        !cushim_gemv_direct_shape(call, &direct, &sizes))
        return false;
    launch->path = product->n == 1 ? GEMV_DIRECT : GEMV_DIRECT2;
    launch->shape = direct.shape;
    launch->most_tiles = direct.most_tiles;
    launch->early_bytes = direct.early_bytes;
    launch->params[6] = &launch->most_tiles;
    launch->params[7] = &launch->early_bytes;
    return true;
}

/* ---- a few columns ---- */

/* Whether scratch is enough for terms of the columns. */
static bool has_room_for_terms(const struct gemv_product *product) {
    size_t wanted = cushim_gemm_scratch(product->k, product->n);
    return wanted && product->scratch_bytes >= wanted;
}

/* More than eight only if there are at most 64 rows for each multiprocessor, and not if more than
 * two blocks would share k and warpgroups can have terms. */
static bool shape_slices(const struct cushim_kernel_call *call, struct gemv_product *product,
                         struct launch *launch) {
    enum { PACKED = 4 }; /* columns; some formats have such kernels */
    bool is_more = product->n > GEMV_SLICE_COLS;
    if (is_more && product->m > 64 * (int64_t)call->n_sms)
        return false;
    launch->path =
        product->n <= PACKED && has(call, product, GEMV_SLICES4) ? GEMV_SLICES4 : GEMV_SLICES;
    launch->params[4] = &launch->slices;
    /* Rows are faster for one column, if the format has them. */
    return (product->n > 1 || !has(call, product, GEMV_C1_WIDE)) && launch->is_wide &&
           product->k % GEMV_SLICE == 0 &&
           cushim_is_aligned(16, launch->scales, NULL, NULL, NULL) &&
           cushim_gemv_slices_shape(call, &launch->shape, &launch->slices, product->m, product->k,
                                    product->n, launch->row_bytes) &&
           !(is_more && launch->shape.cluster > 2 && call->has_wgmma &&
             has_room_for_terms(product));
}

/*
 * The warps that share rows if these are too few for the device.  slice: values of a column in
 * shared memory; step: those that a warp takes at once.
 */
static int warps_per_row(const struct cushim_kernel_call *call, int64_t m, int64_t rows_of_warp,
                         int64_t k, int64_t slice, int64_t step) {
    int64_t n_steps = ((k < slice ? k : slice) + step - 1) / step,
            n_warps = (m - 1) / rows_of_warp + 1;
    int n = 1;
    while (n < BLOCK_WARPS && 2 * n <= n_steps &&
           n_warps * n < 2 * BLOCK_WARPS * (int64_t)call->n_sms)
        n *= 2;
    return n;
}

static bool shape_rows(const struct cushim_kernel_call *call, struct gemv_product *product,
                       struct launch *launch) {
    enum { STEP = 1024, STEP_OF_Q4K = 2048 };
    bool is_q4k = product->format == QUANT_Q4K;
    launch->path = product->n == 1 && launch->is_wide   ? GEMV_C1_WIDE
                   : product->n == 1 && is_q4k          ? GEMV_C1
                   : launch->is_wide && product->n == 2 ? GEMV_C2_WIDE
                   : launch->is_wide                    ? GEMV_C8_WIDE
                                                        : GEMV_C8;
    int64_t cols = launch->path <= GEMV_C1_WIDE ? 1 : launch->path == GEMV_C2_WIDE ? 2 : 8;
    int64_t rows_of_warp = cols == 1 && product->format == QUANT_Q4_0 ? 4 : 2;
    launch->warps = warps_per_row(call, product->m, rows_of_warp, product->k,
                                  GEMV_COLUMN_VALUES / cols, is_q4k ? STEP_OF_Q4K : STEP);
    launch->params[7] = &launch->warps;
    launch->shape = (struct cushim_kernel_shape){
        .grid = {cushim_n_blocks(product->m, BLOCK_WARPS / launch->warps * rows_of_warp,
                                 (int64_t)call->n_sms * BLOCKS_PER_SM)},
        .block = {BLOCK_THREADS},
        .is_dependent = true};
    return true;
}

/* ---- any number of columns, on the matrix units ---- */

/* Whether halves of blocks are at multiples of 2 bytes. */
static bool is_even(const struct gemv_product *product) {
    return product->format == QUANT_Q4_0 || (uintptr_t)product->w.low % 2 == 0;
}

/* Blocks that share k, so that the device has enough of them; each has at least a chunk or two. */
static unsigned cluster_of(const struct cushim_kernel_call *call, int64_t n_tiles,
                           int64_t n_chunks) {
    unsigned n = 1;
    if (!call->has_clusters)
        return n;
    while (n < CUSHIM_PORTABLE_CLUSTER && n_tiles * n < call->n_sms && 4 * n <= n_chunks)
        n *= 2;
    return n;
}

static bool shape_mma(const struct cushim_kernel_call *call, struct gemv_product *product,
                      struct launch *launch) {
    int64_t cols = product->n <= 8 ? 8 : product->n <= 32 ? 32 : 64;
    int64_t chunk = BLOCK_VALUES * (cols == 8 ? GEMV_CHUNK_OF_8 : GEMV_CHUNK_OF_MORE);
    int64_t rows = cols == 8 ? GEMV_MMA_ROWS_OF_8(product->format != QUANT_Q4_0) : GEMV_MMA_ROWS;
    int64_t n_tiles = ((product->m - 1) / rows + 1) * ((product->n - 1) / cols + 1);
    unsigned cluster = cluster_of(call, n_tiles, (product->k + chunk - 1) / chunk);
    launch->path = cols == 8 ? GEMV_MMA8 : cols == 32 ? GEMV_MMA32 : GEMV_MMA64;
    launch->wide = launch->is_wide;
    launch->params[7] = &launch->wide;
    launch->shape = (struct cushim_kernel_shape){.grid = {(unsigned)n_tiles * cluster},
                                                 .block = {BLOCK_THREADS},
                                                 .cluster = cluster > 1 ? cluster : 0,
                                                 .is_dependent = true};
    /* Rows are faster for two columns, if the format has them. */
    return call->arch >= 80 && is_even(product) &&
           (product->n > 2 || !has(call, product, GEMV_C2_WIDE));
}

/* ---- from nine columns on, by warpgroups ---- */

enum { WGMMA_FROM = 9 };

/* Columns of a tile. */
static int64_t wgmma_cols(int64_t n) {
    return n <= 32 ? 32 : 64;
}

size_t cushim_gemm_scratch(int64_t k, int64_t n) {
    enum { TERM_BYTES = 4, FACTOR_BYTES = 8, MOST_LEAD = 12 };
    enum { GROUP_VALUES = 128, TOTALS_BYTES = 32 }; /* of formats by groups */
    if (k <= 0 || k % BLOCK_VALUES || n < WGMMA_FROM || n > INT64_MAX / 2)
        return 0;
    int64_t cols = wgmma_cols(n), n_tiles = (n - 1) / cols + 1, n_bytes;
    if (k > INT64_MAX / (2 * TERM_BYTES * cols))
        return 0;
    int64_t of_tile = k * cols * TERM_BYTES + k / GROUP_VALUES * cols * TOTALS_BYTES +
                      GEMV_TERM_FACTORS(k / BLOCK_VALUES, cols) * FACTOR_BYTES;
    if (__builtin_mul_overflow(n_tiles, of_tile, &n_bytes) || n_bytes > INT64_MAX - MOST_LEAD)
        return 0;
    return (size_t)n_bytes + MOST_LEAD;
}

/* Blocks that share k: the number that ends first.  Each takes the time of some chunks besides. */
static unsigned wgmma_cluster(const struct cushim_kernel_call *call, int64_t n_tiles,
                              int64_t n_chunks) {
    enum { BESIDES = 6 };
    int64_t least = INT64_MAX;
    unsigned best = 1;
    for (unsigned n = 1; n <= CUSHIM_PORTABLE_CLUSTER && n <= n_chunks; n++) {
        int64_t waves = (n_tiles - 1) / cushim_gemv_n_clusters(call, n) + 1;
        int64_t time = waves * ((n_chunks - 1) / n + 1 + BESIDES);
        if (time < least) {
            least = time;
            best = n;
        }
    }
    return best;
}

static bool is_wide_columns(const struct gemv_product *product, const float *columns) {
    return product->n % 4 == 0 && cushim_is_aligned(16, columns, NULL, NULL, NULL);
}

static bool shape_wgmma(const struct cushim_kernel_call *call, struct gemv_product *product,
                        struct launch *launch) {
    enum { CHUNK_VALUES = GEMV_WGMMA_CHUNK * BLOCK_VALUES };
    int64_t cols = wgmma_cols(product->n);
    int64_t n_tiles = ((product->m - 1) / GEMV_WGMMA_ROWS + 1) * ((product->n - 1) / cols + 1);
    unsigned cluster = wgmma_cluster(call, n_tiles, (product->k + CHUNK_VALUES - 1) / CHUNK_VALUES);
    launch->path = cols == 32 ? GEMV_WGMMA32 : GEMV_WGMMA64;
    launch->wide = launch->is_wide | is_wide_columns(product, product->b) << 1 |
                   is_wide_columns(product, product->c) << 2;
    launch->params[7] = &launch->wide;
    launch->params[8] = &launch->terms;
    launch->shape = (struct cushim_kernel_shape){.grid = {(unsigned)n_tiles * cluster},
                                                 .block = {GEMV_WGMMA_THREADS(0)},
                                                 .cluster = cluster > 1 ? cluster : 0};
    return call->has_wgmma && is_even(product);
}

/* Terms begin at a multiple of 16 bytes in scratch. */
static bool shape_wgmma_of_terms(const struct cushim_kernel_call *call,
                                 struct gemv_product *product, struct launch *launch) {
    if (!has_room_for_terms(product) || !shape_wgmma(call, product, launch))
        return false;
    launch->path = launch->path == GEMV_WGMMA32 ? GEMV_WGMMA32_OF_TERMS : GEMV_WGMMA64_OF_TERMS;
    launch->terms = (uint8_t *)product->scratch + -(uintptr_t)product->scratch % 16;
    launch->shape.block[0] = GEMV_WGMMA_THREADS(1);
    launch->shape.is_dependent = true;
    return true;
}

static enum cushim_status launch_terms(const struct cushim_kernel_call *call,
                                       struct gemv_product *product, uint8_t *terms) {
    enum { UNITS = GEMV_TERMS_THREADS / 32 }; /* of a block: each warp has one */
    int cols = (int)wgmma_cols(product->n), wide = is_wide_columns(product, product->b);
    int64_t n_units = product->k / BLOCK_VALUES * ((product->n - 1) / cols + 1) * (cols / 32);
    bool is_of_groups = cushim_quant_layout(product->format).values > BLOCK_VALUES;
    struct cushim_kernel_shape shape = {.grid = {(unsigned)((n_units - 1) / UNITS + 1)},
                                        .block = {GEMV_TERMS_THREADS},
                                        .is_dependent = true};
    void *params[] = {&product->b, &product->k, &product->n, &cols, &wide, &terms};
    return cushim_kernel_call_launch(call, is_of_groups ? GEMV_TERMS_OF_GROUPS : GEMV_TERMS, &shape,
                                     params);
}

/* ---- plain products ---- */

static void take_parts(struct gemv_product *product, struct launch *launch) {
    void *params[] = {&product->w, &product->b, &product->c, &product->m, &product->k, &product->n};
    memcpy(launch->params, params, sizeof params);
}

static bool shape_row(const struct cushim_kernel_call *call, struct gemv_product *product,
                      struct launch *launch) {
    (void)call;
    take_parts(product, launch);
    launch->path = GEMV_ROW;
    launch->shape =
        (struct cushim_kernel_shape){.grid = {cushim_n_blocks(product->m, BLOCK_WARPS, INT32_MAX)},
                                     .block = {BLOCK_THREADS},
                                     .is_dependent = true};
    return true;
}

static bool shape_tile(const struct cushim_kernel_call *call, struct gemv_product *product,
                       struct launch *launch) {
    enum { TILE = 64 };
    int64_t n_tiles = ((product->m - 1) / TILE + 1) * ((product->n - 1) / TILE + 1);
    (void)call;
    take_parts(product, launch);
    launch->path = GEMV_TILE;
    launch->shape = (struct cushim_kernel_shape){.grid = {cushim_n_blocks(n_tiles, 1, INT32_MAX)},
                                                 .block = {BLOCK_THREADS}};
    return true;
}

/* ---- the forms in order of preference ---- */

static const struct form forms[] = {
    {"direct", 1, 2, shape_direct, false},
    {"slices", 1, 2 * GEMV_SLICE_COLS, shape_slices, false},
    {"wgmma of terms", WGMMA_FROM, INT64_MAX, shape_wgmma_of_terms, false},
    {"wgmma", WGMMA_FROM, INT64_MAX, shape_wgmma, false},
    {"mma", 2, INT64_MAX, shape_mma, false},
    {"rows", 1, 8, shape_rows, false},
    {"row", 1, 1, shape_row, true},
    {"tile", 1, INT64_MAX, shape_tile, true},
};

static bool are_in_blocks(const struct gemv_product *product) {
    const struct quant_parts *w = &product->w;
    const struct quant_layout layout = cushim_quant_layout(product->format);
    return product->format == QUANT_Q4_0 ||
           (w->high - w->low == layout.high - layout.low &&
            w->head - w->low == layout.head - layout.low && w->head_step == layout.bytes &&
            w->high_step == layout.bytes && w->low_step == layout.bytes);
}

static const struct form *choose(const struct cushim_kernel_call *call,
                                 struct gemv_product *product, struct launch *launch) {
    const struct quant_layout layout = cushim_quant_layout(product->format);
    const struct form *form = forms;
    bool is_in_blocks = are_in_blocks(product);
    for (;; form++) {
        *launch = (struct launch){.scales = product->w.head,
                                  .values = product->w.low ? product->w.low - layout.low : NULL,
                                  .row_bytes = product->k / layout.values * layout.bytes,
                                  .params = {&launch->scales, &launch->values, &product->b,
                                             &product->c, &product->m, &product->k, &product->n}};
        int64_t wide_bytes = launch->row_bytes * (product->format == QUANT_Q6K ? product->m : 1);
        launch->is_wide =
            cushim_is_aligned(16, launch->values, NULL, NULL, NULL) && wide_bytes % 16 == 0;
        if (product->n >= form->least && product->n <= form->most &&
            (is_in_blocks || form->takes_parts) && form->shape(call, product, launch) &&
            has(call, product, launch->path))
            return form;
    }
}

enum cushim_status cushim_gemv_launch(const struct cushim_kernel_call *call,
                                      struct gemv_product *product) {
    struct launch launch;
    choose(call, product, &launch);
    unsigned kernel = GEMV_OF(product->format, launch.path);
    if (!launch.shape.shared_bytes)
        launch.shape.shared_bytes = call->family->kernels[kernel].shared_bytes;
    if (launch.terms)
        CUSHIM_TRY(launch_terms(call, product, launch.terms));
    return cushim_kernel_call_launch(call, kernel, &launch.shape, launch.params);
}

const char *cushim_gemv_form(const struct cushim_kernel_call *call,
                             const struct gemv_product *product) {
    struct gemv_product copy = *product;
    struct launch launch;
    return choose(call, &copy, &launch)->name;
}
