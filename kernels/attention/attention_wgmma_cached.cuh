/*
 * Attention of many queries over caches by warpgroups (only sm_90a).
 *
 * Keys and values of 16 bits are what the unit multiplies, so they are copied as they are.  Only
 * queries and weights are split: for caches in binary16 into two halves, scaled as in
 * attention_halves.cuh; for bfloat16, which has the range of floats, into three terms of its own.
 * Each term has a product.  For caches in fp32 keys and values are two halves, too, scaled by
 * octets of rows, and the product of both lower terms is left out.  Products of lower terms come
 * first, so that sums are small while these are added.  Sums that the unit truncates are of 128
 * columns or keys.
 *
 * Some of a block's warpgroups bring keys and values, 128 at a time, into a ring of places; each of
 * two others has 64 of the 128 rows of a tile (attention_cached.cuh).
 *
 * Infinities and NaN in the cache make something of the output NaN or infinite, because a lower
 * term, and the weight of a key that is not seen, may be 0.  The warpgroup then does the tile anew
 * on fp32 units (attention_hard.cuh), and so it does if octets that it met are hard.
 */
#ifndef CUSHIM_KERNELS_ATTENTION_WGMMA_CACHED_CUH
#define CUSHIM_KERNELS_ATTENTION_WGMMA_CACHED_CUH

#include "kernels/attention/attention_cached.cuh"
#include "kernels/attention/attention_warpgroup.cuh"
#include "kernels/device/arch/async_copy.cuh"
#include "kernels/device/arch/cluster.cuh"

#ifdef CUSHIM_HAS_WGMMA

namespace {

/* Two numbers as terms of two each. */
template <class Half, int TERMS> DEVICE void split_two(float x, float y, uint32_t (&terms)[TERMS]) {
#pragma unroll
    for (int i = 0; i < TERMS; i++) {
        terms[i] = Half::narrow2(x, y);
        float2 back = Half::widen2(terms[i]);
        x -= back.x;
        y -= back.y;
    }
}

/* Octets of queries as terms. */
template <int TYPE, int DIM> struct Queries : Octets<DIM> { typedef F16 Half; };
template <int DIM> struct Queries<ATTENTION_BF16, DIM> : Octets<DIM> {
    using Base = Octets<DIM>;
    using Base::COLUMNS, Base::N;
    typedef Bf16 Half;
    enum { TERMS = ATTENTION_WGMMA_TERMS(ATTENTION_BF16) };
    struct Pieces {
        uint4 terms[TERMS][COLUMNS];
    };

    /* Nothing is scaled; but the least numbers are hard. */
    MEMBER static Scale scale_by(const float (&x)[N], unsigned *most) {
        return {1, 1, Base::scale_by(x, most).is_hard};
    }
    MEMBER static int split(const float (&x)[N], float, Pieces *pieces) {
#pragma unroll
        for (int i = 0; i < COLUMNS; i++) {
            uint32_t pairs[4][TERMS];
#pragma unroll
            for (int e = 0; e < 4; e++)
                split_two<Half>(x[8 * i + 2 * e], x[8 * i + 2 * e + 1], pairs[e]);
#pragma unroll
            for (int term = 0; term < TERMS; term++)
                pieces->terms[term][i] =
                    make_uint4(pairs[0][term], pairs[1][term], pairs[2][term], pairs[3][term]);
        }
        return 0;
    }
};

template <int TYPE, int DIM> struct CachedBlock : Queries<TYPE, DIM> {
    using Base = Queries<TYPE, DIM>;
    enum {
        IS_F32 = TYPE == ATTENTION_F32,
        TERMS = ATTENTION_WGMMA_TERMS(TYPE),
        KEY_TERMS = ATTENTION_WGMMA_KEY_TERMS(TYPE),
        ROWS = ATTENTION_WGMMA_ROWS,
        KEYS = ATTENTION_WGMMA_KEYS,
        OCTETS = KEYS / 8,
        DIM_OF_TILES = DIM,
        N_USERS = 2, /* warpgroups with queries */
        N_COPIERS = ATTENTION_CACHED_WGMMA_THREADS(TYPE) / 32 - 4 * N_USERS, /* warps */
        N_PLACES = ATTENTION_WGMMA_PLACES(TYPE)
    };
    /* Eight rows: by octets of columns, then by row. */
    struct Eight {
        uint4 of[DIM];
    };
    struct Shared {
        Eight q[N_USERS][TERMS][ROWS / 8], places[N_PLACES][KEY_TERMS][OCTETS];
        typename Octets<DIM>::About about_q[N_USERS][ROWS / 8];
        typename Octets<DIM>::About about[N_PLACES][OCTETS]; /* only of f32 */
        Gate made[N_PLACES], used[N_PLACES];
        float most_inverse_of_q[N_USERS][4]; /* for each warp */
        int is_odd[N_USERS][4];
    };
    static_assert(sizeof(Shared) == ATTENTION_CACHED_WGMMA_BYTES(TYPE, DIM), "bytes of a block");

    Shared *shared;
    const attention_cached_args *args;
    int dim, warp, lane; /* of the warpgroup */
    int n = 0;           /* tiles of K and of V so far */

    MEMBER CachedBlock(Shared *shared, const attention_cached_args *args)
        : shared(shared), args(args), dim((int)args->head_dim),
          warp(uniform((int)threadIdx.x % 128 / 32)), lane((int)threadIdx.x % 32) {
    }

    /* Store a lane's part of eight rows; from a term to the next are `step`. */
    template <class Pieces>
    MEMBER void store_terms(const Pieces &pieces, Eight *to, int step) const {
#pragma unroll
        for (int term = 0; term < (int)(sizeof pieces.terms / sizeof *pieces.terms); term++)
#pragma unroll
            for (int i = 0; i < Base::COLUMNS; i++)
                to[term * step].of[8 * Base::columns_of(lane, i) + Base::row_of(lane)] =
                    pieces.terms[term][i];
    }

    /* Say that a tile of K or V is there, or the warp's part of it. */
    MEMBER void announce() const {
        fence_tiles();
        __syncwarp();
        if (lane == 0)
            arrive_at_gate(&shared->made[n % N_PLACES], 0);
    }

    /* There is nothing to do behind the last tile. */
    MEMBER void end() const {
    }

    /* How many keys the rows of a tile see. */
    MEMBER int keys_of(const CachedTile &tile) const {
        return (int)tile.seen(*args, N_USERS * ROWS - 1);
    }
};

/* ---- the warpgroups that bring keys and values ---- */

/* Those of 16 bits are copied.  Each warp has a place of its own, because an announcement waits for
 * all that its warp has asked for; so the others' copies are on their way meanwhile. */
template <int TYPE, int DIM> struct Copiers : CachedBlock<TYPE, DIM> {
    using Base = CachedBlock<TYPE, DIM>;
    using Base::args, Base::dim, Base::lane, Base::n, Base::shared, Base::warp;
    using Base::KEYS, Base::N_PLACES, Base::OCTETS;
    using typename Base::Eight, typename Base::Shared;
    enum { AT_ONCE = 4 }; /* rows of a lane whose blocks are looked up side by side */
    static_assert((int)Base::N_COPIERS == (int)N_PLACES, "a place for each warp");

    MEMBER Copiers(Shared *shared, const attention_cached_args *args) : Base(shared, args) {
    }

    /* Copy a row, which may be NULL for zeros, to each eighth piece from `to` on. */
    MEMBER void copy_row(uint4 *to, const uint16_t *from) const {
        bool is_wide = dim % 8 == 0 && (uintptr_t)from % 16 == 0;
#pragma unroll
        for (int j = 0; j < DIM / 8; j += 4) {
            int column = 8 * (j + lane / 8);
            if (!from || column >= dim) {
                to[column] = make_uint4(0, 0, 0, 0);
            } else if (is_wide) {
                copy_async_16(to + column, from + column);
            } else {
                to[column] = Elements<TYPE>::load_eight(from, column, dim);
            }
        }
    }

    /* Copy the rows from `key` on; 0 beyond the keys. */
    MEMBER void copy(const Cached &rows, int key, int n_keys, Eight *eights) const {
#pragma unroll 1
        for (int i = 0; i < OCTETS; i += AT_ONCE) {
            const uint16_t *from[AT_ONCE];
#pragma unroll
            for (int u = 0; u < AT_ONCE; u++) {
                int at = key + 8 * (i + u) + lane % 8;
                from[u] = at < n_keys ? rows.row<uint16_t>(at, rows.block_of(at)) : NULL;
            }
#pragma unroll
            for (int u = 0; u < AT_ONCE; u++)
                copy_row(eights[i + u].of + lane % 8, from[u]);
        }
        commit_copies();
        wait_copies<0>();
    }

    MEMBER void run(const CachedTile &tile) {
        Cached rows(*args, args->k, tile.sequence, tile.head);
        int n_keys = Base::keys_of(tile);
#pragma unroll 1
        for (int key = 0; key < n_keys; key += KEYS) {
#pragma unroll 1
            for (int what = 0; what < 2; what++, n++) {
                if (n % N_PLACES != warp)
                    continue;
                rows.base = what ? args->v : args->k;
                if (n >= N_PLACES)
                    wait_for_gate(&shared->used[warp], n / N_PLACES - 1);
                copy(rows, key, n_keys, shared->places[warp][0]);
                Base::announce();
            }
        }
    }
};

/* Floats become halves. */
template <int DIM> struct Copiers<ATTENTION_F32, DIM> : CachedBlock<ATTENTION_F32, DIM> {
    using Base = CachedBlock<ATTENTION_F32, DIM>;
    using Base::args, Base::dim, Base::lane, Base::n, Base::shared, Base::warp;
    using Base::COLUMNS, Base::KEYS, Base::N, Base::N_COPIERS, Base::N_PLACES, Base::OCTETS;
    using typename Base::Pieces, typename Base::Shared;

    MEMBER Copiers(Shared *shared, const attention_cached_args *args) : Base(shared, args) {
        warp = uniform((int)threadIdx.x / 32);
    }

    MEMBER void load(float (&x)[N], const Cached &rows, int key, int n_keys) const {
        bool is_there = key < n_keys;
        const float *from = is_there ? rows.row<float>(key, rows.block_of(key)) : NULL;
        bool is_wide = dim % 4 == 0 && (uintptr_t)from % 16 == 0;
#pragma unroll
        for (int i = 0; i < 2 * COLUMNS; i++) {
            /* through L1, because a load has half of each sector */
            float4 wide = load_columns<false>(from, 8 * Base::columns_of(lane, i / 2) + i % 2 * 4,
                                              is_there ? dim : 0, is_wide);
            x[4 * i] = wide.x;
            x[4 * i + 1] = wide.y;
            x[4 * i + 2] = wide.z;
            x[4 * i + 3] = wide.w;
        }
    }

    /* Make octet i of a tile. */
    MEMBER void make(const Cached &rows, int key, int n_keys, int i) const {
        float x[N];
        unsigned most;
        Pieces pieces;
        load(x, rows, key + 8 * i + Base::row_of(lane), n_keys);
        Scale scale = Base::scale_by(x, &most);
        int n_small = Base::split(x, scale.times, &pieces);
        if (n >= N_PLACES)
            wait_for_gate(&shared->used[n % N_PLACES], n / N_PLACES - 1);
        Base::store_terms(pieces, &shared->places[n % N_PLACES][0][i], OCTETS);
        if (lane == 0)
            shared->about[n % N_PLACES][i] = Base::about_of(scale, most, n_small);
    }

    MEMBER void run(const CachedTile &tile) {
        Cached rows(*args, args->k, tile.sequence, tile.head);
        int n_keys = Base::keys_of(tile);
#pragma unroll 1
        for (int key = 0; key < n_keys; key += KEYS) {
#pragma unroll 1
            for (int what = 0; what < 2; what++, n++) {
                rows.base = what ? args->v : args->k;
#pragma unroll 1
                for (int i = warp; i < OCTETS; i += N_COPIERS)
                    make(rows, key, n_keys, i);
                Base::announce();
            }
        }
    }
};

/* ---- the warpgroups with queries ---- */

template <int TYPE, int DIM> struct CachedUsers : Warpgroup<CachedBlock<TYPE, DIM>> {
    using Base = Warpgroup<CachedBlock<TYPE, DIM>>;
    using Base::args, Base::dim, Base::lane, Base::n, Base::shared, Base::user, Base::warp;
    using Base::begin_turn, Base::give_turn, Base::mask, Base::row_of_thread, Base::scale_out,
        Base::weigh;
    using Base::COLUMNS, Base::GROUP, Base::HARD_KEYS, Base::IS_F32, Base::KEYS, Base::KEY_TERMS,
        Base::N, Base::N_PLACES, Base::OCTETS, Base::ROWS, Base::TERMS;
    using Base::columns_of, Base::row_of;
    using Base::inverse_q, Base::out, Base::sum;
    using typename Base::About, typename Base::Eight, typename Base::Pieces, typename Base::Shared;
    enum {
        IS_BF16 = TYPE == ATTENTION_BF16,
        STEPS = DIM / 16,
        STEP = 16 * 16, /* bytes of a step of columns */
        KEY_STEPS = KEYS / 16,
        PRODUCTS = TERMS + KEY_TERMS - 1,
        PART = PRODUCTS == 2 ? DIM : 64 /* columns of output at a time, as registers allow */
    };

    /* of the warpgroup's rows in the tile: the first, and how many there are */
    int first, n_rows;
    int n_keys, seen[2], least_seen; /* of the tile, of the thread's rows, of the first */
    bool is_hard;

    MEMBER CachedUsers(Shared *shared, const attention_cached_args *args)
        : Base(uniform((int)threadIdx.x / GROUP - Base::N_COPIERS / 4), shared, args),
          first(ROWS * user) {
        if (user == 1)
            give_turn();
    }

    /* ---- queries ---- */

    /* A lane's part of an octet of queries; rows beyond the last are 0. */
    MEMBER void load_queries(float (&x)[N], const CachedTile &tile, int octet) const {
        int row = 8 * octet + row_of(lane), n_columns = row < n_rows ? dim : 0;
        const float *from = args->q + tile.place(*args, first + min(row, max(n_rows - 1, 0)));
#pragma unroll
        for (int i = 0; i < 2 * COLUMNS; i++) {
            float4 wide = load_columns<true>(from, 8 * columns_of(lane, i / 2) + i % 2 * 4,
                                             n_columns, args->is_wide);
            x[4 * i] = wide.x;
            x[4 * i + 1] = wide.y;
            x[4 * i + 2] = wide.z;
            x[4 * i + 3] = wide.w;
        }
    }

    /* Whether the queries are hard. */
    MEMBER bool split_queries(const CachedTile &tile) {
        return Base::split_queries(
            n_rows, dim, [&](float(&x)[N], int octet) { load_queries(x, tile, octet); },
            [&](const Pieces &pieces, int octet) {
                Base::store_terms(pieces, &shared->q[user][0][octet], ROWS / 8);
            });
    }

    /* ---- products ---- */

    /* Of floats and floats the product of both lower terms is left out. */
    MEMBER static constexpr int term_of(int product) {
        return IS_F32 ? product / 2 : product;
    }
    MEMBER static constexpr int key_term_of(int product) {
        return IS_F32 ? product % 2 : 0;
    }

    template <bool HAS_SUM>
    MEMBER static void multiply_scores(float (&scores)[KEYS / 2], uint64_t q, uint64_t k) {
        if constexpr (IS_BF16)
            multiply_tiles_bf16<HAS_SUM>(scores, q, k);
        else
            multiply_tiles<HAS_SUM>(scores, q, k);
    }
    template <bool HAS_SUM>
    MEMBER static void multiply_values(float (&part)[PART / 2], const uint32_t (&weights)[4],
                                       uint64_t v) {
        if constexpr (IS_BF16)
            multiply_tile_bf16<HAS_SUM, true>(part, weights, v);
        else
            multiply_tile<HAS_SUM, true>(part, weights, v);
    }

    /* Begin the scores; they are there after wait_products(). */
    MEMBER void begin_scores(float (&scores)[KEYS / 2]) const {
        uint64_t q = tile_descriptor_anew<8, DIM>(shared->q[user]);
        uint64_t k = tile_descriptor_anew<8, DIM>(shared->places[n % N_PLACES]);
        begin_products();
#pragma unroll
        for (int product = PRODUCTS - 1; product >= 0; product--) {
            int of_q = term_of(product) * (ROWS / 8 * (int)sizeof(Eight));
            int of_k = key_term_of(product) * (OCTETS * (int)sizeof(Eight));
            if (product == 0)
                end_products();
#pragma unroll
            for (int i = 0; i < STEPS; i++) {
                if (product == PRODUCTS - 1 && i == 0)
                    multiply_scores<false>(scores, tile_behind(q, of_q), tile_behind(k, of_k));
                else
                    multiply_scores<true>(scores, tile_behind(q, of_q + STEP * i),
                                          tile_behind(k, of_k + STEP * i));
            }
        }
        end_products();
    }

    /* The About of the tile of K or V that is next. */
    MEMBER const About *about() const {
        return shared->about[n % N_PLACES];
    }

    /* Look whether the tile is hard, and return the largest of its scales. */
    MEMBER float look_at_tile(int key) {
        float most;
        is_hard |= Base::look_at(about(), OCTETS, (int64_t)min(n_keys - key, (int)KEYS) * dim, lane,
                                 &most);
        return most;
    }

    /* The scale of an octet; volatile, so that it is read when it is needed. */
    MEMBER float scale_in(int octet) const {
        return *const_cast<const volatile float *>(&about()[octet].inverse);
    }

    /* Scale scores by their keys' octets.  They are hard if that could overflow a float, because a
     * score would then be 0 times infinity. */
    MEMBER void scale_scores(float (&scores)[KEYS / 2], int key) {
        float most_inverse = look_at_tile(key);
        is_hard |= most_inverse > 0x1p88f ||
                   most_inverse * shared->most_inverse_of_q[user][warp] == INFINITY;
#pragma unroll
        for (int i = 0; i < OCTETS; i++) {
            float scale = scale_in(i);
#pragma unroll
            for (int e = 0; e < 4; e++)
                scores[4 * i + e] *= scale;
        }
    }

    /* Scale weights by their values' octets, and return what unscales the products. */
    MEMBER float scale_weights(float (&weights)[KEYS / 2], int key) {
        float most_inverse = look_at_tile(key), by = most_inverse == 0 ? 0.0f : 1 / most_inverse;
#pragma unroll
        for (int i = 0; i < OCTETS; i++) {
            float scale = scale_in(i) * by; /* both are powers of 2 */
#pragma unroll
            for (int e = 0; e < 4; e++)
                weights[4 * i + e] *= scale;
        }
        return most_inverse * 0x1p-14f;
    }

    MEMBER void add(float (&weights)[KEYS / 2], int key) {
        uint32_t terms[TERMS][KEY_STEPS][4];
        float unscale = 0x1p-14f;
        if constexpr (IS_F32)
            unscale = scale_weights(weights, key);
#pragma unroll
        for (int i = 0; i < KEYS / 4; i++) {
            uint32_t two[TERMS];
            split_two<typename Base::Half>(weights[2 * i], weights[2 * i + 1], two);
#pragma unroll
            for (int term = 0; term < TERMS; term++)
                terms[term][i / 4][i % 4] = two[term];
        }
        scale_out();
        begin_turn();
        uint64_t v = tile_descriptor_anew<DIM>(shared->places[n % N_PLACES]);
#pragma unroll
        for (int c = 0; c < DIM / PART; c++) {
            float part[PART / 2];
            begin_products();
#pragma unroll
            for (int product = PRODUCTS - 1; product >= 0; product--) {
                int of_v = key_term_of(product) * (OCTETS * (int)sizeof(Eight)) + 16 * PART * c;
                if (product == 0)
                    end_products();
#pragma unroll
                for (int i = 0; i < KEY_STEPS; i++) {
                    uint64_t at = tile_behind(v, of_v + 2 * (int)sizeof(Eight) * i);
                    if (product == PRODUCTS - 1 && i == 0)
                        multiply_values<false>(part, terms[term_of(product)][i], at);
                    else
                        multiply_values<true>(part, terms[term_of(product)][i], at);
                }
            }
            end_products();
            if (c + 1 == DIM / PART) {
                wait_products_before();
                give_turn();
            }
            wait_products(part);
#pragma unroll
            for (int i = 0; i < PART / 2; i++) {
                float *o = &out[c * (PART / 8) + i / 4][i % 4];
                *o = fmaf(part[i], unscale, *o);
            }
        }
    }

    /* ---- all keys ---- */

    MEMBER void find_limits(int (&limit)[2], int key) const {
#pragma unroll
        for (int r = 0; r < 2; r++)
            limit[r] = seen[r] - key;
    }

    MEMBER void wait_for_tile() const {
        wait_for_gate(&shared->made[n % N_PLACES], n / N_PLACES);
    }
    MEMBER void hand_back() {
        __syncwarp();
        if (IS_F32 || lane == 0) /* each lane read what is replaced next, the About of floats */
            arrive_at_gate(&shared->used[n % N_PLACES], 0);
        n++;
    }

    MEMBER void take(int key) {
        float weights[KEYS / 2];
        wait_for_tile();
        begin_turn();
        begin_scores(weights);
        wait_products_before();
        give_turn();
        wait_products(weights);
        if constexpr (IS_F32)
            scale_scores(weights, key);
        hand_back();
        if (key + KEYS > least_seen) {
            int limit[2];
            find_limits(limit, key);
            mask(weights, limit);
        }
        weigh(weights, inverse_q);
        wait_for_tile();
        add(weights, key);
        hand_back();
    }

    /* Whether something of the warpgroup is infinite or NaN. */
    MEMBER bool is_odd() const {
        float odd = sum[0] * 0 + sum[1] * 0;
#pragma unroll
        for (int i = 0; i < DIM / 2; i++)
            odd = fmaf(out[i / 4][i % 4], 0, odd);
        bool is_any = __any_sync(0xFFFFFFFF, odd != 0);
        if (lane == 0)
            shared->is_odd[user][warp] = is_any;
        meet_some<GROUP>(Base::own(user));
        return __any_sync(0xFFFFFFFF, shared->is_odd[user][lane % 4]);
    }

    MEMBER void take_all_hard(const CachedTile &tile) {
        Cached k(*args, args->k, tile.sequence, tile.head);
        Cached v(*args, args->v, tile.sequence, tile.head);
        const float *q[2];
#pragma unroll
        for (int r = 0; r < 2; r++)
            q[r] = args->q + tile.place(*args, first + min(row_of_thread() + 8 * r, n_rows - 1));
        Base::take_all_hard(
            n_keys, q, dim,
            [&](float *keys, float *values, int key) {
                for (int at = 4 * (int)(threadIdx.x % GROUP); at < HARD_KEYS * DIM;
                     at += 4 * GROUP) {
                    int i = at / DIM, column = at % DIM;
                    bool is_there = key + i < n_keys;
                    float4 zeros = make_float4(0, 0, 0, 0);
                    *reinterpret_cast<float4 *>(keys + at) =
                        is_there ? k.template four<TYPE>(key + i, column) : zeros;
                    *reinterpret_cast<float4 *>(values + at) =
                        is_there ? v.template four<TYPE>(key + i, column) : zeros;
                }
            },
            [&](int(&limit)[2], int key) { find_limits(limit, key); });
    }

    MEMBER void store(const CachedTile &tile) const {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float whole = Base::whole_of(r), share = share_of(whole);
            int row = row_of_thread() + 8 * r;
            if (row >= n_rows)
                continue;
            float *o = args->o + tile.place(*args, first + row);
#pragma unroll
            for (int i = 0; i < DIM / 8; i++) {
                int column = 8 * i + lane % 4 * 2;
                float x = whole == 0 ? 0 : out[i][2 * r] * share;
                float y = whole == 0 ? 0 : out[i][2 * r + 1] * share;
                if (args->is_wide && column < dim) {
                    *reinterpret_cast<float2 *>(o + column) = make_float2(x, y);
                } else {
                    if (column < dim)
                        o[column] = x;
                    if (column + 1 < dim)
                        o[column + 1] = y;
                }
            }
        }
    }

    MEMBER void run(const CachedTile &tile) {
        n_keys = Base::keys_of(tile);
        n_rows = (int)max(min(tile.n_rows - tile.row - first, (int64_t)ROWS), (int64_t)0);
        least_seen = (int)tile.seen(*args, first);
#pragma unroll
        for (int r = 0; r < 2; r++)
            seen[r] = (int)tile.seen(*args, first + row_of_thread() + 8 * r);
        is_hard = split_queries(tile);
        Base::begin_rows();
#pragma unroll 1
        for (int key = 0; key < n_keys; key += KEYS)
            take(key);
        if ((is_odd() || is_hard) && n_rows > 0)
            take_all_hard(tile);
        store(tile);
    }

    MEMBER void end() const {
        if (user == 0)
            begin_turn(); /* the other's last */
    }
};

template <class Group>
DEVICE void run_group(typename Group::Shared *shared, const attention_cached_args &args) {
    Group group(shared, &args);
    each_tile<2 * ATTENTION_WGMMA_ROWS>(args, [&](const CachedTile &tile) { group.run(tile); });
    group.end();
}

template <int TYPE, int DIM>
DEVICE void attend_cached_by_warpgroups(typename CachedBlock<TYPE, DIM>::Shared *shared,
                                        const attention_cached_args &args) {
    using Block = CachedBlock<TYPE, DIM>;
    if (threadIdx.x == 0) {
        for (int i = 0; i < Block::N_PLACES; i++) {
            make_gate(&shared->made[i], Block::IS_F32 ? Block::N_COPIERS : 1);
            make_gate(&shared->used[i], 4 * Block::N_USERS * (Block::IS_F32 ? 32 : 1));
        }
    }
    __syncthreads();
    if (threadIdx.x < 32 * Block::N_COPIERS) {
        keep_registers<Block::IS_F32 ? 72 : 40>();
        run_group<Copiers<TYPE, DIM>>(shared, args);
    } else {
        take_registers<Block::IS_F32 ? 184 : 232>();
        run_group<CachedUsers<TYPE, DIM>>(shared, args);
    }
}

} // namespace

#define ATTEND_CACHED(type, dim)                                                                   \
    typedef CachedBlock<ATTENTION_##type, dim>::Shared Shared;                                     \
    DYNAMIC_SHARED(Shared, shared);                                                                \
    attend_cached_by_warpgroups<ATTENTION_##type, dim>(shared, args)
#else
#define ATTEND_CACHED(type, dim) /* never launched */
#endif

#define CACHED_WGMMA(name, type, dim)                                                              \
    KERNEL_OF(ATTENTION_CACHED_WGMMA_THREADS(ATTENTION_##type), 1,                                 \
              attention_cached_wgmma_##name##_##dim)                                               \
    (const __grid_constant__ attention_cached_args args) {                                         \
        ATTEND_CACHED(type, dim);                                                                  \
    }
ATTENTION_CACHED_WGMMA_VARIANTS(CACHED_WGMMA)
#undef CACHED_WGMMA

#endif
