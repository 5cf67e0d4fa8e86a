/*
 * Attention of many sequences with caches of their own lengths, in blocks or without.
 *
 * The query heads that share a KV head lie together in a tile: row i of a sequence's is head i %
 * group of query i / group.  Lengths are only known here, so each block goes through the sequences
 * and takes every n-th tile.
 */
#ifndef CUSHIM_KERNELS_ATTENTION_CACHED_CUH
#define CUSHIM_KERNELS_ATTENTION_CACHED_CUH

#include "kernels/attention/attention_row.cuh"
#include "kernels/attention/attention_tiled.cuh"
#include "kernels/device/math/bf16.cuh"
#include "kernels/device/math/half.cuh"

namespace {

DEVICE int64_t clamped(const int32_t *lengths, int64_t i, int64_t most) {
    int64_t n = lengths ? lengths[i] : most;
    return n < 0 ? 0 : n < most ? n : most;
}

/* Keys or values of a head of a sequence. */
struct Cached {
    const attention_cached_args *cache;
    const void *base; /* k or v */
    const int32_t *blocks;
    int64_t offset; /* of the head; without blocks, of position 0 */
    int dim;

    __device__ Cached(const attention_cached_args &args, const void *base, int64_t sequence,
                      int64_t head)
        : cache(&args), base(base), blocks(NULL), offset(head * args.head_stride),
          dim((int)args.head_dim) {
        if (cache->blocks)
            blocks = cache->blocks + sequence * cache->blocks_per_sequence;
        else
            offset += sequence * cache->batch_stride +
                      (cache->kv_begin ? cache->kv_begin[sequence] : 0) * cache->position_stride;
    }

    template <class T> __device__ const T *row(int64_t position) const {
        if (!blocks)
            return (const T *)base + offset + position * cache->position_stride;
        uint32_t len = (uint32_t)cache->block_len, p = (uint32_t)position;
        int64_t block = blocks[p / len];
        const T *first = cache->is_of_pointers ? (const T *)((const void *const *)base)[block]
                                               : (const T *)base + block * cache->batch_stride;
        return first + offset + p % len * cache->position_stride;
    }

    /* Four columns, zeros from dim on. */
    __device__ float4 operator()(int64_t position, int column) const {
        if (cache->type == ATTENTION_F32) {
            const float *from = row<float>(position);
            return load_columns<true>(from, column, dim, dim % 4 == 0 && (uintptr_t)from % 16 == 0);
        }
        const uint16_t *from = row<uint16_t>(position) + column;
        uint32_t low = 0, high = 0;
        if (column + 4 <= dim && (uintptr_t)from % 8 == 0) {
            uint2 bits = __ldg(reinterpret_cast<const uint2 *>(from));
            low = bits.x;
            high = bits.y;
        } else {
            low = (column < dim ? from[0] : 0) | (column + 1 < dim ? (uint32_t)from[1] << 16 : 0);
            high =
                (column + 2 < dim ? from[2] : 0) | (column + 3 < dim ? (uint32_t)from[3] << 16 : 0);
        }
        bool is_f16 = cache->type == ATTENTION_F16;
        float2 first = is_f16 ? F16::widen2(low) : Bf16::widen2(low);
        float2 second = is_f16 ? F16::widen2(high) : Bf16::widen2(high);
        return make_float4(first.x, first.y, second.x, second.y);
    }

    __device__ float element(int64_t position, int64_t d) const {
        if (cache->type == ATTENTION_F32)
            return row<float>(position)[d];
        uint16_t bits = row<uint16_t>(position)[d];
        return cache->type == ATTENTION_F16 ? F16::widen(bits) : Bf16::widen(bits);
    }
};

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

/* Call run(tile) for each of the block's tiles of ROWS rows; the last of a sequence come first. */
template <int ROWS, class Run>
DEVICE void each_tile(const attention_cached_args &args, const Run &run) {
    int64_t item = blockIdx.x;
    for (int64_t b = 0; b < args.batch; b++) {
        int64_t n_queries = clamped(args.q_len, b, args.max_q_len);
        int64_t n_tiles = (n_queries * args.group + ROWS - 1) / ROWS;
        for (; item < n_tiles * args.n_kv_heads; item += gridDim.x) {
            CachedTile tile = {b,
                               item % args.n_kv_heads,
                               (n_tiles - 1 - item / args.n_kv_heads) * ROWS,
                               n_queries * args.group,
                               args.q_begin ? args.q_begin[b] : b * args.max_q_len,
                               n_queries,
                               clamped(args.kv_len, b, args.max_kv_len)};
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

#define CACHED(name, dim, rows, keys, lanes)                                                       \
    KERNEL_OF(rows / 4 * lanes, 2, attention_cached_##name)                                        \
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
