/*
 * RMS norm of rows.
 *
 * norm_row: the row in registers, read once; what is needed behind the sum (weights, the residual
 * of RmsAdd) is read before it where the row leaves registers for that.  norm_stream: rows of any
 * length, read twice; AddRms reads its own sum again.
 */
#ifndef CUSHIM_KERNELS_NORM_ROWS_CUH
#define CUSHIM_KERNELS_NORM_ROWS_CUH

#include "kernels/device/order.cuh"
#include "kernels/device/row.cuh"
#include "kernels/norm_ops.cuh"

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

/* One part of a row in registers: n elements from place in the tensor, from begin in the row. */
template <class Op, int T, int E> struct NormPart {
    typedef typename Op::Access Access;
    typedef typename Access::Element Element;
    typedef ::Row<Access, T, E> Row;
    enum {
        W = Row::W,
        N = Row::N_ACCESSES,
        IS_EARLY = E <= 16,
        N_MOST = W == 8 && E > 64 ? 8 : 4, /* accesses: halves take half as many registers */
        N_AT_ONCE = IS_EARLY || N < N_MOST ? N : N_MOST
    };

    /* What belongs to accesses k .. k + N_AT_ONCE. */
    struct Behind {
        float w[N_AT_ONCE * W], residual[Op::ADDS_AFTER ? N_AT_ONCE * W : 1];
    };

    DEVICE void load_behind(const struct norm_args &args, const Element *w, int64_t place, int n,
                            int k0, Behind &behind) {
#pragma unroll
        for (int k = 0; k < N_AT_ONCE; k++) {
            int at = Row::at(k0 + k);
            if (at < n) {
                Access::load_kept(w + at, behind.w + k * W);
                if constexpr (Op::ADDS_AFTER)
                    Access::load(args.residual + place + at, behind.residual + k * W);
            }
        }
    }

    /* Eight accesses in flight beside those of x. */
    DEVICE void add_before(const struct norm_args &args, int64_t place, int n, float (&values)[E]) {
        enum { N_ADDED = N < 8 ? N : 8 };
#pragma unroll
        for (int k0 = 0; k0 < N; k0 += N_ADDED) {
            float residual[N_ADDED * W];
#pragma unroll
            for (int k = 0; k < N_ADDED; k++) {
                if (Row::at(k0 + k) < n)
                    Access::load(args.residual + place + Row::at(k0 + k), residual + k * W);
            }
#pragma unroll
            for (int k = 0; k < N_ADDED; k++) {
                if (Row::at(k0 + k) < n) {
#pragma unroll
                    for (int j = 0; j < W; j++)
                        values[(k0 + k) * W + j] =
                            __fadd_rn(values[(k0 + k) * W + j], residual[k * W + j]);
                    Row::store(args.extra + place, k0 + k, values);
                }
            }
        }
    }

    DEVICE void finish(const struct norm_args &args, const Element *w, int64_t place, int n,
                       float rstd, Behind &behind, float (&values)[E]) {
        w = afresh(w);
#pragma unroll
        for (int k0 = 0; k0 < N; k0 += N_AT_ONCE) {
            if constexpr (!IS_EARLY)
                load_behind(args, w, place, n, k0, behind);
#pragma unroll
            for (int k = 0; k < N_AT_ONCE; k++) {
                if (Row::at(k0 + k) < n) {
#pragma unroll
                    for (int j = 0; j < W; j++) {
                        float &value = values[(k0 + k) * W + j];
                        value = value * rstd * behind.w[k * W + j];
                        if constexpr (Op::ADDS_AFTER)
                            value += behind.residual[k * W + j];
                    }
                    Row::store((Element *)args.y + place, k0 + k, values);
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
        int64_t row = first + threadIdx.x / T, place = row * args.d + walk.begin;
        int n = row < args.rows ? (int)walk.n : 0;
        float values[E];
        typename Part::Behind behind;
        Op::template fill<Row>(args, place, n, values);
        if constexpr (Part::IS_EARLY)
            Part::load_behind(args, afresh(w), place, n, 0, behind);
        if constexpr (Op::ADDS_BEFORE)
            Part::add_before(args, place, n, values);
        float sum = sum_of_lanes<Row::LANES>(sum_of_squares<E, Row::W>(values));
        if constexpr (T > WARP_LANES)
            sum = meet_block<T>(meeting, n_met, JoinSums(), sum);
        if constexpr (IS_CLUSTERED)
            sum = meet_cluster(meeting, n_met, JoinSums(), sum);
        float rstd = rstd_of(sum, args);
        if constexpr (Op::GIVES_RSTD) {
            if (args.extra && walk.begin == 0 && n > 0 && threadIdx.x % T == 0)
                args.extra[row] = rstd;
        }
        Part::finish(args, w, place, n, rstd, behind, values);
    }
}

/* ---- rows of any length ---- */

template <class Op, int T> struct NormStream {
    typedef typename Op::Access Access;
    typedef typename Access::Element Element;
    enum {
        W = Access::WIDTH,
        N = W == 1 ? 8 : 16 / W, /* accesses in flight a thread */
        STEP = T * W
    };

    /* The thread's share.  Partial sums go into a double: there may be many, all of one sign. */
    DEVICE double sum_of_squares(const struct norm_args &args, int64_t place) {
        double total = 0;
        for (int64_t at = (int64_t)threadIdx.x * W; at < args.d; at += (int64_t)STEP * N) {
            float values[N * W] = {}, residual[Op::ADDS_BEFORE ? N * W : 1] = {};
#pragma unroll
            for (int k = 0; k < N; k++) {
                if (at + STEP * k < args.d) {
                    Op::load(args, place + at + STEP * k, values + k * W);
                    if constexpr (Op::ADDS_BEFORE)
                        Access::load(args.residual + place + at + STEP * k, residual + k * W);
                }
            }
            if constexpr (Op::ADDS_BEFORE) {
#pragma unroll
                for (int i = 0; i < N * W; i++)
                    values[i] = __fadd_rn(values[i], residual[i]);
#pragma unroll
                for (int k = 0; k < N; k++) {
                    if (at + STEP * k < args.d)
                        Access::store(args.extra + place + at + STEP * k, values + k * W);
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
                        Access::load(args.extra + place + at + STEP * k, values + k * W);
                    else
                        Op::load(args, place + at + STEP * k, values + k * W);
                    Access::load_kept((const Element *)args.w + at + STEP * k, w + k * W);
                    if constexpr (Op::ADDS_AFTER)
                        Access::load(args.residual + place + at + STEP * k, residual + k * W);
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
                args.extra[row] = rstd;
        }
        NormStream<Op, T>::finish(args, place, rstd);
    }
}

#endif
