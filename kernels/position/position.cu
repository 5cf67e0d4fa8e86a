/*
 * Counters, and rows at a position that is read on the device.  They are so short that only their
 * launch counts.
 *
 * Every thread waits for the kernels ahead before it touches memory.  If the address of a row does
 * not depend on the position, its first element is asked for together with the position, so that
 * both take one latency.  The compiler would otherwise look at the position first.
 */
#include "kernels/device/device.cuh"
#include "kernels/device/math/half.cuh"
#include "kernels/device/arch/dependent_launch.cuh"
#include "kernels/device/vector.cuh"

namespace {

/* What is done to a piece of the source; a piece is an element, or what is copied at once. */
struct Same {
    template <class Piece> __device__ Piece operator()(Piece piece) const {
        return piece;
    }
};

struct ToHalf {
    __device__ uint16_t operator()(float value) const {
        return f16_of_f32(value);
    }
    __device__ uint2 operator()(float4 value) const {
        return make_uint2(f16x2_of_f32x2(value.x, value.y), f16x2_of_f32x2(value.z, value.w));
    }
};

/* dst[p][i] = f(src[i]) for n pieces; p is read on the way. */
template <class To, class From, class F>
DEVICE void copy_to_row(const F &f, const From *src, const int32_t *position, To *dst, int64_t n,
                        int64_t max_len) {
    wait_for_earlier();
    let_next_start();
    int64_t i = thread_of_grid();
    if (i >= n)
        return;
    From piece = load_now(src + i);
    int64_t p = *position;
    if (p < 0 || p >= max_len)
        return;
    To *row = dst + p * n;
    for (;;) {
        row[i] = f(piece);
        i += threads_of_grid();
        if (i >= n)
            return;
        piece = src[i];
    }
}

template <class Piece>
DEVICE void copy_rows(const Piece *cos_table, const Piece *sin_table, const int32_t *position,
                      Piece *cosines, Piece *sines, int64_t rows, int64_t n) {
    wait_for_earlier();
    let_next_start();
    int64_t p = *position;
    if (p < 0 || p >= rows)
        return;
    for (int64_t i = thread_of_grid(); i < n; i += threads_of_grid()) {
        Piece cosine = cos_table[p * n + i], sine = sin_table[p * n + i];
        cosines[i] = cosine;
        sines[i] = sine;
    }
}

} // namespace

/* ---- counters: one thread does it ---- */

KERNEL(position_counter_add)(unsigned *counter, unsigned delta) {
    wait_for_earlier();
    let_next_start();
    if (thread_of_grid() == 0)
        atomicAdd(counter, delta);
}

KERNEL(position_counter_set)(unsigned *counter, unsigned value) {
    wait_for_earlier();
    let_next_start();
    if (thread_of_grid() == 0)
        *counter = value;
}

/* ---- rows: n counts pieces, of four floats in the wide kernels ---- */

KERNEL(position_offset_memcpy_f32)
(const float *src, const int32_t *position, float *dst, int64_t n, int64_t max_len) {
    copy_to_row(Same(), src, position, dst, n, max_len);
}

KERNEL(position_offset_memcpy_f32_wide)
(const float4 *src, const int32_t *position, float4 *dst, int64_t n, int64_t max_len) {
    copy_to_row(Same(), src, position, dst, n, max_len);
}

KERNEL(position_offset_memcpy_f32_f16)
(const float *src, const int32_t *position, uint16_t *dst, int64_t n, int64_t max_len) {
    copy_to_row(ToHalf(), src, position, dst, n, max_len);
}

KERNEL(position_offset_memcpy_f32_f16_wide)
(const float4 *src, const int32_t *position, uint2 *dst, int64_t n, int64_t max_len) {
    copy_to_row(ToHalf(), src, position, dst, n, max_len);
}

KERNEL(position_rope_select)
(const float *cos_table, const float *sin_table, const int32_t *position, float *cosines,
 float *sines, int64_t rows, int64_t n) {
    copy_rows(cos_table, sin_table, position, cosines, sines, rows, n);
}

KERNEL(position_rope_select_wide)
(const float4 *cos_table, const float4 *sin_table, const int32_t *position, float4 *cosines,
 float4 *sines, int64_t rows, int64_t n) {
    copy_rows(cos_table, sin_table, position, cosines, sines, rows, n);
}
