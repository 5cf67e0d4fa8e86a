/*
 * Attention by warpgroups (only sm_90a): three products of halves for one of floats, as in
 * attention_split.cuh.
 *
 * Two of a block's four warpgroups bring keys and values, 128 at a time, and make halves of them;
 * each of the others has 64 query rows.  K and V have one place each: K is replaced while weights
 * are multiplied by values, V while scores are formed.  The blocks of a cluster have the same head,
 * and each makes a share of the halves for all of them.
 *
 * Halves are made by octets of eight rows, each with its own scale, so that a warp needs no other
 * warp.  Raw rows come by a bulk copy, the next octet while this one becomes halves.  Bulk copies
 * also take the halves and their About to the other blocks.
 *
 * Products with low parts come before the others, so that sums are small while these are added.
 * Sums that the unit truncates are of 128 columns or keys.  If a row meets a hard octet, its
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
#include "kernels/device/arch/dependent_launch.cuh"
#include "kernels/device/arch/wgmma.cuh"
#include "kernels/device/device.cuh"
#include "kernels/device/group.cuh"
#include "kernels/device/math/divide.cuh"
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

/*
 * The rows of a block: the first of each of its two warpgroups, and of the warpgroup of its cluster
 * that sees most keys; seq means none.
 */
struct RowsOfBlock {
    int64_t head, of_user[2], last;
};

/* What both kinds of warpgroups have. */
template <int DIM> struct Grouped {
    /* Eight rows as halves: of Q and K by octets of columns, then by row; of V by column. */
    struct Octet {
        uint4 high[DIM], low[DIM];
    };
    struct About {
        float inverse; /* of its scale; infinite if it is hard, 0 if it is all zeros */
        int n_small;
    };
    enum {
        ROWS = ATTENTION_WGMMA_ROWS,
        KEYS = ATTENTION_WGMMA_KEYS,
        OCTETS = KEYS / 8,
        COLUMNS = DIM / 32, /* per lane, or per row of V */
        GROUP = 128,        /* threads of a warpgroup */
        N_USERS = 2,        /* warpgroups with queries */
        N_MAKERS = 8,       /* warps */
        PITCH = sizeof(Octet) / 16,
        LOW = 16 * DIM, /* bytes from high halves to low ones */
        N = 8 * COLUMNS /* floats per lane of an octet */
    };
    struct Shared {
        Octet q[N_USERS][ROWS / 8], octets[2][OCTETS]; /* of K and V */
        float raw[N_MAKERS][8 * DIM];
        About about_q[N_USERS][ROWS / 8], about[2][2][OCTETS]; /* of every other tile of K and V */
        Delivery deliveries[N_MAKERS];
        Gate made[2], used[2];
        float most_inverse_of_q[N_USERS][4]; /* for each warp */
    };
    static_assert(sizeof(Shared) == ATTENTION_WGMMA_BYTES(DIM), "bytes of a block");

    Shared *shared;
    const attention_args *args;
    int dim, warp, lane; /* of the makers, or of the warpgroup */
    int rank, size;      /* of the cluster */
    int64_t begin_of_head;
    int n_tiles; /* of the cluster */

    /* Numbers of barriers: a warpgroup's own; the one that says it is its turn. */
    MEMBER static unsigned own(int user) {
        return 1 + user;
    }
    MEMBER static unsigned turn(int user) {
        return 3 + user;
    }

    /* How many keys the rows of a warpgroup see. */
    MEMBER static int64_t keys_of(const attention_args *args, int64_t row) {
        int64_t end = row + ROWS;
        return row >= args->seq ? 0 : args->is_causal && end < args->seq ? end : args->seq;
    }
    MEMBER static int tiles_of(int64_t n_keys) {
        return (int)((n_keys + KEYS - 1) / KEYS);
    }

    MEMBER Grouped(Shared *shared, const attention_args *args, const RowsOfBlock &rows, int warp)
        : shared(shared), args(args), dim((int)args->head_dim), warp(warp),
          lane((int)threadIdx.x % 32), rank((int)cluster_rank()), size((int)cluster_size()),
          begin_of_head(rows.head * args->seq * dim), n_tiles(tiles_of(keys_of(args, rows.last))) {
    }

    /* The first four columns of octet i of a row, and the other four.  No lanes side by side
     * that load these meet a bank twice. */
    MEMBER static int first_of(int i) {
        return 4 * i;
    }
    MEMBER static int second_of(int i) {
        return DIM / 2 + 4 * i;
    }

    /* ---- octets of rows ---- */

    MEMBER static void load_wide(float *x, const float *from) {
        float4 wide = *reinterpret_cast<const float4 *>(from);
        x[0] = wide.x;
        x[1] = wide.y;
        x[2] = wide.z;
        x[3] = wide.w;
    }

    /* A lane has some octets of columns of a row, none of which its neighbours have, so that
     * neither loads nor stores meet a bank twice. */
    MEMBER static int row_of(int lane) {
        return lane % 8;
    }
    MEMBER static int columns_of(int lane, int i) {
        return (lane / 8 + 4 * i) ^ lane % 8;
    }

    /* Number 32 e + i of a tile of values is column column_of(i) + e.  A product leaves a lane
     * with numbers 8 j + 2 t and the next; of each, four lanes have columns side by side. */
    MEMBER static int column_of(int i) {
        return COLUMNS * ((i & ~7) + i % 2 * 4 + i % 8 / 2);
    }
    MEMBER static int number_of(int column) {
        int i = column / COLUMNS;
        return column % COLUMNS * 32 + (i & ~7) + i % 4 * 2 + i % 8 / 4;
    }

    MEMBER static void load_rows(float (&x)[N], const float *raw, int lane) {
#pragma unroll
        for (int i = 0; i < COLUMNS; i++) {
            const float *from = raw + row_of(lane) * DIM;
            load_wide(x + 8 * i, from + first_of(columns_of(lane, i)));
            load_wide(x + 8 * i + 4, from + second_of(columns_of(lane, i)));
        }
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
        uint4 high[COLUMNS], low[COLUMNS];
    };

    /* Split into halves, and return how many values of the whole octet are small. */
    MEMBER static int split(const float (&x)[N], float times, Pieces *pieces) {
        int n_small = 0;
#pragma unroll
        for (int i = 0; i < COLUMNS; i++) {
            uint4 *high = &pieces->high[i], *low = &pieces->low[i];
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
        high[0] = pieces.high[i];
        high[DIM] = pieces.low[i];
    }
    MEMBER static void store_rows(const Pieces &pieces, Octet *octet, int lane) {
#pragma unroll
        for (int i = 0; i < COLUMNS; i++)
            store(pieces, i, &octet->high[8 * columns_of(lane, i) + row_of(lane)]);
    }

    MEMBER static About about_of(const Scale &scale, unsigned most, int n_small) {
        return {scale.is_hard ? INFINITY : most == 0 ? 0.0f : scale.inverse, n_small};
    }

    MEMBER bool is_too_many(int n, int64_t n_rows) const {
        return (int64_t)n * HARD_SHARE > n_rows * dim;
    }

    /* Whether any of n octets, at most as many as lanes, is hard, and the largest of their
     * scales. */
    MEMBER bool look_at(const About *about, int n, int64_t n_rows, float *most) const {
        const volatile About *own = &about[lane % n];
        *most = __uint_as_float(max_of_warp(__float_as_uint(own->inverse)));
        int n_small = own->n_small;
        n_small = sum_of_warp(lane < n ? n_small : 0);
        return is_too_many(n_small, n_rows) || *most == INFINITY;
    }
};

/* ---- the warpgroups that make halves ---- */

template <int DIM> struct Makers : Grouped<DIM> {
    using Base = Grouped<DIM>;
    using Base::about_of, Base::column_of, Base::keys_of, Base::load_rows, Base::load_wide,
        Base::n_tiles, Base::rank, Base::scale_by, Base::size, Base::store_rows;
    using Base::args, Base::begin_of_head, Base::dim, Base::lane, Base::shared, Base::warp;
    using Base::COLUMNS, Base::KEYS, Base::N, Base::N_MAKERS, Base::OCTETS;
    using Base::split, Base::store;
    using typename Base::About, typename Base::Octet, typename Base::Pieces, typename Base::Shared;
    int64_t n_keys; /* of the cluster */
    int n_octets;   /* of the warp, of each tile of K and V */

    MEMBER Makers(Shared *shared, const attention_args *args, const RowsOfBlock &rows)
        : Base(shared, args, rows, uniform((int)threadIdx.x / 32)),
          n_keys(keys_of(args, rows.last)), n_octets(2 * (int)OCTETS / N_MAKERS / size) {
    }

    /* Number of the warp's i-th octet of a tile: those of K, then those of V. */
    MEMBER int octet_of(int i) const {
        return (N_MAKERS * i + warp) * size + rank;
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
        fetch(0, 0);
    }

    /* Begin to copy the i-th octet of a tile; 0 beyond the keys. */
    MEMBER void fetch(int tile, int i) const {
        int octet = octet_of(i);
        int64_t key = (int64_t)tile * KEYS + octet % OCTETS * 8;
        const float *from = (octet < OCTETS ? args->k : args->v) + begin_of_head + key * dim;
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

    /* A lane has some neighbouring columns of all eight rows, numbers 32 e + lane of the tile. */
    MEMBER static void load_values(float (&x)[N], const float *raw, int lane) {
#pragma unroll
        for (int key = 0; key < 8; key++) {
            float wide[COLUMNS];
            const float *from = raw + key * DIM + column_of(lane);
            if constexpr (COLUMNS == 4)
                load_wide(wide, from);
            else
                *reinterpret_cast<float2 *>(wide) = *reinterpret_cast<const float2 *>(from);
#pragma unroll
            for (int e = 0; e < COLUMNS; e++)
                x[8 * e + key] = wide[e];
        }
    }
    MEMBER static void store_values(const Pieces &pieces, Octet *octet, int lane) {
#pragma unroll
        for (int e = 0; e < COLUMNS; e++)
            store(pieces, e, &octet->high[32 * e + lane]);
    }

    /* Make the i-th octet of a tile, number n of the warp. */
    MEMBER void make(int tile, int i, int n) const {
        int number = octet_of(i), what = number / OCTETS, lane = anew(this->lane);
        const float *raw = shared->raw[warp];
        Octet *octet = &shared->octets[what][number % OCTETS];
        About *about = &shared->about[tile % 2][what][number % OCTETS];
        Gate *made = &shared->made[what];
        float x[N];
        unsigned most;
        wait_for_octet(n);
        if (what)
            load_values(x, raw, lane);
        else
            load_rows(x, raw, lane);
        Scale scale = scale_by(x, &most);
        __syncwarp(); /* before others of the warp replace the raw octet */
        int next = i + 1 < n_octets ? i + 1 : 0, next_tile = tile + (next == 0);
        if (next_tile < n_tiles)
            fetch(next_tile, next);
        /* all but the stores, before the place is free */
        Pieces pieces;
        int n_small = split(x, scale.times, &pieces);
        if (tile > 0)
            wait_for_gate(&shared->used[what], tile - 1);
        if (what)
            store_values(pieces, octet, lane);
        else
            store_rows(pieces, octet, lane);
        fence_tiles();
        __syncwarp();
        if (size == 1) { /* nothing may be sent if there is no other block */
            if (lane == 0)
                *about = about_of(scale, most, n_small);
        } else if (lane < size) {
            if (lane != rank)
                copy_bulk_to(lane, octet, sizeof *octet, made);
            send_to(lane, about, made, about_of(scale, most, n_small));
        }
        /* each of the others sends as many bytes */
        if (lane == 0)
            arrive_at_gate(made, size == 1 ? 0 : size * sizeof *about + (size - 1) * sizeof *octet);
    }

    MEMBER void run() const {
        int n = 0;
        begin();
        cluster_wait();
#pragma unroll 1
        for (int tile = 0; tile < n_tiles; tile++)
#pragma unroll 1
            for (int i = 0; i < n_octets; i++)
                make(tile, i, n++);
    }
};

/* ---- the warpgroups with queries ---- */

template <int DIM> struct Users : Grouped<DIM> {
    using Base = Grouped<DIM>;
    using Base::about_of, Base::column_of, Base::columns_of, Base::first_of, Base::keys_of,
        Base::look_at, Base::n_tiles, Base::number_of, Base::own, Base::row_of, Base::scale_by,
        Base::second_of, Base::size, Base::store_rows, Base::tiles_of, Base::turn;
    using Base::args, Base::begin_of_head, Base::dim, Base::lane, Base::shared, Base::warp;
    using Base::COLUMNS, Base::GROUP, Base::KEYS, Base::LOW, Base::N, Base::OCTETS, Base::PITCH,
        Base::ROWS;
    using Base::split;
    using typename Base::About, typename Base::Octet, typename Base::Pieces, typename Base::Shared;
    enum {
        STEPS = DIM / 16,
        STEP = 16 * 16, /* bytes of a step of columns */
        KEY_STEPS = KEYS / 16,
        HARD_KEYS = 32,
        PART = 64 /* columns of output at a time */
    };
    static_assert(2 * HARD_KEYS * DIM * 4 <= ROWS / 8 * sizeof(Octet),
                  "raw tiles fit where queries were");

    int user;
    int row, n_keys; /* the first of the warpgroup, and what it sees; 64 bits would cost
                        registers */
    /* of the thread's rows, lane / 4 of the warp's and 8 below */
    float out[DIM / 8][4], most[2], sum[2], factor[2], inverse_q[2];

    MEMBER Users(Shared *shared, const attention_args *args, const RowsOfBlock &rows)
        : Base(shared, args, rows, uniform((int)threadIdx.x % GROUP / 32)),
          user(uniform((int)threadIdx.x / GROUP - Base::N_MAKERS / 4)),
          row((int)(user ? rows.of_user[1] : rows.of_user[0])), n_keys((int)keys_of(args, row)) {
    }

    MEMBER int row_of_thread() const {
        return 16 * warp + lane / 4;
    }

    /* ---- queries ---- */

    /* A lane's part of an octet, as in load_rows(); rows beyond the last are 0. */
    MEMBER void load_queries(float (&x)[N], int64_t first) const {
        int64_t at = first + row_of(lane);
        const float *from = args->q + begin_of_head + at * dim;
        int n_columns = at < args->seq ? dim : 0;
        /* separate, so that no load waits for the one before */
        if (args->is_wide)
            load_columns_of<true>(x, from, n_columns);
        else
            load_columns_of<false>(x, from, n_columns);
    }

    template <bool IS_WIDE>
    MEMBER void load_columns_of(float (&x)[N], const float *from, int n_columns) const {
#pragma unroll
        for (int i = 0; i < 2 * COLUMNS; i++) {
            int octet = columns_of(lane, i / 2),
                column = i % 2 ? second_of(octet) : first_of(octet);
            float4 wide = load_columns<false>(from, column, n_columns, IS_WIDE);
            x[4 * i] = wide.x;
            x[4 * i + 1] = wide.y;
            x[4 * i + 2] = wide.z;
            x[4 * i + 3] = wide.w;
        }
    }

    /* Split the warp's rows into halves; whether the warpgroup's are hard. */
    MEMBER bool split_queries() {
        About *about = shared->about_q[user];
#pragma unroll 1
        for (int octet = 2 * warp; octet < 2 * warp + 2; octet++) {
            float x[N];
            unsigned most;
            load_queries(x, row + 8 * octet);
            Scale scale = scale_by(x, &most);
            Pieces pieces;
            int n_small = split(x, scale.times, &pieces);
            store_rows(pieces, &shared->q[user][octet], lane);
            if (lane == 0)
                about[octet] = about_of(scale, most, n_small);
        }
        fence_tiles();
        meet_some<GROUP>(own(user));
        int64_t n_rows = args->seq - row;
        float most;
        bool is_hard = look_at(about, ROWS / 8, n_rows < ROWS ? n_rows : (int64_t)ROWS, &most);
        inverse_q[0] = about[2 * warp].inverse;
        inverse_q[1] = about[2 * warp + 1].inverse;
        if (lane == 0)
            shared->most_inverse_of_q[user][warp] = most;
        __syncwarp();
        return is_hard;
    }

    /* The About of K or V of a tile. */
    MEMBER const About *about(int what, int tile) const {
        return shared->about[tile % 2][what];
    }

    /* Whether the tile is hard, and the largest of its scales. */
    MEMBER bool look_at_tile(int what, int tile, float *most) const {
        return look_at(about(what, tile), OCTETS, min(n_keys - tile * KEYS, (int)KEYS), most);
    }

    /* The scale of an octet; volatile, so that it is read when it is needed. */
    MEMBER static float scale_in(const About *about, int octet) {
        return *const_cast<const volatile float *>(&about[octet].inverse);
    }

    /* ---- scores and weights ---- */

    /* Begin the scores of scaled halves; they are there after wait_products(). */
    MEMBER void begin_scores(float (&scores)[KEYS / 2]) const {
        uint64_t q = tile_descriptor_anew<8, PITCH>(shared->q[user]), q_low = tile_behind(q, LOW);
        uint64_t k = tile_descriptor_anew<8, PITCH>(shared->octets[0]), k_low = tile_behind(k, LOW);
        begin_products();
#pragma unroll
        for (int i = 0; i < STEPS; i++) {
            if (i == 0)
                multiply_tiles<false>(scores, q_low, k);
            else
                multiply_tiles<true>(scores, tile_behind(q_low, STEP * i),
                                     tile_behind(k, STEP * i));
            multiply_tiles<true>(scores, tile_behind(q, STEP * i), tile_behind(k_low, STEP * i));
        }
        end_products();
#pragma unroll
        for (int i = 0; i < STEPS; i++)
            multiply_tiles<true>(scores, tile_behind(q, STEP * i), tile_behind(k, STEP * i));
        end_products();
    }

    /* How many keys from `key` on are seen by the thread's two rows. */
    MEMBER void find_limits(int (&limit)[2], int key) const {
#pragma unroll
        for (int r = 0; r < 2; r++)
            limit[r] = min(seen_by(row + row_of_thread() + 8 * r) - key, (int)KEYS);
    }
    MEMBER int seen_by(int row) const {
        int seq = (int)args->seq;
        return args->is_causal ? min(row + 1, seq) : seq;
    }

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

    /* Scale to the new base, which is mostly the old one. */
    MEMBER void scale_out() {
        if (__any_sync(0xFFFFFFFF, factor[0] != 1 || factor[1] != 1)) {
#pragma unroll
            for (int i = 0; i < DIM / 2; i++)
                out[i / 4][i % 4] *= factor[i / 2 % 2];
        }
    }

    /* Split weights, times the scales of their values, into halves. */
    MEMBER static void split_weights(const float (&weights)[KEYS / 2], const About *about, float by,
                                     uint32_t (&high)[KEY_STEPS][4],
                                     uint32_t (&low)[KEY_STEPS][4]) {
#pragma unroll
        for (int i = 0; i < OCTETS; i++) {
            float scale = scale_in(about, i) * by;
#pragma unroll
            for (int r = 0; r < 2; r++)
                split_pair(weights[4 * i + 2 * r] * scale, weights[4 * i + 2 * r + 1] * scale,
                           &high[i / 2][i % 2 * 2 + r], &low[i / 2][i % 2 * 2 + r]);
        }
    }

    MEMBER void add(const float (&weights)[KEYS / 2], float most_inverse, int tile) {
        uint32_t high[KEY_STEPS][4], low[KEY_STEPS][4];
        float unscale = most_inverse * 0x1p-14f;
        /* both are powers of 2 */
        split_weights(weights, about(1, tile), most_inverse == 0 ? 0.0f : 1 / most_inverse, high,
                      low);
        scale_out();
        begin_turn();
        uint64_t v = tile_descriptor_anew<PITCH>(shared->octets[1]), v_low = tile_behind(v, LOW);
#pragma unroll
        for (int c = 0; c < DIM / PART; c++) {
            float part[PART / 2];
            begin_products();
#pragma unroll
            for (int i = 0; i < KEY_STEPS; i++) {
                unsigned of_v = 32 * PITCH * i + 16 * PART * c;
                if (i == 0)
                    multiply_tile<false>(part, low[i], tile_behind(v, of_v));
                else
                    multiply_tile<true>(part, low[i], tile_behind(v, of_v));
                multiply_tile<true>(part, high[i], tile_behind(v_low, of_v));
            }
            end_products();
#pragma unroll
            for (int i = 0; i < KEY_STEPS; i++)
                multiply_tile<true>(part, high[i], tile_behind(v, 32 * PITCH * i + 16 * PART * c));
            end_products();
            if (c + 1 == DIM / PART) {
                wait_products_before();
                end_turn(1, tile);
            }
            wait_products(part);
#pragma unroll
            for (int i = 0; i < PART / 2; i++) {
                float *o = &out[c * (PART / 8) + i / 4][i % 4];
                *o = fmaf(part[i], unscale, *o);
            }
        }
    }

    template <bool IS_WIDE> MEMBER void store_as() const {
        int first = column_of(lane % 4 * 2);
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float whole = sum_of_lanes<4>(sum[r]) * 0x1p-14f, share = share_of(whole);
            int at = row + row_of_thread() + 8 * r;
            int n_columns = (at < args->seq ? dim : 0) - first;
            float *o = args->o + begin_of_head + (int64_t)at * dim + first;
#pragma unroll
            for (int i = 0; i < 8; i++) {
                int column = column_of(8 * (i / 2) + i % 2); /* from the first on */
                float x[COLUMNS];
#pragma unroll
                for (int e = 0; e < COLUMNS; e++)
                    x[e] = whole == 0 ? 0 : out[4 * e + i / 2][2 * r + i % 2] * share;
                if constexpr (!IS_WIDE) {
#pragma unroll
                    for (int e = 0; e < COLUMNS; e++)
                        if (column + e < n_columns)
                            o[column + e] = x[e];
                } else if (column < n_columns) {
                    if constexpr (COLUMNS == 4)
                        *reinterpret_cast<float4 *>(o + column) =
                            make_float4(x[0], x[1], x[2], x[3]);
                    else
                        *reinterpret_cast<float2 *>(o + column) = make_float2(x[0], x[1]);
                }
            }
        }
    }
    MEMBER void store() const {
        if (args->is_wide)
            store_as<true>();
        else
            store_as<false>();
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

    /* Wait until K or V of a tile is there; say that it was used, so that the makers may replace
     * it. */
    MEMBER void wait_for(int what, int tile) const {
        wait_for_gate(&shared->made[what], tile);
    }
    MEMBER void hand_back(int what, int tile) const {
        __syncwarp();
        if (tile + 1 >= n_tiles)
            return;
        if (size == 1) /* each lane arrives, because each read what is replaced next */
            arrive_at_gate(&shared->used[what], 0);
        else if (lane < size)
            arrive_at_gate_of(lane, &shared->used[what]);
    }

    /* Only one warpgroup at a time multiplies; the other weighs meanwhile.  A turn ends when the
     * last third is left, so that the other's products are asked for when these end. */
    MEMBER void begin_turn() const {
        meet_some<2 * GROUP>(turn(user));
    }
    MEMBER void end_turn(int what, int tile) const {
        if (user == 0 || what == 0 || tile + 1 < n_tiles)
            arrive_at_some<2 * GROUP>(turn(!user));
    }

    /* Pass a tile that the warpgroup does not need: K and V (what = 1), or only V. */
    MEMBER void pass(int what, int tile) const {
#pragma unroll 1
        for (; what < 2; what++) {
            wait_for(what, tile);
            hand_back(what, tile);
            begin_turn();
            end_turn(what, tile);
        }
    }

    /* A tile is hard if unscaling by K's inverse, or by both inverses, could overflow a float,
     * because a score would then be 0 times infinity. */
    MEMBER bool is_hard_by(float inverse_k) const {
        return inverse_k > 0x1p88f || inverse_k * shared->most_inverse_of_q[user][warp] == INFINITY;
    }

    /* Take a tile of keys; false if it is hard and was handed back. */
    MEMBER bool take(int tile) {
        int key = tile * KEYS;
        float weights[KEYS / 2], most_inverse;
        wait_for(0, tile);
        begin_turn();
        begin_scores(weights);
        bool is_hard = look_at_tile(0, tile, &most_inverse) || is_hard_by(most_inverse);
        wait_products_before();
        end_turn(0, tile);
        wait_products(weights);
        hand_back(0, tile);
        if (is_hard) {
            pass(1, tile);
            return false;
        }
#pragma unroll
        for (int i = 0; i < OCTETS; i++) {
            float scale = scale_in(about(0, tile), i);
#pragma unroll
            for (int e = 0; e < 4; e++)
                weights[4 * i + e] *= scale;
        }
        if (key + KEYS > seen_by(row)) {
            int limit[2];
            find_limits(limit, key);
            mask(weights, limit);
        }
        weigh(weights, inverse_q);
        wait_for(1, tile);
        if (look_at_tile(1, tile, &most_inverse)) {
            hand_back(1, tile);
            begin_turn();
            end_turn(1, tile);
            return false;
        }
        add(weights, most_inverse, tile);
        hand_back(1, tile);
        return true;
    }

    /* Take all tiles; false if one is hard. */
    MEMBER bool take_all() {
        int n = tiles_of(n_keys), tile = 0;
        bool is_hard = n > 0 && split_queries();
        begin_rows();
        cluster_wait();
        if (user == 1)
            arrive_at_some<2 * GROUP>(turn(0));
#pragma unroll 1
        for (; tile < n && !is_hard; tile++)
            is_hard = !take(tile);
#pragma unroll 1
        for (; tile < n_tiles; tile++)
            pass(0, tile);
        return !is_hard;
    }

    /* Load some keys and values as floats to the place of the queries; columns of values as in a
     * tile. */
    MEMBER void load_hard(float *keys, float *values, int key) const {
        int n_valid = n_keys - key;
        for (int at = (int)threadIdx.x % GROUP; at < HARD_KEYS * DIM; at += GROUP) {
            int i = at / DIM, column = at % DIM;
            bool is_there = i < n_valid && column < dim;
            int64_t from = begin_of_head + (int64_t)(key + i) * dim + column;
            keys[at] = is_there ? args->k[from] : 0;
            values[i * DIM + number_of(column)] = is_there ? args->v[from] : 0;
        }
    }

    /* Do all tiles on fp32 units. */
    MEMBER void take_all_hard() {
        float *keys = reinterpret_cast<float *>(shared->q[user]);
        float *values = keys + HARD_KEYS * DIM;
        begin_rows();
#pragma unroll 1
        for (int key = 0; key < n_keys; key += HARD_KEYS) {
            float scores[HARD_KEYS / 8][4], flat[HARD_KEYS / 2], unscale[2] = {1, 1};
            int limit[2];
            meet_some<GROUP>(own(user)); /* all are done with the keys before */
            load_hard(keys, values, key);
            meet_some<GROUP>(own(user));
            score_hard<DIM>(scores, args->q + begin_of_head + (int64_t)row * dim, row_of_thread(),
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
        bool is_hard = !take_all();
        cluster_arrive_relaxed(); /* the others' copies have come, and this block's have gone to
                                     them */
        if (is_hard)
            take_all_hard();
        store();
        cluster_wait();
    }
};

/*
 * The rows of a block.  A cluster has as many parts of ROWS as its blocks have warpgroups, side by
 * side; each block has one part from their start and one from their end, those that see most keys
 * first.  If IN_PAIRS, it has the i-th part from the start and from the end of all, so that all
 * blocks see as many keys.
 */
DEVICE RowsOfBlock rows_of_block(const attention_args *args) {
    enum { ROWS = ATTENTION_WGMMA_ROWS };
    int size = (int)cluster_size(), rank = (int)cluster_rank(), first, second, last;
    uint32_t cluster = size == 1 ? blockIdx.x : blockIdx.x / 2;
    int i = (int)divide(cluster, args->of_heads), n = (int)((args->seq + ROWS - 1) / ROWS);
    if (args->is_in_pairs) {
        int part = i * size + rank, mirror = n - 1 - part;
        first = part < mirror ? part : n; /* n means none */
        second = part <= mirror ? mirror : n;
        last = n - 1 - i * size;
    } else {
        int begin = (args->n_clusters - 1 - i) * 2 * size;
        first = begin + rank;
        second = begin + 2 * size - 1 - rank;
        last = min(begin + 2 * size, n) - 1;
    }
    return {cluster - i * args->of_heads.by,
            {min((int64_t)first * ROWS, args->seq), min((int64_t)second * ROWS, args->seq)},
            (int64_t)last * ROWS};
}

/*
 * Bring what each warp reads first into L2 while the kernel ahead may still run, and while gates
 * are made.
 */
template <int DIM> DEVICE void prefetch_first(const attention_args *args, const RowsOfBlock &rows) {
    using G = Grouped<DIM>;
    int warp = (int)threadIdx.x / 32, of_user = warp - G::N_MAKERS;
    const float *from;
    int64_t row, n_rows;
    if (!args->is_wide || threadIdx.x % 32 != 0)
        return;
    if (of_user < 0) {
        int octet = warp * (int)cluster_size() + (int)cluster_rank();
        from = args->k;
        row = octet * 8;
        n_rows = min(G::keys_of(args, rows.last) - row, (int64_t)8);
    } else {
        from = args->q;
        row = (of_user < 4 ? rows.of_user[0] : rows.of_user[1]) + of_user % 4 * 16;
        n_rows = min(args->seq - row, (int64_t)16);
    }
    if (n_rows > 0)
        prefetch_early(from + (rows.head * args->seq + row) * args->head_dim,
                       (unsigned)(n_rows * args->head_dim * 4));
}

template <int DIM>
DEVICE void attend_by_warpgroups(typename Grouped<DIM>::Shared *shared,
                                 const attention_args *args) {
    using G = Grouped<DIM>;
    RowsOfBlock rows = rows_of_block(args);
    prefetch_first<DIM>(args, rows);
    if (threadIdx.x == 0) {
        for (int what = 0; what < 2; what++) {
            int size = (int)cluster_size(), n_users = 4 * G::N_USERS;
            make_gate(&shared->made[what], G::OCTETS / size);
            make_gate(&shared->used[what], n_users * (size == 1 ? 32 : size));
        }
    }
    cluster_arrive_relaxed();
    wait_for_earlier();
    let_next_start();
    if (threadIdx.x < 32 * G::N_MAKERS) {
        keep_registers<72>();
        Makers<DIM>(shared, args, rows).run();
        cluster_arrive_relaxed();
        cluster_wait();
    } else {
        take_registers<184>();
        Users<DIM>(shared, args, rows).run();
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
