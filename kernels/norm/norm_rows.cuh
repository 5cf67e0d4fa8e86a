/*
 * RMS norm of rows.
 *
 * norm_row: the row is in registers and read once.  What is needed after the sum (weights, the
 * residual of RmsAdd) is read along with it if there is room. norm_stream: rows of any length, and
 * codes of any scale, read twice; AddRms reads its own sum again.
 */
#ifndef CUSHIM_KERNELS_NORM_ROWS_CUH
#define CUSHIM_KERNELS_NORM_ROWS_CUH

#include "kernels/device/arch/dependent_launch.cuh"
#include "kernels/device/row.cuh"
#include "kernels/norm/norm_ops.cuh"

/* In four chains, for accuracy as much as for speed. */
template <int E, int W> DEVICE float sum_of_squares(const float (&values)[E]) {
    float sums[4] = {};
#pragma unroll
    for (int k = 0; k < E / W; k++) {
        float sum = 0;
#pragma unroll
        for (int j = k * W; j < (k + 1) * W; j++)
            sum = fmaf(values[j], values[j], sum);
        sums[k % 4] += sum;
    }
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/* The part of a row in registers: n elements from place in the tensor, from begin in the row. */
template <class Op, int T, int E> struct NormPart {
    typedef typename Op::Access Access;
    typedef typename Access::Element Element;
    typedef ::Row<Access, T, E> Row;
    typedef typename Op::Piece Piece;
    typedef typename Row::Piece Kept;
    enum {
        W = Row::W,
        N = Row::N,
        IS_EARLY = E <= 16,
        N_AT_ONCE = IS_EARLY || N < 4 ? N : 4 /* accesses */
    };

    /* The other operands of accesses k .. k + N_AT_ONCE. */
    struct Behind {
        Kept w[N_AT_ONCE], residual[Op::ADDS_AFTER ? N_AT_ONCE : 1];
    };

    DEVICE void read_behind(const struct norm_args &args, const Element *w, int64_t place, int n,
                            int k0, Behind &behind) {
#pragma unroll
        for (int k = 0; k < N_AT_ONCE; k++) {
            int at = Row::at(k0 + k);
            if (at < n) {
                if constexpr (Op::ADDS_AFTER)
                    behind.residual[k] = Access::read((const Element *)args.residual + place + at);
                behind.w[k] = Access::read_kept(w + at);
            }
        }
    }

    /* Four accesses are in flight beside those of x. */
    DEVICE void add_before(const struct norm_args &args, int64_t place, int n, Piece (&pieces)[N]) {
        enum { N_ADDED = N < 4 ? N : 4 };
#pragma unroll
        for (int k0 = 0; k0 < N; k0 += N_ADDED) {
            Kept residual[N_ADDED];
#pragma unroll
            for (int k = 0; k < N_ADDED; k++) {
                if (Row::at(k0 + k) < n)
                    residual[k] =
                        Access::read((const Element *)args.residual + place + Row::at(k0 + k));
            }
#pragma unroll
            for (int k = 0; k < N_ADDED; k++) {
                if (Row::at(k0 + k) < n) {
                    float values[W], added[W];
                    Access::spread(pieces[k0 + k], values);
                    Access::spread(residual[k], added);
#pragma unroll
                    for (int j = 0; j < W; j++)
                        values[j] = __fadd_rn(values[j], added[j]);
                    Access::store((Element *)args.extra + place + Row::at(k0 + k), values);
                    pieces[k0 + k] = Access::pack(values);
                }
            }
        }
    }

    /* In four chains, for accuracy as much as for speed. */
    DEVICE float sum_of_squares(const Piece (&pieces)[N]) {
        float sums[4] = {};
#pragma unroll
        for (int k = 0; k < N; k++) {
            float values[W], sum = 0;
            Op::spread(pieces[k], values);
#pragma unroll
            for (int j = 0; j < W; j++)
                sum = fmaf(values[j], values[j], sum);
            sums[k % 4] += sum;
        }
        return (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }

    DEVICE void finish(const struct norm_args &args, const Element *w, int64_t place, int n,
                       float factor, Behind &behind, const Piece (&pieces)[N]) {
        w = afresh(w);
#pragma unroll
        for (int k0 = 0; k0 < N; k0 += N_AT_ONCE) {
            if constexpr (!IS_EARLY)
                read_behind(args, w, place, n, k0, behind);
#pragma unroll
            for (int k = 0; k < N_AT_ONCE; k++) {
                if (Row::at(k0 + k) < n) {
                    float values[W], factors[W], added[W];
                    Op::spread(pieces[k0 + k], values);
                    Access::spread(behind.w[k], factors);
                    if constexpr (Op::ADDS_AFTER)
                        Access::spread(behind.residual[k], added);
#pragma unroll
                    for (int j = 0; j < W; j++) {
                        values[j] = values[j] * factor * factors[j];
                        if constexpr (Op::ADDS_AFTER)
                            values[j] += added[j];
                    }
                    Access::store((Element *)args.y + place + Row::at(k0 + k), values);
                }
            }
        }
    }
};

template <class Op, int T, int E, bool IS_CLUSTERED>
DEVICE void norm_row(const struct norm_args &args) {
    typedef NormPart<Op, T, E> Part;
    typedef typename Part::Row Row;
    DYNAMIC_SHARED(Meeting<float>, meeting);
    if constexpr (IS_CLUSTERED)
        begin_meetings(meeting);
    wait_for_earlier();
    let_next_start();
    RowWalk walk = walk_rows<IS_CLUSTERED>(Row::N_ROWS, args.d, args.slice);
    const typename Part::Element *w = (const typename Part::Element *)args.w + walk.begin;
    int n_met = 0;
    for (int64_t first = walk.first; first < args.rows; first += walk.step, n_met++) {
        /* the same for all threads of a block with one row, which the compiler cannot prove */
        int64_t row = first + (Row::N_ROWS > 1 ? threadIdx.x / T : 0);
        int64_t place = row * args.d + walk.begin;
        int n = row < args.rows ? (int)walk.n : 0;
        typename Part::Piece pieces[Row::N];
        typename Part::Behind behind;
        Op::template read<Row>(args, place, n, pieces);
        if constexpr (Part::IS_EARLY)
            Part::read_behind(args, afresh(w), place, n, 0, behind);
        if constexpr (Op::ADDS_BEFORE)
            Part::add_before(args, place, n, pieces);
        float sum = sum_of_lanes<Row::LANES>(Part::sum_of_squares(pieces));
        if constexpr (T > WARP_LANES)
            sum = meet_block<T>(meeting, n_met, JoinSums(), sum);
        if constexpr (IS_CLUSTERED)
            sum = meet_cluster(meeting, n_met, JoinSums(), sum);
        float factor = Op::factor_of(sum, args);
        if constexpr (Op::GIVES_RSTD) {
            if (args.extra && walk.begin == 0 && n > 0 && threadIdx.x % T == 0)
                ((float *)args.extra)[row] = factor;
        }
        Part::finish(args, w, place, n, factor, behind, pieces);
    }
}

template <class Op, int T, int E> DEVICE void norm_cluster(const struct norm_args &args) {
    FROM_90(norm_row<Op, T, E, true>(args));
}

/* ---- rows of any length ---- */

template <class Op, int T> struct NormStream {
    typedef typename Op::Access Access;
    typedef typename Access::Element Element;
    enum {
        W = Access::WIDTH,
        N = W == 1 ? 8 : 16 / W, /* accesses in flight per thread */
        STEP = T * W
    };

    /* The thread's share.  Partial sums go into a double, because there may be many, all of one
     * sign. */
    DEVICE double sum_of_squares(const struct norm_args &args, int64_t place) {
        double total = 0;
        for (int64_t at = (int64_t)threadIdx.x * W; at < args.d; at += (int64_t)STEP * N) {
            float values[N * W] = {}, residual[Op::ADDS_BEFORE ? N * W : 1] = {};
#pragma unroll
            for (int k = 0; k < N; k++) {
                if (at + STEP * k < args.d) {
                    Op::load(args, place + at + STEP * k, values + k * W);
                    if constexpr (Op::ADDS_BEFORE)
                        Access::load((const Element *)args.residual + place + at + STEP * k,
                                     residual + k * W);
                }
            }
            if constexpr (Op::ADDS_BEFORE) {
#pragma unroll
                for (int i = 0; i < N * W; i++)
                    values[i] = __fadd_rn(values[i], residual[i]);
#pragma unroll
                for (int k = 0; k < N; k++) {
                    if (at + STEP * k < args.d)
                        Access::store((Element *)args.extra + place + at + STEP * k,
                                      values + k * W);
                    Access::spread(Access::pack(values + k * W), values + k * W); /* as stored */
                }
            }
            total += ::sum_of_squares<N * W, W>(values);
        }
        return total;
    }

    DEVICE void finish(const struct norm_args &args, int64_t place, float rstd) {
        for (int64_t at = (int64_t)threadIdx.x * W; at < args.d; at += (int64_t)STEP * N) {
            float values[N * W], w[N * W], residual[Op::ADDS_AFTER ? N * W : 1];
#pragma unroll
            for (int k = 0; k < N; k++) {
                if (at + STEP * k < args.d) {
                    if constexpr (Op::ADDS_BEFORE)
                        Access::load((const Element *)args.extra + place + at + STEP * k,
                                     values + k * W);
                    else
                        Op::load(args, place + at + STEP * k, values + k * W);
                    Access::load_kept((const Element *)args.w + at + STEP * k, w + k * W);
                    if constexpr (Op::ADDS_AFTER)
                        Access::load((const Element *)args.residual + place + at + STEP * k,
                                     residual + k * W);
                }
            }
#pragma unroll
            for (int k = 0; k < N; k++) {
                if (at + STEP * k < args.d) {
#pragma unroll
                    for (int j = k * W; j < (k + 1) * W; j++) {
                        values[j] = values[j] * rstd * w[j];
                        if constexpr (Op::ADDS_AFTER)
                            values[j] += residual[j];
                    }
                    Access::store((Element *)args.y + place + at + STEP * k, values + k * W);
                }
            }
        }
    }
};

template <class Op, int T> DEVICE void norm_stream(const struct norm_args &args) {
    DYNAMIC_SHARED(Meeting<float>, meeting);
    wait_for_earlier();
    let_next_start();
    int n_met = 0;
    for (int64_t row = blockIdx.x; row < args.rows; row += gridDim.x, n_met++) {
        int64_t place = row * args.d;
        float sum = sum_of_lanes<WARP_LANES>((float)NormStream<Op, T>::sum_of_squares(args, place));
        sum = meet_block<T>(meeting, n_met, JoinSums(), sum);
        float rstd = rstd_of(sum, args);
        if constexpr (Op::GIVES_RSTD) {
            if (args.extra && threadIdx.x == 0)
                ((float *)args.extra)[row] = rstd;
        }
        NormStream<Op, T>::finish(args, place, rstd);
    }
}

#endif
