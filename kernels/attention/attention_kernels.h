/* What the two launchers of attention share: the kernels by number, and the scale of scores. */
#ifndef CUSHIM_KERNELS_ATTENTION_KERNELS_H
#define CUSHIM_KERNELS_ATTENTION_KERNELS_H

#include <math.h>

#include "kernels/attention/attention.h"

#define TILED(dim, rows, keys, lanes)              ATTENTION_TILED_##dim,
#define SMALL(dim, warps, row_tiles, keys)         ATTENTION_SPLIT_SMALL_##dim,
#define MEDIUM(dim, warps, row_tiles, keys)        ATTENTION_SPLIT_MEDIUM_##dim,
#define LARGE(dim, warps, row_tiles, keys, per_sm) ATTENTION_SPLIT_LARGE_##dim,
#define WGMMA(dim)                                 ATTENTION_WGMMA_##dim,
#define DECODE(dim, group, warps)                  ATTENTION_DECODE_##dim##_##group,
#define CACHED(name, dim, rows, keys, lanes)       ATTENTION_CACHED_##name,
#define DECODE_NARROW(dim, group, warps)           ATTENTION_DECODE_NARROW_##dim,
enum attention_kernel {
    ATTENTION_TILED_VARIANTS(TILED) ATTENTION_SPLIT_SMALL_VARIANTS(SMALL)
        ATTENTION_SPLIT_MEDIUM_VARIANTS(MEDIUM) ATTENTION_SPLIT_LARGE_VARIANTS(LARGE)
            ATTENTION_WGMMA_VARIANTS(WGMMA) ATTENTION_DECODE_VARIANTS(DECODE)
                ATTENTION_DECODE_NARROW_VARIANTS(DECODE_NARROW) ATTENTION_DECODE_MERGE,
    ATTENTION_ROWS,
    ATTENTION_DECODE_ROWS,
    ATTENTION_CACHED_VARIANTS(CACHED) ATTENTION_CACHED_ROWS
};
#undef TILED
#undef SMALL
#undef MEDIUM
#undef LARGE
#undef WGMMA
#undef DECODE
#undef CACHED
#undef DECODE_NARROW

/* log2(e) / sqrt(head_dim), because weights are powers of 2. */
static inline float attention_scale(int64_t head_dim) {
    return (float)(log2(exp(1)) / sqrt((double)head_dim));
}

#endif
