/*
 * Attention by warpgroups (sm_90a alone): three products of halves for one of floats, as in
 * attention_split.cuh.
 *
 * Of a block's four warpgroups two bring keys and values, 128 at a time, and make halves of them;
 * each of the others has 64 query rows.  K and V have one place each: K is replaced while weights
 * meet values, V while scores are formed.  Raw rows come by bulk copies, eight to a warp, the next
 * ones while these become halves; such an octet has a scale of its own, which needs no other warp.
 * Products are one warpgroup's at a time, so that weights are made meanwhile.
 *
 * Products with low parts come before the others, so that sums are small as long as these are
 * added; sums that the unit cuts are of 128 columns or keys.  Of a row that meets a hard octet its
 * warpgroup starts anew on fp32 units (attention_hard.cuh).
 */
#ifndef CUSHIM_KERNELS_ATTENTION_WGMMA_CUH
#define CUSHIM_KERNELS_ATTENTION_WGMMA_CUH

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_halves.cuh"
#include "kernels/attention/attention_hard.cuh"
#include "kernels/attention/attention_weight.cuh"
#include "kernels/device/arch/async_copy.cuh"
#include "kernels/device/arch/bulk_copy.cuh"
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

/* The lesser magnitudes of two pairs of halves; of none of them: NONE_LEAST. */
enum { NONE_LEAST = 0x7C007C00 };
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

/* Whether is_small_or_0() may hold of what was rounded to one of them. */
DEVICE bool may_be_small(uint32_t least) {
    enum { EIGHTH = 0x3000 };
    return (least & 0xFFFF) <= EIGHTH || least >> 16 <= EIGHTH;
}

/* What both kinds of warpgroups know. */
template <int DIM> struct Grouped {
    enum {
        ROWS = ATTENTION_WGMMA_ROWS,
        KEYS = ATTENTION_WGMMA_KEYS,
        OCTETS = KEYS / 8,
        COLUMNS = DIM / 32,              /* of a lane, of a row of V */
        GROUP = 128,                     /* threads of a warpgroup */
        N_USERS = 2,                     /* warpgroups with queries */
        N_MAKERS = 8,                    /* warps */
        MEETING = GROUP + 32 * N_MAKERS, /* of makers and a warpgroup with queries */
        /* in units of 16 bytes; of keys so that eight octets of columns meet no bank twice */
        Q_PITCH = ROWS,
        K_PITCH = KEYS + 1,
        V_PITCH = DIM,
        Q_BYTES = 16 * Q_PITCH * DIM / 8, /* of one half */
        K_BYTES = 16 * K_PITCH * DIM / 8,
        V_BYTES = 16 * V_PITCH * OCTETS,
        RAW_FLOATS = 8 * DIM
    };
    struct Shared {
        uint8_t q[N_USERS][2][Q_BYTES], k[2][K_BYTES], v[2][V_BYTES]; /* high, low */
        float raw[N_MAKERS][RAW_FLOATS];
        Delivery deliveries[N_MAKERS];
        float4 inverses[2][OCTETS / 4]; /* of K and V; of what is hard infinite, of zeros 0 */
        int4 n_small[2][N_MAKERS / 4];  /* a warp */
        int n_small_of_q[N_USERS][4];   /* a warp */
        float most_inverse_of_q[N_USERS][4];
    };
    static_assert(sizeof(Shared) == ATTENTION_WGMMA_BYTES(DIM), "bytes of a block");

    Shared *shared;
    const attention_args *args;
    int dim, warp, lane; /* of the makers, or of the warpgroup */
    int64_t begin_of_head;

    /* Numbers of barriers: that K (V: what = 1) is there for a warpgroup, and that it was used; of
     * a warpgroup's own; that it is its turn. */
    MEMBER static unsigned made(int what, int user) {
        return 1 + 2 * what + user;
    }
    MEMBER static unsigned used(int what, int user) {
        return 5 + 2 * what + user;
    }
    MEMBER static unsigned own(int user) {
        return 9 + user;
    }
    MEMBER static unsigned turn(int user) {
        return 11 + user;
    }

    /* How many keys the rows of a warpgroup see. */
    MEMBER static int64_t keys_of(const attention_args *args, int64_t row) {
        int64_t end = row + ROWS;
        return row >= args->seq ? 0 : args->is_causal && end < args->seq ? end : args->seq;
    }
    MEMBER static int tiles_of(int64_t n_keys) {
        return (int)((n_keys + KEYS - 1) / KEYS);
    }

    MEMBER Grouped(Shared *shared, const attention_args *args, int64_t head, int warp)
        : shared(shared), args(args), dim((int)args->head_dim), warp(warp),
          lane((int)threadIdx.x % 32), begin_of_head(head * args->seq * dim) {
    }

    /* The first four columns of octet i of a row, and the other four: no lanes side by side that
     * load these meet a bank twice. */
    MEMBER static int first_of(int i) {
        return 4 * i;
    }
    MEMBER static int second_of(int i) {
        return DIM / 2 + 4 * i;
    }

    /* An octet of columns of a scaled row, or of keys of a column; the least magnitudes. */
    MEMBER static uint32_t store_octet(uint8_t *high, int low, const float (&x)[8]) {
        uint4 of_high, of_low;
        split_pair(x[0], x[1], &of_high.x, &of_low.x);
        split_pair(x[2], x[3], &of_high.y, &of_low.y);
        split_pair(x[4], x[5], &of_high.z, &of_low.z);
        split_pair(x[6], x[7], &of_high.w, &of_low.w);
        *reinterpret_cast<uint4 *>(high) = of_high;
        *reinterpret_cast<uint4 *>(high + low) = of_low;
        return least_magnitudes(least_magnitudes(of_high.x, of_high.y),
                                least_magnitudes(of_high.z, of_high.w));
    }
};

/* ---- the warpgroup that makes halves ---- */

template <int DIM> struct Makers : Grouped<DIM> {
    using Base = Grouped<DIM>;
    using Base::args, Base::begin_of_head, Base::dim, Base::lane, Base::shared, Base::warp;
    using Base::COLUMNS, Base::GROUP, Base::KEYS, Base::K_BYTES, Base::K_PITCH, Base::MEETING,
        Base::N_MAKERS, Base::N_USERS, Base::OCTETS, Base::V_BYTES, Base::V_PITCH;
    using Base::first_of, Base::second_of;
    using Base::keys_of, Base::made, Base::store_octet, Base::tiles_of, Base::used;
    using typename Base::Shared;
    enum {
        TURNS = OCTETS / N_MAKERS,
        ACROSS = DIM / 8, /* lanes share a key */
        N = 8 * COLUMNS   /* floats of a lane */
    };
    int64_t n_keys; /* of the warpgroup that sees most */
    int n_tiles;

    MEMBER Makers(Shared *shared, const attention_args *args, int64_t head, int64_t first,
                  int64_t second)
        : Base(shared, args, head, (int)threadIdx.x / 32),
          n_keys(max(keys_of(args, first), keys_of(args, second))), n_tiles(tiles_of(n_keys)) {
    }

    /* ---- raw octets ---- */

    MEMBER void begin() const {
        if (dim != DIM) {
            for (int at = lane; at < 8 * DIM; at += 32)
                shared->raw[warp][at] = 0;
        }
        if (lane == 0)
            make_delivery(&shared->deliveries[warp]);
        __syncwarp();
        fetch(0);
    }

    /* Begin to copy octet number n of the warp, 0 beyond the keys; K and V take turns, a tile each.
     */
    MEMBER void fetch(int n) const {
        int64_t key = (int64_t)(n / (2 * TURNS)) * KEYS + (warp + N_MAKERS * (n % TURNS)) * 8;
        const float *from = (n / TURNS % 2 ? args->v : args->k) + begin_of_head + key * dim;
        float *to = shared->raw[warp];
        int n_rows = (int)max(min(n_keys - key, (int64_t)8), (int64_t)0);
        if (args->is_wide) {
            Delivery *delivery = &shared->deliveries[warp];
            if (n_rows < 8) {
                for (int at = n_rows * DIM + lane; at < 8 * DIM; at += 32)
                    to[at] = 0;
            }
            if (lane == 0) {
                expect_delivery(delivery, n_rows * dim * 4);
                if (dim == DIM && n_rows > 0)
                    copy_bulk(to, from, n_rows * DIM * 4, delivery);
            }
            if (dim != DIM) {
                __syncwarp();
                if (lane < n_rows)
                    copy_bulk(to + lane * DIM, from + lane * dim, dim * 4, delivery);
            }
        } else {
#pragma unroll 1
            for (int at = lane; at < 8 * DIM; at += 32) {
                int row = at / DIM, column = at % DIM;
                if (row < n_rows && column < dim)
                    copy_async_4(to + at, from + row * dim + column);
                else
                    to[at] = 0;
            }
            commit_copies();
        }
    }

    MEMBER void wait_for_octet(int n) const {
        if (args->is_wide) {
            wait_for_delivery(&shared->deliveries[warp], n);
        } else {
            wait_copies<0>();
            __syncwarp();
        }
    }

    /* ---- halves ---- */

    MEMBER static void load_wide(float *x, const float *from) {
        float4 wide = *reinterpret_cast<const float4 *>(from);
        x[0] = wide.x;
        x[1] = wide.y;
        x[2] = wide.z;
        x[3] = wide.w;
    }

    MEMBER int key_of_lane(int i) const {
        return 32 / ACROSS * i + lane / ACROSS;
    }

    MEMBER void load_keys(float (&x)[N], const float *raw) const {
#pragma unroll
        for (int i = 0; i < COLUMNS; i++) {
            load_wide(x + 8 * i, raw + key_of_lane(i) * DIM + first_of(lane % ACROSS));
            load_wide(x + 8 * i + 4, raw + key_of_lane(i) * DIM + second_of(lane % ACROSS));
        }
    }

    MEMBER uint32_t store_keys(const float (&x)[N], float times, int octet) const {
        uint32_t least = NONE_LEAST;
#pragma unroll
        for (int i = 0; i < COLUMNS; i++) {
            float scaled[8];
#pragma unroll
            for (int e = 0; e < 8; e++)
                scaled[e] = x[8 * i + e] * times;
            least = least_magnitudes(
                least, store_octet(shared->k[0] +
                                       16 * (lane % ACROSS * K_PITCH + 8 * octet + key_of_lane(i)),
                                   K_BYTES, scaled));
        }
        return least;
    }

    /* A lane has some columns side by side of all eight rows. */
    MEMBER void load_values(float (&x)[N], const float *raw) const {
#pragma unroll
        for (int key = 0; key < 8; key++) {
            const float *from = raw + key * DIM + COLUMNS * lane;
            if constexpr (COLUMNS == 4) {
                load_wide(x + 4 * key, from);
            } else {
                float2 wide = *reinterpret_cast<const float2 *>(from);
                x[2 * key] = wide.x;
                x[2 * key + 1] = wide.y;
            }
        }
    }

    /* Column COLUMNS * lane + e is number 32 e + lane of the tile. */
    MEMBER uint32_t store_values(const float (&x)[N], float times, int octet) const {
        uint32_t least = NONE_LEAST;
#pragma unroll
        for (int e = 0; e < COLUMNS; e++) {
            float scaled[8];
#pragma unroll
            for (int key = 0; key < 8; key++)
                scaled[key] = x[COLUMNS * key + e] * times;
            least = least_magnitudes(
                least, store_octet(shared->v[0] + 16 * (octet * V_PITCH + 32 * e + lane), V_BYTES,
                                   scaled));
        }
        return least;
    }

    /* The octet's scale, by the lane's part of it. */
    MEMBER static Scale scale_by(const float (&x)[N], unsigned *most) {
        float peak[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            peak[i] = most_magnitude(x[i], x[i + 4]);
#pragma unroll
        for (int i = 8; i < N; i++)
            peak[i % 4] = most_magnitude(peak[i % 4], x[i]);
        *most = most_of_warp(__float_as_uint(
            most_magnitude(most_magnitude(peak[0], peak[1]), most_magnitude(peak[2], peak[3]))));
        return scale_of(*most);
    }

    /* A tile of K (what = 0) or V. */
    MEMBER void make(int what, int tile) const {
        int n_small = 0;
#pragma unroll 1
        for (int turn = 0; turn < TURNS; turn++) {
            int n = (2 * tile + what) * TURNS + turn, octet = warp + N_MAKERS * turn;
            const float *raw = shared->raw[warp];
            float x[N];
            unsigned most;
            wait_for_octet(n);
            if (what)
                load_values(x, raw);
            else
                load_keys(x, raw);
            Scale scale = scale_by(x, &most);
            __syncwarp(); /* before others of the warp replace the raw octet */
            if (n + 1 < 2 * TURNS * n_tiles)
                fetch(n + 1);
            if (lane == 0)
                reinterpret_cast<float *>(shared->inverses[what])[octet] = scale.is_hard ? INFINITY
                                                                           : most == 0
                                                                               ? 0.0f
                                                                               : scale.inverse;
            uint32_t least =
                what ? store_values(x, scale.times, octet) : store_keys(x, scale.times, octet);
            if (may_be_small(least)) { /* few lanes, but where 0s are */
#pragma unroll
                for (int i = 0; i < N; i++)
                    n_small += is_small(x[i] * scale.times);
            }
        }
        n_small = sum_of_warp(n_small);
        if (lane == 0)
            reinterpret_cast<int *>(shared->n_small[what])[warp] = n_small;
    }

    MEMBER void run() const {
        begin();
#pragma unroll 1
        for (int tile = 0; tile < n_tiles; tile++) {
#pragma unroll
            for (int what = 0; what < 2; what++) {
#pragma unroll
                for (int user = 0; user < N_USERS; user++)
                    if (tile > 0)
                        meet_some<MEETING>(used(what, user));
                make(what, tile);
                fence_tiles();
#pragma unroll
                for (int user = 0; user < N_USERS; user++)
                    arrive_at_some<MEETING>(made(what, user));
            }
        }
    }
};

/* ---- the warpgroups with queries ---- */

template <int DIM> struct Users : Grouped<DIM> {
    using Base = Grouped<DIM>;
    using Base::args, Base::begin_of_head, Base::dim, Base::lane, Base::shared, Base::warp;
    using Base::COLUMNS, Base::GROUP, Base::KEYS, Base::K_BYTES, Base::K_PITCH, Base::MEETING,
        Base::N_MAKERS, Base::N_USERS, Base::OCTETS, Base::Q_BYTES, Base::Q_PITCH, Base::ROWS,
        Base::V_BYTES, Base::V_PITCH;
    using Base::first_of, Base::second_of, Base::turn;
    using Base::keys_of, Base::made, Base::own, Base::store_octet, Base::tiles_of, Base::used;
    using typename Base::Shared;
    enum {
        STEPS = DIM / 16,
        KEY_STEPS = KEYS / 16,
        HARD_KEYS = 32,
        PART = 64 /* columns of output at a time */
    };
    static_assert(2 * HARD_KEYS * DIM * 4 <= 2 * Q_BYTES, "raw tiles fit where queries were");

    int user;
    int64_t row, n_keys; /* the first of the warpgroup, what it sees */
    int n_most;          /* tiles of keys of the block */
    /* of the thread's rows, lane / 4 of the warp's and 8 below */
    float out[DIM / 8][4], most[2], sum[2], factor[2], inverse_q[2];

    MEMBER Users(Shared *shared, const attention_args *args, int64_t head, int64_t first,
                 int64_t second)
        : Base(shared, args, head, (int)threadIdx.x % GROUP / 32),
          user((int)threadIdx.x / GROUP - N_MAKERS / 4), row(user ? second : first),
          n_keys(keys_of(args, row)),
          n_most(tiles_of(max(keys_of(args, first), keys_of(args, second)))) {
    }

    MEMBER int row_of_thread() const {
        return 16 * warp + lane / 4;
    }

    /* ---- queries ---- */

    MEMBER void load_query(float (&x)[8 * COLUMNS], int64_t at) const {
#pragma unroll
        for (int i = 0; i < 2 * COLUMNS; i++) {
            int octet = 4 * (i / 2) + lane % 4;
            float4 wide = make_float4(0, 0, 0, 0);
            if (at < args->seq)
                wide = load_columns<true>(args->q + begin_of_head + at * dim,
                                          i % 2 ? second_of(octet) : first_of(octet), dim,
                                          args->is_wide);
            x[4 * i] = wide.x;
            x[4 * i + 1] = wide.y;
            x[4 * i + 2] = wide.z;
            x[4 * i + 3] = wide.w;
        }
    }

    /* The warp's rows as halves, a scale a row, which four lanes share; whether the warpgroup's are
     * hard. */
    MEMBER bool split_queries() {
        int n_small = 0;
        float x[2][8 * COLUMNS];
        load_query(x[0], row + row_of_thread());
        load_query(x[1], row + row_of_thread() + 8);
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float peak = 0;
#pragma unroll
            for (int i = 0; i < 8 * COLUMNS; i++)
                peak = most_magnitude(peak, x[r][i]);
            unsigned bits = __float_as_uint(peak);
#pragma unroll
            for (int step = 1; step < 4; step *= 2)
                bits = max(bits, __shfl_xor_sync(0xFFFFFFFF, bits, step));
            Scale scale = scale_of(bits);
            n_small += scale.is_hard ? HARD_COUNT : 0;
            inverse_q[r] = scale.inverse;
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) {
                float scaled[8];
#pragma unroll
                for (int e = 0; e < 8; e++) {
                    scaled[e] = x[r][8 * j + e] * scale.times;
                    n_small += is_small(scaled[e]);
                }
                store_octet(shared->q[user][0] +
                                16 * ((4 * j + lane % 4) * Q_PITCH + row_of_thread() + 8 * r),
                            Q_BYTES, scaled);
            }
        }
        n_small = sum_of_warp(n_small);
        float most_inverse = most_of_lanes<32>(fmaxf(inverse_q[0], inverse_q[1]));
        if (lane == 0) {
            shared->n_small_of_q[user][warp] = n_small;
            shared->most_inverse_of_q[user][warp] = most_inverse;
        }
        fence_tiles();
        meet_some<GROUP>(own(user));
        int64_t n_rows = args->seq - row;
        const int *n = shared->n_small_of_q[user];
        return is_too_many(n[0] + n[1] + n[2] + n[3], n_rows < ROWS ? n_rows : (int64_t)ROWS);
    }

    MEMBER bool is_too_many(int n, int64_t n_rows) const {
        return (int64_t)n * HARD_SHARE > n_rows * dim;
    }

    /* Whether a tile of K or V is hard, and the largest of its scales. */
    MEMBER bool look_at(int what, int tile, float *most) const {
        int64_t n_left = n_keys - (int64_t)tile * KEYS;
        int n_small = 0;
        *most = 0;
#pragma unroll
        for (int i = 0; i < OCTETS / 4; i++) {
            float4 four = shared->inverses[what][i];
            *most = fmaxf(fmaxf(*most, fmaxf(four.x, four.y)), fmaxf(four.z, four.w));
        }
#pragma unroll
        for (int i = 0; i < N_MAKERS / 4; i++) {
            int4 n = shared->n_small[what][i];
            n_small += n.x + n.y + n.z + n.w;
        }
        return is_too_many(n_small, n_left < KEYS ? n_left : (int64_t)KEYS);
    }

    /* Of an octet; volatile: read where it is needed. */
    MEMBER float scale_in(int what, int octet) const {
        return reinterpret_cast<const volatile float *>(shared->inverses[what])[octet];
    }

    /* ---- scores and weights ---- */

    /* Of scaled halves. */
    MEMBER void score(float (&scores)[KEYS / 2]) const {
        uint64_t q = tile_descriptor_anew<Q_PITCH>(shared->q[user][0]);
        uint64_t k = tile_descriptor_anew<K_PITCH>(shared->k[0]);
        uint64_t q_low = tile_behind(q, Q_BYTES), k_low = tile_behind(k, K_BYTES);
        begin_products();
#pragma unroll
        for (int i = 0; i < STEPS; i++) {
            unsigned of_q = 32 * Q_PITCH * i, of_k = 32 * K_PITCH * i;
            if (i == 0)
                multiply_tiles<false>(scores, q_low, k);
            else
                multiply_tiles<true>(scores, tile_behind(q_low, of_q), tile_behind(k, of_k));
            multiply_tiles<true>(scores, tile_behind(q, of_q), tile_behind(k_low, of_k));
        }
#pragma unroll
        for (int i = 0; i < STEPS; i++)
            multiply_tiles<true>(scores, tile_behind(q, 32 * Q_PITCH * i),
                                 tile_behind(k, 32 * K_PITCH * i));
        end_products();
        wait_products(scores);
    }

    /* How many keys from `key` on are seen by the thread's two rows. */
    MEMBER void find_limits(int (&limit)[2], int64_t key) const {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            int64_t seen = row + row_of_thread() + 8 * r + 1;
            seen = (args->is_causal && seen < args->seq ? seen : args->seq) - key;
            limit[r] = seen < KEYS ? (int)seen : (int)KEYS;
        }
    }

    /* What rows do not see becomes -infinity. */
    template <int N> MEMBER void mask(float (&scores)[N], const int (&limit)[2]) const {
#pragma unroll
        for (int i = 0; i < N; i++) {
            if (i / 4 * 8 + lane % 4 * 2 + i % 2 >= limit[i / 2 % 2])
                scores[i] = -INFINITY;
        }
    }

    /* Scores, which unscale[] unscales, become weights; of -infinity 0. */
    template <int N> MEMBER void weigh(float (&scores)[N], const float (&unscale)[2]) {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float tile_most = -INFINITY, tile_sum = 0, most_before = most[r];
#pragma unroll
            for (int i = 2 * r; i < N; i += 4)
                tile_most = fmaxf(tile_most, fmaxf(scores[i], scores[i + 1]));
            tile_most = most_of_lanes<4>(tile_most) * unscale[r];
            most[r] = fmaxf(most_before, tile_most);
            float base = base_of(most[r]);
            factor[r] = factor_of(most_before, base, args->scale);
            /* infinity less itself; a fused difference may see no infinity */
            base = base == INFINITY ? NAN : base;
#pragma unroll
            for (int i = 2 * r; i < N; i += 4)
#pragma unroll
                for (int e = i; e < i + 2; e++) {
                    float above = fmaf(scores[e], unscale[r], -base);
                    scores[e] = quick_exp2(fmaf(above, args->scale, LIFT));
                    tile_sum += scores[e];
                }
            sum[r] = fmaf(sum[r], factor[r], tile_sum);
        }
    }

    /* ---- output ---- */

    /* To the new base; mostly it is the old one. */
    MEMBER void scale_out() {
        if (__any_sync(0xFFFFFFFF, factor[0] != 1 || factor[1] != 1)) {
#pragma unroll
            for (int i = 0; i < DIM / 2; i++)
                out[i / 4][i % 4] *= factor[i / 2 % 2];
        }
    }

    /* Weights, by the scales of their values, as halves. */
    MEMBER void split_weights(const float (&weights)[KEYS / 2], float by,
                              uint32_t (&high)[KEY_STEPS][4], uint32_t (&low)[KEY_STEPS][4]) const {
#pragma unroll
        for (int i = 0; i < OCTETS; i++) {
            float scale = scale_in(1, i) * by;
#pragma unroll
            for (int r = 0; r < 2; r++)
                split_pair(weights[4 * i + 2 * r] * scale, weights[4 * i + 2 * r + 1] * scale,
                           &high[i / 2][i % 2 * 2 + r], &low[i / 2][i % 2 * 2 + r]);
        }
    }

    MEMBER void add(const float (&weights)[KEYS / 2], float most_inverse, int tile) {
        uint32_t high[KEY_STEPS][4], low[KEY_STEPS][4];
        float unscale = most_inverse * 0x1p-14f;
        /* powers of 2 */
        split_weights(weights, most_inverse == 0 ? 0.0f : 1 / most_inverse, high, low);
        begin_turn();
        scale_out();
        uint64_t v = tile_descriptor_anew<V_PITCH>(shared->v[0]), v_low = tile_behind(v, V_BYTES);
#pragma unroll
        for (int c = 0; c < DIM / PART; c++) {
            float part[PART / 2];
            begin_products();
#pragma unroll
            for (int i = 0; i < KEY_STEPS; i++) {
                unsigned of_v = 32 * V_PITCH * i + 16 * PART * c;
                if (i == 0)
                    multiply_tile<false>(part, low[i], tile_behind(v, of_v));
                else
                    multiply_tile<true>(part, low[i], tile_behind(v, of_v));
                multiply_tile<true>(part, high[i], tile_behind(v_low, of_v));
            }
#pragma unroll
            for (int i = 0; i < KEY_STEPS; i++)
                multiply_tile<true>(part, high[i],
                                    tile_behind(v, 32 * V_PITCH * i + 16 * PART * c));
            end_products();
            wait_products(part);
            if (c + 1 == DIM / PART)
                end_turn(1, tile);
#pragma unroll
            for (int i = 0; i < PART / 2; i++) {
                float *o = &out[c * (PART / 8) + i / 4][i % 4];
                *o = fmaf(part[i], unscale, *o);
            }
        }
    }

    /* Numbers 32 e + 8 j + 2 t and the next are columns COLUMNS * (8 j + 2 t) + e and COLUMNS on.
     */
    MEMBER void store() const {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float whole = sum_of_lanes<4>(sum[r]) * 0x1p-14f, share = share_of(whole);
            int64_t at = row + row_of_thread() + 8 * r;
            if (at >= args->seq)
                continue;
            float *o = args->o + begin_of_head + at * dim;
#pragma unroll
            for (int i = 0; i < 8; i++) {
                int column = COLUMNS * (8 * (i / 2) + lane % 4 * 2 + i % 2);
                float x[COLUMNS];
#pragma unroll
                for (int e = 0; e < COLUMNS; e++)
                    x[e] = whole == 0 ? 0 : out[4 * e + i / 2][2 * r + i % 2] * share;
#pragma unroll
                for (int e = 0; e < COLUMNS; e += 2) {
                    if (args->is_wide && column < dim) {
                        *reinterpret_cast<float2 *>(o + column + e) = make_float2(x[e], x[e + 1]);
                    } else {
                        if (column + e < dim)
                            o[column + e] = x[e];
                        if (column + e + 1 < dim)
                            o[column + e + 1] = x[e + 1];
                    }
                }
            }
        }
    }

    /* ---- all keys ---- */

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

    /* K or V of a tile is there; it was used, and the makers may replace it if there is more. */
    MEMBER void wait_for(int what) const {
        meet_some<MEETING>(made(what, user));
    }
    MEMBER void hand_back(int what, int tile) const {
        if (tile + 1 < n_most)
            arrive_at_some<MEETING>(used(what, user));
    }

    /* Products are one warpgroup's at a time: the other weighs meanwhile. */
    MEMBER void begin_turn() const {
        meet_some<2 * GROUP>(turn(user));
    }
    MEMBER void end_turn(int what, int tile) const {
        if (user == 0 || what == 0 || tile + 1 < n_most)
            arrive_at_some<2 * GROUP>(turn(!user));
    }

    /* A tile that is of no use to the warpgroup: K and V (what = 1), or V alone. */
    MEMBER void pass(int what, int tile) const {
#pragma unroll 1
        for (; what < 2; what++) {
            wait_for(what);
            hand_back(what, tile);
            begin_turn();
            end_turn(what, tile);
        }
    }

    /* What unscales must be a float: 0 times infinity is no score; and so must what one of two
     * scales has unscaled. */
    MEMBER bool is_hard_by(float inverse_k) const {
        const float *q = shared->most_inverse_of_q[user];
        return inverse_k > 0x1p88f ||
               inverse_k * fmaxf(fmaxf(q[0], q[1]), fmaxf(q[2], q[3])) == INFINITY;
    }

    /* A tile of keys; false: it is hard, and was handed back. */
    MEMBER bool take(int tile) {
        int64_t key = (int64_t)tile * KEYS;
        float weights[KEYS / 2], most_inverse;
        wait_for(0);
        if (look_at(0, tile, &most_inverse) || is_hard_by(most_inverse)) {
            hand_back(0, tile);
            begin_turn();
            end_turn(0, tile);
            pass(1, tile);
            return false;
        }
        begin_turn();
        score(weights);
        end_turn(0, tile);
#pragma unroll
        for (int i = 0; i < OCTETS; i++) {
            float scale = scale_in(0, i);
#pragma unroll
            for (int e = 0; e < 4; e++)
                weights[4 * i + e] *= scale;
        }
        hand_back(0, tile);
        if (key + KEYS > (args->is_causal && row + 1 < args->seq ? row + 1 : args->seq)) {
            int limit[2];
            find_limits(limit, key);
            mask(weights, limit);
        }
        weigh(weights, inverse_q);
        wait_for(1);
        if (look_at(1, tile, &most_inverse) || most_inverse == INFINITY) {
            hand_back(1, tile);
            begin_turn();
            end_turn(1, tile);
            return false;
        }
        add(weights, most_inverse, tile);
        hand_back(1, tile);
        return true;
    }

    /* All tiles; false: one is hard. */
    MEMBER bool take_all() {
        int n = tiles_of(n_keys), tile = 0;
        bool is_hard = n > 0 && split_queries();
        begin_rows();
        if (user == 1)
            arrive_at_some<2 * GROUP>(turn(0));
#pragma unroll 1
        for (; tile < n && !is_hard; tile++)
            is_hard = !take(tile);
#pragma unroll 1
        for (; tile < n_most; tile++)
            pass(0, tile);
        return !is_hard;
    }

    /* Some keys and values as floats, where the queries were; columns of values as in a tile. */
    MEMBER void load_hard(float *keys, float *values, int64_t key) const {
        int64_t n_valid = n_keys - key;
        for (int at = (int)threadIdx.x % GROUP; at < HARD_KEYS * DIM; at += GROUP) {
            int i = at / DIM, column = at % DIM;
            bool is_there = i < n_valid && column < dim;
            int64_t from = begin_of_head + (key + i) * dim + column;
            keys[at] = is_there ? __ldg(args->k + from) : 0;
            values[i * DIM + column % COLUMNS * 32 + column / COLUMNS] =
                is_there ? __ldg(args->v + from) : 0;
        }
    }

    /* On fp32 units. */
    MEMBER void take_all_hard() {
        float *keys = reinterpret_cast<float *>(shared->q[user][0]);
        float *values = keys + HARD_KEYS * DIM;
        begin_rows();
#pragma unroll 1
        for (int64_t key = 0; key < n_keys; key += HARD_KEYS) {
            float scores[HARD_KEYS / 8][4], flat[HARD_KEYS / 2], unscale[2] = {1, 1};
            int limit[2];
            meet_some<GROUP>(own(user)); /* of the keys before */
            load_hard(keys, values, key);
            meet_some<GROUP>(own(user));
            score_hard<DIM>(scores, args->q + begin_of_head + row * dim, row_of_thread(),
                            args->seq - row - 1, keys, dim);
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

    MEMBER void run() {
        if (!take_all())
            take_all_hard();
        store();
    }
};

/*
 * Block number i of a head: 2 x ROWS rows side by side, those that see most keys first.  IN_PAIRS:
 * the i-th part of ROWS from the start and from the end, so that all blocks have as many keys to
 * see.
 */
template <int DIM>
DEVICE void attend_by_warpgroups(typename Grouped<DIM>::Shared *shared,
                                 const attention_args *args) {
    enum { ROWS = ATTENTION_WGMMA_ROWS };
    int64_t head = blockIdx.x % args->n_heads, i = blockIdx.x / args->n_heads;
    int64_t n = (args->seq + ROWS - 1) / ROWS, first, second;
    if (args->is_in_pairs) {
        first = i * ROWS;
        second = (n - 1 - i) * ROWS;
        first = first == second ? args->seq : first;
    } else {
        first = ((n + 1) / 2 - 1 - i) * 2 * ROWS;
        second = first + ROWS;
    }
    if (threadIdx.x < 32 * Grouped<DIM>::N_MAKERS) {
        keep_registers<72>();
        Makers<DIM>(shared, args, head, first, second).run();
    } else {
        take_registers<184>();
        Users<DIM>(shared, args, head, first, second).run();
    }
}

} // namespace

#define ATTEND(dim)                                                                                \
    DYNAMIC_SHARED(Grouped<dim>::Shared, shared);                                                  \
    attend_by_warpgroups<dim>(shared, &args)
#else
#define ATTEND(dim) /* never launched */
#endif

#define WGMMA(dim)                                                                                 \
    KERNEL_OF(ATTENTION_WGMMA_THREADS, 1, attention_wgmma_##dim)                                   \
    (const __grid_constant__ attention_args args) {                                                \
        ATTEND(dim);                                                                               \
    }
ATTENTION_WGMMA_VARIANTS(WGMMA)

#endif
