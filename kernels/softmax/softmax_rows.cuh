/*
 * Softmax over rows that are contiguous in memory (inner = 1).
 *
 * softmax_row: the row is in registers, read once and written once.  Above 32 threads per row, each
 * warp's exponentials are relative to its own level and warps meet once, and so do blocks of a
 * cluster. softmax_stream: rows of any length, read twice, by a block or a cluster.
 */
#ifndef CUSHIM_KERNELS_SOFTMAX_ROWS_CUH
#define CUSHIM_KERNELS_SOFTMAX_ROWS_CUH

#include "kernels/device/arch/dependent_launch.cuh"
#include "kernels/device/row.cuh"
#include "kernels/softmax/softmax_args.h"
#include "kernels/softmax/softmax_peak.cuh"

/* The part of a row that a thread has, of n elements. */
template <class Access, int T, int E> struct SoftmaxPart {
    typedef ::Row<Access, T, E> Row;
    typedef ::Keys<Access> Keys;
    typedef ::Scaling<typename Access::Element> Scaling;
    typedef typename Row::Piece Piece;
    enum { W = Row::W, N = Row::N };

    DEVICE void exponentials(const Scaling &scaling, Piece piece, float level, float (&to)[W]) {
        float levels[W];
#pragma unroll
        for (int j = 0; j < W; j++)
            levels[j] = level;
        ::exponentials<Access>(scaling, piece, levels, to);
    }

    /* From what was read to keys, and on to exponentials if those are in place. */
    DEVICE Peak peak(const Scaling &scaling, int n, Piece (&pieces)[N]) {
        Piece most = Keys::lowest();
        float tops[W], top = Scaling::lowest();
#pragma unroll
        for (int k = 0; k < N; k++) {
            if (Row::at(k) < n) {
                pieces[k] = Keys::of(scaling, pieces[k]);
                most = Keys::larger(most, pieces[k]);
            }
        }
        Access::spread(most, tops);
#pragma unroll
        for (int j = 0; j < W; j++)
            top = fmaxf(top, tops[j]);
        Peak peak = {scaling.level(max_of_lanes<Row::LANES>(top)), 0};
#pragma unroll
        for (int k = 0; k < N; k++) {
            if (Row::at(k) < n) {
                float values[W];
                exponentials(scaling, pieces[k], peak.level, values);
#pragma unroll
                for (int j = 0; j < W; j++)
                    peak.sum += values[j];
                if constexpr (!Keys::ARE_KEPT)
                    pieces[k] = Access::pack(values);
            }
        }
        peak.sum = sum_of_lanes<Row::LANES>(peak.sum);
        return peak;
    }

    /* `own` is the warp's peak, `all` the row's. */
    DEVICE void store(const Scaling &scaling, typename Row::Element *y, int n, const Peak &own,
                      const Peak &all, const Piece (&pieces)[N]) {
        float part = Keys::ARE_KEPT ? 1 / all.sum : share(scaling, own.level, all);
#pragma unroll
        for (int k = 0; k < N; k++) {
            if (Row::at(k) < n) {
                float values[W];
                if constexpr (Keys::ARE_KEPT)
                    exponentials(scaling, pieces[k], all.level, values);
                else
                    Access::spread(pieces[k], values);
#pragma unroll
                for (int j = 0; j < W; j++)
                    values[j] *= part;
                Access::store(y + Row::at(k), values);
            }
        }
    }
};

template <class Access, int T, int E, bool IS_CLUSTERED>
DEVICE void softmax_row(const struct softmax_args &args) {
    typedef SoftmaxPart<Access, T, E> Part;
    typedef typename Part::Row Row;
    typedef typename Access::Element Element;
    DYNAMIC_SHARED(Meeting<Peak>, meeting);
    if constexpr (IS_CLUSTERED)
        begin_meetings(meeting);
    wait_for_earlier();
    let_next_start();
    Scaling<Element> scaling(args.scale);
    JoinPeaks<Element> join = {scaling};
    RowWalk walk = walk_rows<IS_CLUSTERED>(Row::N_ROWS, args.axis, args.slice);
    const Element *x = (const Element *)args.x + walk.begin;
    Element *y = (Element *)args.y + walk.begin;
    int n_met = 0;
    for (int64_t first = walk.first; first < args.outer; first += walk.step, n_met++) {
        int64_t row = first + threadIdx.x / T;
        int n = row < args.outer ? (int)walk.n : 0;
        typename Row::Piece pieces[Row::N];
        Row::read(x + row * args.axis, n, pieces);
        Peak own = Part::peak(scaling, n, pieces), all = own;
        if constexpr (T > WARP_LANES)
            all = meet_block<T>(meeting, n_met, join, all);
        if constexpr (IS_CLUSTERED)
            all = meet_cluster(meeting, n_met, join, all);
        Part::store(scaling, y + row * args.axis, n, own, all, pieces);
    }
}

/* Visit n elements by all threads: N accesses at once, each(at, values, is_there). */
template <class Access, int N, class Each>
DEVICE void stream(const typename Access::Element *from, int64_t n, const Each &each) {
    enum { W = Access::WIDTH, STEP = SOFTMAX_STREAM_THREADS * W };
    for (int64_t at = (int64_t)threadIdx.x * W; at < n; at += (int64_t)STEP * N) {
        float values[N * W] = {};
        bool is_there[N];
#pragma unroll
        for (int k = 0; k < N; k++) {
            is_there[k] = at + (int64_t)STEP * k < n;
            if (is_there[k])
                Access::load(from + at + (int64_t)STEP * k, values + k * W);
        }
        each(at, values, is_there);
    }
}

template <class Access, bool IS_CLUSTERED>
DEVICE void softmax_stream(const struct softmax_args &args) {
    typedef typename Access::Element Element;
    enum { W = Access::WIDTH, N = W == 1 ? 8 : 16 / W, STEP = SOFTMAX_STREAM_THREADS * W };
    DYNAMIC_SHARED(Meeting<Peak>, meeting);
    if constexpr (IS_CLUSTERED)
        begin_meetings(meeting);
    wait_for_earlier();
    let_next_start();
    Scaling<Element> scaling(args.scale);
    JoinPeaks<Element> join = {scaling};
    RowWalk walk = walk_rows<IS_CLUSTERED>(1, args.axis, args.slice);
    int n_met = 0;
    for (int64_t row = walk.first; row < args.outer; row += walk.step, n_met++) {
        const Element *from = (const Element *)args.x + row * args.axis + walk.begin;
        Element *to = (Element *)args.y + row * args.axis + walk.begin;
        Peak peak = no_peak(scaling);
        stream<Access, N>(from, walk.n,
                          [&](int64_t, float(&values)[N * W], const bool(&is_there)[N]) {
#pragma unroll
                              for (int i = 0; i < N * W; i++)
                                  values[i] = scaling.key(values[i]);
                              absorb<N, W>(scaling, &peak, values, is_there);
                          });
        peak = join.template lanes<WARP_LANES>(peak);
        peak = meet_block<SOFTMAX_STREAM_THREADS>(meeting, n_met, join, peak);
        if constexpr (IS_CLUSTERED)
            peak = meet_cluster(meeting, n_met, join, peak);
        float part = 1 / peak.sum;
        stream<Access, N>(
            from, walk.n, [&](int64_t at, float(&values)[N * W], const bool(&is_there)[N]) {
#pragma unroll
                for (int i = 0; i < N * W; i++)
                    values[i] = scaling.exponential(scaling.key(values[i]), peak.level) * part;
#pragma unroll
                for (int k = 0; k < N; k++) {
                    if (is_there[k])
                        Access::store(to + at + (int64_t)STEP * k, values + k * W);
                }
            });
    }
}

/* ---- in clusters ---- */

template <class Access, int T, int E> DEVICE void softmax_cluster(const struct softmax_args &args) {
    FROM_90(softmax_row<Access, T, E, true>(args));
}

template <class Access, bool IS_CLUSTERED>
DEVICE void softmax_stream_in(const struct softmax_args &args) {
    if constexpr (IS_CLUSTERED)
        FROM_90(softmax_stream<Access, true>(args));
    else
        softmax_stream<Access, false>(args);
}

#endif
