/*
 * Layer norm, GELU, and the gradients of both and of softmax.
 *
 * A row has a warp, which reads it two or three times; the later times it comes from a cache.  All
 * that a lane reads of an element it has read before it stores there, so an output may be an input.
 */
#include "kernels/device/device.cuh"
#include "kernels/device/group.cuh"
#include "kernels/device/math/reciprocal.cuh"

namespace {

/* Call with(row, lane) for each row of the warp. */
template <class With> DEVICE void each_row(int64_t rows, const With &with) {
    for (int64_t row = thread_of_grid() / WARP_LANES; row < rows;
         row += threads_of_grid() / WARP_LANES)
        with(row, (int)threadIdx.x % WARP_LANES);
}

/* The sum of of(i) for i < d, in every lane; a lane's terms go to four chains. */
template <class Of> DEVICE float sum_of_row(int64_t d, int lane, const Of &of) {
    float sums[4] = {};
    for (int64_t first = lane; first < d; first += 4 * WARP_LANES) {
#pragma unroll
        for (int k = 0; k < 4; k++) {
            if (first + k * WARP_LANES < d)
                sums[k] += of(first + k * WARP_LANES);
        }
    }
    return sum_of_lanes<WARP_LANES>((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

DEVICE float mean_of_row(const float *x, int64_t d, int lane) {
    return sum_of_row(d, lane, [=](int64_t i) { return x[i]; }) / (float)d;
}

/* 2 sqrt(2 / pi) and its product with 0.044715. */
#define TWICE      1.5957691216f
#define TWICE_CUBE 0.0713548162f

/* 1 / (1 + exp(-z)) and the same for -z, from exp(-|z|). */
struct Sigmoid {
    float of, of_negative;
    DEVICE Sigmoid at(float z) {
        float e = expf(-fabsf(z)), r = reciprocal(1.0f + e);
        Sigmoid sigmoid = {z < 0 ? e * r : r, z < 0 ? r : e * r};
        return sigmoid;
    }
};

} // namespace

KERNEL(encoder_layer_norm_f32)
(const float *x, const float *w, const float *b, float *y, float *rstd, float eps, int64_t rows,
 int64_t d) {
    each_row(rows, [=](int64_t row, int lane) {
        const float *from = x + row * d;
        float mean = mean_of_row(from, d, lane);
        float squares = sum_of_row(d, lane, [=](int64_t i) {
            float centered = from[i] - mean;
            return centered * centered;
        });
        float r = __frsqrt_rn(squares / (float)d + eps);
        for (int64_t i = lane; i < d; i += WARP_LANES)
            y[row * d + i] = fmaf((from[i] - mean) * r, w[i], b[i]);
        if (rstd && lane == 0)
            rstd[row] = r;
    });
}

KERNEL(encoder_layer_norm_backward_f32)
(const float *dy, const float *x, const float *w, const float *rstd, float *dx, float *dw,
 int64_t rows, int64_t d) {
    each_row(rows, [=](int64_t row, int lane) {
        const float *from = x + row * d, *of_y = dy + row * d;
        float mean = mean_of_row(from, d, lane), r = rstd[row];
        auto norm = [=](int64_t i) { return (from[i] - mean) * r; };
        float of_g = sum_of_row(d, lane, [=](int64_t i) { return of_y[i] * w[i]; }) / (float)d;
        float of_gn =
            sum_of_row(d, lane, [=](int64_t i) { return of_y[i] * w[i] * norm(i); }) / (float)d;
        for (int64_t i = lane; i < d; i += WARP_LANES) {
            float n = norm(i), g = of_y[i] * w[i];
            dw[row * d + i] = of_y[i] * n;
            dx[row * d + i] = r * (g - of_g - n * of_gn);
        }
    });
}

KERNEL(encoder_softmax_backward_f32)
(const float *y, const float *dy, float *dx, int64_t rows, int64_t d) {
    each_row(rows, [=](int64_t row, int lane) {
        const float *of_x = y + row * d, *of_y = dy + row * d;
        float dot = sum_of_row(d, lane, [=](int64_t i) { return of_x[i] * of_y[i]; });
        for (int64_t i = lane; i < d; i += WARP_LANES)
            dx[row * d + i] = of_x[i] * (of_y[i] - dot);
    });
}

/* x times a sigmoid is -0 below -20, where -Inf times 0 would be NaN. */
KERNEL(encoder_gelu_f32)(const float *x, float *y, int64_t n) {
    for (int64_t i = thread_of_grid(); i < n; i += threads_of_grid()) {
        float at = x[i] < -20.0f ? -20.0f : x[i];
        y[i] = at * Sigmoid::at(at * fmaf(TWICE_CUBE, at * at, TWICE)).of;
    }
}

/* Beyond 20 the slope is 0 or 1, and powers may overflow. */
KERNEL(encoder_gelu_backward_f32)(const float *x, const float *dy, float *dx, int64_t n) {
    for (int64_t i = thread_of_grid(); i < n; i += threads_of_grid()) {
        float at = x[i] < -20.0f ? -20.0f : x[i] > 20.0f ? 20.0f : x[i];
        Sigmoid sigmoid = Sigmoid::at(at * fmaf(TWICE_CUBE, at * at, TWICE));
        float slope_of_z = fmaf(3.0f * TWICE_CUBE, at * at, TWICE);
        dx[i] = dy[i] * fmaf(at * slope_of_z, sigmoid.of * sigmoid.of_negative, sigmoid.of);
    }
}
