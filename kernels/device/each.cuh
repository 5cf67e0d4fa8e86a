/*
 * The loops of kernels that make each element of an output from the same elements of their inputs.
 *
 * An operation is an object with operator() on one or two floats.  Wide loops take 16 bytes a step
 * and have two steps of each input in flight: short operations side by side; of long ones, which
 * would fill the instruction cache twice over, one computes while the next is on its way.  A thread
 * reads an element before it writes it, and nobody else touches that one: an output may be exactly
 * an input.
 */
#ifndef CUSHIM_KERNELS_EACH_CUH
#define CUSHIM_KERNELS_EACH_CUH

#include "kernels/device/device.cuh"
#include "kernels/device/vector.cuh"

/*
 * A kernel of such a loop, launched with 256 threads a block (kernels/each.c).  Four blocks a
 * multiprocessor with both steps in flight are enough; left to itself the compiler fits eight of
 * them, and asks for the second step late to save registers.
 */
#define EACH_KERNEL(name) KERNEL_OF(256, 4, name)

/* to[i] = f(from[i]) for the grid's n pieces of 16 bytes. */
template <class Wide, class F>
DEVICE void each_piece(const F &f, const Wide *from, Wide *to, int64_t n) {
    int64_t step = threads_of_grid(), i = thread_of_grid();
    for (; i + step < n; i += 2 * step) {
        Wide first = load_streamed(from + i), second = load_streamed(from + i + step);
        store_streamed(to + i, f(first));
        store_streamed(to + i + step, f(second));
    }
    if (i < n)
        store_streamed(to + i, f(load_streamed(from + i)));
}

/* to[i] = f(a[i], b[i]) */
template <class Wide, class F>
DEVICE void each_piece(const F &f, const Wide *a, const Wide *b, Wide *to, int64_t n) {
    int64_t step = threads_of_grid(), i = thread_of_grid();
    for (; i + step < n; i += 2 * step) {
        Wide first_a = load_streamed(a + i), first_b = load_streamed(b + i);
        Wide second_a = load_streamed(a + i + step), second_b = load_streamed(b + i + step);
        store_streamed(to + i, f(first_a, first_b));
        store_streamed(to + i + step, f(second_a, second_b));
    }
    if (i < n) {
        Wide last_a = load_streamed(a + i), last_b = load_streamed(b + i);
        store_streamed(to + i, f(last_a, last_b));
    }
}

/* The same for a long operation. */
template <class Wide, class F>
DEVICE void each_long_piece(const F &f, const Wide *from, Wide *to, int64_t n) {
    int64_t step = threads_of_grid(), i = thread_of_grid();
    if (i >= n)
        return;
    Wide next = load_streamed(from + i);
    for (; i < n; i += step) {
        Wide now = next;
        if (i + step < n)
            next = load_streamed(from + i + step);
        store_streamed(to + i, f(now));
    }
}

template <class Wide, class F>
DEVICE void each_long_piece(const F &f, const Wide *a, const Wide *b, Wide *to, int64_t n) {
    int64_t step = threads_of_grid(), i = thread_of_grid();
    if (i >= n)
        return;
    Wide next_a = load_streamed(a + i), next_b = load_streamed(b + i);
    for (; i < n; i += step) {
        Wide now_a = next_a, now_b = next_b;
        if (i + step < n) {
            next_a = load_streamed(a + i + step);
            next_b = load_streamed(b + i + step);
        }
        store_streamed(to + i, f(now_a, now_b));
    }
}

/* The operation on each of four. */
template <class Op> struct Each4 {
    Op op;
    __device__ float4 operator()(float4 a) const {
        return make_float4(op(a.x), op(a.y), op(a.z), op(a.w));
    }
    __device__ float4 operator()(float4 a, float4 b) const {
        return make_float4(op(a.x, b.x), op(a.y, b.y), op(a.z, b.z), op(a.w, b.w));
    }
};

/* c[i] = op(a[i]); pointers that are multiples of 16. */
template <class Op> DEVICE void each_wide(const Op &op, const float *a, float *c, int64_t n) {
    Each4<Op> op4 = {op};
    each_piece(op4, reinterpret_cast<const float4 *>(a), reinterpret_cast<float4 *>(c), n / 4);
    int64_t rest = n / 4 * 4 + thread_of_grid();
    if (rest < n)
        c[rest] = op(a[rest]);
}

template <class Op>
DEVICE void each_wide(const Op &op, const float *a, const float *b, float *c, int64_t n) {
    Each4<Op> op4 = {op};
    each_piece(op4, reinterpret_cast<const float4 *>(a), reinterpret_cast<const float4 *>(b),
               reinterpret_cast<float4 *>(c), n / 4);
    int64_t rest = n / 4 * 4 + thread_of_grid();
    if (rest < n)
        c[rest] = op(a[rest], b[rest]);
}

/* The same for a long operation. */
template <class Op> DEVICE void each_wide_long(const Op &op, const float *a, float *c, int64_t n) {
    Each4<Op> op4 = {op};
    each_long_piece(op4, reinterpret_cast<const float4 *>(a), reinterpret_cast<float4 *>(c), n / 4);
    int64_t rest = n / 4 * 4 + thread_of_grid();
    if (rest < n)
        c[rest] = op(a[rest]);
}

template <class Op>
DEVICE void each_wide_long(const Op &op, const float *a, const float *b, float *c, int64_t n) {
    Each4<Op> op4 = {op};
    each_long_piece(op4, reinterpret_cast<const float4 *>(a), reinterpret_cast<const float4 *>(b),
                    reinterpret_cast<float4 *>(c), n / 4);
    int64_t rest = n / 4 * 4 + thread_of_grid();
    if (rest < n)
        c[rest] = op(a[rest], b[rest]);
}

/* Any pointers: an element a step, four steps in flight. */
enum { EACH_STEPS = 4 };

template <class Op, class T> DEVICE void each(const Op &op, const T *a, T *c, int64_t n) {
    int64_t step = threads_of_grid();
    for (int64_t i = thread_of_grid(); i < n; i += EACH_STEPS * step) {
        T now[EACH_STEPS];
#pragma unroll
        for (int k = 0; k < EACH_STEPS; k++) {
            if (i + k * step < n)
                now[k] = a[i + k * step];
        }
#pragma unroll
        for (int k = 0; k < EACH_STEPS; k++) {
            if (i + k * step < n)
                c[i + k * step] = op(now[k]);
        }
    }
}

template <class Op, class T>
DEVICE void each(const Op &op, const T *a, const T *b, T *c, int64_t n) {
    int64_t step = threads_of_grid();
    for (int64_t i = thread_of_grid(); i < n; i += EACH_STEPS * step) {
        T now_a[EACH_STEPS], now_b[EACH_STEPS];
#pragma unroll
        for (int k = 0; k < EACH_STEPS; k++) {
            if (i + k * step < n) {
                now_a[k] = a[i + k * step];
                now_b[k] = b[i + k * step];
            }
        }
#pragma unroll
        for (int k = 0; k < EACH_STEPS; k++) {
            if (i + k * step < n)
                c[i + k * step] = op(now_a[k], now_b[k]);
        }
    }
}

#endif
