/*
 * Attention of whole sequences: arguments, the choice of tiles, the launch; and the family's
 * kernels.
 *
 * From 8.0 on the matrix units do it, in small blocks.  From 9.0 on blocks are larger if there is
 * shared memory for them, and 9.0 itself has warpgroups.  Before 8.0, and if no tile for matrix
 * units is large enough, fp32 units do it.
 */
#include "cushim/kernels/attention.h"

#include "cushim/kernels_ref.h"
#include "companion/shared.h"
#include "kernels/attention/attention_kernels.h"
#include "kernels/launch/call.h"
#include "kernels/launch/arguments.h"

#define TILED(dim, rows, keys, lanes)                                                              \
    [ATTENTION_TILED_##dim] = {.name = "attention_tiled_" #dim,                                    \
                               .shared_bytes = ATTENTION_TILED_BYTES(dim, rows, keys)},
#define SPLIT(size, name_of_size, dim, warps, row_tiles, keys)                                     \
    [ATTENTION_SPLIT_##size##_##                                                                   \
        dim] = {.name = "attention_split_" name_of_size "_" #dim,                                  \
                .shared_bytes = ATTENTION_SPLIT_BYTES(dim, warps, row_tiles, keys)},
#define SMALL(dim, warps, row_tiles, keys)  SPLIT(SMALL, "small", dim, warps, row_tiles, keys)
#define MEDIUM(dim, warps, row_tiles, keys) SPLIT(MEDIUM, "medium", dim, warps, row_tiles, keys)
#define LARGE(dim, warps, row_tiles, keys, per_sm)                                                 \
    SPLIT(LARGE, "large", dim, warps, row_tiles, keys)
#define WGMMA(dim)                                                                                 \
    [ATTENTION_WGMMA_##                                                                            \
        dim] = {.name = "attention_wgmma_" #dim, .shared_bytes = ATTENTION_WGMMA_BYTES(dim)},
#define CACHED(dim, rows, keys, lanes)                                                             \
    [ATTENTION_CACHED_##dim] = {.name = "attention_cached_" #dim,                                  \
                                .shared_bytes = ATTENTION_TILED_BYTES(dim, rows, keys)},
#define CACHED_WGMMA(name_, type, dim)                                                             \
    [ATTENTION_CACHED_WGMMA_##name_##_##                                                           \
        dim] = {.name = "attention_cached_wgmma_" #name_ "_" #dim,                                 \
                .shared_bytes = ATTENTION_CACHED_WGMMA_BYTES(ATTENTION_##type, dim)},
#define DECODE(name_, type, dim, group)                                                            \
    [ATTENTION_DECODE_##name_] = {                                                                 \
        .name = "attention_decode_" #name_,                                                        \
        .shared_bytes = ATTENTION_IS_OF_16(ATTENTION_##type)                                       \
                            ? (unsigned)ATTENTION_DECODE_UNIT_BYTES                                \
                            : ATTENTION_DECODE_BYTES(ATTENTION_##type, dim, group, false),         \
        .is_wide = true},
static const struct cushim_kernel kernels[] = {
    ATTENTION_TILED_VARIANTS(TILED) ATTENTION_SPLIT_SMALL_VARIANTS(SMALL)
        ATTENTION_SPLIT_MEDIUM_VARIANTS(MEDIUM) ATTENTION_SPLIT_LARGE_VARIANTS(LARGE)
            ATTENTION_WGMMA_VARIANTS(WGMMA) ATTENTION_DECODE_VARIANTS(DECODE)
                ATTENTION_CACHED_VARIANTS(CACHED) ATTENTION_CACHED_WGMMA_VARIANTS(
                    CACHED_WGMMA)[ATTENTION_DECODE_MERGE] = {.name = "attention_decode_merge"},
    [ATTENTION_ROWS] = {.name = "attention_rows"},
    [ATTENTION_CACHED_ROWS] = {.name = "attention_cached_rows"},
};
CUSHIM_KERNEL_FAMILY(attention, kernels);
#undef TILED
#undef SPLIT
#undef SMALL
#undef MEDIUM
#undef LARGE
#undef WGMMA
#undef DECODE
#undef CACHED
#undef CACHED_WGMMA

/* ---- which tiles ---- */

struct tiles {
    int dim;
    enum attention_kernel kernel;
    int rows, n_threads; /* of a block */
    int per_sm;          /* blocks of a multiprocessor; only of large ones */
    int n_joined;        /* blocks of a head that may be a cluster; 0 means none */
};

#define TILED(dim, rows, keys, lanes)                                                              \
    {dim, ATTENTION_TILED_##dim, rows, (rows) / 4 * (lanes), 0, 0},
static const struct tiles tiled[] = {ATTENTION_TILED_VARIANTS(TILED)};

#define SMALL(dim, warps, row_tiles, keys)                                                         \
    {dim, ATTENTION_SPLIT_SMALL_##dim, 16 * (row_tiles) * (warps), 32 * (warps), 0, 0},
static const struct tiles small[] = {ATTENTION_SPLIT_SMALL_VARIANTS(SMALL)};

#define MEDIUM(dim, warps, row_tiles, keys)                                                        \
    {dim, ATTENTION_SPLIT_MEDIUM_##dim, 16 * (row_tiles) * (warps), 32 * (warps), 0, 0},
static const struct tiles medium[] = {ATTENTION_SPLIT_MEDIUM_VARIANTS(MEDIUM)};

#define LARGE(dim, warps, row_tiles, keys, per_sm)                                                 \
    {dim, ATTENTION_SPLIT_LARGE_##dim, 16 * (row_tiles) * (warps), 32 * (warps), per_sm, 0},
static const struct tiles large[] = {ATTENTION_SPLIT_LARGE_VARIANTS(LARGE)};

#define WGMMA(dim)                                                                                 \
    {dim, ATTENTION_WGMMA_##dim, 2 * ATTENTION_WGMMA_ROWS, ATTENTION_WGMMA_THREADS, 0, 2},
static const struct tiles wgmma[] = {ATTENTION_WGMMA_VARIANTS(WGMMA)};

/* The first tiles that hold head_dim and fit into the device's shared memory, or NULL. */
static const struct tiles *find(const struct cushim_kernel_call *call, const struct tiles *tiles,
                                size_t n, int64_t head_dim) {
    for (size_t i = 0; i < n; i++) {
        if (tiles[i].dim >= head_dim && cushim_kernel_call_holds(call, tiles[i].kernel))
            return &tiles[i];
    }
    return NULL;
}

#define FIND(tiles) find(call, tiles, sizeof(tiles) / sizeof *(tiles), args->head_dim)

static int64_t n_blocks(const struct attention_args *args, int rows) {
    return (args->seq - 1) / rows + 1 > INT64_MAX / args->n_heads
               ? INT64_MAX
               : ((args->seq - 1) / rows + 1) * args->n_heads;
}

/*
 * Whether there are enough large blocks to keep the device busy: about as many as it holds, or more
 * if some see fewer keys than others.
 */
static bool keeps_device_busy(const struct cushim_kernel_call *call,
                              const struct attention_args *args, const struct tiles *tiles) {
    int per_sm = tiles->per_sm;
    while (per_sm > 1 &&
           kernels[tiles->kernel].shared_bytes > cushim_kernel_call_share(call, (unsigned)per_sm))
        per_sm--;
    int64_t n_held = (int64_t)call->n_sms * per_sm;
    return n_blocks(args, tiles->rows) >= (args->is_causal ? 3 * n_held / 2 : 3 * n_held / 4);
}

static const struct tiles *choose(const struct cushim_kernel_call *call,
                                  const struct attention_args *args) {
    const struct tiles *in_small = call->arch >= 80 ? FIND(small) : NULL;
    const struct tiles *in_medium = call->arch >= 90 ? FIND(medium) : NULL;
    const struct tiles *in_large = call->arch >= 90 ? FIND(large) : NULL;
    bool may_be_wgmma =
        call->has_wgmma && call->has_clusters && args->seq <= ATTENTION_WGMMA_MOST_SEQ;
    const struct tiles *in_wgmma = may_be_wgmma ? FIND(wgmma) : NULL;
    if (in_wgmma && in_wgmma->dim == (in_small ? in_small->dim : 0))
        return in_wgmma;
    if (!in_small)
        return in_large ? in_large : FIND(tiled);
    if (in_large && in_large->dim == in_small->dim && keeps_device_busy(call, args, in_large))
        return in_large;
    if (in_medium && in_medium->dim == in_small->dim &&
        n_blocks(args, in_small->rows) > call->n_sms)
        return in_medium;
    return in_small;
}

/* ---- the launch ---- */

enum { MOST_BLOCKS = 1 << 30, ROW_BLOCKS_PER_SM = 16 };

/*
 * Make clusters of a head's blocks, if it has that many and the device has such clusters; otherwise
 * make clusters of a single block.
 */
static enum cushim_status join_blocks(const struct cushim_kernel_call *call,
                                      const struct tiles *tiles, int64_t seq,
                                      struct cushim_kernel_shape *shape) {
    bool has = false;
    shape->cluster = shape->grid[0] = (unsigned)tiles->n_joined;
    if (seq > (tiles->n_joined - 1) * tiles->rows)
        CUSHIM_TRY(cushim_kernel_call_has_clusters(call, tiles->kernel, shape, &has));
    if (!has)
        shape->cluster = 1;
    return CUSHIM_OK;
}

static enum cushim_status launch(const struct cushim_kernel_call *call,
                                 struct attention_args *args) {
    struct cushim_kernel_shape shape = {
        .grid = {cushim_n_blocks(n_blocks(args, 1), 1, (int64_t)call->n_sms * ROW_BLOCKS_PER_SM)},
        .block = {ATTENTION_ROW_THREADS}};
    const struct tiles *tiles = choose(call, args);
    void *params[] = {args};
    if (!tiles)
        return cushim_kernel_call_launch(call, ATTENTION_ROWS, &shape, params);
    shape.block[0] = (unsigned)tiles->n_threads;
    shape.shared_bytes = kernels[tiles->kernel].shared_bytes;
    if (tiles->n_joined)
        CUSHIM_TRY(join_blocks(call, tiles, args->seq, &shape));
    int n = shape.cluster ? (int)shape.cluster : 1;
    shape.grid[0] =
        (unsigned)n * cushim_n_blocks(n_blocks(args, n * tiles->rows), 1, MOST_BLOCKS / n);
    shape.is_dependent = tiles->n_joined > 0; /* those wait for the kernel ahead themselves */
    args->is_in_pairs = args->is_causal && shape.grid[0] <= (unsigned)call->n_sms;
    args->n_clusters = (int)((args->seq - 1) / ((int64_t)n * tiles->rows) + 1);
    args->of_heads = cushim_divider_of(args->n_heads);
    return cushim_kernel_call_launch(call, tiles->kernel, &shape, params);
}

/* ---- the call ---- */

struct forward {
    const float *q, *k, *v;
    float *o;
    int64_t batch, heads, seq, head_dim;
    bool causal;
};

static void reference(const void *args) {
    const struct forward *f = args;
    cushim_attention_f32_ref(f->q, f->k, f->v, f->o, f->batch, f->heads, f->seq, f->head_dim,
                             f->causal);
}

enum cushim_status cushim_attention_f32(const float *q, const float *k, const float *v, float *o,
                                        int64_t batch, int64_t heads, int64_t seq, int64_t head_dim,
                                        bool causal, struct CUstream_st *stream) {
    struct forward forward = {q, k, v, o, batch, heads, seq, head_dim, causal};
    int64_t sizes[] = {batch, heads, seq, head_dim}, n;
    struct cushim_kernel_call call;
    CUSHIM_TRY(cushim_check_size(__func__, "batch", batch));
    CUSHIM_TRY(cushim_check_size(__func__, "heads", heads));
    CUSHIM_TRY(cushim_check_size(__func__, "seq", seq));
    CUSHIM_TRY(cushim_check_size(__func__, "head_dim", head_dim));
    CUSHIM_TRY(cushim_check_count(__func__, "o", sizes, 4, sizeof(float), &n));
    if (n == 0)
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_check_pointer(__func__, "q", q, sizeof(float)));
    CUSHIM_TRY(cushim_check_pointer(__func__, "k", k, sizeof(float)));
    CUSHIM_TRY(cushim_check_pointer(__func__, "v", v, sizeof(float)));
    CUSHIM_TRY(cushim_check_pointer(__func__, "o", o, sizeof(float)));
    CUSHIM_TRY(cushim_kernel_call_begin(&call, __func__, &cushim_family_attention, stream));
    if (call.is_cpu)
        return cushim_kernel_call_reference(&call, reference, &forward, sizeof forward);
    struct attention_args args = {
        .q = q,
        .k = k,
        .v = v,
        .o = o,
        .n_heads = batch * heads,
        .seq = seq,
        .head_dim = head_dim,
        .scale = attention_scale(head_dim),
        .is_causal = causal,
        .is_wide = head_dim % 4 == 0 && cushim_is_aligned(16, q, k, v, o),
    };
    return launch(&call, &args);
}
