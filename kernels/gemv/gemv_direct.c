/*
 * The launch of products with quantised matrices by blocks that stay (sm_90): how many blocks and
 * warps there are, and what each has of shared memory.
 */
#include "kernels/gemv/gemv_direct.h"

#include <limits.h>

/* What each of n_blocks on a multiprocessor may have; no kernel here is launched with more. */
static unsigned shared_bytes(const struct cushim_kernel_call *call, unsigned n_blocks) {
    unsigned n_bytes = cushim_kernel_call_share(call, n_blocks);
    return n_bytes < GEMV_DIRECT_MOST_BYTES ? n_bytes : GEMV_DIRECT_MOST_BYTES;
}

/*
 * Warps that share the steps of k of a block's tiles, one after the other: the number, up to
 * `most`, with the least idleness.  Each has a part of every tile.
 */
static unsigned even_warps(int64_t n_steps, int64_t n_tiles, unsigned most) {
    int64_t least = INT64_MAX, n_all = n_steps * n_tiles;
    unsigned best = 1;
    for (unsigned warps = most; warps >= most / 2; warps--) {
        int64_t with_idle = (n_all + warps - 1) / warps * warps;
        if (with_idle < least) {
            least = with_idle;
            best = warps;
        }
    }
    return best < n_steps ? best : (unsigned)n_steps;
}

/*
 * Clusters of n_ranks blocks, of which `share` fit on a multiprocessor, and a block per place, or
 * more if the sums of their tiles do not fit.  False if no number fits, or fewer than three
 * quarters of the warps, or if a block that shares k has a warp without a step.
 */
static bool direct_blocks(const struct cushim_kernel_call *call, struct gemv_direct *direct,
                          const struct gemv_direct_sizes *sizes, unsigned share, unsigned n_ranks) {
    unsigned most_bytes = shared_bytes(call, share), most_warps = GEMV_DIRECT_WARPS / share,
             n_cols = sizes->n_cols, bytes_of_warp = sizes->bytes_of_warp + 64 * n_cols;
    int64_t n_clusters = (call->n_sms - 1) / n_ranks + 1,
            n_tiles = (sizes->n_tiles - 1) / n_clusters + 1;
    int64_t of_first = GEMV_DIRECT_FIRST_STEP(sizes->n_steps, 1, n_ranks),
            of_last = sizes->n_steps - GEMV_DIRECT_FIRST_STEP(sizes->n_steps, n_ranks - 1, n_ranks),
            n_steps = n_ranks > 1 && of_first > of_last ? of_first : of_last,
            fewest = n_ranks > 1 && of_first < of_last ? of_first : of_last;
    unsigned bytes = GEMV_DIRECT_BYTES(n_cols, sizes->column_bytes, (unsigned)n_steps, 0, 0, 0);
    if (bytes + most_warps * 3 / 4 * bytes_of_warp > most_bytes ||
        (n_ranks > 1 && fewest < most_warps))
        return false;
    if (bytes + most_warps * bytes_of_warp > most_bytes)
        most_warps = (most_bytes - bytes) / bytes_of_warp;
    unsigned n_warps = even_warps(n_steps, n_tiles, most_warps),
             bytes_of_tile = 64 * n_warps * n_cols;
    bytes += n_warps * sizes->bytes_of_warp;
    unsigned least =
        cushim_n_blocks(sizes->n_tiles, (most_bytes - bytes) / bytes_of_tile, INT32_MAX);
    /* As many for each place, because a last few would have the device for themselves. */
    unsigned grid = cushim_n_blocks(sizes->n_tiles, 1, n_clusters);
    if (grid < least)
        grid = cushim_n_blocks(least, n_clusters, INT32_MAX) * (unsigned)n_clusters;
    unsigned most_tiles = (unsigned)((sizes->n_tiles - 1) / grid + 1);
    direct->most_tiles = (int)most_tiles;
    direct->shape = (struct cushim_kernel_shape){.grid = {grid * n_ranks},
                                                 .block = {32 * n_warps},
                                                 .cluster = n_ranks > 1 ? n_ranks : 0,
                                                 .shared_bytes = bytes + most_tiles * bytes_of_tile,
                                                 .is_dependent = true};
    return true;
}

/* The rounds of blocks that a launch has. */
static unsigned n_rounds(const struct cushim_kernel_call *call, const struct gemv_direct *direct) {
    return (direct->shape.grid[0] - 1) / (unsigned)call->n_sms + 1;
}

/*
 * One block per multiprocessor.  If it asks for all its weights while the kernel ahead still runs,
 * it has half of the multiprocessor, so that it can start by then.  Two blocks share k if the
 * columns take more than half of the shared memory, because weights too need room there and in L1,
 * or if there are at most half as many rounds of blocks, of which each forms the digits anew.
 */
bool cushim_gemv_direct_shape(const struct cushim_kernel_call *call, struct gemv_direct *direct,
                              const struct gemv_direct_sizes *sizes) {
    enum { MOST_RANKS = 2 };
    int64_t most_steps = GEMV_DIRECT_MOST_BYTES / (sizes->n_cols * sizes->column_bytes);
    if (call->arch < 90 || sizes->n_steps == 0 || sizes->n_steps > MOST_RANKS * most_steps ||
        sizes->n_tiles < sizes->least_tiles || sizes->n_tiles > INT32_MAX)
        return false;
    int64_t bytes_of_block = ((sizes->n_tiles - 1) / call->n_sms + 1) * sizes->tile_bytes;
    direct->early_bytes = GEMV_DIRECT_EARLY_BYTES;
    if (!sizes->is_alone && bytes_of_block <= GEMV_DIRECT_EARLY_BYTES &&
        direct_blocks(call, direct, sizes, 2, 1))
        return true;
    direct->early_bytes = sizes->early_bytes;
    bool is_long = sizes->n_steps > most_steps / 2;
    bool fits_alone = direct_blocks(call, direct, sizes, 1, 1);
    unsigned most_rounds = is_long || !fits_alone ? UINT_MAX : n_rounds(call, direct) / 2;
    bool may_share = most_rounds > 0 && sizes->may_share && call->has_clusters;
    struct gemv_direct pair = *direct;
    if (may_share && direct_blocks(call, &pair, sizes, 1, MOST_RANKS) &&
        n_rounds(call, &pair) <= most_rounds) {
        *direct = pair;
        return true;
    }
    return fits_alone;
}

/*
 * Each cluster lies within one of a device's parts, which have even numbers of multiprocessors, so
 * that each part may leave n_blocks - 1 idle, or one less if that is odd.
 */
int64_t cushim_gemv_n_clusters(const struct cushim_kernel_call *call, unsigned n_blocks) {
    enum { PARTS = 8 };
    int64_t idle = PARTS * (int64_t)((n_blocks - 1) / 2 * 2), n = (int64_t)call->n_sms - idle;
    return n > n_blocks ? n / n_blocks : 1;
}

/*
 * Blocks stay, with one warp per slice, or several if there are few slices.  A cluster shares k if
 * it is too much for a block.  Each eight columns have a part of the device.
 */
bool cushim_gemv_slices_shape(const struct cushim_kernel_call *call,
                              struct cushim_kernel_shape *shape, struct gemv_slices *slices,
                              int64_t m, int64_t k, int64_t n_cols, int64_t row_bytes) {
    enum { MOST_GROUPS = 4, TILES_OF_WARP = 4 };
    int64_t n_all = k / GEMV_SLICE, n_tiles = (m - 1) / GEMV_SLICE_ROWS + 1;
    unsigned ranks = 1, n_parts = (unsigned)((n_cols - 1) / GEMV_SLICE_COLS + 1);
    if (call->arch < 90 || n_all == 0 || n_tiles > INT32_MAX)
        return false;
    while (ranks < CUSHIM_PORTABLE_CLUSTER && n_all > (int64_t)GEMV_SLICE_WARPS * ranks)
        ranks *= 2;
    if (n_all > (int64_t)GEMV_SLICE_WARPS * ranks || (ranks > 1 && !call->has_clusters))
        return false;
    unsigned n_slices = (unsigned)((n_all - 1) / ranks + 1), groups = GEMV_SLICE_WARPS / n_slices;
    if (groups > MOST_GROUPS)
        groups = MOST_GROUPS;
    int64_t most = cushim_gemv_n_clusters(call, ranks) / n_parts;
    unsigned clusters = cushim_n_blocks(n_tiles, 1, most > 1 ? most : 1);
    int64_t tiles = (n_tiles - 1) / clusters + 1;
    unsigned warps = n_slices * groups, n_bytes = (unsigned)(row_bytes / n_all);
    unsigned most_bytes = shared_bytes(call, 1),
             least = GEMV_SLICE_BYTES(n_bytes, warps, n_slices, 0, 0);
    if (most_bytes < least)
        return false;
    /* All tiles, or as many as there is room for the sums of, twice. */
    unsigned n_sums = 1, n = (most_bytes - least) / GEMV_SLICE_BYTES(n_bytes, 0, n_slices, 1, 1);
    if (tiles <= n) {
        n = (unsigned)tiles;
    } else {
        n_sums = 2;
        n = (most_bytes - least) / GEMV_SLICE_BYTES(n_bytes, 0, n_slices, 1, 2);
        n = n < TILES_OF_WARP * groups ? n : TILES_OF_WARP * groups;
    }
    if (n == 0)
        return false;
    *slices = (struct gemv_slices){.m = m,
                                   .k = k,
                                   .n = n_cols,
                                   .step = row_bytes * GEMV_SLICE_ROWS * groups * clusters,
                                   .row_bytes = (uint32_t)row_bytes,
                                   .n_slices = (int32_t)n_slices,
                                   .n_groups = (int32_t)groups,
                                   .tile_step = (int32_t)clusters,
                                   .tiles_per_sum = (int32_t)n};
    *shape = (struct cushim_kernel_shape){.grid = {clusters * ranks, n_parts},
                                          .block = {32 * warps},
                                          .cluster = ranks > 1 ? ranks : 0,
                                          .shared_bytes =
                                              GEMV_SLICE_BYTES(n_bytes, warps, n_slices, n, n_sums),
                                          .is_dependent = true};
    return true;
}
