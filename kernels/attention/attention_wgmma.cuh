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
#include "kernels/attention/attention_warpgroup.cuh"
#include "kernels/device/arch/async_copy.cuh"
#include "kernels/device/arch/bulk_copy.cuh"
#include "kernels/device/arch/dependent_launch.cuh"
#include "kernels/device/arch/wgmma.cuh"
#include "kernels/device/device.cuh"
#include "kernels/device/math/divide.cuh"

#ifdef CUSHIM_HAS_WGMMA

namespace {

/*
 * The rows of a block: the first of each of its two warpgroups, and of the warpgroup of its cluster
 * that sees most keys; seq means none.
 */
struct RowsOfBlock {
    int64_t head, of_user[2], last;
};

/* What both kinds of warpgroups have.  An octet of V is by columns, each with its eight rows. */
template <int DIM> struct Grouped : Octets<DIM> {
    using Base = Octets<DIM>;
    using Base::COLUMNS, Base::N;
    using Base::columns_of, Base::row_of;
    using typename Base::About, typename Base::Octet;
    enum {
        ROWS = ATTENTION_WGMMA_ROWS,
        KEYS = ATTENTION_WGMMA_KEYS,
        OCTETS = KEYS / 8,
        DIM_OF_TILES = DIM,
        N_USERS = 2,  /* warpgroups with queries */
        N_MAKERS = 8, /* warps */
        PITCH = sizeof(Octet) / 16,
        LOW = 16 * DIM /* bytes from high halves to low ones */
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

template <int DIM> struct Users : Warpgroup<Grouped<DIM>> {
    using Base = Warpgroup<Grouped<DIM>>;
    using Base::args, Base::begin_of_head, Base::dim, Base::lane, Base::n_tiles, Base::shared,
        Base::size, Base::user, Base::warp;
    using Base::begin_turn, Base::give_turn, Base::mask, Base::row_of_thread, Base::scale_out,
        Base::weigh;
    using Base::column_of, Base::columns_of, Base::first_of, Base::keys_of, Base::look_at,
        Base::number_of, Base::row_of, Base::second_of, Base::tiles_of;
    using Base::COLUMNS, Base::GROUP, Base::HARD_KEYS, Base::KEYS, Base::LOW, Base::N, Base::OCTETS,
        Base::PITCH, Base::ROWS;
    using Base::factor, Base::inverse_q, Base::out, Base::sum;
    using typename Base::About, typename Base::Pieces, typename Base::Shared;
    enum {
        STEPS = DIM / 16,
        STEP = 16 * 16, /* bytes of a step of columns */
        KEY_STEPS = KEYS / 16,
        PART = 64 /* columns of output at a time */
    };

    int row, n_keys; /* the first of the warpgroup, and what it sees; 64 bits would cost
                        registers */

    MEMBER Users(Shared *shared, const attention_args *args, const RowsOfBlock &rows)
        : Base(uniform((int)threadIdx.x / GROUP - Base::N_MAKERS / 4), shared, args, rows,
               uniform((int)threadIdx.x % GROUP / 32)),
          row((int)(user ? rows.of_user[1] : rows.of_user[0])), n_keys((int)keys_of(args, row)) {
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

    /* The About of K or V of a tile. */
    MEMBER const About *about(int what, int tile) const {
        return shared->about[tile % 2][what];
    }

    /* Whether the tile is hard, and the largest of its scales. */
    MEMBER bool look_at_tile(int what, int tile, float *most) const {
        return look_at(about(what, tile), OCTETS,
                       (int64_t)min(n_keys - tile * KEYS, (int)KEYS) * dim, lane, most);
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

    /* ---- output ---- */

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
            float whole = Base::whole_of(r), share = share_of(whole);
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

    /* A turn ends when the last third is left, so that the other's products are asked for when
     * these end. */
    MEMBER void end_turn(int what, int tile) const {
        if (user == 0 || what == 0 || tile + 1 < n_tiles)
            give_turn();
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
        bool is_hard =
            n > 0 && Base::split_queries(
                         args->seq - row, dim,
                         [&](float(&x)[N], int octet) { load_queries(x, row + 8 * octet); },
                         [&](const Pieces &pieces, int octet) {
                             Base::store_rows(pieces, &shared->q[user][octet], lane);
                         });
        Base::begin_rows();
        cluster_wait();
        if (user == 1)
            give_turn();
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
        const float *q[2];
#pragma unroll
        for (int r = 0; r < 2; r++)
            q[r] = args->q + begin_of_head +
                   min((int64_t)(row + row_of_thread() + 8 * r), args->seq - 1) * dim;
        Base::take_all_hard(
            n_keys, q, dim,
            [&](float *keys, float *values, int key) { load_hard(keys, values, key); },
            [&](int(&limit)[2], int key) { find_limits(limit, key); });
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
