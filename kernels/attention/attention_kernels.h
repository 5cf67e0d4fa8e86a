/* What the launchers of attention share: kernels by number, the scale of scores, a check, launches.
 */
#ifndef CUSHIM_KERNELS_ATTENTION_KERNELS_H
#define CUSHIM_KERNELS_ATTENTION_KERNELS_H

#include <math.h>

#include "kernels/attention/attention.h"
#include "kernels/launch/call.h"

#define TILED(dim, rows, keys, lanes)              ATTENTION_TILED_##dim,
#define SMALL(dim, warps, row_tiles, keys)         ATTENTION_SPLIT_SMALL_##dim,
#define MEDIUM(dim, warps, row_tiles, keys)        ATTENTION_SPLIT_MEDIUM_##dim,
#define LARGE(dim, warps, row_tiles, keys, per_sm) ATTENTION_SPLIT_LARGE_##dim,
#define WGMMA(dim)                                 ATTENTION_WGMMA_##dim,
#define DECODE(name, type, dim, group)             ATTENTION_DECODE_##name,
#define CACHED(dim, rows, keys, lanes)             ATTENTION_CACHED_##dim,
#define CACHED_WGMMA(name, type, dim)              ATTENTION_CACHED_WGMMA_##name##_##dim,
enum attention_kernel {
    ATTENTION_TILED_VARIANTS(TILED) ATTENTION_SPLIT_SMALL_VARIANTS(SMALL)
        ATTENTION_SPLIT_MEDIUM_VARIANTS(MEDIUM) ATTENTION_SPLIT_LARGE_VARIANTS(LARGE)
            ATTENTION_WGMMA_VARIANTS(WGMMA) ATTENTION_DECODE_VARIANTS(DECODE)
                ATTENTION_CACHED_VARIANTS(CACHED) ATTENTION_CACHED_WGMMA_VARIANTS(CACHED_WGMMA)
                    ATTENTION_DECODE_MERGE,
    ATTENTION_ROWS,
    ATTENTION_CACHED_ROWS
};
#undef TILED
#undef SMALL
#undef MEDIUM
#undef LARGE
#undef WGMMA
#undef DECODE
#undef CACHED
#undef CACHED_WGMMA

/* log2(e) / sqrt(head_dim), because weights are powers of 2. */
static inline float attention_scale(int64_t head_dim) {
    return (float)(log2(exp(1)) / sqrt((double)head_dim));
}

/*
 * The slices of 8 rows of a KV head with max_q_len queries.  0 means that tiles take them: the rows
 * are many, or they are not few and all heads have more than `most` slices.
 */
static inline int64_t attention_n_slices(int64_t max_q_len, int64_t group, int64_t n_heads,
                                         int64_t most) {
    if (max_q_len < 1 || (max_q_len > 1 && group > ATTENTION_DECODE_MOST_ROWS / max_q_len))
        return 0;
    int64_t n = (max_q_len * group - 1) / ATTENTION_DECODE_GROUP + 1;
    bool is_few = max_q_len == 1 || n <= ATTENTION_DECODE_ROWS / ATTENTION_DECODE_GROUP;
    return is_few || n_heads <= most / n ? n : 0;
}

/* Check that n_q_heads is a multiple of n_kv_heads; only 0 is one of 0. */
enum cushim_status attention_check_groups(const char *what, int64_t n_q_heads, int64_t n_kv_heads);

/*
 * Launch what is best for these arguments.  The scale, is_wide and what only decode has are set
 * here, except is_early.  scratch may be NULL.
 */
enum cushim_status attention_cached_launch(const struct cushim_kernel_call *call,
                                           struct attention_cached_args *args, void *scratch,
                                           size_t scratch_bytes);
/* The same for few rows of each sequence, in chunks of the cache. */
enum cushim_status attention_decode_launch(const struct cushim_kernel_call *call,
                                           struct attention_cached_args *args, void *scratch,
                                           size_t scratch_bytes);

#endif
