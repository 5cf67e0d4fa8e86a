/*
 * Attention of many sequences with caches of their own lengths, in blocks or without.
 *
 * The query heads that share a KV head lie together in a tile: row i of a sequence's is head i %
 * group of query i / group.  Lengths are only known here, so each block goes through the sequences
 * and takes every n-th tile.
 */
#ifndef CUSHIM_KERNELS_ATTENTION_CACHED_CUH
#define CUSHIM_KERNELS_ATTENTION_CACHED_CUH

#include "kernels/attention/attention_cache.cuh"
#include "kernels/attention/attention_row.cuh"
#include "kernels/attention/attention_tiled.cuh"

namespace {

/* Tile `row` / ROWS of the rows of a KV head. */
struct CachedTile {
    int64_t sequence, head, row, n_rows; /* rows of the sequence and head */
    int64_t first_query, n_queries, kv_len;

    __device__ int64_t seen(const attention_cached_args &args, int64_t i) const {
        int64_t at = row + i < n_rows ? row + i : n_rows - 1;
        int64_t n = args.is_causal ? kv_len - n_queries + at / args.group + 1 : kv_len;
        return n < 0 ? 0 : n;
    }

    __device__ int64_t place(const attention_cached_args &args, int64_t i) const {
        int64_t query = first_query + (row + i) / args.group;
        return ((query * args.n_kv_heads + head) * args.group + (row + i) % args.group) *
               args.head_dim;
    }
};

/* Call run(tile) for each of the block's tiles of ROWS rows; the last of a sequence, which take
 * longest, come first.  Each other round goes through the blocks backwards, so that all have about
 * as much to do. */
template <int ROWS, class Run>
DEVICE void each_tile(const attention_cached_args &args, const Run &run) {
    int64_t item = blockIdx.x, step = 2 * ((int64_t)gridDim.x - item) - 1;
    for (int64_t b = 0; b < args.batch; b++) {
        int64_t n_queries = clamped(args.q_len, b, args.max_q_len);
        int64_t n_tiles = (n_queries * args.group + ROWS - 1) / ROWS;
        for (; item < n_tiles * args.n_kv_heads; item += step, step = 2 * gridDim.x - step) {
            CachedTile tile = {b,
                               item % args.n_kv_heads,
                               (n_tiles - 1 - item / args.n_kv_heads) * ROWS,
                               n_queries * args.group,
                               args.q_begin ? args.q_begin[b] : b * args.max_q_len,
                               n_queries,
                               length_of(args, b)};
            run(tile);
        }
        item -= n_tiles * args.n_kv_heads;
    }
}

template <int DIM, int ROWS, int KEYS, int LANES>
DEVICE void attend_cached(float *shared, const attention_cached_args &args) {
    each_tile<ROWS>(args, [&](const CachedTile &tile) {
        Tiled<DIM, ROWS, KEYS, LANES> block(shared, args);
        Cached keys(args, args.k, tile.sequence, tile.head);
        Cached values(args, args.v, tile.sequence, tile.head);
        block.run(
            tile.n_rows - tile.row, tile.seen(args, ROWS - 1), tile.seen(args, 0),
            [&](int i) { return tile.seen(args, i); },
            [&](int i, int column) {
                return load_columns<true>(args.q + tile.place(args, i), column, block.dim,
                                          args.is_wide);
            },
            keys, values, [&](int i) { return args.o + tile.place(args, i); });
    });
}

} // namespace

#define CACHED(dim, rows, keys, lanes)                                                             \
    KERNEL_OF(rows / 4 * lanes, 2, attention_cached_##dim)                                         \
    (const __grid_constant__ attention_cached_args args) {                                         \
        DYNAMIC_SHARED(float, shared);                                                             \
        attend_cached<dim, rows, keys, lanes>(shared, args);                                       \
    }
ATTENTION_CACHED_VARIANTS(CACHED)
#undef CACHED

KERNEL(attention_cached_rows)(const __grid_constant__ attention_cached_args args) {
    __shared__ RowTile room;
    each_tile<1>(args, [&](const CachedTile &tile) {
        Cached keys(args, args.k, tile.sequence, tile.head);
        Cached values(args, args.v, tile.sequence, tile.head);
        int64_t place = tile.place(args, 0);
        attend_row(
            &room, args.q + place, [&](int64_t key, int64_t d) { return keys.element(key, d); },
            [&](int64_t key, int64_t d) { return values.element(key, d); }, args.o + place,
            tile.seen(args, 0), args.head_dim, args.scale);
    });
}

#endif
