/* The kernels of the family attention by number, for its two launchers. */
#ifndef CUSHIM_KERNELS_ATTENTION_KERNELS_H
#define CUSHIM_KERNELS_ATTENTION_KERNELS_H

#include "kernels/attention.h"

#define TILED(dim, rows, keys, lanes)    ATTENTION_TILED_##dim,
#define SMALL(dim, warps, keys)          ATTENTION_SPLIT_SMALL_##dim,
#define LARGE(dim, warps, keys)          ATTENTION_SPLIT_LARGE_##dim,
#define DECODE(dim, group, warps)        ATTENTION_DECODE_##dim##_##group,
#define DECODE_NARROW(dim, group, warps) ATTENTION_DECODE_NARROW_##dim,
enum attention_kernel {
    ATTENTION_TILED_VARIANTS(TILED) ATTENTION_SPLIT_SMALL_VARIANTS(SMALL)
        ATTENTION_SPLIT_LARGE_VARIANTS(LARGE) ATTENTION_DECODE_VARIANTS(DECODE)
            ATTENTION_DECODE_NARROW_VARIANTS(DECODE_NARROW) ATTENTION_DECODE_MERGE,
    ATTENTION_ROWS,
    ATTENTION_DECODE_ROWS
};
#undef TILED
#undef SMALL
#undef LARGE
#undef DECODE
#undef DECODE_NARROW

#endif
