/*
 * Products with quantised matrices: arguments, the choice of a path, the launch.
 *
 * One column goes through blocks that stay (sm_90, if there are rows enough: on the matrix units,
 * or by streams of bytes) or through the kernels of rows; weights are the limit of all of these.
 * Two to eight columns go through blocks that stay (sm_90), more through the matrix units, and
 * from nine on by warpgroups on devices of 9.0.  On sm_75 rows take up to eight, and more columns
 * go through tiles of plain products.
 */
#include "kernels/gemv/gemv_direct.h"

#include "cushim/kernels/gemv.h"
#include "cushim/kernels_ref.h"
#include "companion/shared.h"
#include "kernels/launch/call.h"
#include "kernels/launch/arguments.h"

enum { BLOCK_VALUES = 32, Q4K_VALUES = 256, Q4K_BYTES = 144 };
enum {
    CHUNK_OF_8 = 8,
    CHUNK_OF_MORE = 4
}; /* blocks of a chunk, for tiles of 8 and of more
      columns */

#define MMA_ROW(FORMAT, word, n_bytes, has_scales, cols, chunk, rows)                              \
    [FORMAT + GEMV_MMA##                                                                           \
        cols] = {.name = "gemv_" word "_mma" #cols,                                                \
                 .shared_bytes = GEMV_MMA_BYTES(rows, n_bytes, has_scales, chunk, cols)}
#define WGMMA_ROW(FORMAT, word, n_bytes, has_scales, cols)                                         \
    [FORMAT + GEMV_WGMMA##cols] = {.name = "gemv_" word "_wgmma" #cols,                            \
                                   .shared_bytes = GEMV_WGMMA_BYTES(n_bytes, has_scales, cols, 0)}
#define WGMMA_ROW_OF_TERMS(FORMAT, word, n_bytes, has_scales, cols)                                \
    [FORMAT + GEMV_WGMMA##cols##                                                                   \
        _OF_TERMS] = {.name = "gemv_" word "_wgmma" #cols "_of_terms",                             \
                      .shared_bytes = GEMV_WGMMA_BYTES(n_bytes, has_scales, cols, 1)}
#define FORMAT_ROWS(FORMAT, word, n_bytes, has_scales, wide_bytes)                                 \
    [FORMAT +                                                                                      \
        GEMV_C1_WIDE] = {.name = "gemv_" word "_c1_wide", .shared_bytes = (wide_bytes)},           \
        [FORMAT + GEMV_C2_WIDE] = {.name = "gemv_" word "_c2_wide", .shared_bytes = (wide_bytes)}, \
        [FORMAT + GEMV_C8] = {.name = "gemv_" word "_c8", .shared_bytes = GEMV_COLUMN_BYTES},      \
        [FORMAT + GEMV_C8_WIDE] = {.name = "gemv_" word "_c8_wide", .shared_bytes = (wide_bytes)}, \
        MMA_ROW(FORMAT, word, n_bytes, has_scales, 8, CHUNK_OF_8, GEMV_MMA_ROWS_OF_8(has_scales)), \
        MMA_ROW(FORMAT, word, n_bytes, has_scales, 32, CHUNK_OF_MORE, GEMV_MMA_ROWS),              \
        MMA_ROW(FORMAT, word, n_bytes, has_scales, 64, CHUNK_OF_MORE, GEMV_MMA_ROWS),              \
        WGMMA_ROW(FORMAT, word, n_bytes, has_scales, 32),                                          \
        WGMMA_ROW(FORMAT, word, n_bytes, has_scales, 64),                                          \
        WGMMA_ROW_OF_TERMS(FORMAT, word, n_bytes, has_scales, 32),                                 \
        WGMMA_ROW_OF_TERMS(FORMAT, word, n_bytes, has_scales, 64),                                 \
        [FORMAT + GEMV_TILE] = {.name = "gemv_" word "_tile"},                                     \
        [FORMAT + GEMV_SLICES] = {.name = "gemv_" word "_slices",                                  \
                                  .shared_bytes = GEMV_DIRECT_MOST_BYTES}

#define STREAM_MOST_BYTES(n_bytes)                                                                 \
    GEMV_STREAM_BYTES(n_bytes, GEMV_STREAM_WARPS, GEMV_STREAM_MOST_PARTS)

static const struct cushim_kernel kernels[] = {
    FORMAT_ROWS(GEMV_Q4_0, "q4_0", 16, 0, GEMV_COLUMN_BYTES),
    FORMAT_ROWS(GEMV_Q8_0, "q8_0", 34, 1, GEMV_STAGED_BYTES(34)),
    FORMAT_ROWS(GEMV_Q8F, "q8f", 36, 1, GEMV_STAGED_BYTES(36)),
    [GEMV_TERMS] = {.name = "gemv_terms"},
    [GEMV_Q4K] = {.name = "gemv_q4k", .shared_bytes = GEMV_Q4K_BYTES},
    [GEMV_Q4K_WIDE] = {.name = "gemv_q4k_wide", .shared_bytes = GEMV_Q4K_BYTES},
    [GEMV_Q4K_DIRECT] = {.name = "gemv_q4k_direct", .shared_bytes = GEMV_DIRECT_MOST_BYTES},
    [GEMV_Q4K_ADD] = {.name = "gemv_q4k_add", .shared_bytes = GEMV_DIRECT_MOST_BYTES},
    [GEMV_Q4K_SWIGLU] = {.name = "gemv_q4k_swiglu", .shared_bytes = GEMV_DIRECT_MOST_BYTES},
    [GEMV_Q4K_QKV] = {.name = "gemv_q4k_qkv", .shared_bytes = GEMV_DIRECT_MOST_BYTES},
    [GEMV_Q4K_ADD_EARLY] = {.name = "gemv_q4k_add_early", .shared_bytes = GEMV_DIRECT_MOST_BYTES},
    [GEMV_Q4K_SWIGLU_EARLY] = {.name = "gemv_q4k_swiglu_early",
                               .shared_bytes = GEMV_DIRECT_MOST_BYTES},
    [GEMV_Q4K_QKV_EARLY] = {.name = "gemv_q4k_qkv_early", .shared_bytes = GEMV_DIRECT_MOST_BYTES},
    [GEMV_END_ADD] = {.name = "gemv_end_add"},
    [GEMV_END_SWIGLU] = {.name = "gemv_end_swiglu"},
    [GEMV_END_QKV] = {.name = "gemv_end_qkv"},
    [GEMV_Q4_0_DIRECT] = {.name = "gemv_q4_0_direct", .shared_bytes = GEMV_DIRECT_MOST_BYTES},
    [GEMV_Q8_0_STREAM] = {.name = "gemv_q8_0_stream", .shared_bytes = STREAM_MOST_BYTES(34)},
    [GEMV_Q8F_STREAM] = {.name = "gemv_q8f_stream", .shared_bytes = STREAM_MOST_BYTES(36)},
    [GEMV_F32_R1] = {.name = "gemv_f32_r1"},
    [GEMV_F32_R1_WIDE] = {.name = "gemv_f32_r1_wide"},
    [GEMV_F32_R4_WIDE] = {.name = "gemv_f32_r4_wide"},
    [GEMV_F32_SPLIT_WIDE] = {.name = "gemv_f32_split_wide", .shared_bytes = GEMV_SPLIT_BYTES},
    [GEMV_SMALL_F32] = {.name = "gemv_small_f32"},
    [GEMV_LARGE_F32] = {.name = "gemv_large_f32"},
    [GEMV_LARGE_F32_WIDE] = {.name = "gemv_large_f32_wide"},
    [GEMV_F16] = {.name = "gemv_f16"},
    [GEMV_F16_WIDE] = {.name = "gemv_f16_wide"},
};
CUSHIM_KERNEL_FAMILY(gemv, kernels);

enum { BLOCK_THREADS = 256, BLOCK_WARPS = 8, BLOCKS_PER_SM = 4 };

/* The least columns for which the matrix units are faster, and warpgroups of them. */
enum { MMA_FROM = 3, WGMMA_FROM = 9 };

/* The facts of a format for the launcher. */
struct format {
    enum gemv_kernel first;
    int64_t block_bytes;     /* of values, and of the scale unless that is separate */
    size_t scales_bytes;     /* alignment of separate scales; 0 if there are none */
    size_t values_bytes;     /* alignment of the rest */
    int64_t rows_of_warp1;   /* rows of a warp, for one column */
    enum gemv_kernel direct; /* on the matrix units, one column; 0 means none */
    enum gemv_kernel stream; /* by bulk copies, one column; 0 means none */
};
static const struct format q4_0 = {GEMV_Q4_0, 16, 2, 1, 4, GEMV_Q4_0_DIRECT, 0};
static const struct format q8_0 = {GEMV_Q8_0, 34, 0, 2, 2, 0, GEMV_Q8_0_STREAM};
static const struct format q8f = {GEMV_Q8F, 36, 0, 4, 2, 0, GEMV_Q8F_STREAM};

struct product {
    const void *scales, *values;
    const float *b;
    float *c;
    int64_t m, k, n;
    void *scratch;
    size_t scratch_bytes;
};

/*
 * Rows times columns: the warps that share rows if these are too few for the device. slice: values
 * of a column in shared memory; step: those that a warp takes at once.
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

static unsigned blocks_of_rows(const struct cushim_kernel_call *call, int64_t m,
                               int64_t rows_of_warp, int warps) {
    return cushim_n_blocks(m, BLOCK_WARPS / warps * rows_of_warp,
                           (int64_t)call->n_sms * BLOCKS_PER_SM);
}

static enum cushim_status launch_rows(const struct cushim_kernel_call *call,
                                      const struct format *format, struct product *args,
                                      bool is_wide) {
    bool is_one = is_wide && args->n == 1;
    enum gemv_of_format path = is_one                    ? GEMV_C1_WIDE
                               : is_wide && args->n == 2 ? GEMV_C2_WIDE
                               : is_wide                 ? GEMV_C8_WIDE
                                                         : GEMV_C8;
    int64_t cols = is_one ? 1 : path == GEMV_C2_WIDE ? 2 : 8;
    int64_t rows_of_warp = is_one ? format->rows_of_warp1 : 2;
    int warps = warps_per_row(call, args->m, rows_of_warp, args->k, GEMV_COLUMN_VALUES / cols,
                              32 * BLOCK_VALUES);
    struct cushim_kernel_shape shape = {
        .grid = {blocks_of_rows(call, args->m, rows_of_warp, warps)},
        .block = {BLOCK_THREADS},
        .shared_bytes = kernels[format->first + path].shared_bytes,
        .is_dependent = true};
    void *params[] = {&args->scales, &args->values, &args->b, &args->c,
                      &args->m,      &args->k,      &args->n, &warps};
    return cushim_kernel_call_launch(call, format->first + path, &shape, params);
}

static enum cushim_status launch_direct(const struct cushim_kernel_call *call, unsigned kernel,
                                        const struct gemv_direct *direct, struct product *args) {
    int most_tiles = direct->most_tiles, early_bytes = direct->early_bytes;
    void *params[] = {&args->scales, &args->values, &args->b,    &args->c,
                      &args->m,      &args->k,      &most_tiles, &early_bytes};
    return cushim_kernel_call_launch(call, kernel, &direct->shape, params);
}

static enum cushim_status launch_stream(const struct cushim_kernel_call *call, unsigned kernel,
                                        const struct cushim_kernel_shape *shape,
                                        struct product *args) {
    void *params[] = {&args->values, &args->b, &args->c, &args->m, &args->k};
    return cushim_kernel_call_launch(call, kernel, shape, params);
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

static enum cushim_status launch_mma(const struct cushim_kernel_call *call,
                                     const struct format *format, struct product *args,
                                     bool is_wide) {
    enum gemv_of_format path = args->n <= 8 ? GEMV_MMA8 : args->n <= 32 ? GEMV_MMA32 : GEMV_MMA64;
    int64_t cols = path == GEMV_MMA8 ? 8 : path == GEMV_MMA32 ? 32 : 64;
    int64_t chunk = BLOCK_VALUES * (path == GEMV_MMA8 ? CHUNK_OF_8 : CHUNK_OF_MORE);
    int64_t rows =
        path == GEMV_MMA8 ? GEMV_MMA_ROWS_OF_8(format->scales_bytes == 0) : GEMV_MMA_ROWS;
    int64_t n_tiles = ((args->m - 1) / rows + 1) * ((args->n - 1) / cols + 1);
    unsigned cluster = cluster_of(call, n_tiles, (args->k + chunk - 1) / chunk);
    int wide = is_wide;
    struct cushim_kernel_shape shape = {.grid = {(unsigned)n_tiles * cluster},
                                        .block = {BLOCK_THREADS},
                                        .cluster = cluster > 1 ? cluster : 0,
                                        .shared_bytes = kernels[format->first + path].shared_bytes,
                                        .is_dependent = true};
    void *params[] = {&args->scales, &args->values, &args->b, &args->c,
                      &args->m,      &args->k,      &args->n, &wide};
    return cushim_kernel_call_launch(call, format->first + path, &shape, params);
}

/* Columns of a tile. */
static int64_t wgmma_cols(int64_t n) {
    return n <= 32 ? 32 : 64;
}

/*
 * The bytes at the start of scratch that are skipped, because terms lie at multiples of 16 bytes.
 */
static size_t lead_bytes(const void *scratch) {
    return -(uintptr_t)scratch % 16;
}

size_t cushim_gemm_scratch(int64_t k, int64_t n) {
    enum { TERM_BYTES = 4, FACTOR_BYTES = 8, MOST_LEAD = 12 };
    if (k <= 0 || k % BLOCK_VALUES || n < WGMMA_FROM || n > INT64_MAX / 2)
        return 0;
    int64_t cols = wgmma_cols(n), n_tiles = (n - 1) / cols + 1, n_bytes;
    if (k > INT64_MAX / (2 * TERM_BYTES * cols))
        return 0;
    int64_t of_tile =
        k * cols * TERM_BYTES + GEMV_TERM_FACTORS(k / BLOCK_VALUES, cols) * FACTOR_BYTES;
    if (__builtin_mul_overflow(n_tiles, of_tile, &n_bytes) || n_bytes > INT64_MAX - MOST_LEAD)
        return 0;
    return (size_t)n_bytes + MOST_LEAD;
}

static bool has_room_for_terms(const struct product *args) {
    size_t wanted = cushim_gemm_scratch(args->k, args->n);
    return wanted > 0 && args->scratch_bytes >= wanted;
}

static enum cushim_status launch_terms(const struct cushim_kernel_call *call, struct product *args,
                                       int64_t cols, uint8_t *scratch, bool is_wide_b) {
    enum {
        UNITS = GEMV_TERMS_THREADS / 32
    }; /* warps of a block; each makes the terms of 32 columns of a block of k */
    int64_t n_units = args->k / BLOCK_VALUES * ((args->n - 1) / cols + 1) * (cols / 32);
    int n_cols = (int)cols, wide = is_wide_b;
    struct cushim_kernel_shape shape = {.grid = {(unsigned)((n_units - 1) / UNITS + 1)},
                                        .block = {GEMV_TERMS_THREADS},
                                        .is_dependent = true};
    void *params[] = {&args->b, &args->k, &args->n, &n_cols, &wide, &scratch};
    return cushim_kernel_call_launch(call, GEMV_TERMS, &shape, params);
}

/* Blocks that share k: the number that ends first.  Each takes the time of some chunks besides. */
static unsigned wgmma_cluster(const struct cushim_kernel_call *call, int64_t n_tiles,
                              int64_t n_chunks) {
    enum { BESIDES = 6 };
    int64_t least = INT64_MAX;
    unsigned best = 1;
    for (unsigned n = 1; n <= CUSHIM_PORTABLE_CLUSTER && n <= n_chunks; n *= 2) {
        int64_t waves = (n_tiles * n - 1) / (int64_t)call->n_sms + 1;
        int64_t time = waves * ((n_chunks - 1) / n + 1 + BESIDES);
        if (time < least) {
            least = time;
            best = n;
        }
    }
    return best;
}

/* Terms come from scratch if there is room for them. */
static enum cushim_status launch_wgmma(const struct cushim_kernel_call *call,
                                       const struct format *format, struct product *args,
                                       bool is_wide) {
    enum { CHUNK_VALUES = GEMV_WGMMA_CHUNK * BLOCK_VALUES };
    static const enum gemv_of_format paths[2][2] = {{GEMV_WGMMA32, GEMV_WGMMA64},
                                                    {GEMV_WGMMA32_OF_TERMS, GEMV_WGMMA64_OF_TERMS}};
    bool has_terms = has_room_for_terms(args);
    int64_t cols = wgmma_cols(args->n);
    unsigned kernel = format->first + paths[has_terms][cols / 64];
    int64_t n_tiles = ((args->m - 1) / GEMV_WGMMA_ROWS + 1) * ((args->n - 1) / cols + 1);
    unsigned cluster = wgmma_cluster(call, n_tiles, (args->k + CHUNK_VALUES - 1) / CHUNK_VALUES);
    bool is_wide_b = args->n % 4 == 0 && cushim_is_aligned(16, args->b, NULL, NULL, NULL);
    bool is_wide_c = args->n % 4 == 0 && cushim_is_aligned(16, args->c, NULL, NULL, NULL);
    int wide = is_wide | is_wide_b << 1 | is_wide_c << 2;
    uint8_t *scratch = NULL;
    if (has_terms) {
        scratch = (uint8_t *)args->scratch + lead_bytes(args->scratch);
        CUSHIM_TRY(launch_terms(call, args, cols, scratch, is_wide_b));
    }
    struct cushim_kernel_shape shape = {.grid = {(unsigned)n_tiles * cluster},
                                        .block = {GEMV_WGMMA_THREADS(has_terms)},
                                        .cluster = cluster > 1 ? cluster : 0,
                                        .shared_bytes = kernels[kernel].shared_bytes,
                                        .is_dependent = has_terms};
    void *params[] = {&args->scales, &args->values, &args->b, &args->c, &args->m,
                      &args->k,      &args->n,      &wide,    &scratch};
    return cushim_kernel_call_launch(call, kernel, &shape, params);
}

static enum cushim_status launch_tiles(const struct cushim_kernel_call *call,
                                       const struct format *format, struct product *args) {
    enum { TILE = 64 };
    struct cushim_kernel_shape shape = {
        .grid = {(unsigned)(((args->m - 1) / TILE + 1) * ((args->n - 1) / TILE + 1))},
        .block = {BLOCK_THREADS}};
    void *params[] = {&args->scales, &args->values, &args->b, &args->c,
                      &args->m,      &args->k,      &args->n};
    return cushim_kernel_call_launch(call, format->first + GEMV_TILE, &shape, params);
}

static enum cushim_status check_product(const char *what, const struct format *format,
                                        const struct product *args, int64_t *n_outputs) {
    int64_t k_blocks = args->k / BLOCK_VALUES, n_blocks, n_of_b;
    CUSHIM_TRY(cushim_check_size(what, "m", args->m));
    CUSHIM_TRY(cushim_check_size(what, "k", args->k));
    CUSHIM_TRY(cushim_check_size(what, "n", args->n));
    CUSHIM_TRY(cushim_check_multiple(what, "k", args->k, BLOCK_VALUES));
    CUSHIM_TRY(cushim_check_count(what, format->scales_bytes ? "nibbles" : "w",
                                  (int64_t[]){args->m, k_blocks}, 2, (size_t)format->block_bytes,
                                  &n_blocks));
    CUSHIM_TRY(
        cushim_check_count(what, "b", (int64_t[]){args->k, args->n}, 2, sizeof(float), &n_of_b));
    CUSHIM_TRY(
        cushim_check_count(what, "c", (int64_t[]){args->m, args->n}, 2, sizeof(float), n_outputs));
    if (*n_outputs == 0)
        return CUSHIM_OK;
    if (n_blocks && format->scales_bytes) {
        CUSHIM_TRY(cushim_check_pointer(what, "scales", args->scales, format->scales_bytes));
        CUSHIM_TRY(cushim_check_pointer(what, "nibbles", args->values, format->values_bytes));
    } else if (n_blocks) {
        CUSHIM_TRY(cushim_check_pointer(what, "w", args->values, format->values_bytes));
    }
    if (n_of_b)
        CUSHIM_TRY(cushim_check_pointer(what, "b", args->b, sizeof(float)));
    CUSHIM_TRY(cushim_check_pointer(what, "c", args->c, sizeof(float)));
    return args->scratch || args->scratch_bytes
               ? cushim_check_pointer(what, "scratch", args->scratch, sizeof(float))
               : CUSHIM_OK;
}

static enum cushim_status run_product(const char *what, const struct format *format,
                                      void (*reference)(const void *args), struct product args,
                                      struct CUstream_st *stream) {
    struct cushim_kernel_call call;
    int64_t n_outputs;
    CUSHIM_TRY(check_product(what, format, &args, &n_outputs));
    if (n_outputs == 0)
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_kernel_call_begin(&call, what, &cushim_family_gemv, stream));
    if (call.is_cpu)
        return cushim_kernel_call_reference(&call, reference, &args, sizeof args);
    bool is_wide = cushim_is_aligned(16, args.values, NULL, NULL, NULL) &&
                   args.k / BLOCK_VALUES * format->block_bytes % 16 == 0;
    struct gemv_direct direct;
    struct gemv_direct_sizes sizes = {.n_tiles = (args.m - 1) / GEMV_DIRECT_ROWS + 1,
                                      .n_steps = (args.k + GEMV_DIRECT_STEP - 1) / GEMV_DIRECT_STEP,
                                      .least_tiles = call.n_sms,
                                      .tile_bytes =
                                          GEMV_DIRECT_ROWS * (args.k / BLOCK_VALUES) *
                                          (format->block_bytes + (int64_t)format->scales_bytes),
                                      .column_bytes = GEMV_DIRECT_DIGITS,
                                      .early_bytes = GEMV_DIRECT_EARLY_OF_Q4_0};
    struct cushim_kernel_shape shape;
    bool is_one = args.n == 1;
    struct gemv_slices slices;
    if (is_wide && !is_one && args.n <= 8 && args.k % GEMV_SLICE == 0 &&
        cushim_is_aligned(16, args.scales, NULL, NULL, NULL) &&
        cushim_gemv_slices_shape(&call, &shape, &slices, args.m, args.k, args.n,
                                 format->block_bytes)) {
        void *params[] = {&args.scales, &args.values, &args.b, &args.c, &slices};
        return cushim_kernel_call_launch(&call, format->first + GEMV_SLICES, &shape, params);
    }
    if (is_wide && is_one && format->stream &&
        cushim_gemv_stream_shape(&call, &shape, args.m, args.k, format->block_bytes))
        return launch_stream(&call, format->stream, &shape, &args);
    /* pairs of blocks, and of scales by one load */
    if (is_wide && is_one && format->direct && args.k % (2 * BLOCK_VALUES) == 0 &&
        (uintptr_t)args.scales % 4 == 0 && cushim_is_aligned(16, args.b, NULL, NULL, NULL) &&
        cushim_gemv_direct_shape(&call, &direct, &sizes))
        return launch_direct(&call, format->direct, &direct, &args);
    if (call.has_wgmma && args.n >= WGMMA_FROM)
        return launch_wgmma(&call, format, &args, is_wide);
    if (call.arch >= 80 && args.n >= MMA_FROM)
        return launch_mma(&call, format, &args, is_wide);
    if (args.n > 8)
        return launch_tiles(&call, format, &args);
    return launch_rows(&call, format, &args, is_wide);
}

static void gemm_q4_0_reference(const void *args) {
    const struct product *a = args;
    cushim_gemm_q4_0_f32_ref(a->scales, a->values, a->b, a->c, a->m, a->k, a->n);
}

static void gemm_q8_0_reference(const void *args) {
    const struct product *a = args;
    cushim_gemm_q8_0_f32_ref(a->values, a->b, a->c, a->m, a->k, a->n);
}

static void gemm_q8f_reference(const void *args) {
    const struct product *a = args;
    cushim_gemm_q8f_f32_ref(a->values, a->b, a->c, a->m, a->k, a->n);
}

enum cushim_status cushim_gemm_q4_0_f32(const uint16_t *scales, const uint8_t *nibbles,
                                        const float *b, float *c, int64_t m, int64_t k, int64_t n,
                                        void *scratch, size_t scratch_bytes,
                                        struct CUstream_st *stream) {
    return run_product(__func__, &q4_0, gemm_q4_0_reference,
                       (struct product){scales, nibbles, b, c, m, k, n, scratch, scratch_bytes},
                       stream);
}

enum cushim_status cushim_gemm_q8_0_f32(const void *w, const float *b, float *c, int64_t m,
                                        int64_t k, int64_t n, void *scratch, size_t scratch_bytes,
                                        struct CUstream_st *stream) {
    return run_product(__func__, &q8_0, gemm_q8_0_reference,
                       (struct product){NULL, w, b, c, m, k, n, scratch, scratch_bytes}, stream);
}

enum cushim_status cushim_gemm_q8f_f32(const void *w, const float *b, float *c, int64_t m,
                                       int64_t k, int64_t n, void *scratch, size_t scratch_bytes,
                                       struct CUstream_st *stream) {
    return run_product(__func__, &q8f, gemm_q8f_reference,
                       (struct product){NULL, w, b, c, m, k, n, scratch, scratch_bytes}, stream);
}

/* ---- q4k ---- */

static void gemv_q4k_reference(const void *args) {
    const struct product *a = args;
    cushim_gemv_q4k_f32_ref(a->values, a->b, a->c, a->m, a->k);
}

enum cushim_status cushim_gemv_q4k_f32(const void *w, const float *x, float *y, int64_t m,
                                       int64_t k, struct CUstream_st *stream) {
    enum { ROWS_OF_WARP = 2, STEP = 8 * Q4K_VALUES, MANY_TILES = 32 };
    const char *what = __func__;
    struct cushim_kernel_call call;
    int64_t n_blocks, n_of_x, n_of_y;
    CUSHIM_TRY(cushim_check_size(what, "m", m));
    CUSHIM_TRY(cushim_check_size(what, "k", k));
    CUSHIM_TRY(cushim_check_multiple(what, "k", k, Q4K_VALUES));
    CUSHIM_TRY(
        cushim_check_count(what, "w", (int64_t[]){m, k / Q4K_VALUES}, 2, Q4K_BYTES, &n_blocks));
    CUSHIM_TRY(cushim_check_count(what, "x", &k, 1, sizeof(float), &n_of_x));
    CUSHIM_TRY(cushim_check_count(what, "y", &m, 1, sizeof(float), &n_of_y));
    if (m == 0)
        return CUSHIM_OK;
    if (k) {
        CUSHIM_TRY(cushim_check_pointer(what, "w", w, sizeof(uint16_t)));
        CUSHIM_TRY(cushim_check_pointer(what, "x", x, sizeof(float)));
    }
    CUSHIM_TRY(cushim_check_pointer(what, "y", y, sizeof(float)));
    CUSHIM_TRY(cushim_kernel_call_begin(&call, what, &cushim_family_gemv, stream));
    if (call.is_cpu)
        return cushim_kernel_call_reference(
            &call, gemv_q4k_reference,
            &(struct product){.values = w, .b = x, .c = y, .m = m, .k = k}, sizeof(struct product));
    struct gemv_direct direct;
    struct gemv_direct_sizes sizes = {.n_tiles = (m - 1) / GEMV_DIRECT_ROWS + 1,
                                      .n_steps = k / GEMV_DIRECT_STEP,
                                      .least_tiles = call.n_sms,
                                      .tile_bytes = GEMV_DIRECT_ROWS * (k / Q4K_VALUES) * Q4K_BYTES,
                                      .column_bytes = GEMV_DIRECT_DIGITS_OF_Q4K,
                                      .early_bytes =
                                          (m - 1) / GEMV_DIRECT_ROWS >= MANY_TILES * call.n_sms
                                              ? GEMV_DIRECT_EARLY_BYTES
                                              : GEMV_DIRECT_EARLY_OF_Q4K,
                                      .is_alone = true};
    if (cushim_is_aligned(16, w, x, NULL, NULL) && cushim_gemv_direct_shape(&call, &direct, &sizes))
        return launch_direct(
            &call, GEMV_Q4K_DIRECT, &direct,
            &(struct product){.values = w, .b = x, .c = y, .m = m, .k = k, .n = 1});
    int warps = warps_per_row(&call, m, ROWS_OF_WARP, k, GEMV_COLUMN_VALUES, STEP);
    struct cushim_kernel_shape shape = {.grid = {blocks_of_rows(&call, m, ROWS_OF_WARP, warps)},
                                        .block = {BLOCK_THREADS},
                                        .shared_bytes = GEMV_Q4K_BYTES,
                                        .is_dependent = true};
    void *params[] = {&w, &x, &y, &m, &k, &warps};
    return cushim_kernel_call_launch(
        &call, cushim_is_aligned(16, w, NULL, NULL, NULL) ? GEMV_Q4K_WIDE : GEMV_Q4K, &shape,
        params);
}
