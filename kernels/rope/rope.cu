/*
 * Rotary embedding: of a tensor, and of one token's heads together with their RMS norm.
 *
 * rope_rotate: a thread has one access of each half, or one of the tail, of one head.  The angles
 * come from the caches.  Accesses are plain, because streamed ones took longer in all with so many
 * short blocks (measured on an H200). rope_qk_norm: a warp has a head in registers and finds
 * partners in shared memory. rope_qk_norm_long: a block has a head of any size, read twice; it is
 * the only one of bfloat16.
 */
#include "kernels/device/access.cuh"
#include "kernels/device/device.cuh"
#include "kernels/device/math/divide.cuh"
#include "kernels/device/group.cuh"
#include "kernels/device/arch/dependent_launch.cuh"
#include "kernels/rope/rope_args.h"

namespace {

/* The first and the second of a pair, rotated. */
DEVICE float first_of(float first, float second, float cosine, float sine) {
    return first * cosine - second * sine;
}

DEVICE float second_of(float first, float second, float cosine, float sine) {
    return second * cosine + first * sine;
}

template <int W> DEVICE void rope_rotate(const struct rope_args &args) {
    typedef ::Access<float, W> Access;
    typedef typename Access::Piece Piece;
    wait_for_earlier();
    let_next_start();
    int64_t i = thread_of_grid(), head = divide(i, args.by_units);
    int64_t unit = i - head * args.by_units.by, half = args.half_rotary / W;
    if (head >= args.batch * args.seq)
        return;
    const Piece *from = reinterpret_cast<const Piece *>(args.x) + head * (args.head_dim / W) + unit;
    Piece *to = reinterpret_cast<Piece *>(args.y) + head * (args.head_dim / W) + unit;
    if (unit >= half) { /* of the tail, behind both halves */
        to[half] = from[half];
        return;
    }
    int64_t position = head - divide(head, args.by_positions) * args.seq;
    int64_t angle = position * args.cos_stride + unit * W;
    float first[W], second[W], cosine[W], sine[W], rotated[W], partner[W];
    Access::spread(from[0], first);
    Access::spread(from[half], second);
    Access::load_kept(args.cosines + angle, cosine);
    Access::load_kept(args.sines + angle, sine);
#pragma unroll
    for (int j = 0; j < W; j++) {
        rotated[j] = first_of(first[j], second[j], cosine[j], sine[j]);
        partner[j] = second_of(first[j], second[j], cosine[j], sine[j]);
    }
    to[0] = Access::pack(rotated);
    to[half] = Access::pack(partner);
}

/* ---- with the norm of each head ---- */

DEVICE float rstd_of(float sum_of_squares, const struct qk_norm_rope_args &args) {
    return __frsqrt_rn(__fadd_rn(__fdiv_rn(sum_of_squares, (float)args.head_dim), args.eps));
}

/* Up to 32 E elements per head. */
template <int E> DEVICE void rope_qk_norm(const struct qk_norm_rope_args &args) {
    DYNAMIC_SHARED(float, normed_of_warps);
    wait_for_earlier();
    let_next_start();
    int lane = (int)threadIdx.x % WARP_LANES, warp = (int)threadIdx.x / WARP_LANES;
    int n_warps = (int)blockDim.x / WARP_LANES, d = (int)args.head_dim;
    int half = (int)args.half_rotary;
    float *normed = normed_of_warps + warp * WARP_LANES * E;
    const float *x = (const float *)args.x, *cosines = (const float *)args.cosines;
    const float *sines = (const float *)args.sines;
    float cosine[E], sine[E], *y = (float *)args.y;
#pragma unroll
    for (int k = 0; k < E; k++) {
        int i = lane + k * WARP_LANES, angle = i < half ? i : i - half;
        cosine[k] = i < 2 * half ? cosines[angle] : 1;
        sine[k] = i < 2 * half ? sines[angle] : 0;
    }
    for (int64_t head = (int64_t)blockIdx.x * n_warps + warp; head < args.n_heads;
         head += (int64_t)gridDim.x * n_warps) {
        const float *w = (const float *)(head < args.n_q_heads ? args.w_q : args.w_k);
        float value[E], weight[E], sums[2] = {};
#pragma unroll
        for (int k = 0; k < E; k++) {
            int i = lane + k * WARP_LANES;
            value[k] = i < d ? x[head * d + i] : 0;
            weight[k] = i < d ? w[i] : 0;
        }
#pragma unroll
        for (int k = 0; k < E; k++)
            sums[k % 2] = fmaf(value[k], value[k], sums[k % 2]);
        float rstd = rstd_of(sum_of_lanes<WARP_LANES>(sums[0] + sums[1]), args);
#pragma unroll
        for (int k = 0; k < E; k++) {
            value[k] = value[k] * rstd * weight[k];
            normed[lane + k * WARP_LANES] = value[k];
        }
        __syncwarp();
#pragma unroll
        for (int k = 0; k < E; k++) {
            int i = lane + k * WARP_LANES;
            if (i < half)
                value[k] = first_of(value[k], normed[i + half], cosine[k], sine[k]);
            else if (i < 2 * half)
                value[k] = second_of(normed[i - half], value[k], cosine[k], sine[k]);
            if (i < d)
                y[head * d + i] = value[k];
        }
        __syncwarp(); /* before the next head's take their places */
    }
}

/* Element i of a tensor of floats or bfloat16. */
template <class T> DEVICE float element(const void *tensor, int64_t i) {
    float value;
    Access<T, 1>::load((const T *)tensor + i, &value);
    return value;
}

template <class T> DEVICE void set_element(void *tensor, int64_t i, float value) {
    Access<T, 1>::store((T *)tensor + i, &value);
}

template <class T> DEVICE void rope_qk_norm_long(const struct qk_norm_rope_args &args) {
    DYNAMIC_SHARED(Meeting<float>, meeting);
    wait_for_earlier();
    let_next_start();
    int64_t d = args.head_dim, half = args.half_rotary;
    int n_met = 0;
    for (int64_t head = blockIdx.x; head < args.n_heads; head += gridDim.x, n_met++) {
        const T *x = (const T *)args.x + head * d;
        const void *w = head < args.n_q_heads ? args.w_q : args.w_k;
        T *y = (T *)args.y + head * d;
        double total = 0; /* there may be many, all of one sign */
        for (int64_t i = threadIdx.x; i < d; i += 8 * ROPE_LONG_THREADS) {
            float sum = 0;
#pragma unroll
            for (int k = 0; k < 8; k++) {
                int64_t at = i + k * ROPE_LONG_THREADS;
                float value = at < d ? element<T>(x, at) : 0;
                sum = fmaf(value, value, sum);
            }
            total += sum;
        }
        float rstd = rstd_of(meet_block<ROPE_LONG_THREADS>(meeting, n_met, JoinSums(),
                                                           sum_of_lanes<WARP_LANES>((float)total)),
                             args);
        for (int64_t i = threadIdx.x; i < d - half; i += ROPE_LONG_THREADS) {
            float second = element<T>(x, i + half) * rstd * element<T>(w, i + half);
            if (i < half) {
                float first = element<T>(x, i) * rstd * element<T>(w, i);
                float cosine = element<T>(args.cosines, i), sine = element<T>(args.sines, i);
                set_element<T>(y, i, first_of(first, second, cosine, sine));
                second = second_of(first, second, cosine, sine);
            }
            set_element<T>(y, i + half, second);
        }
    }
}

} // namespace

KERNEL(rope_rotate_f32)(const struct rope_args args) {
    rope_rotate<1>(args);
}

KERNEL_OF(ROPE_ROTATE_THREADS, 3, rope_rotate_f32_wide)(const struct rope_args args) {
    rope_rotate<4>(args);
}

#define QK_NORM(E)                                                                                 \
    KERNEL(rope_qk_norm_##E)(const struct qk_norm_rope_args args) {                                \
        rope_qk_norm<E>(args);                                                                     \
    }
QK_NORM(4)
QK_NORM(8)
QK_NORM(16)

KERNEL(rope_qk_norm_any)(const struct qk_norm_rope_args args) {
    rope_qk_norm_long<float>(args);
}

KERNEL(rope_qk_norm_bf16)(const struct qk_norm_rope_args args) {
    rope_qk_norm_long<bf16>(args);
}
