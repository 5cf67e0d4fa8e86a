/* Where the rows of a cache lie, and what its elements are. */
#ifndef CUSHIM_KERNELS_ATTENTION_CACHE_CUH
#define CUSHIM_KERNELS_ATTENTION_CACHE_CUH

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_weight.cuh"
#include "kernels/device/device.cuh"
#include "kernels/device/math/bf16.cuh"
#include "kernels/device/math/divide.cuh"
#include "kernels/device/math/half.cuh"
#include "kernels/device/vector.cuh"

namespace {

DEVICE int64_t clamped(const int32_t *lengths, int64_t i, int64_t most) {
    int64_t n = lengths ? lengths[i] : most;
    return n < 0 ? 0 : n < most ? n : most;
}

DEVICE int64_t length_of(const attention_cached_args &args, int64_t sequence) {
    return clamped(args.kv_len, args.is_one_len ? 0 : sequence, args.max_kv_len);
}

/* ---- elements: four columns as a lane holds them, zeros from n_columns on ---- */

template <int TYPE> struct Elements {
    typedef float Element;
    typedef float4 Four;

    DEVICE Four load(const float *row, int column, int n_columns) {
        if (column + 4 <= n_columns && (uintptr_t)row % sizeof(Four) == 0)
            return load_streamed(reinterpret_cast<const Four *>(row + column));
        return load_columns<false>(row, column, n_columns, false);
    }
    DEVICE float4 widen(Four four) {
        return four;
    }
    DEVICE float widen(float element) {
        return element;
    }
};

/* Rows are at multiples of 16 bytes. */
template <> struct Elements<ATTENTION_EVEN> : Elements<ATTENTION_F32> {
    DEVICE Four load(const float *row, int column, int n_columns) {
        return column < n_columns ? load_streamed(reinterpret_cast<const Four *>(row + column))
                                  : make_float4(0, 0, 0, 0);
    }
};

template <class Half> struct Halves {
    typedef uint16_t Element;
    typedef uint2 Four;

    DEVICE Four load(const uint16_t *row, int column, int n_columns) {
        const uint16_t *from = row + column;
        int n = n_columns - column;
        if (n >= 4 && (uintptr_t)row % sizeof(Four) == 0)
            return load_streamed(reinterpret_cast<const Four *>(from));
        return make_uint2((n > 0 ? from[0] : 0) | (n > 1 ? (uint32_t)from[1] << 16 : 0),
                          (n > 2 ? from[2] : 0) | (n > 3 ? (uint32_t)from[3] << 16 : 0));
    }
    /* Eight columns from `column` on. */
    DEVICE uint4 load_eight(const uint16_t *row, int column, int n_columns) {
        row += column;
        int n = n_columns - column;
        if (n_columns % 8 == 0 && (uintptr_t)row % sizeof(uint4) == 0)
            return n > 0 ? load_streamed(reinterpret_cast<const uint4 *>(row))
                         : make_uint4(0, 0, 0, 0);
        Four first = load(row, 0, n), second = load(row, 4, n);
        return make_uint4(first.x, first.y, second.x, second.y);
    }
    DEVICE float2 widen2(uint32_t pair) {
        return Half::widen2(pair);
    }
    DEVICE float4 widen(Four four) {
        float2 first = Half::widen2(four.x), second = Half::widen2(four.y);
        return make_float4(first.x, first.y, second.x, second.y);
    }
    DEVICE float widen(uint16_t element) {
        return Half::widen(element);
    }
};
template <> struct Elements<ATTENTION_F16> : Halves<F16> {};
template <> struct Elements<ATTENTION_BF16> : Halves<Bf16> {};

/* ---- rows ---- */

/* Keys or values of a head of a sequence. */
struct Cached {
    const attention_cached_args *cache;
    const void *base; /* k or v */
    const int32_t *blocks;
    int64_t offset; /* of the head; without blocks, of position 0 */

    __device__ Cached(const attention_cached_args &args, const void *base, int64_t sequence,
                      int64_t head)
        : cache(&args), base(base), blocks(NULL), offset(head * args.head_stride) {
        if (cache->blocks)
            blocks = cache->blocks + sequence * cache->blocks_per_sequence;
        else
            offset += sequence * cache->batch_stride +
                      (cache->kv_begin ? cache->kv_begin[sequence] : 0) * cache->position_stride;
    }

    /* The number of the block that has this position. */
    __device__ int64_t block_of(int64_t position) const {
        return blocks ? blocks[divide((uint32_t)position, cache->of_block)] : 0;
    }

    template <class T> __device__ const T *row(int64_t position, int64_t block) const {
        if (!blocks)
            return (const T *)base + offset + position * cache->position_stride;
        uint32_t at = (uint32_t)position, len = (uint32_t)cache->of_block.by;
        const T *first = cache->is_of_pointers ? (const T *)((const void *const *)base)[block]
                                               : (const T *)base + block * cache->batch_stride;
        return first + offset + (at - divide(at, cache->of_block) * len) * cache->position_stride;
    }

    template <int TYPE> __device__ float4 four(int64_t position, int column) const {
        typedef Elements<TYPE> Of;
        return Of::widen(Of::load(row<typename Of::Element>(position, block_of(position)), column,
                                  (int)cache->head_dim));
    }

    template <int TYPE> __device__ float one(int64_t position, int64_t d) const {
        typedef Elements<TYPE> Of;
        return Of::widen(row<typename Of::Element>(position, block_of(position))[d]);
    }

    /* Four columns, zeros from head_dim on. */
    __device__ float4 operator()(int64_t position, int column) const {
        return cache->type == ATTENTION_F32   ? four<ATTENTION_F32>(position, column)
               : cache->type == ATTENTION_F16 ? four<ATTENTION_F16>(position, column)
                                              : four<ATTENTION_BF16>(position, column);
    }

    __device__ float element(int64_t position, int64_t d) const {
        return cache->type == ATTENTION_F32   ? one<ATTENTION_F32>(position, d)
               : cache->type == ATTENTION_F16 ? one<ATTENTION_F16>(position, d)
                                              : one<ATTENTION_BF16>(position, d);
    }
};

/*
 * The rows of a warp's steps: `first` is the position of the first, from one step to the next are
 * `turn`.  A lane keeps the addresses of one row and asks for the block of its next, because each
 * address waits for the table.
 */
template <int KEYS, int TYPE> struct StepRows {
    typedef typename Elements<TYPE>::Element Element;
    Cached keys, values;
    const Element *key_row, *value_row;
    int64_t position, length, turn, block;

    __device__ StepRows(const attention_cached_args &args, int64_t sequence, int64_t head,
                        int64_t first, int64_t length, int turn)
        : keys(args, args.k, sequence, head), values(args, args.v, sequence, head), key_row(NULL),
          value_row(NULL), position(first + threadIdx.x % 32), length(length), turn(turn),
          block(position < length ? keys.block_of(position) : 0) {
        find();
    }

    __device__ void find() {
        if (position < length) {
            key_row = keys.row<Element>(position, block);
            value_row = values.row<Element>(position, block);
        }
        if (position + turn < length)
            block = keys.block_of(position + turn);
    }

    __device__ void next() {
        position += turn;
        find();
    }

    __device__ const Element *of_lane(const Element *row, int lane) const {
        return (const Element *)__shfl_sync(0xFFFFFFFF, (unsigned long long)row, lane);
    }

    /* Row u * KEYS of those from the lane's first on. */
    __device__ const Element *key(int u) const {
        return of_lane(key_row, u * KEYS + (int)threadIdx.x % 32 / (32 / KEYS));
    }
    __device__ const Element *value(int u) const {
        return of_lane(value_row, u * KEYS + (int)threadIdx.x % 32 / (32 / KEYS));
    }
};

template <int KEYS> struct StepRows<KEYS, ATTENTION_EVEN> {
    const float *keys, *values;
    int64_t step, turn; /* in elements */

    __device__ StepRows(const attention_cached_args &args, int64_t sequence, int64_t head,
                        int64_t first, int64_t, int turn)
        : step(KEYS * args.position_stride), turn(turn * args.position_stride) {
        int64_t position = first + (int)threadIdx.x % 32 / (32 / KEYS);
        if (args.kv_begin)
            position += args.kv_begin[sequence];
        int64_t offset = sequence * args.batch_stride + head * args.head_stride +
                         position * args.position_stride;
        keys = (const float *)args.k + offset;
        values = (const float *)args.v + offset;
    }

    __device__ void next() {
        keys += turn;
        values += turn;
    }
    __device__ const float *key(int u) const {
        return keys + u * step;
    }
    __device__ const float *value(int u) const {
        return values + u * step;
    }
};

} // namespace

#endif
