/*
 * What attention by warpgroups (only sm_90a) does alike for all kinds of keys and values: octets of
 * eight rows as two halves each; and the weights, sums and outputs of a warpgroup's 64 query rows.
 */
#ifndef CUSHIM_KERNELS_ATTENTION_WARPGROUP_CUH
#define CUSHIM_KERNELS_ATTENTION_WARPGROUP_CUH

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_halves.cuh"
#include "kernels/attention/attention_hard.cuh"
#include "kernels/attention/attention_weight.cuh"
#include "kernels/device/arch/wgmma.cuh"
#include "kernels/device/device.cuh"
#include "kernels/device/group.cuh"
#include "kernels/device/math/exp2.cuh"

#ifdef CUSHIM_HAS_WGMMA

#ifndef MEMBER
#define MEMBER __device__ __forceinline__
#endif

namespace {

enum { LIFT = 14 }; /* weights are scaled by 2^14, and so are their sums */

/* The lesser magnitudes of two pairs of halves. */
DEVICE uint32_t least_magnitudes(uint32_t a, uint32_t b) {
#ifdef CUSHIM_EMULATED
    uint32_t low = min(a & 0x7FFF, b & 0x7FFF), high = min(a >> 16 & 0x7FFF, b >> 16 & 0x7FFF);
    return high << 16 | low;
#else
    uint32_t least;
    asm("{.reg .b32 x, y; abs.f16x2 x, %1; abs.f16x2 y, %2; min.f16x2 %0, x, y;}"
        : "=r"(least)
        : "r"(a), "r"(b));
    return least;
#endif
}

/* Whether is_small_or_0() may hold for a value that was rounded to one of these halves. */
DEVICE bool may_be_small(uint32_t least) {
    enum { EIGHTH = 0x3000 };
    return (least & 0xFFFF) <= EIGHTH || least >> 16 <= EIGHTH;
}

/* ---- octets of rows ---- */

template <int DIM> struct Octets {
    /* Eight rows as halves: by octets of columns, then by row. */
    struct Octet {
        uint4 high[DIM], low[DIM];
    };
    struct About {
        float inverse; /* of its scale; infinite if it is hard, 0 if it is all zeros */
        int n_small;
    };
    enum {
        COLUMNS = DIM / 32, /* octets of columns per lane */
        N = 8 * COLUMNS     /* floats per lane of an octet of rows */
    };

    /* A lane has some octets of columns of a row, none of which its neighbours have, so that
     * neither loads nor stores meet a bank twice. */
    MEMBER static int row_of(int lane) {
        return lane % 8;
    }
    MEMBER static int columns_of(int lane, int i) {
        return (lane / 8 + 4 * i) ^ lane % 8;
    }

    /* The octet's scale, from the lane's part of it. */
    MEMBER static Scale scale_by(const float (&x)[N], unsigned *most) {
        float peak[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            peak[i] = max_magnitude(x[i], x[i + 4]);
#pragma unroll
        for (int i = 8; i < N; i++)
            peak[i % 4] = max_magnitude(peak[i % 4], x[i]);
        *most = max_of_warp(__float_as_uint(
            max_magnitude(max_magnitude(peak[0], peak[1]), max_magnitude(peak[2], peak[3]))));
        return scale_of(*most);
    }

    /* A lane's part of an octet as halves; a piece has eight neighbouring floats. */
    struct Pieces {
        uint4 terms[2][COLUMNS]; /* high halves, low ones */
    };

    /* Split into halves, and return how many values of the whole octet are small. */
    MEMBER static int split(const float (&x)[N], float times, Pieces *pieces) {
        int n_small = 0;
#pragma unroll
        for (int i = 0; i < COLUMNS; i++) {
            uint4 *high = &pieces->terms[0][i], *low = &pieces->terms[1][i];
            const float *from = x + 8 * i;
            split_pair(from[0] * times, from[1] * times, &high->x, &low->x);
            split_pair(from[2] * times, from[3] * times, &high->y, &low->y);
            split_pair(from[4] * times, from[5] * times, &high->z, &low->z);
            split_pair(from[6] * times, from[7] * times, &high->w, &low->w);
            /* few lanes, unless there are zeros */
            if (may_be_small(least_magnitudes(least_magnitudes(high->x, high->y),
                                              least_magnitudes(high->z, high->w)))) {
#pragma unroll
                for (int e = 0; e < 8; e++)
                    n_small += is_small(from[e] * times);
            }
        }
        return sum_of_warp(n_small);
    }

    MEMBER static void store(const Pieces &pieces, int i, uint4 *high) {
        high[0] = pieces.terms[0][i];
        high[DIM] = pieces.terms[1][i];
    }
    MEMBER static void store_rows(const Pieces &pieces, Octet *octet, int lane) {
#pragma unroll
        for (int i = 0; i < COLUMNS; i++)
            store(pieces, i, &octet->high[8 * columns_of(lane, i) + row_of(lane)]);
    }

    MEMBER static About about_of(const Scale &scale, unsigned most, int n_small) {
        return {scale.is_hard ? INFINITY : most == 0 ? 0.0f : scale.inverse, n_small};
    }

    /* Whether any of n octets, at most as many as lanes, is hard, and the largest of their
     * scales. */
    MEMBER static bool look_at(const About *about, int n, int64_t n_values, int lane, float *most) {
        const volatile About *own = &about[lane % n];
        *most = __uint_as_float(max_of_warp(__float_as_uint(own->inverse)));
        int n_small = own->n_small;
        n_small = sum_of_warp(lane < n ? n_small : 0);
        return (int64_t)n_small * HARD_SHARE > n_values || *most == INFINITY;
    }
};

/* ---- a warpgroup with queries ---- */

/*
 * Block has the arguments, the shared memory, the thread's lane, and its warp of the warpgroup.
 * Warpgroup `user` of two has 64 rows.
 */
template <class Block> struct Warpgroup : Block {
    using Block::args, Block::lane, Block::shared, Block::warp;
    using Block::COLUMNS, Block::N;
    using typename Block::About, typename Block::Pieces;
    enum {
        DIM = Block::DIM_OF_TILES,
        ROWS = ATTENTION_WGMMA_ROWS,
        KEYS = ATTENTION_WGMMA_KEYS,
        GROUP = 128, /* threads of a warpgroup */
        HARD_KEYS = 32
    };
    static_assert(2 * HARD_KEYS * DIM * 4 <= (int)sizeof Block::Shared::q[0],
                  "raw tiles fit where queries were");

    int user;
    /* of the thread's rows, lane / 4 of the warp's and 8 below */
    float out[DIM / 8][4], most[2], sum[2], factor[2], inverse_q[2];

    template <class... From>
    MEMBER Warpgroup(int user, const From &...from) : Block(from...), user(user) {
    }

    MEMBER int row_of_thread() const {
        return 16 * warp + lane / 4;
    }

    /* Numbers of barriers: a warpgroup's own; the one that says it is its turn. */
    MEMBER static unsigned own(int user) {
        return 1 + user;
    }
    MEMBER static unsigned turn(int user) {
        return 3 + user;
    }

    /* Only one warpgroup at a time multiplies; the other weighs meanwhile. */
    MEMBER void begin_turn() const {
        meet_some<2 * GROUP>(turn(user));
    }
    MEMBER void give_turn() const {
        arrive_at_some<2 * GROUP>(turn(!user));
    }

    /* ---- queries ---- */

    /* Split the warp's rows into halves; whether the warpgroup's are hard.  load(x, octet) gives
     * the lane's part of an octet, which store(pieces, octet) takes. */
    template <class Load, class Store>
    MEMBER bool split_queries(int64_t n_rows, int dim, const Load &load, const Store &store) {
        About *about = shared->about_q[user];
#pragma unroll 1
        for (int octet = 2 * warp; octet < 2 * warp + 2; octet++) {
            float x[N];
            unsigned most;
            load(x, octet);
            Scale scale = Block::scale_by(x, &most);
            Pieces pieces;
            int n_small = Block::split(x, scale.times, &pieces);
            store(pieces, octet);
            if (lane == 0)
                about[octet] = Block::about_of(scale, most, n_small);
        }
        fence_tiles();
        meet_some<GROUP>(own(user));
        float most;
        bool is_hard = Block::look_at(about, ROWS / 8,
                                      (n_rows < ROWS ? n_rows : (int64_t)ROWS) * dim, lane, &most);
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float inverse = about[2 * warp + r].inverse;
            inverse_q[r] = inverse == 0 ? 1 : inverse; /* a hidden score is -infinity times this */
        }
        if (lane == 0)
            shared->most_inverse_of_q[user][warp] = most;
        __syncwarp();
        return is_hard;
    }

    /* ---- weights ---- */

    /* Set the scores that rows do not see to -infinity. */
    template <int N> MEMBER void mask(float (&scores)[N], const int (&limit)[2]) const {
#pragma unroll
        for (int i = 0; i < N; i++) {
            if (i / 4 * 8 + lane % 4 * 2 + i % 2 >= limit[i / 2 % 2])
                scores[i] = -INFINITY;
        }
    }

    /* Turn scores into weights, with unscale[] for each row; -infinity becomes 0. */
    template <int N> MEMBER void weigh(float (&scores)[N], const float (&unscale)[2]) {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            /* two chains each, because a sum or maximum waits for the one before */
            float tile_most[2] = {-INFINITY, -INFINITY}, tile_sum[2] = {0, 0};
            float most_before = most[r];
#pragma unroll
            for (int i = 2 * r; i < N; i += 4)
                tile_most[i / 4 % 2] = fmaxf(tile_most[i / 4 % 2], fmaxf(scores[i], scores[i + 1]));
            tile_most[0] = max_of_lanes<4>(fmaxf(tile_most[0], tile_most[1])) * unscale[r];
            most[r] = fmaxf(most_before, tile_most[0]);
            float base = base_of(most[r]);
            factor[r] = factor_of(most_before, base, args->scale);
            /* makes infinity less itself NaN, because a fused difference may see no infinity */
            base = base == INFINITY ? NAN : base;
#pragma unroll
            for (int i = 2 * r; i < N; i += 4)
#pragma unroll
                for (int e = i; e < i + 2; e++) {
                    float above = fmaf(scores[e], unscale[r], -base);
                    scores[e] = quick_exp2(fmaf(above, args->scale, LIFT));
                    tile_sum[e % 2] += scores[e];
                }
            sum[r] = fmaf(sum[r], factor[r], tile_sum[0] + tile_sum[1]);
        }
    }

    /* ---- output ---- */

    MEMBER void begin_rows() {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            most[r] = -INFINITY;
            sum[r] = 0;
        }
#pragma unroll
        for (int i = 0; i < DIM / 2; i++)
            out[i / 4][i % 4] = 0;
    }

    /* Scale to the new base, which is mostly the old one. */
    MEMBER void scale_out() {
        if (__any_sync(0xFFFFFFFF, factor[0] != 1 || factor[1] != 1)) {
#pragma unroll
            for (int i = 0; i < DIM / 2; i++)
                out[i / 4][i % 4] *= factor[i / 2 % 2];
        }
    }

    /* The sum of the weights of the thread's row r. */
    MEMBER float whole_of(int r) const {
        return sum_of_lanes<4>(sum[r]) * 0x1p-14f;
    }

    /* Do the first n_keys on fp32 units, with the thread's queries q[2].  load(keys, values, key)
     * stores HARD_KEYS of each as floats; find_limits(limit, key) says how many of them from `key`
     * on the thread's rows see. */
    template <class Load, class Limits>
    MEMBER void take_all_hard(int n_keys, const float *const (&q)[2], int dim, const Load &load,
                              const Limits &find_limits) {
        float *keys = reinterpret_cast<float *>(shared->q[user]);
        float *values = keys + HARD_KEYS * DIM;
        begin_rows();
#pragma unroll 1
        for (int key = 0; key < n_keys; key += HARD_KEYS) {
            float scores[HARD_KEYS / 8][4], flat[HARD_KEYS / 2], unscale[2] = {1, 1};
            int limit[2];
            meet_some<GROUP>(own(user)); /* all are done with the keys before */
            load(keys, values, key);
            meet_some<GROUP>(own(user));
            score_hard<DIM>(scores, q[0], q[1], keys, dim);
#pragma unroll
            for (int i = 0; i < HARD_KEYS / 2; i++)
                flat[i] = scores[i / 4][i % 4];
            find_limits(limit, key);
            mask(flat, limit);
            weigh(flat, unscale);
#pragma unroll
            for (int i = 0; i < HARD_KEYS / 2; i++)
                scores[i / 4][i % 4] = flat[i];
            add_hard<DIM>(out, scores, factor, 0x1p-14f, values, limit);
        }
    }
};

} // namespace

#endif

#endif
